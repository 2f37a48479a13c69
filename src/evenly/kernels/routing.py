"""Routing kernel: a key to its instance, by its own entry if it is heavy, else by its bucket."""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled
from evenly.kernels.hashing import bucket_of
from evenly.kernels.space_saving import home
from evenly.kernels.types import I32, U64


@compiled
def assign(
    ids: U64, heavy: U64, heavy_instances: I32, index: I32, shift: np.uint64, a: np.uint64, b: np.uint64, buckets: I32
) -> I32:
    """The instance of every key."""
    mask = np.uint64(index.size - 1)
    count = np.uint64(buckets.size)
    out = np.empty(ids.size, np.int32)
    for i in range(ids.size):
        key = ids[i]
        instance = np.int32(-1)
        at = home(key, shift)
        while index[at] != 0:
            if heavy[index[at] - 1] == key:
                instance = heavy_instances[index[at] - 1]
                break
            at = (at + np.uint64(1)) & mask
        if instance < 0:
            instance = buckets[bucket_of(key, a, b, count)]
        out[i] = instance
    return out
