"""Times of groups that are learnt once, and where groups go by them: read if they are there, followed by what is measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from pyspark.sql import DataFrame

from evenly.costs.group_report import GroupReport, steady_groups
from evenly.costs.group_times import GroupTimes
from evenly.errors import DamagedData, EvenlyError, InvalidParameter
from evenly.instances import Auto, ChosenInstances
from evenly.kernels.types import F64
from evenly.keys.keeping import keeping_by_time
from evenly.keys.mapping import Mapping
from evenly.keys.resizing import resized
from evenly.keys.split_mapping import SplitMapping
from evenly.measures.load import imbalance_pct
from evenly.remembered import PastRun, Remembered, Subject
from evenly.spark.jvm.outcomes import await_outcome, collected
from evenly.spark.keyed.choosing import about_as_good, chosen_by_time
from evenly.spark.keyed.group_plan import GroupPlan
from evenly.spark.keyed.keys import type_names
from evenly.spark.keyed.placed_reports import PlacedReports
from evenly.spark.placing.mapping_check import check_fit
from evenly.spark.remembering.store import Begun, Learnt, Store, Where, now

_UNTOLD = "no run has told yet what groups take"
_counting: WeakValueDictionary[tuple[str, str], _Awaited] = WeakValueDictionary()
"""Of each file the last run that has counted groups before they were timed: an earlier one's learning is not there any more."""


class TimeMemory:
    """What is remembered of the times of groups, in a folder: `GroupTimes`, and the mapping by them.

    The first run counts its groups, and when they have been timed the mapping of the next runs follows from both. Later runs
    read it and place at once. Each run's times are taken in, and if instances were busy as long as was expected, give or take,
    the mapping is kept; else the next run counts its groups anew.
    """

    def __init__(
        self, df: DataFrame, remember: Where, names: tuple[str, ...], asked: int | Auto, *, split: bool, by: str
    ) -> None:
        self._spark, self._asked, self._split = df.sparkSession, asked, split
        subject = Subject("times-of-parts" if split else "times", names, type_names(df, names))
        self._store = Store(df.sparkSession, remember, subject, by=by)
        self._begun: tuple[Begun, GroupPlan, float] | None = None

    def planned(self, plan: Callable[[GroupTimes], GroupPlan]) -> tuple[GroupPlan, GroupTimes]:
        """Where groups go, and the times by which that is; `plan` counts them."""
        subject = self._store.subject
        known = [GroupTimes(subject.columns, subject.types)]
        plans: list[GroupPlan] = []

        def fresh(before: str | None) -> Learnt:
            if before is not None:
                try:
                    known.append(self._opened(before)[0])
                except EvenlyError:  # it was told already
                    known.append(known[0])
            plans.append(plan(known[-1]))
            made = plans[-1]
            return Learnt(_content(known[-1]), _UNTOLD) if made.blind else Learnt(_content(known[-1], made.mapping))

        def usable(content: str) -> None:
            times, mapping = self._opened(content)
            if mapping is None:
                raise InvalidParameter(_UNTOLD)
            plans.append(GroupPlan.kept(_over(self._spark, self._asked, mapping)))
            known.append(times)

        self._begun = self._store.begun(fresh, usable), plans[-1], known[-1].variances[1]
        return plans[-1], known[-1]

    def await_reports(self, observation: str, placed: PlacedReports, tell: Callable[[Sequence[GroupReport]], None]) -> None:
        """Have what the observation of this name brings taken in, and handed on to `tell` under the instances of `placed`.

        An action that reads a part of the results is waited out: only one that ran all tasks says how even they were.
        """
        if self._begun is None:
            return
        run, self._begun = _Awaited.of(self._store, *self._begun), None

        def take(row: Any) -> bool:
            reports = placed.of(list(map(GroupReport.from_bytes, collected(row))))
            if len(reports) < run.instances:
                return False
            tell(reports)
            if any(report.groups for report in reports):  # an input without rows says nothing
                self._ended(run, reports, placed.busy_s(reports))
            return True

        await_outcome(self._spark, observation, take)

    def _ended(self, run: _Awaited, reports: Sequence[GroupReport], busy_s: F64) -> None:
        known, promised = run.known_after, run.promised
        if known is None and promised is None:
            return  # learnt anew since, by a later call

        def learnt(current: Remembered) -> Learnt:
            times, mapping = self._opened(current.content)
            times.learn(reports)
            return Learnt(_content(times, mapping), current.anew) if known is None else Learnt(_content(times, known(times)))

        self._store.ended(run.begun, run.judged(reports, busy_s), learnt)

    def _opened(self, content: str) -> tuple[GroupTimes, Mapping | SplitMapping | None]:
        source = f"what is remembered in {self._store.path}"
        try:
            told = json.loads(content)
            times, mapping = str(told["times"]), told["mapping"]
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedData(f"{source} is damaged: {error}") from error
        kind, subject = SplitMapping if self._split else Mapping, self._store.subject
        known = GroupTimes.from_json(times, source=source)
        if (known.columns, known.types) != (subject.columns, subject.types):
            raise DamagedData(f"{source} is damaged: it is not of {subject}")
        if mapping is None:
            return known, None
        found: Mapping | SplitMapping = kind.from_json(mapping, source=source)
        light = found.light if isinstance(found, SplitMapping) else found
        check_fit(light, subject.columns, subject.types, light.instances)
        if light.columns != subject.columns or light.capacities is not None:
            raise DamagedData(f"{source} is damaged: its mapping is not one of {subject}")
        return known, found


@dataclass(eq=False)
class _Awaited:
    """What a run needs when it has ended: how it began, and as how many reports it ends; if nothing was known of times where
    groups go once they are (`known_after`, dropped when a later call has counted them), else how long instances are to be busy
    and what one group's time varies.

    It may be awaited for long, with a thousand others: what is large is left out.
    """

    begun: Begun
    instances: int
    promised: F64 | None
    noise: float
    known_after: Callable[[GroupTimes], Mapping | SplitMapping] | None

    @classmethod
    def of(cls, store: Store, begun: Begun, plan: GroupPlan, noise: float) -> _Awaited:
        short = replace(begun, remembered=replace(begun.remembered, content="", runs=()))
        if not plan.blind:
            return cls(short, plan.mapping.instances, plan.mapping.fitted_loads, noise, None)
        run = cls(short, plan.mapping.instances, None, noise, plan.knowing)
        file = (store.whole_path, store.subject.file_name)
        before = _counting.get(file)
        if before is not None:
            before.known_after = None
        _counting[file] = run
        return run

    def judged(self, reports: Sequence[GroupReport], busy_s: F64) -> PastRun:
        """How it turned out."""
        rows = float(sum(report.all_rows for report in reports))

        def run(promised_pct: float | None, why: str, *, anew: bool) -> PastRun:
            begun = self.begun
            return PastRun(now(), begun.did, begun.why, rows, promised_pct, imbalance_pct(busy_s), anew=anew, judged=why)

        if self.promised is None:
            return run(None, "nothing was known of times", anew=False)
        found = keeping_by_time(self.promised, busy_s, groups=steady_groups(reports, self.noise))
        return run(found.promised_pct, found.why, anew=found.anew)


def _content(times: GroupTimes, mapping: Mapping | SplitMapping | None = None) -> str:
    return json.dumps({"times": times.to_json(), "mapping": None if mapping is None else mapping.to_json()})


def _over(spark: Any, asked: int | Auto, mapping: Mapping | SplitMapping) -> Mapping | SplitMapping:
    """A mapping by times over as many instances as are asked for, or are best for the slots of today. Keys that are split need
    their rows for that, and are counted anew."""
    if isinstance(asked, Auto):
        light = mapping.light if isinstance(mapping, SplitMapping) else mapping
        choice = chosen_by_time(spark, asked, light, total_s=float(mapping.fitted_loads.sum()))
    else:
        choice = ChosenInstances(asked, "")
    if choice.number == mapping.instances:
        return mapping
    if isinstance(mapping, SplitMapping):
        if isinstance(asked, Auto) and about_as_good(spark, mapping.instances, choice.number):
            return mapping
        raise InvalidParameter(f"it splits keys over {mapping.instances} instances, and now they are {choice.number}")
    return replace(resized(mapping, choice.number), chosen=choice.why)
