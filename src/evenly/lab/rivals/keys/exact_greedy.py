"""Exact greedy (the paper's O-apx): the greedy schedule with every key's load known."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_instances
from evenly.kernels.types import F64, U64
from evenly.keys.mapping import Mapping
from evenly.keys.scheduling import largest_first
from evenly.measures.load import instance_loads
from evenly.sketches.hashing import Keys, UniversalHash, key_ids
from evenly.sketches.weights import checked_weights


class ExactGreedy:
    """The yardstick: counts every key exactly, so its memory grows with the number of distinct keys.

    Keys never seen go by a universal hash, which `seed` picks.
    """

    name = "o-apx"

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed
        self._keys = np.zeros(0, np.uint64)
        self._weights = np.zeros(0)

    @property
    def memory_bytes(self) -> int:
        return self._keys.nbytes + self._weights.nbytes

    def fit(self, keys: Keys, weights: ArrayLike | None = None) -> Self:
        """Count tuples; each weighs 1, or what `weights` says."""
        ids = key_ids(keys)
        loads = np.ones(ids.size) if weights is None else checked_weights(weights, ids.size, what="weights")
        self._add(ids, loads)
        return self

    def merge(self, other: ExactGreedy) -> Self:
        """Take in the counts of another."""
        self._add(other._keys, other._weights)
        return self

    def _add(self, ids: U64, loads: F64) -> None:
        together = np.concatenate([self._keys, ids])
        self._keys, places = np.unique(together, return_inverse=True)
        self._weights = instance_loads(places, self._keys.size, np.concatenate([self._weights, loads]))

    def mapping(self, instances: int) -> Mapping:
        """Every key seen by its own entry."""
        drawn = UniversalHash(checked_instances(instances), seed=self.seed)
        return Mapping(
            instances=instances,
            buckets=np.arange(instances, dtype=np.int32),
            a=drawn.a,
            b=drawn.b,
            heavy_keys=self._keys,
            heavy_instances=largest_first(self._weights, instances),
            heavy_weights=self._weights,
            grouping=self.name,
        )
