"""Round-robin as the Hone paper compares with: every queue in turn, the empty ones too."""

from __future__ import annotations

from evenly.emission.policies.base import Backlogs


class RRB:
    """Queues 0, 1, 2, … in turn, whether they have something to send or not: an empty one wastes its turn.

    >>> policy = RRB()
    >>> [policy.choose(Backlogs.of([4, 0, 0])) for _ in range(4)]
    [0, 1, 2, 0]
    """

    name = "rrb"
    work_conserving = False

    def __init__(self) -> None:
        self._next = 0

    def choose(self, backlogs: Backlogs) -> int:
        """The queue whose turn it is."""
        chosen = self._next % backlogs.queues
        self._next = (chosen + 1) % backlogs.queues
        return chosen
