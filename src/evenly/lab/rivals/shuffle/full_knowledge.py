"""Full knowledge: POSG's greedy rule, fed with the exact cost of every tuple."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evenly.checks import checked_instances, checked_whole, tuple_count
from evenly.errors import InvalidCost
from evenly.kernels import queueing as kernels
from evenly.kernels.types import F64, I32
from evenly.sketches.hashing import WRITABLE, Keys

Oracle = Callable[[Keys], F64]
"""Tells the exact cost in ms of tuples: one number each, or one for each instance."""


class FullKnowledge:
    """Each tuple to the instance with the least work sent so far, the lowest of equals. Idle time is not counted.

    The sums of work differ by the greatest cost at most, on equal instances: `tests/unit/test_shuffle_schedulers.py`.

    Parameters: `instances`; `cost_ms` tells the exact cost of tuples; `warm_up`, how many tuples go round-robin at first,
    at least 0: with as many as POSG needs before it knows anything it is the ceiling of all that warm up like it.

    >>> FullKnowledge(2, cost_ms=lambda keys: np.asarray(keys, float)).route([3, 1, 1, 1, 1], 0.0).tolist()
    [0, 1, 1, 1, 0]
    """

    name = "full-knowledge"

    def __init__(self, instances: int, *, cost_ms: Oracle, warm_up: int = 0) -> None:
        self.instances, self.cost_ms = checked_instances(instances), cost_ms
        self.warm_up = checked_whole(warm_up, "warm_up", 0, 2**53)
        self._latency_ms = np.zeros(self.instances)
        self._done_ms = np.zeros(self.instances)
        self._sent = 0

    @property
    def memory_bytes(self) -> int:
        return self._done_ms.nbytes

    def know(self, cost_ms: Oracle, latency_ms: F64) -> None:
        """Take in what a simulation knows: the exact cost of the tuples that come, and how long they need to each instance."""
        self.cost_ms, self._latency_ms = cost_ms, latency_ms

    def route(self, keys: Keys, now_s: float) -> I32:  # noqa: ARG002 - the protocol's signature
        """The instance of every tuple."""
        return self._to_least(keys, -np.inf)

    def _to_least(self, keys: Keys, now_ms: float) -> I32:
        costs = self._costs(keys)
        chosen = kernels.to_least_work(costs, now_ms, self._latency_ms, self._done_ms, self._sent, self.warm_up)
        self._sent += costs.shape[0]
        return chosen

    def _costs(self, keys: Keys) -> F64:
        count = tuple_count(keys)
        costs: F64 = np.require(self.cost_ms(keys), np.float64, WRITABLE)
        if costs.shape == (count,):
            costs = costs[:, None]
        if costs.shape not in ((count, 1), (count, self.instances)):
            raise InvalidCost(f"{count} tuples came with costs of shape {costs.shape}: one each, or one for each instance")
        if not (np.isfinite(costs) & (costs >= 0.0)).all():
            raise InvalidCost(f"costs must be finite and at least 0, got {costs.min()} to {costs.max()}")
        return costs
