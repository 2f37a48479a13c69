"""W-Choices: the keys of the head to any instance, all others to one of two."""

from __future__ import annotations

import math

import numpy as np

from evenly.checks import checked_instances, checked_whole
from evenly.errors import InvalidParameter
from evenly.kernels import splitting as kernels
from evenly.kernels.types import I32
from evenly.lab.rivals.splitting.partial_key import candidate_hashes
from evenly.sketches.hashing import Keys, key_ids
from evenly.sketches.space_saving import SpaceSaving

_COUNTERS = 100
_MOST_COUNTERS = 10_000_000
_NEVER = np.iinfo(np.int64).max


class WChoices:
    """PKG for keys of small share; a key of the head goes to the least loaded of all instances.

    A key is in the head while its count, kept by a Space Saving of this sender, exceeds `threshold` of all tuples
    so far. So a key of more than that share is always in the head and can be on every instance, and one that
    never had half of it stays with its two candidates (with the default `counters`): `tests/property/test_splitting.py`
    proves it. At the very beginning every key has a large share, so a few light keys get more copies too.

    Parameters: `instances`; `threshold` above 0 and at most 1, by default 1 / (5 instances), the least that the
    paper tries; `counters`, by default 100, more if two for each threshold's share need it; `seed`.

    >>> np.bincount(WChoices(4).route(np.full(8, 7))).tolist()
    [2, 2, 2, 2]

    Nasir, De Francisci Morales, Kourtellis, Serafini: When two choices are not enough: balancing at scale in
    distributed stream processing, ICDE 2016.
    """

    name = "w-choices"
    needs_merge = True

    def __init__(self, instances: int, *, threshold: float | None = None, counters: int | None = None, seed: int = 0) -> None:
        self.instances = checked_instances(instances)
        self.threshold = 1.0 / (5 * self.instances) if threshold is None else threshold
        if not 1.0e-6 <= self.threshold <= 1.0:
            raise InvalidParameter(f"threshold must be from 0.000001 to 1, a share of all tuples, got {threshold}")
        needed = max(_COUNTERS, math.ceil(2.0 / self.threshold))
        self.counters = checked_whole(needed if counters is None else counters, "counters", 1, _MOST_COUNTERS)
        self.seed = seed
        self._epsilon = 0.0
        self._hashes = candidate_hashes(self.instances, 2, seed=seed)
        self._summary = SpaceSaving(self.counters)
        self._loads = np.zeros(self.instances, np.int64)
        self._level = np.zeros(2, np.int64)
        self._head = np.array([self.instances, _NEVER], np.int64)

    @property
    def memory_bytes(self) -> int:
        return self._loads.nbytes + self._hashes.nbytes + self._summary.memory_bytes

    def route(self, keys: Keys) -> I32:
        """The instance of every tuple."""
        counted = self._summary
        return kernels.head_choices(
            key_ids(keys),
            self._hashes,
            (counted._keys, counted._counts, counted._errors, counted._index, counted._state, counted._shift),
            self.counters,
            self.threshold,
            self._epsilon,
            self._head,
            self._loads,
            self._level,
        )

    def split_keys(self) -> None:
        """None: any key may be on two instances, and keys of the head on all."""
