"""Largest backlog first for tuples of unequal size and links of unequal speed."""

from __future__ import annotations

import numpy as np

from evenly.emission.base import Backlogs


class WeightedLBF:
    """The queue that would take longest to empty: bytes that wait over its speed, the lowest of equals.

    With tuples of one size and links of one speed it is LBF (`tests/property/test_emission.py`).

    >>> WeightedLBF().choose(Backlogs.of([9, 1], sizes_bytes=[90, 4_000]))
    1
    >>> WeightedLBF().choose(Backlogs.of([9, 9], speeds=[10.0, 1.0]))
    1
    """

    name = "weighted-lbf"
    work_conserving = True

    def choose(self, backlogs: Backlogs) -> int:
        """The queue with the most time to send."""
        # A tuple may have no bytes: its queue still comes before one without tuples.
        return int(np.argmax(np.where(backlogs.tuples > 0.0, backlogs.sizes_bytes / backlogs.speeds, -1.0)))
