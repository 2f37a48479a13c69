"""A dataflow as one streaming query, or once over a table."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from evenly.dataflow.builder import Flow
from evenly.dataflow.ends import check_added, check_ends, check_paced
from evenly.dataflow.files import read_dataflow
from evenly.dataflow.functions import check_functions
from evenly.dataflow.graph import Dataflow
from evenly.dataflow.stages import Stage, stages_of
from evenly.dataflow.tuning import Tuning
from evenly.errors import InvalidParameter, WorkerDied
from evenly.facts.emitting import is_emitting
from evenly.facts.of_flows import graph_of
from evenly.planning.micro_batches import SparkPlan
from evenly.spark.features import Feature, require
from evenly.spark.flows.ends import check_free, check_sending, read
from evenly.spark.flows.flow_facts import FlowFacts
from evenly.spark.flows.frames import Frames
from evenly.spark.flows.owning import check_paths
from evenly.spark.flows.streaming import Asked, Streaming, differing_told, write_sinks
from evenly.spark.flows.watch import FlowWatch, Reports
from evenly.spark.session import local_session
from evenly.spark.streaming.query_settings import Trigger
from evenly.spark.streaming.running_query import RunningQuery, teller_of


def run(
    flow: Dataflow | Flow | str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    checkpoint: str | Path | None = None,
    trigger: Trigger | None = None,
    query_name: str | None = None,
    watch: FlowWatch | None = None,
    exactly_once: bool = False,
    plan: SparkPlan | None = None,
    replan: bool = False,
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
    - `exactly_once`: refuse a dataflow with a sink that may hold a row twice, as `exactly_once` of a sink does for one.
    - `plan`: a plan for Spark (`evenly.planning.micro_batches.plan_on_spark`): operators with `threads: auto` have its threads,
      and the query has its trigger, unless one is given, and its most rows of a batch, where the source can be told (a replay,
      Kafka). `replan`: plan again while it runs, from what batches show: threads that are left open, instances of shuffles and
      rows of a batch change between two batches, and more is recommended; `watch.changes` and the log say what and why.

    Operators of rows and batches that forward edges join run in one Python worker, each with its threads; what several edges
    read is computed once. All sinks are written within a batch, one after the other, and `tcp` and `http` send when the others
    are written. Where results were lost meanwhile and computed again, and differ, all are written again (a run as a batch
    ends with `WorkerDied`). Sinks that are files have a folder for
    each batch of a stream (`batch=7`), written anew if Spark runs a batch again, so every row is in them once. Tables and
    other formats are appended to, at least once. An operator with state is a keyed query (`stream_by_key`): what is before it
    must be one line. A query that was stopped goes on where it was, with the functions as they are then.

    Whatever is wrong with the description is said before anything runs.
    """
    described, stages = checked_flow(flow, exactly_once=exactly_once)
    _check_plan(described, plan, replan=replan)
    if replan and checkpoint is None:
        raise InvalidParameter("replan is for a streaming query, between whose batches something can change: give checkpoint=")
    session = _session(described.name) if spark is None else spark
    require(session, Feature.FOLDERS, by="evenly.run", remedy="Use a classic session")
    check_paths(session, described)
    if checkpoint is not None:
        check_added(described)
        asked = Asked(checkpoint, trigger, query_name, watch, plan, replan)
        return Streaming(described, stages, session, asked).start()
    if trigger is not None or query_name is not None:
        raise InvalidParameter("trigger and query_name are of a streaming query: give its checkpoint= too")
    for one in described.operators:
        if one.kind == "state":
            raise described.error(f"{one.name!r} has state, of a stream: give checkpoint=, or group in a `frame` operator", one)
    _run_once(described, stages, session, watch, plan)
    return None


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
    got = flow.__name__ if isinstance(flow, type) else f"a {type(flow).__name__}"
    raise InvalidParameter(f"flow must be a Dataflow, a Flow or the path of a YAML file, got {got}")


def _run_once(
    flow: Dataflow, stages: tuple[Stage, ...], spark: SparkSession, watch: FlowWatch | None, plan: SparkPlan | None
) -> None:
    check_free(spark, flow)
    sources = [one for one in flow.operators if one.kind == "source"]
    begun = {one.name: read(spark, flow, one, streaming=False) for one in sources}
    tuning = Tuning({} if plan is None else dict(plan.threads))
    watch = FlowWatch() if watch is None and is_emitting() else watch
    frames = Frames(flow, stages, begun, reports=None if watch is None else Reports(), tuning=tuning)
    if watch is None:
        _write_once(frames, None)
        return
    teller = FlowFacts(teller_of("flow"), flow, plan, watch).teller
    teller.begin(flow.name, flow.name, graph=graph_of(flow, plan))
    try:
        _write_once(frames, watch)
    except BaseException as error:
        teller.end(error)
        raise
    teller.end()


def _write_once(frames: Frames, watch: FlowWatch | None) -> None:
    if differing := write_sinks(frames, None, watch):
        raise WorkerDied(f"Sinks got other rows than others: {differing_told(differing)}. Then write all of them again")


def checked_flow(
    flow: Dataflow | Flow | str | os.PathLike[str], *, exactly_once: bool = False
) -> tuple[Dataflow, tuple[Stage, ...]]:
    """A dataflow with its stages, if it can be run; nothing has run then."""
    described = _described(flow)
    stages = stages_of(described)
    check_ends(described, exactly_once=exactly_once)
    check_paced(described)
    check_functions(described)
    check_sending(described)
    return described, stages


def _check_plan(flow: Dataflow, plan: SparkPlan | None, *, replan: bool) -> None:
    if not isinstance(plan, SparkPlan | None):
        raise InvalidParameter(f"plan must be a plan for Spark, of plan_on_spark, got {plan!r}")
    if replan and plan is None:
        raise InvalidParameter("replan needs the plan that it compares with: give plan=")
    if plan is not None and {one.name for one in plan.flow.operators} != {one.name for one in flow.operators}:
        raise InvalidParameter(f"the plan is of the dataflow {plan.flow.name!r}, which has other operators: plan this one")
