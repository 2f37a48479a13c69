"""Join the shortest queue, counted in tuples that are not acknowledged."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_instances, checked_queues, checked_whole, tuple_count
from evenly.errors import InvalidParameter
from evenly.kernels import queueing as kernels
from evenly.kernels.types import I32
from evenly.sketches.hashing import Keys


class ShortestQueue:
    """Each tuple to the instance with the fewest tuples sent and not yet acknowledged, the lowest of equals.

    It needs no estimate of cost, and one message per tuple. `tests/unit/test_shuffle_schedulers.py` holds it against
    the obvious loop.

    Parameters: `instances`. The caller says by `acknowledge` what has ended, as late as its messages are, or by
    `observe` how many wait.

    >>> grouping = ShortestQueue(2)
    >>> grouping.route(range(3), 0.0).tolist()
    [0, 1, 0]
    >>> grouping.acknowledge(0, 2)
    >>> grouping.route(range(1), 0.0).tolist()
    [0]
    """

    name = "shortest-queue"

    def __init__(self, instances: int) -> None:
        self.instances = checked_instances(instances)
        self._waiting = np.zeros(self.instances)

    @property
    def memory_bytes(self) -> int:
        return self._waiting.nbytes

    def route(self, keys: Keys, now_s: float) -> I32:  # noqa: ARG002 - the protocol's signature
        """The instance of every tuple."""
        return kernels.to_fewest_waiting(self.candidates(tuple_count(keys)), self._waiting)

    def acknowledge(self, instance: int, tuples: int = 1) -> None:
        """Take in that an instance has ended some tuples; one acknowledged twice never makes a queue negative."""
        if not 0 <= instance < self.instances:
            raise InvalidParameter(f"there is no instance {instance}: there are {self.instances}, from 0 on")
        ended = checked_whole(tuples, "tuples", 0, 2**53)
        self._waiting[instance] = max(0.0, self._waiting[instance] - ended)

    def observe(self, queued: ArrayLike, queued_bytes: ArrayLike | None = None) -> None:  # noqa: ARG002
        """Take in how many tuples wait at each instance; bytes are not used."""
        self._waiting = checked_queues(queued, self.instances, "queued")

    def candidates(self, count: int) -> I32:
        """The instances that the next tuples may go to: all of them."""
        return np.tile(np.arange(self.instances, dtype=np.int32), (count, 1))
