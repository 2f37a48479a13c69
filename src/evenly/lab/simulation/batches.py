"""Micro-batches of rows of unequal cost, dealt out as on Spark and run on instances, without Spark.

The objects that decide are those that decide there: a `CostScheduler` says how a batch is dealt, routers are `BatchDealer`s,
and what each task measures comes back as its report. An object of your own that does what they do takes their place.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_instances, checked_whole
from evenly.costs.base import ShuffleGrouping
from evenly.costs.dealing import BatchDealer, DealingRule
from evenly.costs.meter import CostMeter
from evenly.costs.model import CostModel
from evenly.costs.moments import checked_costs
from evenly.costs.placing import DEALING_WAYS, DealingWay
from evenly.costs.report import InstanceReport
from evenly.costs.scheduler import BatchDecision, SchedulerState
from evenly.costs.table import CostTable
from evenly.costs.turns import COST_BITS, first_instance, in_turn, packed
from evenly.errors import EmptyStream, InvalidParameter
from evenly.kernels.types import F64, I32, I64
from evenly.lab.simulation.fresh import fresh
from evenly.sketches.hashing import Keys, key_ids

Objective = Literal["completion", "batch-time", "arrival"]
ROUTED_AT_ONCE = 10_000
"""The rows that Spark gives a router at a time: `spark.sql.execution.arrow.maxRecordsPerBatch`."""


@runtime_checkable
class BatchScheduler(Protocol):
    """Says how each batch is dealt and hears what it cost: what `evenly.costs.CostScheduler` does."""

    instances: int

    def decide(
        self, batch_id: int, *, row_bytes: float | None, slots: int | None, objective: str, ways: Sequence[DealingWay]
    ) -> BatchDecision:
        """How the batch is dealt."""

    def report(self, batch_id: int, reports: Sequence[InstanceReport]) -> bool:
        """Take in the reports of a batch."""


@runtime_checkable
class Dealer(Protocol):
    """Deals rows out, chunk by chunk: what `evenly.costs.BatchDealer` does."""

    instances: int

    def route(self, ids: I64) -> tuple[I32, F64]:
        """The instance and the estimated seconds of each row."""


class EvenScheduler:
    """`repartition(k)`: the same number of rows to each instance, always. What others are compared with."""

    def __init__(self, instances: int) -> None:
        self.instances = checked_instances(instances)

    def decide(self, batch_id: int, **known: object) -> BatchDecision:
        """Evenly."""
        del batch_id, known
        shares = np.full(self.instances, 1.0 / self.instances)
        return BatchDecision(
            SchedulerState.ROUND_ROBIN, even=True, shares=shares, model=CostModel(), time_every=1, reason="evenly"
        )

    def report(self, batch_id: int, reports: Sequence[InstanceReport]) -> bool:
        """Nothing is learnt."""
        del batch_id, reports
        return True


@dataclass(frozen=True, eq=False)
class BatchOutcome:
    """One batch, as it was dealt and as it ran.

    `partition` has the partition of each row (an instance, unless executors differ in speed: then there are more),
    `completion_s` its end, from the start of the batch on. `bound_s` is what no dealing can go below: all work over all
    instances, or the longest row on the fastest of them. What Spark takes for stages, tasks and routing is not in it.
    """

    way: DealingWay
    reason: str
    partition: I32
    completion_s: F64
    bound_s: float

    @property
    def batch_s(self) -> float:
        """How long the batch takes."""
        return float(self.completion_s.max())

    @property
    def completion_s_mean(self) -> float:
        return float(self.completion_s.mean())


@dataclass(frozen=True, eq=False)
class _Slots:
    """The instances that a batch runs on, and the parts in which its rows are read.

    `slowness`: how much longer a row takes on each instance (None: all alike), each an executor of its own.
    """

    instances: int
    parts: int = 4
    slowness: ArrayLike | None = None

    def __post_init__(self) -> None:
        checked_whole(self.parts, "parts", 1, 100_000)
        checked_instances(self.instances)
        given = self.factors
        if given.shape != (self.instances,) or not (np.isfinite(given) & (given > 0.0)).all():
            raise InvalidParameter(f"slowness must be {self.instances} finite numbers above 0, got {self.slowness}")

    @property
    def factors(self) -> F64:
        """The slowness of each instance."""
        return np.ones(self.instances) if self.slowness is None else np.asarray(self.slowness, np.float64)


def run_batches(
    batches: Sequence[tuple[Keys, ArrayLike]],
    scheduler: BatchScheduler,
    *,
    parts: int = 4,
    objective: Objective = "completion",
    slowness: ArrayLike | None = None,
    row_bytes: float | None = None,
    ways: Sequence[DealingWay] = DEALING_WAYS,
    seed: int = 0,
) -> list[BatchOutcome]:
    """Batches of (keys, costs in seconds), one after the other, as `stream_apply_by_cost` runs them.

    The scheduler is given new, or with what it has learnt, and is not changed. `parts`, `row_bytes`: in how many parts a
    batch is read, and the bytes of a row, if known. `objective` is that of `stream_apply_by_cost`, `ways` those to deal by
    cost that there are. `slowness`: how much longer a row takes on each instance, each an executor of its own (None: all
    alike). The order in which rows are read is chance, drawn from `seed`; the same arguments give the same outcomes.

    >>> from evenly.costs import CostScheduler
    >>> rng = np.random.default_rng(1)
    >>> cost_of = rng.exponential(0.1, 50)
    >>> batches = [(keys, cost_of[keys]) for keys in rng.integers(0, 50, (4, 400))]
    >>> [round(one.batch_s / one.bound_s, 1) for one in run_batches(batches, CostScheduler(8))]
    [1.3, 1.0, 1.0, 1.0]
    """
    if not isinstance(scheduler, BatchScheduler):
        raise InvalidParameter(f"{type(scheduler).__name__} is not a batch scheduler: that has instances, decide and report")
    _checked_objective(objective)
    slots = _Slots(scheduler.instances, parts, slowness)
    deciding = fresh(scheduler, "scheduler")
    outcomes: list[BatchOutcome] = []
    for number, (keys, costs_s) in enumerate(batches):
        ids, costs = _rows(keys, costs_s)
        rng = np.random.default_rng([seed, number])
        decision = deciding.decide(
            number, row_bytes=row_bytes, slots=scheduler.instances, objective=objective, ways=tuple(ways)
        )
        partition, estimates_s = _dealt(decision, ids, slots, objective, rng)
        ran = _Run(ids, costs, partition, estimates_s, decision.shares.size)
        completion_s, reports = ran.on(
            slots, shortest_first=objective == "completion" and not decision.even, every=decision.time_every
        )
        way: DealingWay = "evenly" if decision.even else decision.way
        outcomes.append(BatchOutcome(way, decision.reason, partition, completion_s, _bound(costs, slots)))
        deciding.report(number, reports)
    return outcomes


def run_batch(
    keys: Keys, costs_s: ArrayLike, dealer: Dealer, *, objective: Objective = "completion", slowness: ArrayLike | None = None
) -> BatchOutcome:
    """One batch dealt by one router: ours, or any object with `instances` and `route(ids)`.

    The dealer is not changed. Rows come to it in their order, `ROUTED_AT_ONCE` at a time.
    """
    if not isinstance(dealer, Dealer) or isinstance(dealer, ShuffleGrouping):
        raise InvalidParameter(
            f"{type(dealer).__name__} is not a dealer of batches: that has instances, and route(ids) gives the instance and "
            "the estimate of each row (evenly.lab.simulation.queueing runs shuffle groupings)"
        )
    _checked_objective(objective)
    ids, costs = _rows(keys, costs_s)
    slots = _Slots(dealer.instances, 1, slowness)
    partition, estimates_s = _routed(fresh(dealer, "dealer"), ids, dealer.instances)
    ran = _Run(ids, costs, partition, estimates_s, dealer.instances)
    completion_s, _ = ran.on(slots, shortest_first=objective == "completion", every=1)
    return BatchOutcome("one router", "dealt by one router", partition, completion_s, _bound(costs, slots))


def _dealt(decision: BatchDecision, ids: I64, slots: _Slots, objective: Objective, rng: np.random.Generator) -> tuple[I32, F64]:
    """The partition and the estimate of each row."""
    table, partitions = decision.model.table, decision.shares.size
    partition = np.empty(ids.size, np.int32)
    estimates_s = np.zeros(ids.size) if decision.even else table.estimate(ids)
    parts = 1 if decision.way == "one router" and not decision.even else slots.parts
    for part, rows in enumerate(np.array_split(np.arange(ids.size), parts)):
        # Spark sorts by a hash of the rows, so their order is chance; but not where the order of arrival counts.
        mixed = rows if objective == "arrival" and not decision.even else rng.permutation(rows)
        if decision.even:
            partition[mixed] = (np.arange(mixed.size) + rng.integers(partitions)) % partitions
        elif decision.way == "in turn":
            costliest_first = mixed[np.argsort(_ranks(table, ids[mixed]), kind="stable")]
            partition[costliest_first] = in_turn(np.arange(mixed.size), part, partitions)
        else:
            rule: DealingRule = "arrival" if objective == "arrival" else "longest-first"
            start = first_instance(2 * part, partitions)
            router = BatchDealer(table, partitions, shares=decision.shares, start=start, rule=rule)
            partition[mixed], _ = _routed(router, ids[mixed], partitions)
    return partition, estimates_s


def _ranks(table: CostTable, ids: I64) -> I64:
    """The place of each row's estimate among all that there are, 0 for the costliest."""
    return packed(table)[table.entries(ids)] >> COST_BITS


def _routed(dealer: Dealer, ids: I64, partitions: int) -> tuple[I32, F64]:
    answers = [dealer.route(ids[at : at + ROUTED_AT_ONCE]) for at in range(0, ids.size, ROUTED_AT_ONCE)]
    where, estimates = (np.concatenate([np.asarray(one[column]) for one in answers]) for column in range(2))
    if where.shape != ids.shape or where.dtype.kind not in "iu" or not 0 <= where.min() <= where.max() < partitions:
        raise InvalidParameter(
            f"{type(dealer).__name__} must give each of {ids.size} rows an instance from 0 to {partitions - 1}, got {where!r}"
        )
    return where.astype(np.int32), checked_costs(estimates, ids.size, what="estimates")


@dataclass(frozen=True, eq=False)
class _Run:
    """Rows in their partitions, before they run."""

    ids: I64
    costs_s: F64
    partition: I32
    estimates_s: F64
    partitions: int

    def on(self, slots: _Slots, *, shortest_first: bool, every: int) -> tuple[F64, list[InstanceReport]]:
        """The end of each row, and what each task reports: one row of `every` is timed.

        Partitions are started in their order, each on the instance that is free first, as Spark does.
        """
        slowness = slots.factors
        free = [(0.0, slot) for slot in range(slots.instances)]
        completion_s = np.empty(self.ids.size)
        reports: list[InstanceReport] = []
        order = np.argsort(self.partition, kind="stable")
        for number, rows in enumerate(np.split(order, np.searchsorted(self.partition[order], np.arange(1, self.partitions)))):
            start_s, slot = heapq.heappop(free)
            mine = rows[np.argsort(self.estimates_s[rows], kind="stable")] if shortest_first else rows
            took_s = self.costs_s[mine] * slowness[slot]
            completion_s[mine] = start_s + np.cumsum(took_s)
            end_s = start_s + float(took_s.sum())
            heapq.heappush(free, (end_s, slot))
            meter = CostMeter()
            meter.add(self.ids[mine][::every], took_s[::every], weight=float(every))
            reports.append(
                meter.report(
                    instance=number,
                    executor=f"instance-{slot}",
                    rows=mine.size,
                    busy_s=float(took_s.sum()),
                    estimated_s=float(self.estimates_s[mine].sum()),
                    first_s=start_s,
                    last_s=end_s,
                    completion_s=float(completion_s[mine].sum()),
                )
            )
        return completion_s, reports


def _rows(keys: Keys, costs_s: ArrayLike) -> tuple[I64, F64]:
    ids = key_ids(keys).view(np.int64)
    if ids.size == 0:
        raise EmptyStream("a batch without rows takes no time: give at least one")
    return ids, checked_costs(costs_s, ids.size)


def _bound(costs_s: F64, slots: _Slots) -> float:
    slowness = slots.factors
    return max(float(costs_s.sum() / (1.0 / slowness).sum()), float(costs_s.max() * slowness.min()))


def _checked_objective(objective: str) -> None:
    if objective not in get_args(Objective):
        raise InvalidParameter(f"objective must be one of {', '.join(get_args(Objective))}, got {objective!r}")
