"""First come, first served: what a link does by itself when nobody schedules it."""

from __future__ import annotations

import numpy as np

from evenly.emission.base import Backlogs, heads_of


class FCFS:
    """The queue whose head arrived first, the lowest of equals: all queues together behave as one.

    No other rule has a smaller longest delay if every tuple takes a slot (`tests/property/test_emission.py`).

    >>> FCFS().choose(Backlogs.of([1, 9], heads=[2.0, 3.0]))
    0
    """

    name = "fcfs"
    work_conserving = True

    def choose(self, backlogs: Backlogs) -> int:
        """The queue with the oldest head."""
        return int(np.argmin(heads_of(backlogs, "fcfs")))
