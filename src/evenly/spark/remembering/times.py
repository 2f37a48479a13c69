"""Times of groups that are learnt once, and where groups go by them: read if they are there, followed by what is measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

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
from evenly.spark.keyed.choosing import chosen_by_time
from evenly.spark.keyed.group_plan import GroupPlan
from evenly.spark.keyed.keys import type_names
from evenly.spark.placing.mapping_check import check_fit
from evenly.spark.remembering.store import Begun, Learnt, Store, Where, now

_UNTOLD = "no run has told yet what groups take"


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
        self._begun: Begun | None = None
        self._plan: GroupPlan | None = None

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
            light = mapping.light if isinstance(mapping, SplitMapping) else mapping
            check_fit(light, subject.columns, subject.types, light.instances)
            plans.append(GroupPlan.kept(_over(self._spark, self._asked, mapping)))
            known.append(times)

        self._begun = self._store.begun(fresh, usable)
        self._plan = plans[-1]
        return plans[-1], known[-1]

    def await_reports(self, observation: str, tell: Callable[[Sequence[GroupReport]], F64]) -> None:
        """Have what the observation of this name brings taken in; `tell` gives the busy seconds of each instance.

        An action that reads a part of the results is waited out: only one that ran all tasks says how even they were.
        """
        begun, plan = self._begun, self._plan

        def take(row: Any) -> bool:
            reports = list(map(GroupReport.from_bytes, collected(row)))
            if begun is None or plan is None or len(reports) < plan.mapping.instances:
                return False
            busy_s = tell(reports)
            groups = sum(report.groups for report in reports)
            if not groups:
                return True  # an input without rows says nothing

            def learnt(current: Remembered) -> Learnt:
                times, mapping = self._opened(current.content)
                times.learn(reports)
                if plan.blind:
                    return Learnt(_content(times, plan.knowing(times)))
                return Learnt(_content(times, mapping), current.anew)

            self._store.ended(begun, self._judged(begun, plan, reports, busy_s), learnt)
            return True

        await_outcome(self._spark, observation, take)

    def _judged(self, begun: Begun, plan: GroupPlan, reports: Sequence[GroupReport], busy_s: F64) -> PastRun:
        rows = float(sum(report.all_rows for report in reports))

        def run(promised_pct: float | None, why: str, *, anew: bool) -> PastRun:
            return PastRun(now(), begun.did, begun.why, rows, promised_pct, imbalance_pct(busy_s), anew=anew, judged=why)

        if plan.blind:
            return run(None, "nothing was known of times", anew=False)
        times = self._opened(begun.remembered.content)[0]
        found = keeping_by_time(plan.mapping.fitted_loads, busy_s, groups=steady_groups(reports, times.variances[1]))
        return run(found.promised_pct, found.why, anew=found.anew)

    def _opened(self, content: str) -> tuple[GroupTimes, Mapping | SplitMapping | None]:
        source = f"what is remembered in {self._store.path}"
        try:
            told = json.loads(content)
            times, mapping = str(told["times"]), told["mapping"]
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedData(f"{source} is damaged: {error}") from error
        kind = SplitMapping if self._split else Mapping
        return GroupTimes.from_json(times, source=source), None if mapping is None else kind.from_json(mapping, source=source)


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
        raise InvalidParameter(f"it splits keys over {mapping.instances} instances, and now they are {choice.number}")
    return replace(resized(mapping, choice.number), chosen=choice.why)
