"""What a run of `apply_by_cost` measured, for those who want to know or to reuse it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from evenly.costs.model import CostModel
from evenly.costs.placing import DealingChoice
from evenly.costs.report import InstanceReport
from evenly.costs.rounds import joined
from evenly.costs.scheduler import BatchDecision
from evenly.errors import InvalidParameter
from evenly.facts.of_costs import cost_batch
from evenly.instances import ChosenInstances
from evenly.kernels.types import F64
from evenly.measures.load import imbalance_pct
from evenly.notebook import shown
from evenly.numbers import plain
from evenly.spark.costs.candidates import by_best_key
from evenly.spark.job_facts import JobFacts
from evenly.spark.jvm.observed import is_observed
from evenly.spark.remembering.costs import CostMemory
from evenly.worker.executing import REPORT

_BATCHES = 64


@dataclass(frozen=True, eq=False)
class WatchedBatch:
    """A batch of a stream: its number, how it was dealt, and what its instances reported."""

    batch_id: int
    decision: BatchDecision
    reports: tuple[InstanceReport, ...]

    @property
    def imbalance_pct(self) -> float:
        """λ of the measured work of its partitions."""
        return imbalance_pct([report.busy_s for report in self.reports]) if self.reports else 0.0


class CostWatch:
    """Give it to `apply_by_cost(..., watch=watch)`; it is filled by the first action on the result.

        watch = evenly.CostWatch()
        evenly.apply_by_cost(df, fetch, "size long", cost_key="host", instances=16, watch=watch).write.parquet("/data/sizes")
        watch.imbalance_pct, watch.costs.save("costs.json")

    Of `stream_apply_by_cost` it holds the last batches (`batches`), and all else is of the last one.

    A watch serves one call. Retries and speculation count no row twice. Before the action there are no reports, only the
    `decision`; an action that reads a part only (`limit`, `show`) may leave out reports.
    """

    def __init__(self) -> None:
        self._observation: Any = None
        self._ran: DataFrame | None = None
        self._model = CostModel()
        self._candidates: dict[str, str] = {}
        self._decision = DealingChoice()
        self._known: tuple[InstanceReport, ...] | None = None
        self._learnt: CostModel | None = None
        self._batches: deque[WatchedBatch] = deque(maxlen=_BATCHES)
        self._kept: CostMemory | None = None
        self._over = ChosenInstances(0, "")
        self._facts = JobFacts("apply_by_cost")

    def over(self, chosen: ChosenInstances) -> None:
        """So many instances were asked for, or chosen."""
        self._over = chosen

    @property
    def instances(self) -> int:
        """Over how many instances the rows are; 0 if this watch was given to no call yet."""
        return self._over.number

    @property
    def chosen(self) -> str:
        """Why there are so many, if `instances="auto"` chose their number."""
        return self._over.why

    def keep_in(self, kept: CostMemory) -> None:
        """Have what is measured written there, too."""
        self._kept = kept

    def observe(
        self, ran: DataFrame, model: CostModel, *, decision: DealingChoice, candidates: dict[str, str] | None = None
    ) -> DataFrame:
        """`ran` with the observation of its reports; `model` is what was known before. With `candidates`, each with its
        type, none was the key yet, and reports tell what rows cost beside the ids of each."""
        if self._observation is not None:
            raise InvalidParameter("this watch was given to another call of apply_by_cost: make one for each call")
        name = f"evenly_costs_{uuid4().hex}"
        self._observation = Observation(name)
        self._model, self._decision, self._candidates, self._ran = model.copy(), decision, candidates or {}, ran
        if self._kept is not None:
            before = self._model.copy()

            def learnt(told: tuple[InstanceReport, ...]) -> tuple[CostModel, float]:
                reports = self._placed(told)
                self._tell(reports)
                return _learnt(before, candidates or {}, reports), imbalance_pct(_busy_s(reports))

            self._kept.await_reports(name, learnt)
        else:
            self._facts.await_reports(ran.sparkSession, name, lambda told: self._tell(self._placed(_read(told))))
        return ran.observe(self._observation, F.expr(f"collect_list({REPORT}) as {REPORT}"))

    def take(self, batch_id: int, decision: BatchDecision, reports: Sequence[InstanceReport], model: CostModel) -> None:
        """A batch of a stream has ended."""
        self._known, self._learnt = _numbered(list(reports)), model.copy()
        self._batches.append(WatchedBatch(batch_id, decision, self._known))

    @property
    def batches(self) -> tuple[WatchedBatch, ...]:
        """The last batches of a stream (at most 64), oldest first."""
        return tuple(self._batches)

    @property
    def ready(self) -> bool:
        """Whether an action has filled it."""
        return self._scheduled() is not None

    @property
    def decision(self) -> DealingChoice:
        """Whether rows are dealt by cost, why, and the figures behind it. Of a stream: see `batches`."""
        return self._decision

    @property
    def reports(self) -> tuple[InstanceReport, ...]:
        """The report of every instance; in pieces that of every piece, and its instance is the slot that ran it."""
        return self._scheduled() or ()

    @property
    def costs(self) -> CostModel:
        """All that is known of costs: the model that the run began with, and what it measured.

        If no cost key was named, it is a model of the column that predicts the cost best; of none, if none does.
        """
        if self._learnt is None:
            told = self._scheduled()
            if told is None:
                return self._model.copy()
            self._learnt = _learnt(self._model, self._candidates, told)
        return self._learnt.copy()

    @property
    def busy_s(self) -> F64:
        """The measured work of each instance."""
        return _busy_s(self.reports, self._over.number if self.reports and self._decision.way == "in pieces" else 0)

    @property
    def imbalance_pct(self) -> float:
        """λ of `busy_s`; 0 if nothing was measured."""
        busy_s = self.busy_s
        return imbalance_pct(busy_s) if busy_s.size else 0.0

    @property
    def mean_completion_s(self) -> float:
        """The mean over the rows of their end, since the first row began; 0 if there is none."""
        told = [report for report in self.reports if report.rows]
        begun_s = min((report.first_s for report in told), default=0.0)
        rows = sum(report.rows for report in told)
        return sum(report.completion_s + report.rows * (report.first_s - begun_s) for report in told) / rows if rows else 0.0

    def _repr_html_(self) -> str:
        """What a notebook shows; it runs nothing."""
        facts: dict[str, object] = {"decision": self.batches[-1].decision.reason if self.batches else self.decision.reason}
        if not self.ready:
            return shown("CostWatch", facts | {"measured": "nothing yet: it is filled by the first action on the result"})
        facts |= {
            "rows": f"{sum(report.rows for report in self.reports):,}",
            "λ of the measured work": f"{self.imbalance_pct:.1f} %",
            "mean completion of a row": f"{plain(self.mean_completion_s)} s",
        }
        return shown("CostWatch", facts, {"measured work": self.busy_s.tolist()})

    def _scheduled(self) -> tuple[InstanceReport, ...] | None:
        if self._known is None and self._ran is not None and is_observed(self._observation, self._ran):
            told = self._observation.get.get(REPORT)
            if told is not None:
                self._ran = None
                self._known = self._placed(_read([bytes(data) for data in told]))
                self._tell(self._known)
        return self._known

    def _placed(self, reports: Sequence[InstanceReport]) -> tuple[InstanceReport, ...]:
        return _numbered(joined(reports, self._over.number) if self._decision.way == "in pieces" else reports)

    def _tell(self, reports: Sequence[InstanceReport]) -> None:
        if reports:
            self._facts.tell(lambda _: cost_batch(0, reports))


def _busy_s(reports: Sequence[InstanceReport], instances: int = 0) -> F64:
    """The work of each instance, of so many at least."""
    busy_s = np.zeros(max([instances, *(report.instance + 1 for report in reports)]))
    for report in reports:
        busy_s[report.instance] += report.busy_s
    return busy_s


def _learnt(model: CostModel, candidates: dict[str, str], told: tuple[InstanceReport, ...]) -> CostModel:
    """What is known after a run: what was known before, and what it reported."""
    return by_best_key(told, candidates) if candidates else model.copy().learn_all(told)


def _read(told: Sequence[bytes]) -> list[InstanceReport]:
    return [InstanceReport.from_bytes(data) for data in told]


def _numbered(reports: Sequence[InstanceReport]) -> tuple[InstanceReport, ...]:
    """Reports by instance, from 0 on: in a union the partitions of a stage are counted after those of others."""
    first = min((report.instance for report in reports), default=0)
    return tuple(sorted((replace(it, instance=it.instance - first) for it in reports), key=lambda it: it.instance))
