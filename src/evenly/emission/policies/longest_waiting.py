"""Longest-waiting head first, which looks at the backlog only among heads that came together."""

from __future__ import annotations

import numpy as np

from evenly.emission.policies.base import Backlogs, known


class LongestWaiting:
    """The queue whose head has waited longest; of equals the one with the largest backlog, then the lowest.

    Queues are first in, first out, so this is `FCFS` but for heads that arrived at one time: with an exact clock they are
    one rule, and in slots it keeps the largest backlog a little smaller at the same longest delay
    (`tests/property/test_emission.py`).

    >>> LongestWaiting().choose(Backlogs.of([1, 9, 2], heads=[2.0, 2.0, 1.5]))
    2
    """

    name = "longest-waiting"
    work_conserving = True

    def choose(self, backlogs: Backlogs) -> int:
        """The queue with the oldest head, the longer of equals."""
        heads = known(backlogs.heads, self.name)
        return int(np.argmax(np.where(heads == np.min(heads), backlogs.tuples, -1.0)))
