"""The plain simulator of a stage: one event at a time, and any object may decide."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np

from evenly.lab.simulation.stages import Stage

Decide = Callable[[int, float], tuple[int, Any]]
"""The instance of tuple j at a time in ms, and what travels with it."""
Ended = Callable[[int, int, float, float, Any], Iterable[Any]]
"""Hears of tuple j: its instance, its cost and its end in ms, and what travelled with it; it gives messages."""

_END, _MESSAGE, _REACH, _ARRIVE = range(4)


def _says_nothing(*_: object) -> Iterable[Any]:
    return ()


class EventLoop:
    """Instances with queues, one event at a time from a heap ordered by (time, kind, instance, sequence).

    At one time ends come first, then messages, then tuples that reach their instance, then tuples that arrive. A message
    reaches the schedulers the control latency of its instance after the end that it tells of; one that comes after the
    last tuple was decided is not delivered.

    Parameters: `arrivals_ms`, not descending; `cost_ms(j, instance)`; `instances`; latencies in ms, one for each instance.
    """

    def __init__(
        self,
        arrivals_ms: Sequence[float],
        cost_ms: Callable[[int, int], float],
        instances: int,
        *,
        tuple_latency_ms: Sequence[float],
        control_latency_ms: Sequence[float],
    ) -> None:
        self.arrivals_ms, self.cost_ms, self.instances = arrivals_ms, cost_ms, instances
        self.tuple_latency_ms, self.control_latency_ms = tuple_latency_ms, control_latency_ms
        self.chosen: dict[int, int] = {}
        self.ends_ms: dict[int, float] = {}
        self.delivered = 0
        self._heap: list[tuple[float, int, int, int, Any]] = []
        self._pushed = 0
        self._queues: list[deque[int]] = [deque() for _ in range(instances)]
        self._busy = [False] * instances

    @classmethod
    def of(cls, stage: Stage) -> Self:
        """The tuples and instances of a stage."""
        work = stage.work
        latencies = {
            "tuple_latency_ms": work.tuple_latency_ms.tolist(),
            "control_latency_ms": work.control_latency_ms.tolist(),
        }
        period = np.searchsorted(work.period_starts, np.arange(stage.keys.size), side="right") - 1
        last = work.costs_ms.shape[1] - 1

        def cost_ms(j: int, instance: int) -> float:
            return float(work.costs_ms[j, min(instance, last)] * work.multipliers[period[j], instance])

        return cls(work.arrivals_ms.tolist(), cost_ms, stage.instances, **latencies)

    @property
    def decided(self) -> int:
        """How many tuples have their instance."""
        return len(self.chosen)

    def run(self, decide: Decide, ended: Ended = _says_nothing, deliver: Callable[[Any], object] = _says_nothing) -> None:
        """All tuples to their end. `deliver` takes the messages that `ended` gave, when they have come."""
        carried: dict[int, Any] = {}
        for j, time_ms in enumerate(self.arrivals_ms):
            self._push(time_ms, _ARRIVE, 0, j)
        while self._heap:
            now_ms, kind, instance, _, what = heapq.heappop(self._heap)
            if kind == _END:
                self.ends_ms[what] = now_ms
                self._busy[instance] = False
                for message in ended(what, instance, self.cost_ms(what, instance), now_ms, carried.pop(what)):
                    self._push(now_ms + self.control_latency_ms[instance], _MESSAGE, instance, message)
                self._start(instance, now_ms)
            elif kind == _MESSAGE:
                if self.decided < len(self.arrivals_ms):
                    self.delivered += 1
                    deliver(what)
            elif kind == _REACH:
                self._queues[instance].append(what)
                self._start(instance, now_ms)
            else:
                self.chosen[what], carried[what] = chosen, _ = decide(what, now_ms)
                self._push(now_ms + self.tuple_latency_ms[chosen], _REACH, chosen, what)

    def _push(self, time_ms: float, kind: int, instance: int, what: Any) -> None:
        heapq.heappush(self._heap, (time_ms, kind, instance, self._pushed, what))
        self._pushed += 1

    def _start(self, instance: int, now_ms: float) -> None:
        if not self._busy[instance] and self._queues[instance]:
            self._busy[instance] = True
            j = self._queues[instance].popleft()
            self._push(now_ms + self.cost_ms(j, instance), _END, instance, j)
