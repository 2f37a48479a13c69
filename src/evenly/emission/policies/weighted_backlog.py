"""Largest backlog first for tuples of unequal size and links of unequal speed."""

from __future__ import annotations

from evenly.emission.policies.base import Numbers, Ranked


class WeightedLBF(Ranked):
    """The queue that would take longest to empty: bytes that wait over its speed, the lowest of equals.

    With tuples of one size and links of one speed it is LBF (`tests/property/test_emission.py`).

    >>> from evenly.emission import Backlogs
    >>> WeightedLBF().choose(Backlogs.of([9, 1], sizes_bytes=[90, 4_000]))
    1
    >>> WeightedLBF().choose(Backlogs.of([9, 9], speeds=[10.0, 1.0]))
    1
    """

    name = "weighted-lbf"
    work_conserving = True

    def rank(self, tuples: Numbers, sizes_bytes: Numbers, heads: Numbers | None, speeds: Numbers) -> Numbers:  # noqa: ARG002
        """The time to send what waits."""
        return sizes_bytes / speeds
