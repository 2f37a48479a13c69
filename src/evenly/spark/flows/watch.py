"""What a run of a dataflow measured, for those who want to know."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from evenly.costs.report import InstanceReport
from evenly.dataflow.reports import FlowBatch, Instances, WorkerReport, by_instance, measured
from evenly.dataflow.stages import Stage
from evenly.notebook import shown
from evenly.numbers import plain
from evenly.planning.micro_batches import SparkPlan
from evenly.planning.observed.replanning import Event
from evenly.planning.observed.verdict import Verdict, verdict
from evenly.spark.flows.progress import Ended
from evenly.spark.jvm.observed import is_observed
from evenly.worker.executing import REPORT

_BATCHES, _CHANGES = 64, 1_000
_AGAIN_S = 2.0


class FlowWatch:
    """Give it to `evenly.run(..., watch=watch)`: it holds what the last batches (at most 64) measured, oldest first.

        watch = evenly.FlowWatch()
        flow = evenly.Flow("sizes")
        rows = flow.source("rows", function=lambda spark: df)
        rows.row(fetch, schema="size long").sink("kept", format="parquet", path="/data/sizes")
        evenly.run(flow, spark=spark, watch=watch)
        watch.batches[-1].operators["fetch"].call_ms
        watch.instances["fetch"].busy_s
        watch.verdict().held

    Operators of rows and batches are measured, those whose rows are dealt out by cost too; those of Spark itself are not, nor
    is what leads to state. Tasks that are run again count once. A sink that reads a part only (`console`) may leave out
    operators. `instances` are those of the last batch alone, so that many instances do not fill the driver.
    """

    def __init__(self) -> None:
        self._batches: deque[FlowBatch] = deque(maxlen=_BATCHES)
        self._instances: dict[str, Instances] = {}
        self._ended: Callable[[bool], Sequence[Ended]] | None = None
        self._missed: set[int] = set()
        self._asked_s = 0.0
        self._active: Callable[[], bool] = lambda: False
        self._changes: deque[Event] = deque(maxlen=_CHANGES)
        self._lock = threading.RLock()
        self._trigger_s: float | None = None
        self._taken: Callable[[FlowBatch, dict[str, Instances]], None] | None = None
        self._told: Callable[[Event], None] | None = None

    def hand_on(self, taken: Callable[[FlowBatch, dict[str, Instances]], None], changed: Callable[[Event], None]) -> None:
        """Have every batch told to `taken` when it has been written, and every change to `changed`."""
        self._taken, self._told = taken, changed

    @property
    def batches(self) -> tuple[FlowBatch, ...]:
        """The last batches."""
        with self._lock:
            self._hear()
            return tuple(self._batches)

    @property
    def instances(self) -> dict[str, Instances]:
        """What each instance of each operator did in the last batch."""
        with self._lock:
            return dict(self._instances)

    @property
    def changes(self) -> tuple[Event, ...]:
        """What planning again has changed or recommended (`replan=True`), and what came of it; the last 1,000, oldest first."""
        return tuple(self._changes)

    def changed(self, event: Event) -> None:
        """Something was changed, or what came of it is known."""
        self._changes.append(event)
        if self._told is not None:
            self._told(event)

    def verdict(self, plan: SparkPlan | None = None) -> Verdict:
        """Whether batches keep up, what broke if they do not, and each operator beside what a plan says of it."""
        return verdict(self.batches, plan, trigger_s=self._trigger_s if plan is None else plan.trigger_s)

    def begin(self, ended: Callable[[bool], Sequence[Ended]], trigger_s: float | None, active: Callable[[], bool]) -> None:
        """A query has started, which can be asked what Spark tells of its last batch (True: of all recent ones)."""
        with self._lock:
            self._hear(final=True)  # of the query before
            self._ended, self._trigger_s, self._active = ended, trigger_s, active

    def take(self, number: int | None, seconds: float, reports: list[WorkerReport]) -> None:
        """A batch has been written."""
        with self._lock:
            self._hear(final=True)
            if self._batches and number is not None and self._batches[-1].number == number:
                self._batches.pop()  # it is run again
            if number is not None:
                self._missed.discard(number)
            self._batches.append(FlowBatch(number, seconds, measured(reports)))
            self._instances = by_instance(reports)
            batch, instances = self._batches[-1], self._instances
        if self._taken is not None:
            self._taken(batch, instances)

    def _hear(self, *, final: bool = False) -> None:
        """What Spark tells of batches that have ended for good. `final`: what it does not tell now it never will."""
        for recent in (False, True):
            missing = {it.number: place for place, it in enumerate(self._batches) if self._is_missing(it)}
            if self._ended is None or not missing:
                return
            if recent:
                # All recent batches are many calls of the JVM: not for a look at one that still runs.
                now_s = time.monotonic()
                if not final and len(missing) == 1 and now_s < self._asked_s + _AGAIN_S and self._active():
                    return
                self._asked_s = now_s
            for told in self._ended(recent):
                if told.number in missing:
                    place = missing[told.number]
                    self._batches[place] = replace(
                        self._batches[place],
                        rows=told.rows,
                        began_s=told.began_s,
                        whole_s=told.whole_s,
                        completion=told.completion,
                        offered_rate=told.offered_rate,
                    )
        if final:
            self._missed.update(it.number for it in self._batches if it.number is not None and it.whole_s is None)

    def _is_missing(self, batch: FlowBatch) -> bool:
        return batch.number is not None and batch.whole_s is None and batch.number not in self._missed

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        batches = self.batches
        if not batches:
            return shown("FlowWatch", {"measured": "nothing yet: it is filled by each batch of a run"})
        last = batches[-1]
        facts: dict[str, object] = {"batches": len(batches), "last batch": f"{plain(last.took_s)} s"}
        facts |= {name: f"{it.rows_in:,} rows, {plain(it.busy_s)} s busy" for name, it in last.operators.items()}
        loads = {f"{name}: seconds busy": it.busy_s.tolist() for name, it in self.instances.items() if it.busy_s.size <= 256}
        return shown("FlowWatch", facts, loads)


@dataclass(frozen=True)
class OfCosts:
    """Whose reports these are that an operator dealt out by cost gives."""

    operator: str
    threads: int


class Reports:
    """The reports among the rows of some stages: observed on their way, or read from rows that are persisted.

    Not `everywhere`: only of workers behind an edge by key, and only what takes no job of its own.
    """

    def __init__(self, *, everywhere: bool = True) -> None:
        self.everywhere = everywhere
        self._observed: list[tuple[Any, DataFrame, OfCosts | None]] = []
        self._persisted: list[tuple[DataFrame, OfCosts | None]] = []
        self._known: list[WorkerReport] = []

    def wants(self, stage: Stage, *, persisted: bool) -> bool:
        """Whether the reports of a stage are to be taken."""
        return self.everywhere or (not persisted and any(edge.grouping == "key" for edge in stage.inputs))

    def observe(self, ran: DataFrame, costs: OfCosts | None = None) -> DataFrame:
        """`ran`, whose reports are taken while it is computed."""
        observation = Observation()
        self.observed(observation, ran, costs)
        return ran.observe(observation, F.expr(f"collect_list({REPORT}) as {REPORT}"))

    def observed(self, observation: Any, ran: DataFrame, costs: OfCosts | None) -> None:
        """The reports of `ran` are taken by this observation."""
        self._observed.append((observation, ran, costs))

    def persisted(self, ran: DataFrame, costs: OfCosts | None = None) -> None:
        """`ran` is persisted, and asked for its reports later: an observation below what is persisted tells nobody."""
        self._persisted.append((ran, costs))

    def known(self, reports: Sequence[InstanceReport], costs: OfCosts) -> None:
        """Reports that are here already."""
        self._known += [WorkerReport.of_costs(one, costs.operator, costs.threads) for one in reports]

    def told(self) -> list[WorkerReport]:
        """All reports, when everything has been computed and before it is let go."""
        found = list(self._known)
        for ran, costs in self._persisted:
            told = ran.where(f"{REPORT} is not null").select(REPORT).collect()
            found += [_read(bytes(row[0]), costs) for row in told]
        for observation, ran, costs in self._observed:
            if is_observed(observation, ran):
                found += [_read(bytes(one), costs) for one in observation.get[REPORT]]
        return found


def _read(told: bytes, costs: OfCosts | None) -> WorkerReport:
    if costs is None:
        return WorkerReport.from_bytes(told)
    return WorkerReport.of_costs(InstanceReport.from_bytes(told), costs.operator, costs.threads)
