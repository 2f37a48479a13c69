"""Largest backlog first: the rule of the Hone paper."""

from __future__ import annotations

from evenly.emission.policies.base import Numbers, Ranked


class LBF(Ranked):
    """The queue with the most tuples, the lowest of equals: keeps the largest backlog of all queues small.

    Guarantee: with one tuple sent a slot, the largest backlog ever is at most 3 + ⌈log₂ N⌉ times that of the best
    schedule that knows the future. It holds if the tuples that arrive in a slot are counted before the queue is chosen.
    If only what was there before is counted, as algorithm 1 of the paper reads, it can fail by a tuple where the best
    schedule keeps all queues empty. `tests/property/test_emission.py` holds both against all schedules.

    It may starve: a short queue waits as long as others are longer.

    >>> from evenly.emission import Backlogs
    >>> LBF().choose(Backlogs.of([3, 5, 5]))
    1

    Li, Liu, Chen, Li, Qi, "Hone: mitigating stragglers in distributed stream processing with tuple scheduling", 2021.
    """

    name = "lbf"
    work_conserving = True

    def rank(self, tuples: Numbers, sizes_bytes: Numbers, heads: Numbers | None, speeds: Numbers) -> Numbers:  # noqa: ARG002
        """The backlog."""
        return tuples
