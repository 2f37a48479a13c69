"""A Python function over the rows of a stream, with all instances busy to the end of each micro-batch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenly.checks import has_only_begun, only_begins
from evenly.costs.call_options import ONE_ROW_AT_A_TIME, CallOptions
from evenly.costs.model import CostModel
from evenly.costs.report import may_fail_otherwise
from evenly.errors import FunctionFailed, InvalidParameter, StreamingMismatch, WorkerDied
from evenly.instances import Instances
from evenly.spark.costs.apply_by_cost import Costs, check_watch, chosen_key, loaded
from evenly.spark.costs.cost_batches import CostBatches, RanBatch
from evenly.spark.costs.cost_facts import CostFacts
from evenly.spark.costs.key_types import checked_types
from evenly.spark.costs.options import CostKey, Objective, StageOptions, slots_for
from evenly.spark.costs.row_ids import cost_key_types, with_id
from evenly.spark.costs.runs_read import RunsRead, may_contradict, runs_of
from evenly.spark.costs.skipped import failed_rows, good_rows
from evenly.spark.costs.stage import CallStage, reports_of, results_of
from evenly.spark.costs.store import CostStore
from evenly.spark.costs.watch import CostWatch
from evenly.spark.features import Feature, require
from evenly.spark.frames import check_frame
from evenly.spark.streaming.newest_run import NewestRun
from evenly.spark.streaming.query_settings import QuerySettings, Trigger
from evenly.spark.streaming.running_query import RunningQuery, teller_of

_LOG = logging.getLogger(__name__)
_HANDED_OVER = 3
Sink = Callable[[DataFrame, int], None]
"""Writes the results of a batch. It may be called again with the same batch number, after a restart, or where an executor was
lost while dead letters and results were written: then it must replace."""


def stream_apply_by_cost(
    rows: DataFrame,
    function: Callable[[Any], Any],
    schema: StructType | str,
    *,
    cost_key: CostKey | None = None,
    instances: Instances,
    sink: Sink,
    checkpoint: str | Path,
    trigger: Trigger | None = None,
    query_name: str | None = None,
    costs: Costs | None = None,
    dead_letters: Sink | None = None,
    objective: Objective = "completion",
    call: CallOptions = ONE_ROW_AT_A_TIME,
    routers: int | None = None,
    watch: CostWatch | None = None,
) -> RunningQuery:
    """Start a query that runs `function` on every row of a stream, in `instances` tasks per batch with the same work each.

        def sink(results, batch_id):
            results.write.mode("overwrite").parquet(f"/data/sizes/batch={batch_id}")

        query = evenly.stream_apply_by_cost(
            rows, fetch, "size long", cost_key="host", instances=16, sink=sink, checkpoint="/data/checkpoint"
        )

    Each batch is run once into a persisted result, then `sink(results, batch_id)` is called, then what was measured is saved
    beside the checkpoint, then the batch is committed. A restart goes on with what was learnt. A batch that is run again
    (the driver died before the commit) is not counted twice, and gives the sink the same batch number. Costs that cannot be
    saved end no query: that is one warning, and the next batch saves them too.

    - `instances="auto"` is decided at every start, and logged: nothing that a restart needs depends on the number.
    - `function`, `schema` and the options are those of `apply_by_cost`; `cost_key` may only be left out if `costs` has it.
    - `trigger`: what `writeStream.trigger` takes, `{"availableNow": True}` or `{"processingTime": "10 seconds"}`. `query_name`:
      how Spark calls the query.
    - `costs`: what to begin with; a checkpoint that exists has its own, unless the cost key is another one now, or
      has another type.
    - `dead_letters(letters, batch_id)` gets the rows that failed (`failed_rows`), and `sink` only the others; it needs
      `on_error="skip"`. It is called before `sink`. Where results were lost with an executor meanwhile, and computed again, or
      Spark has those of a task and of its speculative copy, both are called once more: a row is in one of the two, whatever
      its function does the second time.
    - `watch`: a `CostWatch` that holds the reports of the last batches.

    The first batch is dealt evenly, later ones by cost where that pays. An executor that is slower than others
    gets less from the batch on that follows its first reports. Classic sessions only.
    """
    check_frame(rows, "rows")
    if not rows.isStreaming:
        raise StreamingMismatch("stream_apply_by_cost needs a streaming DataFrame: use apply_by_cost for a batch")
    spark = rows.sparkSession
    require(spark, Feature.FOLDERS, by="stream_apply_by_cost", remedy="Use apply_by_cost inside foreachBatch")
    settings = QuerySettings.checked(rows, checkpoint, trigger, query_name)
    chosen = slots_for(spark, instances)
    options = StageOptions(chosen.number, objective, routers, call)
    check_watch(watch)
    if watch is not None:
        watch.over(chosen)
    for name, called in (("sink", sink), ("dead_letters", dead_letters)):
        if not callable(called) and not (name == "dead_letters" and called is None):
            raise InvalidParameter(f"{name} must be a function of the results and the batch's number, got {called!r}")
        if called is not None and only_begins(called):
            raise InvalidParameter(f"{name} is an async function or a generator, which nobody would run: make it a plain one")
    if dead_letters is not None and not call.skip:
        raise InvalidParameter(
            "dead_letters is given, but the first row that fails ends the query: add call=evenly.CallOptions(on_error='skip')"
        )
    model = None if costs is None else loaded(costs, spark)
    expressions = chosen_key(cost_key, model)
    if not expressions:
        raise InvalidParameter("cost_key is not given: name the column that the cost depends on; recommend_cost_key finds it")
    with_id(rows, expressions)  # a key that is not there is an error now, not in the first batch
    types = cost_key_types(rows, expressions)
    model = CostModel(expressions, types=types) if model is None else checked_types(model, types)
    stage = CallStage.of(rows, function, schema, options)
    store = CostStore(spark, settings.checkpoint)
    batches = CostBatches(stage, store, model, called="stream_apply_by_cost")
    written = _Written(batches, sink, dead_letters, watch, NewestRun(spark, settings.checkpoint))
    written.facts = CostFacts(teller_of("cost"), options.instances)
    writer = rows.writeStream.foreachBatch(written.run).option("checkpointLocation", settings.checkpoint)
    query = RunningQuery(settings.applied(writer).start())
    return query.begin_telling(spark, written.facts.teller, instances=options.instances)


class _Written:
    """Runs the batches of a query, hands each to its sinks, and keeps what it measured."""

    def __init__(
        self, batches: CostBatches, sink: Sink, dead_letters: Sink | None, watch: CostWatch | None, newest: NewestRun
    ) -> None:
        self._newest = newest
        self._batches = batches
        self._sink = sink
        self._dead_letters = dead_letters
        self._watch = watch
        self.facts: CostFacts | None = None

    def run(self, df: DataFrame, batch_id: int) -> None:
        """One batch: run, measured, handed to the sink, saved."""
        begun_s = perf_counter()
        self._newest.begin()
        batch = self._batches.run(df, batch_id)
        try:
            self._newest.check()
            self._hand_over(batch)
            self._newest.check()
            self._batches.keep(batch)
        finally:
            batch.release()
        if self._watch is not None:
            self._watch.take(batch_id, batch.decision, batch.reports, batch.scheduler.model)
        if self.facts is not None:
            self.facts.batch(batch, perf_counter() - begun_s)

    def _hand_over(self, batch: RanBatch) -> None:
        """Give the results to the sink, and those that failed to the other: of one run, so that each row is in one of them.

        What is persisted is gone with its executor, and Spark then runs that part once more; or it is there twice, of a task
        and its speculative copy. A row that fails in one run and not in the other would be in neither or in both.
        """
        ran, number, reports = batch.ran, batch.number, batch.reports
        if self._dead_letters is None:
            _write("sink", self._sink, batch.results, number)
            return
        for _ in range(_HANDED_OVER):
            failed, good = RunsRead(ran), RunsRead(ran)
            _write("dead_letters", self._dead_letters, failed_rows(results_of(failed.rows)), number)
            _write("sink", self._sink, good_rows(results_of(good.rows)), number)
            before, reports = reports, reports_of(ran)
            if may_fail_otherwise(before, reports):
                _LOG.warning("batch %d was partly run again while it was written, and is handed to its sinks once more", number)
            elif may_contradict(failed.told(), good.told(), runs_of([*before, *reports])):
                _LOG.warning(
                    "batch %d had results of two runs of a task: it is run again, and handed to its sinks once more", number
                )
                ran.unpersist(blocking=True)
                reports = reports_of(ran.persist())
            else:
                return
        raise WorkerDied(
            f"the results of batch {number} were lost and computed again {_HANDED_OVER} times while dead_letters and sink "
            "wrote them, so a row may be in both or in neither: see why executors end, or why the cache is cleared, and start "
            "the query again, which runs the batch anew"
        )


def _write(name: str, sink: Callable[[DataFrame, int], object], rows: DataFrame, number: int) -> None:
    """Call a sink, which is to have written the rows when it returns: else the batch would be committed without them."""
    if has_only_begun(gave := sink(rows, number)):
        raise FunctionFailed(f"{name} has written nothing yet of batch {number}, it gave {gave!r}: make it a plain function")
