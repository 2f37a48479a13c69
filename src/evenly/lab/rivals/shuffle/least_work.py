"""Least work left: the bound that no estimate can beat by much."""

from __future__ import annotations

from evenly.kernels.types import I32
from evenly.lab.rivals.shuffle.full_knowledge import FullKnowledge
from evenly.sketches.hashing import Keys


class LeastWork(FullKnowledge):
    """Each tuple to the instance that will have done all its work first, the lowest of equals.

    After its warm-up an instance is never left idle while another has a tuple waiting. `tests/unit/test_queueing.py` proves it.

    Parameters: `instances`; `cost_ms` tells the exact cost of tuples; `warm_up`, as for full knowledge.

    >>> LeastWork(2, cost_ms=lambda keys: [5.0] * len(keys)).route("abc", 0.0).tolist()
    [0, 1, 0]
    """

    name = "least-work"

    def route(self, keys: Keys, now_s: float) -> I32:
        """The instance of every tuple."""
        return self._to_least(keys, now_s * 1e3)
