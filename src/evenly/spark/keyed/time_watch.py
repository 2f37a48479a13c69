"""What a run of `apply_by_key` or `aggregate_by_key` measured of its groups, for those who want to know or to reuse it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from evenly.costs.group_report import GroupReport
from evenly.costs.group_times import GroupTimes
from evenly.errors import InvalidParameter
from evenly.facts.of_costs import group_batch
from evenly.kernels.types import F64
from evenly.keys.mapping import Mapping
from evenly.keys.split_mapping import SplitMapping
from evenly.measures.load import imbalance_pct
from evenly.notebook import shown
from evenly.spark.job_facts import JobFacts
from evenly.spark.jvm.observed import is_observed
from evenly.spark.keyed.placed_reports import PlacedReports
from evenly.spark.placing.own_columns import own_name
from evenly.spark.remembering.times import TimeMemory

REPORT = own_name("report")
_SHOWN = 3


class TimeWatch:
    """Give it to `apply_by_key(..., watch=watch)` or `aggregate_by_key`; it is filled by the first action on the result.

        watch = evenly.TimeWatch()
        evenly.apply_by_key(
            df, score, "user string, score double", key="user", instances=16, balance="time", watch=watch
        ).write.parquet("/data/scores")
        watch.imbalance_pct, watch.longest, watch.times.save("times.json")

    `times` is what the next run is to be given, `times=`. A watch serves one call. What a task measured comes with its results:
    no retry and no speculative copy counts a group twice. In a first run of `apply_by_key` by time, which goes out in pieces,
    there is a report for each piece, `mapping` is over pieces, and an instance is what a slot would do that takes a piece as it
    comes free. Before the action there are no reports; an action that reads a part
    only (`limit`, `show`), or that fails, leaves what the tasks measured that ended. Of a key that `aggregate_by_key` splits
    each part counts as a group.
    """

    def __init__(self) -> None:
        self._observation: Any = None
        self._ran: DataFrame | None = None
        self._before = GroupTimes()
        self._placed = PlacedReports(0, None)
        self._chosen = ""
        self._known: tuple[GroupReport, ...] | None = None
        self._learnt: GroupTimes | None = None
        self._facts = JobFacts("")

    def observe(
        self,
        ran: DataFrame,
        before: GroupTimes,
        *,
        instances: int,
        mapping: Mapping | SplitMapping | None,
        by: str,
        chosen: str = "",
        kept: TimeMemory | None = None,
    ) -> DataFrame:
        """`ran`, of a call of `by`, with the observation of its reports; `before` is what was known. What is measured goes
        to `kept`, too."""
        self.check_unused()
        name = f"evenly_times_{uuid4().hex}"
        self._observation = Observation(name)
        self._before, self._ran, self._chosen = before.copy(), ran, chosen
        self._placed, self._facts = PlacedReports(instances, mapping), JobFacts(by)
        # What is awaited may be so for long, and keeps no times and no frame.
        placed, facts = self._placed, self._facts
        if kept is None:
            facts.await_reports(ran.sparkSession, name, lambda told: _tell(placed, facts, placed.of(_read(told))))
        else:
            kept.await_reports(name, placed, lambda reports: _tell(placed, facts, reports))
        return ran.observe(self._observation, F.expr(f"collect_list({REPORT}) as {REPORT}"))

    def check_unused(self) -> None:
        """Refuse to serve a second call."""
        if self._observation is not None:
            raise InvalidParameter("this watch was given to another call: make one for each call, evenly.TimeWatch()")

    @property
    def ready(self) -> bool:
        """Whether an action has filled it."""
        return self._told() is not None

    @property
    def reports(self) -> tuple[GroupReport, ...]:
        """The report of every instance that had one."""
        return self._told() or ()

    @property
    def instances(self) -> int:
        """Over how many instances the groups are."""
        return self._placed.instances

    @property
    def chosen(self) -> str:
        """Why there are so many, if `instances="auto"` chose their number."""
        return self._chosen

    @property
    def mapping(self) -> Mapping | SplitMapping | None:
        """The mapping by which groups were placed, if `balance="time"`; its loads are seconds, once times are known.
        `aggregate_by_key` has a `SplitMapping`."""
        return self._placed.mapping

    @property
    def times(self) -> GroupTimes:
        """All that is known: the times that the run began with, and what it measured."""
        if self._learnt is None:
            told = self._told()
            if told is None:
                return self._before.copy()
            self._learnt = self._before.copy().learn(told)
        return self._learnt.copy()

    @property
    def busy_s(self) -> F64:
        """The measured time of each instance's groups."""
        return self._placed.busy_s(self.reports)

    @property
    def imbalance_pct(self) -> float:
        """λ of `busy_s`; 0 if nothing was measured."""
        busy_s = self.busy_s
        return imbalance_pct(busy_s) if busy_s.size else 0.0

    @property
    def longest(self) -> tuple[tuple[str, float], ...]:
        """The longest groups of the run: their keys as texts, and their seconds. At most 8 for each instance."""
        found = [(report, key, name) for report in self.reports for key, name in report.names.items()]
        timed = [(name, float(report.seconds[report.ids == key].max(initial=0.0))) for report, key, name in found]
        return tuple(sorted(timed, key=lambda it: -it[1]))

    def __repr__(self) -> str:
        """What a shell shows; it runs nothing."""
        if not self.ready:
            return "TimeWatch(nothing measured yet: it is filled by the first action on the result)"
        groups = sum(report.groups for report in self.reports)
        longest = "".join(f", longest {name} {seconds:.3g} s" for name, seconds in self.longest[:1])
        return f"TimeWatch({groups:,} groups, {self.busy_s.sum():.3g} s, λ {self.imbalance_pct:.1f} %{longest})"

    def _repr_html_(self) -> str:
        """What a notebook shows; it runs nothing."""
        if not self.ready:
            return shown("TimeWatch", {"measured": "nothing yet: it is filled by the first action on the result"})
        times = self.times
        facts = {
            "groups": f"{sum(report.groups for report in self.reports):,}",
            "λ of the measured time": f"{self.imbalance_pct:.1f} %",
            "the longest": ", ".join(f"{name} {seconds:.3g} s" for name, seconds in self.longest[:_SHOWN]),
            "time grows with rows to the power": f"{times.exponent or 0.0:.2f} ± {times.exponent_unsure or 0.0:.2f}",
        }
        return shown("TimeWatch", facts, {"measured time": self.busy_s.tolist()})

    def _told(self) -> tuple[GroupReport, ...] | None:
        if self._known is None and self._ran is not None and is_observed(self._observation, self._ran):
            told = self._observation.get.get(REPORT)
            if told is not None:
                self._ran = None
                self._known = tuple(self._placed.of(_read([bytes(data) for data in told])))
                _tell(self._placed, self._facts, self._known)
        return self._known


def _tell(placed: PlacedReports, facts: JobFacts, reports: Sequence[GroupReport]) -> None:
    """Record what was measured."""
    if reports:
        facts.tell(lambda labels: group_batch(placed.joined(reports), busy_s=placed.busy_s(reports), labels=labels))


def _read(told: Sequence[bytes]) -> tuple[GroupReport, ...]:
    """In the order of instances; where one task ran several (`coalesce`), it has several reports."""
    return tuple(sorted(map(GroupReport.from_bytes, told), key=lambda report: report.instance))
