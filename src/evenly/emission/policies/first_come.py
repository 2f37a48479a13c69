"""First come, first served: what a link does by itself when nobody schedules it."""

from __future__ import annotations

from evenly.emission.policies.base import Numbers, Ranked, known


class FCFS(Ranked):
    """The queue whose head arrived first, the lowest of equals: all queues together behave as one.

    No other rule has a smaller longest delay if every tuple takes a slot (`tests/property/test_emission.py`).

    >>> from evenly.emission import Backlogs
    >>> FCFS().choose(Backlogs.of([1, 9], heads=[2.0, 3.0]))
    0
    """

    name = "fcfs"
    work_conserving = True

    def rank(self, tuples: Numbers, sizes_bytes: Numbers, heads: Numbers | None, speeds: Numbers) -> Numbers:  # noqa: ARG002
        """How long ago the head arrived, counted from any moment."""
        return -known(heads, self.name)
