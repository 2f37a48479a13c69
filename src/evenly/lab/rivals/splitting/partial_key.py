"""PKG: partial key grouping, the power of two choices for keys."""

from __future__ import annotations

import numpy as np

from evenly.checks import checked_instances
from evenly.kernels import splitting as kernels
from evenly.kernels.types import I32, U64
from evenly.sketches.hashing import Keys, UniversalHash, key_ids


def candidate_hashes(instances: int, rows: int, *, seed: int) -> U64:
    """The a and b of `rows` independent hashes from keys to instances."""
    drawn = (UniversalHash(instances, seed=seed, row=row) for row in range(rows))
    return np.array([(one.a, one.b) for one in drawn], np.uint64)


class PKG:
    """Every tuple to the one of its key's two candidates that this sender has sent fewer tuples so far.

    A key is on at most two instances, whatever the number of senders with the same seed;
    `tests/property/test_splitting.py` proves it. A key heavier than twice the mean load still overloads its two.

    Parameters: `instances`; `distinct`: as published the two candidates may coincide, and then the key is not
    split at all; True makes them differ, as Storm's does; `seed`.

    >>> PKG(4, distinct=True).route(np.array([7, 7, 7, 7, 7, 7])).tolist().count(0) in (0, 3)
    True

    Nasir, De Francisci Morales, García-Soriano, Kourtellis, Serafini: The power of both choices: practical load
    balancing for distributed stream processing engines, ICDE 2015.
    """

    name = "pkg"
    needs_merge = True

    def __init__(self, instances: int, *, distinct: bool = False, seed: int = 0) -> None:
        self.instances = checked_instances(instances)
        self.distinct, self.seed = distinct, seed
        self._hashes = candidate_hashes(self.instances, 2, seed=seed)
        self._loads = np.zeros(self.instances, np.int64)

    @property
    def memory_bytes(self) -> int:
        return self._loads.nbytes + self._hashes.nbytes

    def route(self, keys: Keys) -> I32:
        """The instance of every tuple."""
        return kernels.less_loaded_of_two(key_ids(keys), self._hashes, self.distinct and self.instances > 1, self._loads)

    def split_keys(self) -> None:
        """None: any key may be on two instances."""
