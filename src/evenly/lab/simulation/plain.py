"""Any shuffle grouping on a stage, tuple by tuple: the simulator that compiled runs are held against.

What a grouping is told follows from what it can hear:

- `acknowledge`: each end of a tuple, by a message to the scheduler that sent it;
- `observe`: every `refresh_ms`, how many tuples each instance has been sent and has not ended; with a true attribute
  `sees_own_queues` instead before each tuple, how many of its own it has not heard the end of;
- `instance`, `carried` and `receive` (`MessagingGrouping`): whatever the grouping puts beside instances has to say;
- `know` (`OracleGrouping`): the exact costs, which no real scheduler knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from evenly.costs.base import AcknowledgedGrouping, MessagingGrouping, ReactiveGrouping, ShuffleGrouping
from evenly.errors import InvalidParameter
from evenly.kernels.types import F64, I64
from evenly.lab.rivals.shuffle.full_knowledge import Oracle
from evenly.lab.rivals.shuffle.posg import POSG, PosgState
from evenly.lab.rivals.shuffle.posg_messages import Matrices
from evenly.lab.rivals.shuffle.random_choice import RandomChoice
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.rivals.shuffle.shortest_queue import ShortestQueue
from evenly.lab.simulation.event_loop import EventLoop
from evenly.lab.simulation.fresh import fresh
from evenly.lab.simulation.stages import Outcome, Stage

_UNHEARD = (RoundRobin.observe, RandomChoice.observe, ShortestQueue.observe)
"""These learn nothing from it: two do not react, and one is acknowledged. A subclass that has its own is told."""


@runtime_checkable
class OracleGrouping(ShuffleGrouping, Protocol):
    """A shuffle grouping that knows what no real scheduler knows: a bound of what can be had."""

    def know(self, cost_ms: Oracle, latency_ms: F64) -> None:
        """Take in how to ask for the exact cost of the tuples that are routed, and how long they need to each instance."""


@runtime_checkable
class SharingGrouping(ShuffleGrouping, Protocol):
    """A shuffle grouping that must know of the other schedulers where several share a stream."""

    def of_scheduler(self, index: int, schedulers: int) -> Self:
        """A new one like this, as one of several."""


def plain(stage: Stage, grouping: ShuffleGrouping, refresh_ms: float) -> Outcome:
    """Every tuple of the stage through the grouping, or through copies of it; the grouping itself is not changed."""
    loop = EventLoop.of(stage)
    post = _Post(stage, _schedulers(stage, grouping, loop), refresh_ms, loop)
    loop.run(post.decide, post.ended, post.deliver)
    order = range(stage.keys.size)
    ends_ms = np.array([loop.ends_ms[j] for j in order])
    chosen = np.array([loop.chosen[j] for j in order], np.int32)
    messages = loop.delivered + post.told
    return Outcome(grouping.name, chosen, ends_ms - stage.work.arrivals_ms, messages, *post.marks.found())


def _schedulers(stage: Stage, grouping: ShuffleGrouping, loop: EventLoop) -> list[ShuffleGrouping]:
    if isinstance(grouping, OracleGrouping):
        knowing = fresh(grouping, "grouping")
        # Tuples are decided one by one, so the tuple that is asked for is the one after those that are decided.
        each = range(stage.instances)
        knowing.know(lambda _: np.array([[loop.cost_ms(loop.decided, i) for i in each]]), stage.work.tuple_latency_ms.copy())
        return [knowing] * stage.schedulers
    if isinstance(grouping, SharingGrouping):
        return [grouping.of_scheduler(at, stage.schedulers) for at in range(stage.schedulers)]
    return [fresh(grouping, "grouping") for _ in range(stage.schedulers)]


class _Acknowledgement:
    """An instance says that a tuple has ended."""

    def __init__(self, instance: int) -> None:
        self.instance = instance


class _Post:
    """Carries tuples to the schedulers, their answers to the instances, and messages back."""

    def __init__(self, stage: Stage, schedulers: Sequence[ShuffleGrouping], refresh_ms: float, loop: EventLoop) -> None:
        self._keys, self._sources, self._instances = stage.keys, stage.sources.tolist(), stage.instances
        self._schedulers, self._refresh_ms, self._loop = schedulers, refresh_ms, loop
        one = schedulers[0]
        observes = isinstance(one, ReactiveGrouping) and getattr(type(one), "observe", None) not in _UNHEARD
        self._acknowledged = isinstance(one, AcknowledgedGrouping)
        self._sees_own = observes and bool(getattr(one, "sees_own_queues", False))
        self._sees_all = observes and not self._sees_own
        if hasattr(one, "receive") and not isinstance(one, MessagingGrouping):
            raise InvalidParameter(
                f"{one.name} has receive, but nothing would come: give it carried and instance(index) too, "
                "as evenly.costs.base.MessagingGrouping has"
            )
        self._beside = [one.instance(i) for i in range(stage.instances)] if isinstance(one, MessagingGrouping) else []
        self._queued = np.zeros((len(schedulers), stage.instances))
        self._told_ms = float(stage.work.arrivals_ms[0])
        self.told = 0
        """Messages that tell of all queues."""
        self.marks = _Marks(schedulers)

    def decide(self, j: int, now_ms: float) -> tuple[int, Any]:
        at = self._sources[j]
        scheduler: Any = self._schedulers[at]
        if self._sees_own:
            scheduler.observe(self._queued[at].copy())
        elif self._sees_all and now_ms >= self._told_ms + self._refresh_ms:
            self._tell_queues(now_ms)
        chosen = self._checked(scheduler.route(self._keys[j : j + 1].copy(), now_ms / 1e3), scheduler.name)
        self._queued[at, chosen] += 1.0
        self.marks.routed(at, j)
        return chosen, scheduler.carried if self._beside else None

    def ended(self, j: int, instance: int, cost_ms: float, now_ms: float, carried: Any) -> list[tuple[int, Any]]:
        at = self._sources[j]
        said: list[tuple[int, Any]] = []
        if self._sees_all:
            self._queued[at, instance] -= 1.0
        if self._acknowledged or self._sees_own:
            said.append((at, _Acknowledgement(instance)))
        if self._beside:
            for message in self._beside[instance].execute(self._keys[j : j + 1].copy(), cost_ms, now_ms, carried, at):
                to_all = getattr(message, "to_all", False)
                said += [(to, message) for to in (range(len(self._schedulers)) if to_all else (at,))]
        return said

    def deliver(self, addressed: tuple[int, Any]) -> None:
        to, message = addressed
        scheduler: Any = self._schedulers[to]
        if not isinstance(message, _Acknowledgement):
            scheduler.receive(message)
            self.marks.delivered(to, message, self._loop.decided)
            return
        if self._sees_own:
            self._queued[to, message.instance] -= 1.0
        if self._acknowledged:
            scheduler.acknowledge(message.instance)

    def _tell_queues(self, now_ms: float) -> None:
        self._told_ms = now_ms
        queued = self._queued.sum(axis=0)
        for scheduler in self._schedulers:
            if isinstance(scheduler, ReactiveGrouping):
                scheduler.observe(queued.copy())
        self.told += self._instances * len(self._schedulers)

    def _checked(self, routed: Any, name: str) -> int:
        sent = np.asarray(routed)
        if sent.shape != (1,) or sent.dtype.kind not in "iu" or not 0 <= sent[0] < self._instances:
            raise InvalidParameter(
                f"{name} sent one tuple to {routed!r}: route must give an array with an instance from 0 to "
                f"{self._instances - 1} for each tuple (evenly.testing.check_shuffle_grouping tells more)"
            )
        return int(sent[0])


class _Marks:
    """What an outcome tells of POSG and its subclasses; nothing of others."""

    def __init__(self, schedulers: Sequence[ShuffleGrouping]) -> None:
        self._posgs = {at: one for at, one in enumerate(schedulers) if isinstance(one, POSG)}
        self._left = dict.fromkeys(self._posgs, 0)
        self._first_run = dict.fromkeys(self._posgs, 0)
        self._matrices: list[tuple[int, int]] = []

    def routed(self, at: int, j: int) -> None:
        if self._posgs and not self._left[at] and self._posgs[at].state is not PosgState.ROUND_ROBIN:
            self._left[at] = j

    def delivered(self, to: int, message: Any, read: int) -> None:
        if not self._posgs:
            return
        if not self._first_run[to] and self._posgs[to].state is PosgState.RUN:
            self._first_run[to] = read
        if to == 0 and isinstance(message, Matrices):
            self._matrices.append((message.instance, read))

    def found(self) -> tuple[int, int, I64]:
        matrices = np.array(self._matrices, np.int64).reshape(-1, 2)
        return max(self._left.values(), default=0), max(self._first_run.values(), default=0), matrices
