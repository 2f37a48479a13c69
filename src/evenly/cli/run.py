"""`evenly run`: a dataflow on Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, perf_counter
from typing import Annotated, Any

import typer

from evenly.cli.options import Json, check_file, session_settings, wanted_names
from evenly.cli.output import note, print_json, say
from evenly.cli.run_output import batch_line, print_run, run_results, trial_line
from evenly.dataflow.files import read_dataflow
from evenly.dataflow.graph import Dataflow
from evenly.dataflow.replay import pace_of
from evenly.dataflow.stages import Stage, only_source, stages_of
from evenly.errors import InvalidParameter, MissingDependency
from evenly.files import write_whole
from evenly.planning.micro_batches import SparkPlan, plan_on_spark
from evenly.planning.model_files import read_spark_models
from evenly.planning.observed.peak import Peak
from evenly.report.run_page import run_page

_LOOK_S = 0.5


@dataclass(frozen=True)
class _Wanted:
    """The options of a run that go together."""

    dataflow: Path
    checkpoint: str | None
    batch: bool
    until_read: bool
    trigger: float | None
    rate: float | None
    slots: int | None
    models: Path | None
    plan: bool
    replan: bool
    until_unstable: bool
    seconds: float | None

    def check(self) -> None:
        """Refuse what cannot be meant, before Spark starts."""
        stream = {
            "--until-read": self.until_read,
            "--trigger": self.trigger is not None,
            "--replan": self.replan,
            "--until-unstable": self.until_unstable,
            "--seconds": self.seconds is not None,
        }
        if self.batch and (given := [name for name, it in stream.items() if it]):
            verb = "are" if len(given) > 1 else "is"
            raise InvalidParameter(f"{' and '.join(given)} {verb} for a streaming query: leave --batch out")
        if self.until_read and self.trigger is not None:
            raise InvalidParameter("--until-read reads all that is there, without waiting: leave --trigger out")
        if self.until_read and self.until_unstable:
            raise InvalidParameter("--until-unstable replays again and again: leave --until-read out")
        if self.trigger is not None and not 0.0 < self.trigger < 86_400.0:
            raise InvalidParameter(f"--trigger must be seconds, above 0 and below a day, got {self.trigger}")
        if self.seconds is not None and not self.seconds > 0.0:
            raise InvalidParameter(f"--seconds must be above 0, got {self.seconds}")
        if self.plan != (self.models is not None):
            raise InvalidParameter("--plan and --models FILE go together: `evenly profile --on spark` writes such a file")
        if self.replan and not self.plan:
            raise InvalidParameter("--replan compares with a plan: give --plan too")
        if self.slots is not None and self.slots < 1:
            raise InvalidParameter(f"--slots must be at least 1, got {self.slots}")

    def planned(self, flow: Dataflow) -> SparkPlan | None:
        """The plan for the rate that is asked for, or that of the replay."""
        if self.models is None:
            return None
        rate = self.rate
        source = only_source(flow)
        if rate is None and "rate" in source.options:
            rate = pace_of(source.options).rate
        if rate is None and not self.until_unstable:
            raise InvalidParameter("a plan is for a rate: give --rate, in rows per second")
        found = read_spark_models(self.models)
        return plan_on_spark(flow, found, rate=rate, slots=self.slots or found.engine_costs().slots, trigger_s=self.trigger)


def run_command(
    dataflow: Annotated[Path, typer.Argument(help="The YAML file of a dataflow whose operators have functions.")],
    checkpoint: Annotated[
        str | None, typer.Option(help="Run it as a streaming query, which keeps its progress in this folder and goes on there.")
    ] = None,
    batch: Annotated[bool, typer.Option("--batch", help="Run it once, its sources as tables.")] = False,
    until_read: Annotated[
        bool, typer.Option("--until-read", help="End the query when all that is there now has been read.")
    ] = False,
    trigger: Annotated[float | None, typer.Option(help="Seconds between micro-batches; else one after the other.")] = None,
    rate: Annotated[float | None, typer.Option(help="Rows/s: of a replay, and what a plan is for.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Run it as planned for --rate, and compare.")] = False,
    models: Annotated[Path | None, typer.Option(help="What was measured on Spark, for --plan.")] = None,
    slots: Annotated[int | None, typer.Option(help="Tasks at a time, on this machine and in the plan.")] = None,
    seconds: Annotated[float | None, typer.Option(help="End the query after so many seconds.")] = None,
    until_unstable: Annotated[
        bool, typer.Option("--until-unstable", help="Replay faster and faster, and find the highest rate that holds.")
    ] = False,
    replan: Annotated[bool, typer.Option("--replan", help="Plan again while it runs, from what batches show.")] = False,
    progress: Annotated[bool, typer.Option("--progress", help="A line for every batch, on standard error.")] = False,
    each_instance: Annotated[
        bool, typer.Option("--each-instance", help="With --json: every instance of the last batch, too.")
    ] = False,
    page: Annotated[Path | None, typer.Option(help="Where to write a page: planned, predicted and observed.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master, such as spark://host:7077; else this machine.")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="A setting of Spark, name=value; may be repeated.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Only say what it becomes on Spark.")] = False,
    json: Json = False,
) -> None:
    """Run a dataflow on Spark: as a streaming query, or once over tables.

    Its functions are looked for where the command is run, too. A query ends with Ctrl-C and goes on when it is started again.
    Under spark-submit the master and settings are those that it gives.

    Try: evenly run flow.yaml --batch
    """
    wanted = _Wanted(
        dataflow, checkpoint, batch, until_read, trigger, rate, slots, models, plan, replan, until_unstable, seconds
    )
    if batch == (checkpoint is not None) and not show:
        raise InvalidParameter("give --checkpoint FOLDER to run a streaming query, or --batch to run once")
    wanted.check()
    check_file(page, "--page")
    settings = session_settings(conf or [], master)
    wanted_names([])  # functions that are beside the file's user
    flow = _paced(read_dataflow(dataflow), rate, planned=plan)
    if show:
        for stage in stages_of(flow):
            say(_told(stage))
        return
    stages_of(flow)  # what is wrong is said before Spark starts
    planned = wanted.planned(flow)
    if find_spec("pyspark") is None:
        raise MissingDependency("evenly run needs PySpark: pip install 'evenly[spark]'")
    # Imported here, so that `evenly run --help` needs no Spark.
    from evenly.spark.flows.watch import FlowWatch  # noqa: PLC0415
    from evenly.spark.session import local_session  # noqa: PLC0415

    local = slots or (planned.slots if planned is not None and master is None else None)
    spark = local_session(flow.name, slots=local, settings=settings)
    begun, watch, peak = perf_counter(), FlowWatch(), None
    try:
        if until_unstable:
            peak = _peak(flow, wanted, spark, planned, watch)
        else:
            _run(flow, wanted, spark, planned, watch, progress=progress)
    finally:
        watch.batches  # noqa: B018 - what Spark tells of the last one, while it still can
        spark.stop()
    verdict = None if batch else watch.verdict(planned) if peak is None else peak.verdict
    if page is not None:
        write_whole(page, run_page(flow.name, watch.batches, verdict, watch.changes, peak))
    if json:
        parameters = {"dataflow": str(dataflow), "checkpoint": checkpoint, "batch": batch, "rate": rate, "plan": plan}
        instances = watch.instances if each_instance else {}
        print_json("run", parameters, run_results(watch.batches, verdict, watch.changes, peak, instances))
    else:
        done = f"{len(watch.batches)} batches" if len(watch.batches) != 1 else "1 batch"
        say((f"{flow.name}", "bold"), f": done after {perf_counter() - begun:.1f} s, {done}")
        print_run(watch.batches, verdict, watch.changes, peak)


def _paced(flow: Dataflow, rate: float | None, *, planned: bool) -> Dataflow:
    """A dataflow whose replay has the rate that is asked for."""
    if rate is None:
        return flow
    replays = [one for one in flow.operators if one.kind == "source" and one.format == "replay"]
    if not replays and not planned:
        raise InvalidParameter("--rate is of a source of `format: replay`, or of a plan: give --plan")
    changed = {one.name: replace(one, options={**one.options, "rate": repr(rate)}) for one in replays}
    return replace(flow, operators=tuple(changed.get(one.name, one) for one in flow.operators))


def _run(flow: Dataflow, wanted: _Wanted, spark: Any, plan: SparkPlan | None, watch: Any, *, progress: bool) -> None:
    from evenly.spark.flows.run import run  # noqa: PLC0415

    trigger = _trigger(wanted.trigger, until_read=wanted.until_read)
    query = run(flow, spark=spark, checkpoint=wanted.checkpoint, trigger=trigger, watch=watch, plan=plan, replan=wanted.replan)
    if query is not None:
        note(f"{flow.name} runs as a streaming query; Ctrl-C ends it")
        _await(query, wanted.seconds, _Lines(watch, plan).look if progress else lambda: None)


def _peak(flow: Dataflow, wanted: _Wanted, spark: Any, plan: SparkPlan | None, watch: Any) -> Peak:
    from evenly.spark.flows.unstable import find_peak  # noqa: PLC0415

    return find_peak(
        flow,
        checkpoint=wanted.checkpoint or "",
        spark=spark,
        plan=plan,
        trigger_s=wanted.trigger,
        first_rate=wanted.rate if plan is None else None,
        watch=watch,
        tell=lambda trial: note(trial_line(trial)),
    )


class _Lines:
    """A line for every batch that has ended for good, planned beside observed, and for every change."""

    def __init__(self, watch: Any, plan: SparkPlan | None) -> None:
        self._watch, self._plan = watch, plan
        self._last, self._changes = -1, 0

    def look(self) -> None:
        for batch in self._watch.batches:
            if batch.whole_s is not None and batch.number > self._last:
                self._last = batch.number
                note(batch_line(batch, self._plan))
        changes = self._watch.changes
        for change in changes[self._changes :]:
            note(str(change))
        self._changes = len(changes)


def _await(query: Any, seconds: float | None, look: Callable[[], None]) -> None:
    from evenly.spark.flows.stopping import stop_between_batches  # noqa: PLC0415

    until = None if seconds is None else monotonic() + seconds
    try:
        while not query.awaitTermination(_LOOK_S):
            look()
            if until is not None and monotonic() > until:
                stop_between_batches(query)
                break
        look()
    except KeyboardInterrupt:
        query.stop()


def _trigger(seconds: float | None, *, until_read: bool) -> dict[str, Any] | None:
    if until_read:
        return {"availableNow": True}
    return None if seconds is None else {"processingTime": f"{seconds:g} seconds"}


def _told(stage: Stage) -> str:
    """A stage in a line: what it is on Spark, and where its rows come from."""
    what = {
        "source": "read",
        "worker": "one Python worker",
        "cost": "apply_by_cost",
        "frame": "Spark",
        "state": "stream_by_key",
        "sink": "written",
    }[stage.kind]
    ways = []
    for edge in stage.inputs:
        by = f" by {', '.join(edge.columns)}" if edge.columns else ""
        on = f" on {edge.instances} instances" if edge.instances else ""
        only = f" where {edge.where}" if edge.where else ""
        ways.append(f"{edge.start} ({edge.grouping}{by}{on}{only})")
    return f"{' + '.join(stage.operators)}: {what}" + (f", from {', '.join(ways)}" if ways else "")
