"""A dataflow as one streaming query, or once over a table."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from evenly.costs.call_options import CallOptions
from evenly.costs.model import CostModel
from evenly.dataflow.builder import Flow
from evenly.dataflow.files import read_dataflow
from evenly.dataflow.formats import FILES, SENT, check_once
from evenly.dataflow.graph import Dataflow, Operator
from evenly.dataflow.stages import Stage, only_source, stages_of
from evenly.errors import InvalidDataflow, InvalidParameter
from evenly.spark.costs.cost_batches import CostBatches, RanBatch
from evenly.spark.costs.options import StageOptions, checked_key
from evenly.spark.costs.stage import CallStage
from evenly.spark.costs.store import CostStore
from evenly.spark.flows.ends import check_sink, read, write
from evenly.spark.flows.frames import Frames, checked_frame, default_instances
from evenly.spark.flows.functions import loaded
from evenly.spark.flows.owning import check_paths, claim, name_of_query
from evenly.spark.flows.sent import Outbox
from evenly.spark.flows.watch import FlowWatch, Reports
from evenly.spark.session import local_session
from evenly.spark.streaming.query_settings import QuerySettings, Trigger
from evenly.spark.streaming.running_query import RunningQuery
from evenly.spark.streaming.stream_by_key import stream_by_key
from evenly.spark.worker_errors import worker_errors

_LOG = logging.getLogger(__name__)


def run(
    flow: Dataflow | Flow | str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    checkpoint: str | Path | None = None,
    trigger: Trigger | None = None,
    query_name: str | None = None,
    watch: FlowWatch | None = None,
    exactly_once: bool = False,
) -> RunningQuery | None:
    """Run a dataflow on Spark: with a `checkpoint` as a streaming query, which is returned; without one once, as a batch.

        df.select("host").write.parquet("/data/urls")
        flow = evenly.Flow("sizes")
        urls = flow.source("urls", format="parquet", path="/data/urls")
        urls.shuffle(instances=16).row(fetch, schema="size long", threads=8).sink("kept", format="parquet", path="/data/sizes")
        query = evenly.run(flow, spark=spark, checkpoint="/data/checkpoint")
        query.awaitTermination()

    - `flow`: a `Dataflow`, a `Flow` that was built in Python, or the path of a YAML file (`evenly.dataflow.files`).
    - `spark`: your session; None: one on this machine, and under spark-submit the one that it has set up.
    - `trigger`, `query_name`: those of the query.
    - `watch`: a `FlowWatch` that says what each batch and its operators took.
    - `exactly_once`: refuse sinks that may get a row twice.

    Operators of rows and batches that forward edges join run in one Python worker, each with its threads; what several edges
    read is computed once. All sinks are written within a batch, one after the other. Sinks that are files have a folder for
    each batch of a stream (`batch=7`), written anew if Spark runs a batch again, so every row is in them once. Tables and
    other formats are appended to, at least once. An operator with state is a keyed query (`stream_by_key`): what is before it
    must be one line. A query that was stopped goes on where it was, with the functions as they are then.

    Whatever is wrong with the description is said before anything runs.
    """
    described = _described(flow)
    stages = stages_of(described)
    if exactly_once:
        check_once(described)
    for one in described.operators:
        if one.kind == "sink":
            check_sink(described, one)
        if one.function:
            _load(described, one)
    session = _session(described.name) if spark is None else spark
    check_paths(session, described)
    if checkpoint is not None:
        return _Streaming(described, stages, session, checkpoint, trigger, query_name, watch).start()
    if trigger is not None or query_name is not None:
        raise InvalidParameter("trigger and query_name are of a streaming query: give its checkpoint= too")
    if any(one.kind == "state" for one in described.operators):
        raise InvalidParameter("an operator with state is for a stream: give checkpoint=, or group in a `frame` operator")
    _run_once(described, stages, session, watch)
    return None


def _load(flow: Dataflow, one: Operator) -> None:
    try:
        loaded(one)
    except InvalidDataflow as error:
        raise flow.error(f"the function of {one.name!r}: {error}", one) from error


def _session(name: str) -> SparkSession:
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # set by spark-submit, which knows master and settings
        return SparkSession.Builder().appName(name).getOrCreate()
    return local_session(name)


def _described(flow: Dataflow | Flow | str | os.PathLike[str]) -> Dataflow:
    if isinstance(flow, Flow):
        return flow.dataflow()
    if isinstance(flow, Dataflow):
        return flow
    if isinstance(flow, (str, os.PathLike)):
        return read_dataflow(flow)
    raise InvalidParameter(f"flow must be a Dataflow, a Flow or the path of a YAML file, got {flow!r}")


def _run_once(flow: Dataflow, stages: tuple[Stage, ...], spark: SparkSession, watch: FlowWatch | None) -> None:
    sources = [one for one in flow.operators if one.kind == "source"]
    begun = {one.name: read(spark, flow, one, streaming=False) for one in sources}
    _write(Frames(flow, stages, begun, reports=None if watch is None else Reports()), None, watch)


def _write(frames: Frames, number: int | None, watch: FlowWatch | None, outbox: Outbox | None = None) -> None:
    """Write all sinks, of a batch of this number."""
    begun = perf_counter()
    try:
        with worker_errors():
            for name, rows in frames.of_sinks().items():
                write(frames.flow, frames.flow.by_name[name], rows, number, outbox)
        seconds = perf_counter() - begun
        if watch is not None and frames.reports is not None:
            watch.take(number, seconds, frames.reports.told())
    finally:
        frames.release()


class _Streaming:
    """A dataflow as a query: what is before its state is the query's own, all else is run in each micro-batch."""

    def __init__(
        self,
        flow: Dataflow,
        stages: tuple[Stage, ...],
        spark: SparkSession,
        checkpoint: str | Path,
        trigger: Trigger | None,
        query_name: str | None,
        watch: FlowWatch | None,
    ) -> None:
        self._flow, self._stages, self._watch = flow, stages, watch
        self._source = only_source(flow)
        self._rows = read(spark, flow, self._source, streaming=True)
        self._settings = QuerySettings.checked(self._rows, checkpoint, trigger, query_name)
        self._batches: dict[str, CostBatches] = {}
        self._outbox: Outbox | None = None

    def start(self) -> RunningQuery:
        """The query, started."""
        state = next((stage for stage in self._stages if stage.kind == "state"), None)
        if state is None:
            self._check_frames(self._source.name, self._rows)
            self._claim()
            writer = self._writer(self._rows, self._source.name).option("checkpointLocation", self._settings.checkpoint)
            return RunningQuery(self._settings.applied(writer).start())
        rows, edge, one = self._before(state), state.inputs[0], self._flow.by_name[state.operators[0]]
        settings = self._settings
        self._claim()

        def build(placed: DataFrame) -> DataStreamWriter:
            return self._writer(checked_frame(loaded(one)(placed), one), one.name).outputMode("update")

        return stream_by_key(
            rows,
            build,
            key=list(edge.columns),
            instances=edge.instances or default_instances(rows.sparkSession),
            checkpoint=settings.checkpoint,
            trigger=settings.trigger,
            query_name=settings.query_name,
        )

    def _claim(self) -> None:
        spark = self._rows.sparkSession
        owner = name_of_query(spark, self._settings.checkpoint)
        self._outbox = Outbox(self._settings.checkpoint, owner)
        for one in self._flow.operators:
            if one.kind == "sink" and one.format in FILES:
                claim(spark, self._flow, one, owner)
            if one.kind == "sink" and one.format in SENT:
                self._outbox.check_alone(spark, one)

    def _before(self, state: Stage) -> DataFrame:
        """What leads to the state, one stage after the other."""
        frames = Frames(self._flow, self._stages, {})
        rows = self._rows
        for stage in self._stages[1 : self._stages.index(state)]:
            rows = frames.leaving(stage, frames.grouped(stage.inputs[0], rows))
        return frames.grouped(state.inputs[0], rows)

    def _check_frames(self, begun: str, rows: DataFrame) -> None:
        """Make the frames of a batch without rows, so that a wrong schema or column is said before anything runs."""
        nothing = rows.sparkSession.createDataFrame([], rows.schema)
        frames = Frames(self._flow, self._stages, {begun: nothing})
        try:
            frames.of_sinks()
        finally:
            frames.release()

    def _writer(self, rows: DataFrame, name: str) -> DataStreamWriter:
        return rows.writeStream.foreachBatch(lambda batch, number: self._run_batch(name, batch, number))

    def _run_batch(self, begun: str, rows: DataFrame, number: int) -> None:
        done = dict.fromkeys(self._done_before(begun), rows)  # nothing reads what is before the state
        ran: dict[str, RanBatch] = {}

        def by_cost(name: str, entering: DataFrame) -> DataFrame:
            if name not in self._batches:
                self._batches[name] = self._cost_batches(name, entering)
            ran[name] = self._batches[name].run(entering, number)
            return ran[name].results

        try:
            reports = None if self._watch is None else Reports()
            frames = Frames(self._flow, self._stages, {**done, begun: rows}, by_cost, reports)
            _write(frames, number, self._watch, self._outbox)
            for name, batch in ran.items():
                self._batches[name].keep(batch)
        finally:
            for batch in ran.values():
                batch.release()

    def _cost_batches(self, name: str, rows: DataFrame) -> CostBatches:
        one, edge = self._flow.by_name[name], self._flow.into[name][0]
        instances = edge.instances or default_instances(rows.sparkSession)
        options = StageOptions(instances, call=CallOptions(threads=one.threads or 1))
        stage = CallStage.of(rows, loaded(one), one.schema, options)
        store = CostStore(self._rows.sparkSession, self._settings.checkpoint, name)
        return CostBatches(stage, store, CostModel(checked_key(list(edge.columns))), called=f"{self._flow.name}, {name}")

    def _done_before(self, name: str) -> list[str]:
        """The operators of which the streaming part of the query has taken care."""
        found: list[str] = []
        while into := self._flow.into[name]:
            name = into[0].start
            found.append(name)
        return found
