"""DKG + PKG: DKG whose heavy keys are halved, each half with its own place in the schedule."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_instances
from evenly.errors import EmptyStream
from evenly.kernels import space_saving
from evenly.kernels import splitting as kernels
from evenly.kernels.types import I32, U64
from evenly.keys.base import LearnsThrough
from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.keys.scheduling import largest_first
from evenly.sketches.hashing import Keys, key_ids


class DKGPKG(LearnsThrough):
    """Learns as DKG does, then sends a heavy key to the less loaded of two instances and any other key to one.

    Each heavy key is given to the greedy schedule as two items of half its weight; buckets are items as in DKG.
    A key is on at most two instances, and one that is not in `split_keys` on one, whatever the number of senders
    that have learnt the same; `tests/property/test_splitting.py` proves it. At least one `fit` with a tuple must
    come before `route`; a later `fit` or `merge` makes a new schedule, and keys may change their instances then.

    Parameters: `instances`, `theta`, `epsilon`, `mu` and `seed` as for DKG.

    >>> sender = DKGPKG(2, theta=0.5).fit(np.array([1, 1, 1, 2, 3, 4]))
    >>> sender.split_keys().tolist(), np.bincount(sender.route(np.full(10, 1))).tolist()
    ([1], [5, 5])

    Rivetti, Querzoni, Anceaume, Busnel, Sericola: Efficient key grouping for near-optimal load balancing in stream
    processing systems, DEBS 2015, section 6 and figure 14.
    """

    name = "dkg+pkg"
    needs_merge = True

    def __init__(
        self, instances: int, *, theta: float = 0.1, epsilon: float | None = None, mu: float = 2.0, seed: int = 0
    ) -> None:
        self.instances = checked_instances(instances)
        super().__init__(DKG(instances, theta=theta, epsilon=epsilon, mu=mu, seed=seed))
        self._loads = np.zeros(self.instances, np.int64)
        self._schedule: _Schedule | None = None

    @property
    def memory_bytes(self) -> int:
        return super().memory_bytes + self._loads.nbytes

    def fit(self, keys: Keys, weights: ArrayLike | None = None) -> Self:
        """Learn from tuples; each weighs 1, or what `weights` says."""
        self._schedule = None
        return super().fit(keys, weights)

    def merge(self, other: Self) -> Self:
        """Take in what another learner with the same parameters has seen; what each has sent stays its own."""
        self._schedule = None
        return super().merge(other)

    def route(self, keys: Keys) -> I32:
        """The instance of every tuple."""
        made = self._made()
        learnt = made.learnt
        return kernels.split_heavy(
            key_ids(keys),
            learnt.heavy_keys,
            made.pairs,
            made.index,
            made.shift,
            np.uint64(learnt.a),
            np.uint64(learnt.b),
            made.buckets,
            self._loads,
        )

    def split_keys(self) -> U64:
        """The ids of the heavy keys that have two different instances, in ascending order."""
        made = self._made()
        split: U64 = made.learnt.heavy_keys[made.pairs[:, 0] != made.pairs[:, 1]]
        return split

    def _made(self) -> _Schedule:
        if self._schedule is None:
            learnt = self._learner.mapping(self.instances)
            if learnt.fitted_loads.sum() == 0.0:
                raise EmptyStream("DKG + PKG has learnt from 0 tuples and knows no heavy key: call fit before route")
            self._schedule = _Schedule(learnt)
        return self._schedule


class _Schedule:
    """Two instances for each heavy key, one for each bucket, and the index to find heavy keys by."""

    def __init__(self, learnt: Mapping) -> None:
        halves = np.repeat(learnt.heavy_weights / 2.0, 2)
        placed = largest_first(np.concatenate([halves, learnt.bucket_weights]), learnt.instances)
        bits = max(4, (4 * learnt.heavy_keys.size).bit_length())
        self.learnt = learnt
        self.pairs: I32 = placed[: halves.size].reshape(-1, 2)
        self.buckets = placed[halves.size :]
        self.index, self.shift = np.zeros(1 << bits, np.int32), np.uint64(64 - bits)
        space_saving.rebuild(learnt.heavy_keys.size, learnt.heavy_keys, self.index, self.shift)
