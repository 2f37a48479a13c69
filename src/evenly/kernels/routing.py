"""Routing kernels: a key to its instance, by its own entry if it is heavy, else by its bucket.

Heavy keys are in two tables, each key in one of them (see `evenly.keys.cuckoo`), so that no branch depends
on the key: half of the tuples of a skewed stream are heavy, and a processor would guess wrong half of the time.
"""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.hashing import bucket_of
from evenly.kernels.types import I32, U64

_BLOCK = 1024


@inlined
def _mixed(key: np.uint64) -> np.uint64:
    product = (key ^ (key >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return product ^ (product >> np.uint64(32))


@compiled
def mix(ids: U64) -> U64:
    """The hash of every id by which it is found in the tables."""
    out = np.empty(ids.size, np.uint64)
    for i in range(ids.size):
        out[i] = _mixed(ids[i])
    return out


@compiled
def by_bucket(ids: U64, a: np.uint64, b: np.uint64, buckets: I32) -> I32:
    """The instance of every key, where no key is heavy."""
    count = np.uint64(buckets.size)
    out = np.empty(ids.size, np.int32)
    for i in range(ids.size):
        out[i] = buckets[bucket_of(ids[i], a, b, count)]
    return out


@compiled
def assign(
    ids: U64, keys_1: U64, instances_1: I32, keys_2: U64, instances_2: I32, a: np.uint64, b: np.uint64, buckets: I32
) -> I32:
    """The instance of every key. Buckets are found a block at a time, which the compiler turns into vector code."""
    count = np.uint64(buckets.size)
    mask = np.uint64(keys_1.size - 1)
    shift = np.uint64(64)
    while keys_2.size >> (np.uint64(64) - shift) > 1:
        shift -= np.uint64(1)
    out = np.empty(ids.size, np.int32)
    block = np.empty(_BLOCK, np.int32)
    for start in range(0, ids.size, _BLOCK):
        end = min(start + _BLOCK, ids.size)
        for i in range(start, end):
            block[i - start] = bucket_of(ids[i], a, b, count)
        for i in range(start, end):
            key = ids[i]
            mixed = _mixed(key)
            low, high = mixed & mask, mixed >> shift
            instance = buckets[block[i - start]]
            instance = instances_2[high] if keys_2[high] == key else instance
            out[i] = instances_1[low] if keys_1[low] == key else instance
    return out
