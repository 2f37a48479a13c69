"""Round-robin: every instance in turn, the baseline of all shuffle groupings."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_instances, checked_queues, tuple_count
from evenly.kernels.types import I32
from evenly.sketches.hashing import Keys


class RoundRobin:
    """Instances 0, 1, 2, … in turn: the numbers of tuples sent differ by one at most, their work by any amount.

    `tests/property/test_splitting.py` proves the first. What is observed changes nothing.

    Parameters: `instances`.

    >>> RoundRobin(3).route(["a", "a", "b", "a"], 0.0).tolist()
    [0, 1, 2, 0]
    """

    name = "round-robin"

    def __init__(self, instances: int) -> None:
        self.instances = checked_instances(instances)
        self._next = 0

    @property
    def memory_bytes(self) -> int:
        return 8

    def route(self, keys: Keys, now_s: float) -> I32:  # noqa: ARG002 - the protocol's signature
        """The instance of every tuple."""
        count = tuple_count(keys)
        turns = (np.arange(count) + self._next) % self.instances
        self._next = (self._next + count) % self.instances
        return turns.astype(np.int32)

    def observe(self, queued: ArrayLike, queued_bytes: ArrayLike | None = None) -> None:  # noqa: ARG002
        """Only checked: round-robin does not react."""
        checked_queues(queued, self.instances, "queued")
