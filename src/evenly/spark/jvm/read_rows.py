"""How many rows each partition of a query's keyed stage has read, from Spark's own metrics of its tasks."""

from __future__ import annotations

import json
import time
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evenly.spark.jvm.plan_roles import column_name

_WAIT_S = 2.0  # metrics of tasks and progress of queries are told by two threads of Spark
_POLL_S = 0.02
_MOST_MISSED = 3


class ReadRows:
    """Answers for the batches of one run of a query. Nothing here may fail a query: what is not to be had is None."""

    def __init__(
        self, spark: SparkSession, query: StreamingQuery, instances: int, groupings: tuple[tuple[str, ...], ...]
    ) -> None:
        self._query, self._instances, self._groupings = query, instances, groupings
        self._context: Any = spark.sparkContext._jsc.sc()
        self._jvm: Any = spark._jvm
        self._json: Any = None
        self._place: int | None = None
        self._missed = 0

    def of(self, batch: int) -> tuple[int, ...] | None:
        """The rows that each partition has read in a batch that has ended."""
        try:
            rows = self._of(batch)
        except (Py4JError, AttributeError, LookupError, TypeError, ValueError):
            rows = None
        self._missed = 0 if rows is not None else self._missed + 1
        return rows

    def _of(self, batch: int) -> tuple[int, ...] | None:
        # A query whose jobs are not found is not waited for again and again.
        deadline = time.monotonic() + (_WAIT_S if self._missed < _MOST_MISSED else 0.0)
        while True:
            reading = self._reading_stages(batch)
            if reading:
                break
            if reading is not None or time.monotonic() > deadline:
                return None
            time.sleep(_POLL_S)
        found = [stage for stage in reading if stage.numTasks() == self._instances]
        if len(found) == 1:
            return self._rows(found[0])
        if self._place is None:
            plan = self._query._jsq.streamingQuery().lastExecution().executedPlan()
            self._place = _place(_chain(plan), self._groupings)
        return self._rows(reading[self._place]) if self._place is not None and self._place < len(reading) else None

    def _reading_stages(self, batch: int) -> list[Any] | None:
        """The stages of a batch that read a shuffle, in the order in which they ran; None while it may not have ended."""
        store = self._context.statusStore()
        jobs = sorted(self._context.statusTracker().getJobIdsForGroup(str(self._query.runId)), reverse=True)
        found: dict[int, Any] = {}
        seen = False
        for number in jobs:
            job = store.job(number)
            told = str(job.description().get()) if job.description().isDefined() else ""
            at = int(told.rsplit("batch = ", 1)[1]) if told.rsplit("batch = ", 1)[-1].isdigit() else -1
            if at < batch:
                break
            if at > batch:
                continue
            if job.status().toString() != "SUCCEEDED":
                return None
            seen = True
            # An action that runs the batch once more is the same again: the first job counts.
            stages = [store.lastStageAttempt(job.stageIds().apply(place)) for place in range(job.stageIds().size())]
            ran = {int(it.stageId()): it for it in stages if it.status().toString() == "COMPLETE"}
            reading = {number: it for number, it in ran.items() if it.shuffleReadRecords() > 0}
            found = reading or found
        return [found[number] for number in sorted(found)] if seen else None

    def _rows(self, stage: Any) -> tuple[int, ...] | None:
        if self._json is None:
            scala = getattr(self._jvm.com.fasterxml.jackson.module.scala, "DefaultScalaModule$")
            self._json = self._jvm.com.fasterxml.jackson.databind.ObjectMapper().registerModule(getattr(scala, "MODULE$"))
        # One call, whatever the number of tasks.
        tasks = self._context.statusStore().taskList(stage.stageId(), stage.attemptId(), 2**31 - 1)
        rows = {
            task["partitionId"]: task["taskMetrics"]["shuffleReadMetrics"]["recordsRead"]
            for task in json.loads(self._json.writeValueAsString(tasks))
            if task["status"] == "SUCCESS"
        }
        return tuple(rows[at] for at in range(self._instances)) if len(rows) == self._instances else None


Chain = list[tuple[str, ...]] | None
"""What the stages of a plan that read a shuffle have it hashed by, in the order in which they run; None if not known."""


def _chain(plan: Any) -> Chain:
    shuffles = list(_shuffles(plan))
    below = [_chain(shuffle.child()) for shuffle in shuffles]
    if not shuffles:
        return []
    here = [_hashed_by(shuffles[0])]
    if len(shuffles) == 1:
        return None if below[0] is None else below[0] + here
    return here if all(part == [] for part in below) else None


def _shuffles(plan: Any) -> list[Any]:
    """The shuffles that a stage reads."""
    kind = plan.getClass().getSimpleName()
    if kind == "ShuffleExchangeExec":
        return [plan]
    children = plan.children()
    return [found for at in range(children.size()) for found in _shuffles(children.apply(at))]


def _hashed_by(shuffle: Any) -> tuple[str, ...]:
    partitioning = shuffle.outputPartitioning()
    if "HashPartitioning" not in partitioning.getClass().getSimpleName():
        return ()
    columns = partitioning.expressions()
    return tuple(column_name(columns.apply(at)) for at in range(columns.size()))


def _place(chain: Chain, groupings: tuple[tuple[str, ...], ...]) -> int | None:
    """The first stage that is hashed by one of these groupings."""
    return next((at for at, names in enumerate(chain or []) if names in groupings), None)
