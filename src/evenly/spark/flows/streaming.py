"""A dataflow as a streaming query: what is before its state is the query's own, all else is run in each micro-batch."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from evenly.costs.call_options import CallOptions
from evenly.costs.model import CostModel
from evenly.dataflow.ends import CONSOLE, FILES, REPLAY, SENT
from evenly.dataflow.graph import Dataflow, Operator
from evenly.dataflow.stages import Stage, forwarded_to_sink, only_source
from evenly.errors import WorkerDied
from evenly.facts.emitting import is_emitting
from evenly.facts.of_flows import graph_of
from evenly.planning.micro_batches import SparkPlan
from evenly.spark.costs.cost_batches import CostBatches, RanBatch
from evenly.spark.costs.options import Objective, StageOptions, checked_key
from evenly.spark.costs.row_ids import cost_key_types
from evenly.spark.costs.stage import CallStage
from evenly.spark.costs.store import CostStore
from evenly.spark.flows.costed import costed_call, costed_rows
from evenly.spark.flows.edge_mappings import EdgeMappings
from evenly.spark.flows.ends import StreamBatch, check_columns, kept_of, read, sender_of, write
from evenly.spark.flows.flow_facts import FlowFacts
from evenly.spark.flows.frames import Frames, called_frame, default_instances
from evenly.spark.flows.owning import check_source, claim, name_of_query, sweep
from evenly.spark.flows.progress import Ended, ended, with_arrivals
from evenly.spark.flows.same_rows import SameRows
from evenly.spark.flows.steering import Steering, capped
from evenly.spark.flows.watch import FlowWatch, OfCosts, Reports
from evenly.spark.flows.whole_batch import WholeBatch
from evenly.spark.jvm.session_slots import session_slots
from evenly.spark.streaming.mapping_store import begun_instances
from evenly.spark.streaming.newest_run import NewestRun
from evenly.spark.streaming.query_settings import QuerySettings, Trigger
from evenly.spark.streaming.running_query import RunningQuery, teller_of
from evenly.spark.streaming.stream_by_key import stream_by_key
from evenly.spark.worker_errors import worker_errors

_LOG = logging.getLogger(__name__)
_WRITTEN = 3
_SECONDS = re.compile(r"\s*(?:interval\s+)?(\d+(?:\.\d+)?)\s*(ms|millisecond|second|minute|hour)s?\s*", re.IGNORECASE)
_UNITS_S = {"ms": 1e-3, "millisecond": 1e-3, "second": 1.0, "minute": 60.0, "hour": 3600.0}


def write_sinks(frames: Frames, batch: StreamBatch | None, watch: FlowWatch | None) -> Sequence[str]:
    """Write all sinks, of a batch of a stream or of the only one.

    Returns of which operators some sinks have got other rows than others: then none of a stream that sends has sent any, and
    all are to be written again.
    """
    begun, flow, number = perf_counter(), frames.flow, None if batch is None else batch.number
    same = frames.same = SameRows()
    try:
        with worker_errors():
            found = [(flow.by_name[name], rows) for name, rows in frames.of_sinks().items()]
            for one, rows in found:
                check_columns(flow, one, rows, streaming=batch is not None)
            if batch is None:
                for one, rows in found:
                    write(flow, one, rows, None)
                differing = same.differing()
            else:
                differing = _write_batch(flow, found, batch, same)
            if differing:
                return differing
        seconds = perf_counter() - begun
        told = [] if frames.reports is None else frames.reports.told()
        if watch is not None:
            watch.take(number, seconds, told)
        if frames.mappings is not None:
            frames.mappings.told(told)
        return ()
    finally:
        frames.release()


def _write_batch(
    flow: Dataflow, found: Sequence[tuple[Operator, DataFrame]], batch: StreamBatch, same: SameRows
) -> Sequence[str]:
    """Write a batch of a stream; it sends when all else is written, and all sinks have got the same rows."""
    sends = [it for it in found if it[0].format in SENT]
    writes = [it for it in found if it[0].format not in SENT]
    whole = WholeBatch(sends[0][1].sparkSession, batch) if sends else None
    for one, rows in writes:
        if whole is None or not whole.has(one, rows):
            batch.run.check()
            write(flow, one, rows, batch)
    if whole is None:
        return same.differing()
    batch.run.check()
    sending = [whole.kept(one, rows) for one, rows in sends]
    if not whole.known:
        if differing := same.differing():
            for kept in sending:
                kept.drop()
            return differing
        batch.run.check()
        whole.keep([one.name for one, _ in writes], sending)
    for kept in sending:
        batch.run.check()
        kept.send()
    return ()


def differing_told(differing: Sequence[str]) -> str:
    """Why sinks have got other rows than others, and what to do."""
    return (
        f"results of {' and of '.join(differing)} were lost and computed again, or there are those of two runs of a task, and "
        "they differ, so a row may be in two sinks of which it belongs in one, or in none. See why executors end, or make the "
        "functions give the same whenever they are called"
    )


@dataclass(frozen=True)
class Asked:
    """How a dataflow is to be run as a query: see `evenly.run`."""

    checkpoint: str | Path
    trigger: Trigger | None = None
    query_name: str | None = None
    watch: FlowWatch | None = None
    plan: SparkPlan | None = None
    replan: bool = False


class Streaming:
    """A dataflow as a query: what is before its state is the query's own, all else is run in each micro-batch."""

    def __init__(self, flow: Dataflow, stages: tuple[Stage, ...], spark: SparkSession, asked: Asked) -> None:
        self._flow, self._stages = flow, stages
        wanted = asked.replan or is_emitting()
        self._watch = FlowWatch() if asked.watch is None and wanted else asked.watch
        self._source = only_source(flow)
        plan = self._plan = asked.plan
        self._facts = None if self._watch is None else FlowFacts(teller_of("flow"), flow, plan, self._watch)
        usual = default_instances(spark)
        self.steering = Steering(flow, self._source, watch=self._watch, plan=plan, replan=asked.replan, usual_instances=usual)
        self._rows = read(spark, flow, capped(self._source, plan), streaming=True, pace=self.steering.pace_file)
        trigger = asked.trigger
        if trigger is None and plan is not None and plan.trigger_s is not None:
            trigger = {"processingTime": f"{round(1e3 * plan.trigger_s)} milliseconds"}
        self._settings = QuerySettings.checked(self._rows, asked.checkpoint, trigger, asked.query_name)
        self._batches: dict[str, CostBatches] = {}
        self._query = ""
        self._run = NewestRun(spark, self._settings.checkpoint)
        self._mappings = EdgeMappings(session_slots(spark).number)
        self._learns = any(edge.grouping == "key" and flow.by_name[edge.end].kind != "state" for edge in flow.edges)
        if self._watch is not None and self._source.arrival and self._source.format != REPLAY:  # whose offsets tell
            self._rows = with_arrivals(self._rows, self._source.arrival)

    def start(self) -> RunningQuery:
        """The query, started."""
        state = next((stage for stage in self._stages if stage.kind == "state"), None)
        if state is None:
            self._check_frames(self._source.name, self._rows)
            self._claim_folders()
            writer = self._writer(self._rows, self._source.name).option("checkpointLocation", self._settings.checkpoint)
            return self._watched(RunningQuery(self._settings.applied(writer).start()))
        rows, edge, one = self._before(state), state.inputs[0], self._flow.by_name[state.operators[0]]
        settings = self._settings
        self._claim_folders()

        def build(placed: DataFrame) -> DataStreamWriter:
            found = called_frame(self._flow, one, placed)
            self._check_frames(one.name, found)
            return self._writer(found, one.name).outputMode("update")

        return self._watched(
            stream_by_key(
                rows,
                build,
                key=list(edge.columns),
                instances=edge.instances or self._begun_instances() or default_instances(rows.sparkSession),
                checkpoint=settings.checkpoint,
                trigger=settings.trigger,
                query_name=settings.query_name,
            )
        )

    def _begun_instances(self) -> int | None:
        """As many as its state has, which stays in as many parts whatever this session says of shuffles."""
        return begun_instances(self._rows.sparkSession, self._settings.checkpoint)

    def _watched(self, query: RunningQuery) -> RunningQuery:
        def told(recent: bool) -> Sequence[Ended]:  # noqa: FBT001 - a callback's one argument
            heard: list[Any] = query.recentProgress if recent else [query.lastProgress]
            return [found for one in heard if one is not None and (found := ended(one)) is not None]

        if self._watch is not None:
            self._watch.begin(told, seconds_of(self._settings.trigger), lambda: query.isActive)
        if self._facts is not None:
            graph, name = graph_of(self._flow, self._plan), self._flow.name
            query.begin_telling(self._rows.sparkSession, self._facts.teller, graph=graph, name=name)
        return query

    def _claim_folders(self) -> None:
        spark = self._rows.sparkSession
        check_source(spark, self._flow, self._source, self._settings.checkpoint)
        owner = self._query = name_of_query(spark, self._settings.checkpoint)
        for one in self._flow.operators:
            if one.kind == "sink" and one.format in FILES:
                claim(spark, self._flow, one, owner)
            if one.kind == "sink" and one.format in SENT:
                kept_of(spark, one, self._settings.checkpoint).check_alone(sender_of(one, owner))

    def _before(self, state: Stage) -> DataFrame:
        """What leads to the state, one stage after the other."""
        frames = Frames(self._flow, self._stages, {}, tuning=self.steering.tuning)
        rows = self._rows
        for stage in self._stages[1 : self._stages.index(state)]:
            rows = frames.leaving(stage, frames.grouped(stage.inputs[0], rows))
        return frames.grouped(state.inputs[0], rows)

    def _check_frames(self, begun: str, rows: DataFrame) -> None:
        """Make the frames of a batch without rows, so that a wrong schema or column is said before anything runs."""
        nothing = rows.sparkSession.createDataFrame([], rows.schema)
        frames = Frames(self._flow, self._stages, {**dict.fromkeys(self._done_before(begun), nothing), begun: nothing})
        try:
            for name, found in frames.of_sinks().items():
                check_columns(self._flow, self._flow.by_name[name], found, streaming=True)
        finally:
            frames.release()

    def _writer(self, rows: DataFrame, name: str) -> DataStreamWriter:
        return rows.writeStream.foreachBatch(lambda batch, number: self._run_batch(name, batch, number))

    def _run_batch(self, begun: str, rows: DataFrame, number: int) -> None:
        if self._run.begin():
            sweep(self._rows.sparkSession, self._flow)
        self.steering.between_batches()
        self._mappings.begin()
        for _ in range(_WRITTEN):
            if not (differing := self._written(begun, rows, number)):
                return
            _LOG.warning(
                "batch %d: results of %s were lost and computed again, or there are those of two runs, while sinks were "
                "written, and they differ: all sinks are written again",
                *(number, " and of ".join(differing)),
            )
        raise WorkerDied(
            f"{_WRITTEN} times in a row sinks of batch {number} got other rows than others: {differing_told(differing)}. Start "
            "the query again, which writes the batch anew"
        )

    def _written(self, begun: str, rows: DataFrame, number: int) -> Sequence[str]:
        """Write a batch: of which operators some sinks have got other rows than others."""
        tuning = self.steering.tuning
        done = dict.fromkeys(self._done_before(begun), rows)  # nothing reads what is before the state
        ran: dict[str, RanBatch] = {}
        whole = self._flow.by_name[begun].kind == "state" and self._may_read_less(begun)

        watched = self._watch is not None
        reports = Reports(everywhere=watched) if watched or self._learns else None

        def by_cost(name: str, entering: DataFrame, *, persisted: bool) -> DataFrame:
            threads = tuning.threads_of(self._flow.by_name[name])
            if name not in self._batches:
                self._batches[name] = self._cost_batches(name, entering)
            self._batches[name].set_threads(threads)
            batch = ran[name] = self._batches[name].run(entering, number, persisted=persisted)
            if watched and reports is not None:
                _report(reports, batch, OfCosts(name, threads))
            return costed_rows(batch.results)

        try:
            if whole:
                with worker_errors():
                    rows.persist().write.format("noop").mode("overwrite").save()
            batch = StreamBatch(number, self._query, self._settings.checkpoint, self._run)
            made = Frames(self._flow, self._stages, {**done, begun: rows}, by_cost, reports, tuning, self._mappings)
            if differing := write_sinks(made, batch, self._watch):
                return differing
            self._run.check()
            for name, costed in ran.items():
                costed.end()
                self._batches[name].keep(costed)
            return ()
        finally:
            for costed in ran.values():
                costed.release()
            if whole:
                rows.unpersist()

    def _may_read_less(self, state: str) -> bool:
        """Whether some rows of a batch may not be asked for: of state each instance has to be, or the next batch misses it."""
        behind = self._flow.by_name.keys() - set(self._done_before(state))
        kinds = [self._flow.by_name[name] for name in behind]
        return any(one.kind == "frame" or (one.kind == "sink" and (one.function or one.format == CONSOLE)) for one in kinds)

    def _cost_batches(self, name: str, rows: DataFrame) -> CostBatches:
        one, edge = self._flow.by_name[name], self._flow.into[name][0]
        instances = edge.instances or default_instances(rows.sparkSession)
        # Behind a shuffle nobody has a row before all are done: the order in which they are run gains nothing.
        objective: Objective = "completion" if forwarded_to_sink(self._flow, name) else "batch-time"
        options = StageOptions(instances, objective, call=CallOptions(threads=self.steering.tuning.threads_of(one)))
        function, schema = costed_call(self._flow, one, rows)
        stage = CallStage.of(rows, function, schema, options)
        store = CostStore(self._rows.sparkSession, self._settings.checkpoint, name)
        key = checked_key(list(edge.columns))
        model = CostModel(key, types=cost_key_types(rows, key))
        return CostBatches(stage, store, model, called=f"{self._flow.name}, {name}")

    def _done_before(self, name: str) -> list[str]:
        """The operators of which the streaming part of the query has taken care."""
        found: list[str] = []
        while into := self._flow.into[name]:
            name = into[0].start
            found.append(name)
        return found


def _report(reports: Reports, batch: RanBatch, of: OfCosts) -> None:
    if batch.observation is None:
        reports.known(batch.reports, of)
    else:
        reports.observed(batch.observation, batch.ran, of)


def seconds_of(trigger: Trigger | None) -> float | None:
    """The seconds between the batches of a trigger; None of one that has none, or has them in words that are not known here."""
    found = _SECONDS.fullmatch(str((trigger or {}).get("processingTime", "")))
    return float(found[1]) * _UNITS_S[found[2].lower()] or None if found else None
