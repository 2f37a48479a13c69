"""The default shuffle grouping: every tuple where it will end first, by what instances report and correct."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import MAX_INSTANCES, checked_instances, checked_queues, checked_whole
from evenly.errors import InvalidCost, InvalidParameter
from evenly.kernels import posg as matrices_kernels
from evenly.kernels import virtual_finish as kernels
from evenly.kernels import virtual_finish_instances as sides
from evenly.kernels.types import F64, I32, U64
from evenly.lab.rivals.shuffle.times import checked_times
from evenly.sketches.count_min import CostSketch
from evenly.sketches.hashing import WRITABLE, Keys, key_ids

TABLE_WAYS = 6
WORDS = 4
"""An entry of the table: its key, the count it competes with, the tuples seen, their cost."""


@dataclass(frozen=True, eq=False)
class Correction:
    """An instance is off what was predicted: what must be corrected in all, so that a lost one is made up for.

    `sequence` numbers what an instance says. It must be delivered to `scheduler`.
    """

    instance: int
    sequence: int
    corrected_ms: float
    scheduler: int = 0


@dataclass(frozen=True, eq=False)
class Report:
    """What an instance has learnt: its heavy keys (or its matrices), its totals, and a correction for each scheduler.

    It must be delivered to all schedulers.
    """

    to_all: ClassVar[bool] = True

    instance: int
    sums: F64
    corrected_ms: F64
    keys: U64
    table: F64
    cells: F64


class VirtualFinish:
    """Keeps for each instance the time at which it will have done what it was sent, and sends each tuple where it ends first.

    It keeps POSG's premises (nothing known beforehand, memory that does not grow with the keys) and leaves its barrier:

    - an idle instance's finish time is now (`floored`): what was idle is not owed;
    - what keys cost is pooled over instances (`pooled`), from reports at 64, 128, … tuples of an instance, then every
      `window` tuples (`first_report`; make it `window` to have no early ones); the first report of any ends round-robin;
    - a tuple carries its predicted end, and its instance answers only if that is off by more than `theta` mean
      execution times (None: never); what instances have in common in these answers is learnt, and counts for all;
    - of any 1,000 successive tuples that an instance executes, at most `messages_per_1000` lead to a message, reports among
      them; a report that is due then waits. A report to several schedulers is one message to each. With one instance there
      is nothing to decide, and nothing is said;
    - an instance on which the same keys surely take longer or shorter than on the others has a factor (`speeds`);
    - the time that tuples need to reach each instance counts as well (`latency_ms`), the more the fewer instances are
      busy: to spare one tuple a long way is no gain if many then wait longer. Nor is it one to wait at a near instance
      that is thought to be free and is not, so waiting is what must be expected if finish times are off by two mean
      execution times. Measured with one instance far and with all at other distances, from 10 to 400 ms and from 80 to
      150 % of the capacity needed, it was never worse to give it;
    - costs are kept for the most frequent keys, and as a mean for the rest, in as much memory as the paper's matrices
      (`estimator="table"`), or in those (`"matrices"`).

    Whatever messages are lost, late, doubled or out of order, and whichever instance never reports, every tuple has
    an instance: there is no state that awaits a message. `tests/property/test_posg.py` proves it with seeded faults.

    Where the stream arrives in parts at several `schedulers`, each is one of these with another `index`. It sees its own
    tuples, expects that the others send about as many, evenly, and is corrected where they do not.

    Parameters besides: `rows` and `columns`, the matrices whose memory is used at each instance; `seed` of their hashes.
    The scheduler holds the last report of each instance and an index of their keys (`memory_bytes`).

    >>> VirtualFinish(3).route(["a", "a", "b", "a"], 0.0).tolist()
    [0, 1, 2, 0]
    >>> VirtualFinish(5).memory_bytes, VirtualFinish(5).instance(0).memory_bytes
    (50808, 3528)
    """

    name = "evenly"

    def __init__(
        self,
        instances: int,
        *,
        theta: float | None = 4.0,
        window: int = 1024,
        first_report: int = 64,
        estimator: Literal["table", "matrices"] = "table",
        pooled: bool = True,
        speeds: bool = True,
        floored: bool = True,
        latency_ms: ArrayLike | None = None,
        messages_per_1000: int = 16,
        schedulers: int = 1,
        index: int = 0,
        rows: int = 4,
        columns: int = 54,
        seed: int = 0,
    ) -> None:
        self.instances = checked_instances(instances)
        if theta is not None and not 0.0 <= theta < np.inf:
            raise InvalidParameter(f"theta must be at least 0 and finite, or None for no corrections, got {theta}")
        if estimator not in ("table", "matrices"):
            raise InvalidParameter(f"estimator must be 'table' or 'matrices', got {estimator!r}")
        self.sketch = CostSketch(rows, columns, seed=seed)
        sets = max(1, 2 * rows * columns // (WORDS * TABLE_WAYS))
        self.shape = (0, rows, columns) if estimator == "matrices" else (sets * TABLE_WAYS, 0, 0)
        """The entries of the table, and the rows and columns of the matrices; what is not used has none."""
        self.estimator = estimator
        far = np.zeros(self.instances) if latency_ms is None else latency_ms
        self.latency_ms = checked_queues(far, self.instances, "latency_ms")
        self.options = sides.FinishOptions(
            np.inf if theta is None else float(theta),
            checked_whole(window, "window", 1, 2**53),
            checked_whole(first_report, "first_report", 1, 2**53),
            TABLE_WAYS,
            sets,
            estimator == "matrices",
            pooled,
            speeds,
            floored,
            checked_whole(schedulers, "schedulers", 1, MAX_INSTANCES),
            bool((self.latency_ms > 0.0).any()),
            *_allowed(messages_per_1000, self.instances),
        )
        self.index = checked_whole(index, "index", 0, schedulers - 1)
        self._state = self._new_state()
        self._now_ms = -np.inf
        self.tickets = np.zeros((0, 3))
        """What must travel with each tuple of the last `route`."""

    @property
    def memory_bytes(self) -> int:
        parts = (*self._state.known, *self._state[1:])
        return sum(part.nbytes for part in parts)

    @property
    def carried(self) -> F64:
        """What must travel with the tuples of the last `route`: their tickets."""
        return self.tickets

    def of_scheduler(self, index: int, schedulers: int) -> Self:
        """A new one like this, as one of several that share a stream."""
        one = deepcopy(self)
        one.options = self.options._replace(schedulers=checked_whole(schedulers, "schedulers", 1, MAX_INSTANCES))
        one.index = checked_whole(index, "index", 0, schedulers - 1)
        one._state = one._new_state()
        return one

    def _new_state(self) -> kernels.Scheduler:
        return kernels.one_of(kernels.new_schedulers(1, *self.shape, self.latency_ms, self.options), 0)

    @property
    def finish_ms(self) -> F64:
        """When each instance will have done what it was sent."""
        return self._state.lanes[:, kernels.FINISH].copy()

    @property
    def speeds(self) -> F64:
        """How much longer a tuple takes on each instance than on all of them together."""
        return self._state.lanes[:, kernels.SPEED].copy()

    def places(self, ids: U64) -> I32 | None:
        """The columns of keys in the matrices; None where there are none."""
        if self.estimator == "table":
            return None
        return matrices_kernels.places_of(ids, self.sketch._a, self.sketch._b, self.sketch.columns)

    def instance(self, index: int) -> VirtualFinishInstance:
        """What must run beside each instance."""
        return VirtualFinishInstance(checked_whole(index, "index", 0, self.instances - 1), self)

    def route(self, keys: Keys, now_s: float) -> I32:
        """The instance of every tuple. `tickets` then has what must travel with them."""
        return self.route_at(key_ids(keys), now_s * 1e3)

    def route_at(self, ids: U64, now_ms: float) -> I32:
        """As `route`, for ids and a clock in ms. A clock that steps back is taken to stand still."""
        if np.isfinite(now_ms):
            self._now_ms = max(self._now_ms, now_ms)
        now = self._now_ms if np.isfinite(self._now_ms) else 0.0
        chosen, self.tickets = kernels.send_all(self._state, ids, self.places(ids), now, self.options)
        return chosen

    def receive(self, message: Correction | Report) -> None:
        """Take in what an instance says, in any order and any number of times."""
        if not 0 <= message.instance < self.instances:
            raise InvalidParameter(f"there is no instance {message.instance}: there are {self.instances}, from 0 on")
        if isinstance(message, Correction):
            if not np.isfinite(message.corrected_ms):
                raise InvalidCost(f"instance {message.instance} sent a correction of {message.corrected_ms} ms")
            kernels.correct(self._state, message.instance, float(message.sequence), message.corrected_ms)
            return
        if message.corrected_ms.size != self.options.schedulers:
            raise InvalidParameter(
                f"a report to {message.corrected_ms.size} schedulers came to one of {self.options.schedulers}: make all alike"
            )
        if not (np.isfinite(message.sums).all() and np.isfinite(message.corrected_ms).all()):
            raise InvalidCost(f"instance {message.instance} sent sums that are not finite: {message.sums}")
        corrected_ms = float(message.corrected_ms[self.index])
        kernels.take_report(
            self._state,
            message.instance,
            message.keys,
            message.table,
            message.cells,
            message.sums,
            corrected_ms,
            self.options,
        )


class VirtualFinishInstance:
    """What runs beside an instance: learns what its tuples cost, and speaks when it has something to say.

    Made by `VirtualFinish.instance`. Many tuples in one call are the same as one after the other:
    `tests/property/test_posg.py` proves it.
    """

    def __init__(self, index: int, scheduler: VirtualFinish) -> None:
        self.index = index
        self._scheduler_places = scheduler.places
        self._options = scheduler.options
        self._state = sides.new_instances(1, *scheduler.shape, scheduler.options)

    @property
    def memory_bytes(self) -> int:
        return sum(part.nbytes for part in self._state)

    def execute(
        self, keys: Keys, costs_ms: ArrayLike, ended_ms: ArrayLike, tickets: F64, sources: ArrayLike = 0
    ) -> list[Correction | Report]:
        """Take in tuples that have been executed, in that order; what it gives must be delivered.

        `costs_ms` and `ended_ms` have a number for each tuple, `tickets` the row that came with it, and `sources` the
        scheduler that sent it.
        """
        ids = key_ids(keys)
        costs, ends = (checked_times(values, ids.size, name) for values, name in ((costs_ms, "cost"), (ended_ms, "end")))
        if (costs < 0.0).any():
            raise InvalidCost(f"a cost must be finite and at least 0 ms, got {costs.min()}")
        carried = np.require(np.reshape(tickets, (-1, 3)), np.float64, WRITABLE)
        senders = np.require(np.broadcast_to(np.asarray(sources, np.int32), ids.shape), np.int32, WRITABLE)
        if carried.shape[0] != ids.size:
            raise InvalidParameter(f"{ids.size} tuples came with {carried.shape[0]} tickets: one must come with each")
        if ids.size and not 0 <= senders.min() <= senders.max() < self._options.schedulers:
            raise InvalidParameter(f"there is no scheduler {senders.max()}: there are {self._options.schedulers}, from 0 on")
        places = self._scheduler_places(ids)
        said: list[Correction | Report] = []
        at = 0
        while at < ids.size:
            at, kind = sides.execute(self._state, 0, ids, places, costs, ends, carried, senders, at, self._options)
            if kind != sides.NOTHING:
                said.append(self._say(kind, int(senders[at])))
            at += 1
        return said

    def _say(self, kind: int, source: int) -> Correction | Report:
        sums, corrected = self._state.sums[0].copy(), self._state.corrected[0].copy()
        if kind == sides.CORRECTION:
            return Correction(self.index, int(sums[sides.SEQUENCE]), float(corrected[source]), source)
        said = Report(self.index, sums, corrected, *(part[0].copy() for part in self._state[:3]))
        sides.forget_half(self._state, 0, self._options)
        return said


def _allowed(messages_per_1000: int, instances: int) -> tuple[float, float]:
    """How many messages an instance may send at once, and how many more each tuple allows.

    Of any 1,000 successive tuples the first finds at most the one, and all together add the other: their sum is the bound.
    """
    most = checked_whole(messages_per_1000, "messages_per_1000", 1, 1_000)
    if instances == 1:
        return 0.0, 0.0
    at_once = max(1.0, most // 4)
    return at_once, (most - at_once) / 1_000.0
