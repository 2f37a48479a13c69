"""Storm's load-aware shuffle: a ring of choices in which a crowded instance has fewer places."""

from __future__ import annotations

from copy import deepcopy
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_instances, checked_queues, tuple_count
from evenly.errors import InvalidParameter
from evenly.kernels.types import I32, I64
from evenly.sketches.hashing import Keys, derive

RING = 1_000
MOST = 100
_RISE, _FALL = 1, 10
_NEAR = 0.05
_LEAST_PLACES = 5


class LoadAwareShuffle:
    """Follows the queues with weights: slowly up where there is room, fast down where there is none.

    An instance's weight is 100 at first. At each observation it rises by 1 (to 100 at most) if the instance's
    queue is filled at most 5 percentage points more than the emptiest one, else it falls by 10 (to 0 at
    least). Tuples go round a shuffled ring of 1,000 places, in which each instance has places in proportion to its
    weight. `tests/property/test_splitting.py` holds weights and places against the rule.

    Parameters: `instances` (above 200 the ring has 5 places for each); `queue_capacity`, the number of tuples at
    which a queue counts as full, above 0 (Storm's default 32,768); `seed` of the shuffle. `queued` in `observe` is
    the number of tuples waiting at each instance or, if that is more, waiting to be sent to it.

    >>> grouping = LoadAwareShuffle(2, queue_capacity=10)
    >>> for _ in range(10):
    ...     grouping.observe([9, 0])
    >>> set(grouping.route(range(1000), 0.0).tolist())
    {1}

    Apache Storm 2, LoadAwareShuffleGrouping.
    """

    name = "load-aware"

    def __init__(self, instances: int, *, queue_capacity: float = 32_768, seed: int = 0) -> None:
        self.instances = checked_instances(instances)
        if not 0.0 < queue_capacity < float("inf"):
            raise InvalidParameter(f"queue_capacity must be above 0 and finite, got {queue_capacity}")
        self.queue_capacity, self.seed = queue_capacity, seed
        self._weights = np.full(self.instances, MOST, np.int64)
        self._next = 0
        self._draw_from(seed)

    def _draw_from(self, seed: int) -> None:
        self._rng = np.random.default_rng(derive(seed, "load-aware", 2**64))
        self._ring = self._new_ring()

    def of_scheduler(self, index: int, schedulers: int) -> Self:  # noqa: ARG002 - how many there are changes nothing
        """A new one like this, as one of several that share a stream: each draws for itself."""
        one = deepcopy(self)
        one._draw_from(self.seed + index)
        return one

    @property
    def memory_bytes(self) -> int:
        return self._weights.nbytes + self._ring.nbytes

    @property
    def weights(self) -> I64:
        """The weight of each instance at present, from 0 to 100."""
        return self._weights.copy()

    def route(self, keys: Keys, now_s: float) -> I32:  # noqa: ARG002 - the protocol's signature
        """The instance of every tuple: the next places of the ring."""
        count = tuple_count(keys)
        places = (np.arange(count) + self._next) % self._ring.size
        self._next = (self._next + count) % self._ring.size
        return self._ring[places]

    def observe(self, queued: ArrayLike, queued_bytes: ArrayLike | None = None) -> None:  # noqa: ARG002
        """Take in how many tuples wait at each instance; bytes are not used."""
        fill = checked_queues(queued, self.instances, "queued") / self.queue_capacity
        changes = np.where(fill <= fill.min() + _NEAR, _RISE, -_FALL)
        self._weights = np.clip(self._weights + changes, 0, MOST)
        self._ring = self._new_ring()

    def _new_ring(self) -> I32:
        """Places in proportion to the weights, rounded down; those left over repeat places already given."""
        size = max(RING, _LEAST_PLACES * self.instances)
        given = np.repeat(np.arange(self.instances), (self._weights / self._weights.sum() * size).astype(np.int64))
        left = self._rng.choice(given, size - given.size)
        return self._rng.permutation(np.concatenate([given, left])).astype(np.int32)
