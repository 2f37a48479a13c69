"""Round-robin that skips empty queues: what anybody would use, and so what Hone has to beat."""

from __future__ import annotations

import numpy as np

from evenly.emission.policies.base import Backlogs


class SkippingRoundRobin:
    """The next queue in turn that has something to send; nobody's turn is used up while all are empty.

    Between two turns of a queue that always has something, every other queue has one turn at most
    (`tests/property/test_emission.py`).

    >>> policy = SkippingRoundRobin()
    >>> [policy.choose(Backlogs.of([4, 0, 2])) for _ in range(3)]
    [0, 2, 0]
    """

    name = "skipping-rr"
    work_conserving = True

    def __init__(self) -> None:
        self._next = 0

    def choose(self, backlogs: Backlogs) -> int:
        """The next queue that is not empty."""
        first = self._next % backlogs.queues
        waiting = np.flatnonzero(backlogs.tuples)
        if waiting.size == 0:
            return first
        chosen = int(waiting[np.searchsorted(waiting, first) % waiting.size])
        self._next = (chosen + 1) % backlogs.queues
        return chosen
