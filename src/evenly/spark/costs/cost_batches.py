"""The micro-batches of a function over rows of unequal cost: each dealt by what those before it measured."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from evenly.costs.batch_memory import BatchMemory
from evenly.costs.model import CostModel
from evenly.costs.report import InstanceReport
from evenly.costs.scheduler import BatchDecision, CostScheduler
from evenly.spark.costs.key_types import of_these_types
from evenly.spark.costs.row_ids import with_id
from evenly.spark.costs.stage import CallStage, reports_of, results_of
from evenly.spark.costs.store import CostStore
from evenly.spark.jvm.java_errors import Py4JError
from evenly.spark.jvm.observed import is_observed
from evenly.spark.jvm.sizes import size_of
from evenly.worker.executing import REPORT

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class RanBatch:
    """A batch that was run and is persisted, until it is released; or, with an `observation`, one that whoever reads its
    results runs, once and whole."""

    number: int
    ran: DataFrame
    decision: BatchDecision
    scheduler: CostScheduler
    reports: list[InstanceReport] = field(default_factory=list)
    observation: Any = None

    @property
    def results(self) -> DataFrame:
        """What the function gave."""
        return results_of(self.ran)

    def end(self) -> None:
        """Its results are written: take in what was observed meanwhile, if anything was."""
        if self.observation is not None and is_observed(self.observation, self.ran):
            self.reports.extend(InstanceReport.from_bytes(bytes(told)) for told in self.observation.get[REPORT])
            self.scheduler.report(self.number, self.reports)

    def release(self) -> None:
        """It is not needed any more."""
        if self.observation is None:
            self.ran.unpersist()


class CostBatches:
    """Runs one batch after the other; what is known of costs is in memory, and in the checkpoint for a restart."""

    def __init__(self, stage: CallStage, store: CostStore, model: CostModel, *, called: str) -> None:
        self._stage, self._store, self._model, self._called = stage, store, model, called
        self._memory = BatchMemory(stage.options.instances, model)

    def set_threads(self, threads: int) -> None:
        """So many calls at once in each task, from the next batch on."""
        work, options = self._stage.work, self._stage.options
        if work.calls.threads != threads:
            call = replace(options.call, threads=threads)
            calls = replace(work.calls, threads=threads)
            self._stage = replace(self._stage, work=replace(work, calls=calls), options=replace(options, call=call))

    def run(self, df: DataFrame, number: int, *, persisted: bool = True) -> RanBatch:
        """The function over a batch, measured.

        Not `persisted`, it runs when its results are read, which must be once, and all of them: no job of its own and no
        copy, but what it measured is known at its `end` only.
        """
        scheduler = self._memory.begin(number, self._saved_below)
        expressions, options = self._model.expressions, self._stage.options
        size = size_of(df)
        decision = scheduler.decide(
            number,
            row_bytes=size.row_bytes,
            slots=size.slots,
            objective=options.objective,
            ways=self._stage.ways(df),
        )
        _LOG.info("%s, batch %d, %d instances: %s", self._called, number, options.instances, decision.reason)
        if decision.even:
            ran = self._stage.evenly(with_id(df, expressions), time_every=decision.time_every)
        else:
            keyed = with_id(df, expressions, order=options.order)
            ran = self._stage.by_cost(keyed, decision.model, shares=decision.shares, way=decision.way)
        if not persisted:
            observation = Observation()
            ran = ran.observe(observation, F.expr(f"collect_list({REPORT}) as {REPORT}"))
            return RanBatch(number, ran, decision, scheduler, observation=observation)
        ran = ran.persist()
        try:
            reports = reports_of(ran)
            scheduler.report(number, reports)
        except BaseException:
            ran.unpersist()
            raise
        return RanBatch(number, ran, decision, scheduler, reports)

    def _saved_below(self, number: int) -> CostScheduler | None:
        """What the checkpoint has from before a batch, if it is of a key of these types: of others no row finds its cost."""
        saved, model = self._store.before(number), self._model
        if saved is None or saved.model.expressions != model.expressions:
            return None
        if not of_these_types(saved.model, model.types):
            _LOG.warning(
                "%s: costs in the checkpoint are of a key of (%s), which is (%s) now, so they are learnt anew",
                self._called,
                ", ".join(saved.model.types),
                ", ".join(model.types),
            )
            return None
        saved.model = saved.model.typed(model.types)
        return saved

    def keep(self, batch: RanBatch) -> None:
        """The results of a batch are written: what it measured is for the next, also after a restart."""
        try:
            self._store.save(batch.number, batch.scheduler)
        except (PySparkException, Py4JError, OSError) as error:
            if self._memory.not_saved():
                _LOG.warning(
                    "the costs of batch %d could not be saved, and will be with those of the next: %s",
                    batch.number,
                    str(error).strip().splitlines()[0],
                )
        else:
            self._memory.saved()
