"""POSG: proactive online shuffle grouping, as two state machines without clock, socket or queue."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_instances, checked_whole
from evenly.errors import InvalidCost, InvalidParameter
from evenly.kernels import posg as kernels
from evenly.kernels.types import F64, I32, U64
from evenly.lab.rivals.shuffle.posg_messages import Matrices, SyncReply, SyncRequest
from evenly.lab.rivals.shuffle.times import checked_times
from evenly.sketches.count_min import CostSketch
from evenly.sketches.hashing import Keys, key_ids


class Reading(NamedTuple):
    """Where the paper's text can be read in several ways. `READINGS` names the four that are of interest.

    `clock`: an instance's account C is the clock when the request's tuple ends, so idle time is in it; else the sum of
    execution times. `early`: the first check after a snapshot passes always; else by equation (1). `pooled`: estimates
    come from the sum of all instances' matrices; else from those of the instance chosen.
    """

    clock: bool
    early: bool
    pooled: bool


READINGS = {
    "a": Reading(clock=False, early=False, pooled=False),
    "b": Reading(clock=True, early=False, pooled=False),
    "c": Reading(clock=True, early=True, pooled=False),
    "cp": Reading(clock=True, early=True, pooled=True),
}
"""a is the text; cp comes nearest to the published figures."""


class PosgState(Enum):
    """The states of figure 3."""

    ROUND_ROBIN = "round robin"
    SEND_ALL = "send all"
    WAIT_ALL = "wait all"
    RUN = "run"


class InstanceState(Enum):
    """The states of figure 2."""

    START = "start"
    STABILIZING = "stabilizing"


class POSG:
    """The scheduler: round-robin until all instances have told their costs, then each tuple where the least was sent.

    Whatever messages are lost, late, doubled or out of order, every tuple has an instance and no state lasts: a
    reply that is awaited for more than `patience` tuples is asked for again, and an instance whose matrices are
    awaited for as long is taken for the mean of the others. `tests/property/test_posg.py` proves it with seeded
    faults, and holds whole runs against `evenly.lab.simulation.queueing.run`.

    Parameters: `instances`; `reading`, one of `READINGS`; `rows` and `columns` of the matrices (the paper's 4 x 54);
    `window`, the paper's N, in tuples of an instance; `tolerance`, its mu; `patience` in tuples; `seed` of the hashes.

    >>> POSG(3).route(["a", "a", "b", "a"], 0.0).tolist()
    [0, 1, 2, 0]

    Rivetti, Anceaume, Busnel, Querzoni, Sericola, "Proactive online scheduling for shuffle grouping", 2016.
    """

    def __init__(
        self,
        instances: int,
        *,
        reading: str = "cp",
        rows: int = 4,
        columns: int = 54,
        window: int = 1024,
        tolerance: float = 0.05,
        patience: int = 32_768,
        seed: int = 0,
    ) -> None:
        if reading not in READINGS:
            raise InvalidParameter(f"there is no reading {reading!r} of POSG: choose from {', '.join(READINGS)}")
        if not 0.0 <= tolerance < np.inf:
            raise InvalidParameter(f"tolerance must be at least 0 and finite, got {tolerance}")
        self.instances = checked_instances(instances)
        self.name, self.reading = f"posg-{reading}", READINGS[reading]
        self.window = checked_whole(window, "window", 1, 2**53)
        self.patience = checked_whole(patience, "patience", 1, 2**53)
        self.tolerance, self.seed = tolerance, seed
        self.sketch = CostSketch(rows, columns, seed=seed)
        self.state = PosgState.ROUND_ROBIN
        self.epoch = 0
        self.requests: list[tuple[int, SyncRequest]] = []
        """The requests that must travel with tuples of the last `route`, each with the tuple's place in it."""
        self._sent_ms = np.zeros(self.instances)
        self._known = np.zeros((self.instances, rows, columns, 2))
        self._versions = np.zeros(self.instances, np.int64)
        self._pairs = np.zeros((1 if self.reading.pooled else self.instances, rows, columns, 2))
        self._unseen = np.zeros(self._pairs.shape[0])
        self._replies: dict[int, float] = {}
        self._turn = self._asked = self._waited = 0

    @property
    def memory_bytes(self) -> int:
        return self._known.nbytes + self._pairs.nbytes + self._sent_ms.nbytes

    @property
    def carried(self) -> list[tuple[int, SyncRequest]]:
        """What must travel with the tuples of the last `route`: the requests."""
        return self.requests

    @property
    def sent_ms(self) -> F64:
        """The estimated work sent to each instance: the paper's vector C."""
        return self._sent_ms.copy()

    def places(self, ids: U64) -> I32:
        """The column of every key in every row of the matrices."""
        return kernels.places_of(ids, self.sketch._a, self.sketch._b, self.sketch.columns)

    def instance(self, index: int) -> POSGInstance:
        """The other machine: one for each instance, with the same parameters."""
        return POSGInstance(checked_whole(index, "index", 0, self.instances - 1), self)

    def route(self, keys: Keys, now_s: float) -> I32:  # noqa: ARG002 - the protocol's signature
        """The instance of every tuple. `requests` then has what must travel with some of them."""
        places = self.places(key_ids(keys))
        chosen = np.empty(places.shape[0], np.int32)
        self.requests = []
        at = 0
        while at < chosen.size:
            span = self._awaited(chosen.size - at)
            if self.state is PosgState.ROUND_ROBIN:
                chosen[at : at + span] = (np.arange(span) + self._turn) % self.instances
                self._turn = (self._turn + span) % self.instances
            elif self.state is PosgState.SEND_ALL:
                span = 1
                chosen[at] = self._ask(places[at], at)
            else:
                chosen[at : at + span] = kernels.send_greedily(places[at : at + span], self._pairs, self._unseen, self._sent_ms)
            at += span
        return chosen

    def receive(self, message: Matrices | SyncReply) -> None:
        """Take in what an instance says, in any order and any number of times."""
        if not 0 <= message.instance < self.instances:
            raise InvalidParameter(f"there is no instance {message.instance}: there are {self.instances}, from 0 on")
        if isinstance(message, Matrices):
            self._take_matrices(message)
        else:
            self._take_reply(message)

    def _awaited(self, tuples: int) -> int:
        """How many of the next tuples may be sent before patience ends; if it has ended, ask."""
        waiting = self.state is PosgState.WAIT_ALL
        if not waiting and not (self.state is PosgState.ROUND_ROBIN and self._versions.any()):
            return tuples
        if self._waited == self.patience:
            self._ask_all()
            return 1
        span = min(tuples, self.patience - self._waited)
        self._waited += span
        return span

    def _ask_all(self) -> None:
        self.state = PosgState.SEND_ALL
        self.epoch += 1
        self._asked = self._waited = 0
        self._replies = {}

    def _ask(self, place: I32, at: int) -> int:
        """Send one tuple with a request, to the next instance in turn."""
        instance = self._asked
        alone = self._sent_ms[instance : instance + 1]
        pair = min(instance, self._pairs.shape[0] - 1)
        kernels.send_greedily(place[None, :], self._pairs[pair : pair + 1], self._unseen[pair : pair + 1], alone)
        self.requests.append((at, SyncRequest(self.epoch, float(alone[0]))))
        self._asked += 1
        if self._asked == self.instances:
            self.state = PosgState.WAIT_ALL
        return instance

    def _take_matrices(self, message: Matrices) -> None:
        if message.version <= self._versions[message.instance]:
            return
        if message.cells.shape != self._known.shape[1:]:
            raise InvalidParameter(f"matrices of shape {message.cells.shape} came to a scheduler of {self._known.shape[1:]}")
        self._versions[message.instance] = message.version
        self._known[message.instance] = message.cells
        total = self._known.sum(axis=0)
        for at in range(self._pairs.shape[0]):
            own = not self.reading.pooled and self._versions[at] > 0
            self._pairs[at] = self._known[at] if own else total
            counted, cost = self._pairs[at, 0, :, 0].sum(), self._pairs[at, 0, :, 1].sum()
            self._unseen[at] = cost / counted if counted > 0.0 else 0.0
        if self.state is not PosgState.ROUND_ROBIN or self._versions.all():
            self._ask_all()

    def _take_reply(self, message: SyncReply) -> None:
        """Replies count for the present epoch, once each, and are applied together when all are in."""
        if message.epoch != self.epoch or self.state is PosgState.RUN or not np.isfinite(message.delta_ms):
            return
        self._replies.setdefault(message.instance, message.delta_ms)
        if self.state is PosgState.WAIT_ALL and len(self._replies) == self.instances:
            for instance, delta_ms in self._replies.items():
                self._sent_ms[instance] += delta_ms
            self.state = PosgState.RUN


class POSGInstance:
    """One instance: learns what its tuples cost, and sends its matrices when they change little.

    Made by `POSG.instance`. `execute` gives what must be delivered to the scheduler, in that order.
    """

    def __init__(self, index: int, scheduler: POSG) -> None:
        self.index = index
        self.state = InstanceState.START
        self.executed = 0
        self.work_ms = 0.0
        self._reading, self._window, self._tolerance = scheduler.reading, scheduler.window, scheduler.tolerance
        self._sketch = CostSketch(scheduler.sketch.rows, scheduler.sketch.columns, seed=scheduler.seed)
        self._snapshot = np.zeros(self._sketch._cells.shape[:2])
        self._version = 0

    @property
    def memory_bytes(self) -> int:
        return self._sketch.memory_bytes + self._snapshot.nbytes

    def execute(
        self,
        keys: Keys,
        costs_ms: ArrayLike,
        ended_ms: ArrayLike,
        requests: Sequence[tuple[int, SyncRequest]] = (),
        sources: ArrayLike = 0,  # noqa: ARG002 - the protocol's signature: it does not matter who sent a tuple
    ) -> list[SyncReply | Matrices]:
        """Take in tuples that have been executed, in that order, each with its cost and its end.

        `requests` are those that some of them carried, each with its tuple's place, in the order of places: just what
        `POSG.requests` has for the tuples of one `route`. Many tuples in one call are the same as one after the other:
        `tests/property/test_posg.py` proves it.
        """
        ids = key_ids(keys)
        costs, ends = checked_times(costs_ms, ids.size, "cost"), checked_times(ended_ms, ids.size, "end")
        if (costs < 0.0).any():
            raise InvalidCost(f"a cost must be finite and at least 0 ms, got {costs.min()}")
        said: list[SyncReply | Matrices] = []
        asked = dict(requests)
        at = 0
        while at < ids.size:
            stop = min(ids.size, at + self._window - self.executed % self._window)
            stop = min((place + 1 for place in asked if at <= place < stop), default=stop)
            self._sketch.update(ids[at:stop], costs[at:stop])
            self.executed += stop - at
            self.work_ms = float(ends[stop - 1] if self._reading.clock else self.work_ms + costs[at:stop].sum())
            at = stop
            if at - 1 in asked:
                request = asked[at - 1]
                said.append(SyncReply(self.index, request.epoch, self.work_ms - request.sent_ms))
            if self.executed % self._window == 0:
                said.extend(self._end_window())
        return said

    def _end_window(self) -> list[Matrices]:
        cells = self._sketch._cells
        if self.state is InstanceState.STABILIZING and (
            self._reading.early or kernels.relative_change(cells, self._snapshot) <= self._tolerance
        ):
            self.state = InstanceState.START
            self._version += 1
            sent = Matrices(self.index, self._version, cells.copy())
            cells[:] = 0.0
            return [sent]
        self.state = InstanceState.STABILIZING
        kernels.snapshot(cells, self._snapshot)
        return []
