"""Flink's adaptive rebalance: the least loaded of the next few instances."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import MAX_INSTANCES, checked_instances, checked_queues, checked_whole, tuple_count
from evenly.kernels import splitting as kernels
from evenly.kernels.types import I32
from evenly.sketches.hashing import Keys


class LeastLoadedChannels:
    """Round-robin that looks ahead: of the next `look` instances the first with an empty queue, else the shortest.

    Equal lengths: the fewest bytes, then the nearest. A sender sees its own queues, so each tuple sent counts as
    waiting until the next observation says otherwise. An instance is never chosen while another of those looked
    at has a shorter queue; `tests/property/test_splitting.py` proves it.

    Parameters: `instances`; `look` from 1 (round-robin) to 10,000, at most all instances are looked at; Flink's
    default is 4.

    >>> grouping = LeastLoadedChannels(4)
    >>> grouping.observe([5, 1, 3, 2])
    >>> grouping.route(range(4), 0.0).tolist()
    [1, 3, 1, 2]

    Apache Flink, FLIP-339: support adaptive partition selection for StreamPartitioner.
    """

    name = "least-loaded-channels"
    sees_own_queues = True

    def __init__(self, instances: int, *, look: int = 4) -> None:
        self.instances = checked_instances(instances)
        self.look = min(checked_whole(look, "look", 1, MAX_INSTANCES), self.instances)
        self._queued = np.zeros(self.instances)
        self._queued_bytes = np.zeros(self.instances)
        self._current = np.full(1, -1, np.int64)

    @property
    def memory_bytes(self) -> int:
        return self._queued.nbytes + self._queued_bytes.nbytes

    def route(self, keys: Keys, now_s: float) -> I32:  # noqa: ARG002 - the protocol's signature
        """The instance of every tuple."""
        return kernels.next_channels(tuple_count(keys), self.look, self._queued, self._queued_bytes, self._current)

    def observe(self, queued: ArrayLike, queued_bytes: ArrayLike | None = None) -> None:
        """Take in how many tuples (or buffers) wait at each instance, and how many bytes."""
        tuples = checked_queues(queued, self.instances, "queued")
        if queued_bytes is None:
            self._queued_bytes = np.zeros(self.instances)
        else:
            self._queued_bytes = checked_queues(queued_bytes, self.instances, "queued_bytes")
        self._queued = tuples
