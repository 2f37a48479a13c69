"""cAM: two choices for a key that is new, the instance that has seen it for any other."""

from __future__ import annotations

import numpy as np

from evenly.checks import checked_instances, checked_whole
from evenly.kernels import splitting as kernels
from evenly.kernels.types import I32
from evenly.lab.rivals.splitting.partial_key import candidate_hashes
from evenly.sketches.hashing import Keys, key_ids

_MOST_KEYS = 100_000_000


class CAM:
    """Of a key's two candidates the one that has seen the key, else the one that was sent fewer tuples.

    It splits as little as it can: a sender keeps each key that it remembers on one instance, and a key is on at
    most two whatever the number of senders with the same seed; `tests/property/test_splitting.py` proves both. So a
    heavy key is not spread, and what is balanced is where new keys begin.

    Parameters: `instances`; `remembered`, how many keys a sender remembers, from 1 to 100,000,000, so that memory is
    bounded (keys that come when it is full are treated as PKG treats them); `seed`.

    >>> len(set(CAM(4).route(np.full(9, 7)).tolist()))
    1

    Katsipoulakis, Labrinidis, Chrysanthis: A holistic view of stream partitioning costs, PVLDB 10(11), 2017.
    """

    name = "cam"
    needs_merge = True

    def __init__(self, instances: int, *, remembered: int = 65_536, seed: int = 0) -> None:
        self.instances = checked_instances(instances)
        self.remembered = checked_whole(remembered, "remembered", 1, _MOST_KEYS)
        self.seed = seed
        bits = (2 * self.remembered).bit_length()
        self._hashes = candidate_hashes(self.instances, 2, seed=seed)
        self._loads = np.zeros(self.instances, np.int64)
        self._keys = np.zeros(self.remembered, np.uint64)
        self._instances_of = np.zeros(self.remembered, np.int32)
        self._index, self._shift = np.zeros(1 << bits, np.int32), np.uint64(64 - bits)
        self._used = np.zeros(1, np.int64)

    @property
    def memory_bytes(self) -> int:
        held = (self._loads, self._hashes, self._keys, self._instances_of, self._index)
        return sum(part.nbytes for part in held)

    def route(self, keys: Keys) -> I32:
        """The instance of every tuple."""
        return kernels.where_seen(
            key_ids(keys),
            self._hashes,
            self._keys,
            self._instances_of,
            self._index,
            self._shift,
            self._used,
            self._loads,
        )

    def split_keys(self) -> None:
        """None: another sender may have begun with any key's other candidate, and so may this one when it is full."""
