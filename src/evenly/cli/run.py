"""`evenly run`: a dataflow on Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, perf_counter
from typing import Annotated, Any

import typer

from evenly.cli.options import Json, wanted_names
from evenly.cli.output import note, print_json, say
from evenly.cli.run_options import RunOptions
from evenly.cli.run_output import batch_line, print_run, run_results, trial_line
from evenly.dataflow.graph import Dataflow
from evenly.dataflow.job_script import job_script, submit_command
from evenly.dataflow.shown import becoming, shown
from evenly.errors import MissingDependency
from evenly.files import write_whole
from evenly.planning.micro_batches import SparkPlan
from evenly.planning.observed.peak import Peak
from evenly.report.run_page import run_page

_LOOK_S = 0.5


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
    exactly_once: Annotated[
        bool, typer.Option("--exactly-once", help="Refuse sinks that may get a row twice when a batch is run again.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Only say what each stage and edge becomes on Spark.")] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Spark's own log of errors too, and the whole traceback if it fails.")
    ] = False,
    submit: Annotated[
        Path | None, typer.Option(help="Only write a script that runs it so under spark-submit, to this file (.py).")
    ] = None,
    json: Json = False,
) -> None:
    """Run a dataflow on Spark: as a streaming query, or once over tables.

    Its functions are looked for where the command is run, too. A query ends with Ctrl-C and goes on when it is started again.

    Try: evenly run flow.yaml --batch
    """
    wanted = RunOptions(
        dataflow=dataflow,
        checkpoint=checkpoint,
        batch=batch,
        until_read=until_read,
        trigger=trigger,
        rate=rate,
        plan=plan,
        models=models,
        slots=slots,
        seconds=seconds,
        until_unstable=until_unstable,
        replan=replan,
        page=page,
        master=master,
        conf=conf or [],
        exactly_once=exactly_once,
        show=show,
        submit=submit,
    )
    wanted.check()
    wanted_names([])  # functions that are beside the file's user
    flow = wanted.flow()  # what is wrong is said before Spark starts
    parameters = {"dataflow": str(dataflow), "checkpoint": checkpoint, "batch": batch, "rate": rate, "plan": plan}
    if show or submit is not None:
        told = _shown(flow, json=json) if submit is None or show else _written(flow, wanted, submit)
        if json:
            print_json("run", parameters, told)
        return
    planned = wanted.planned(flow)
    spark = _session(flow, wanted, planned)
    if not trace:
        spark.sparkContext.setLogLevel("FATAL")  # what fails is told once, by the error that ends the command
    # Imported here, so that `evenly run --help` needs no Spark.
    from evenly.spark.flows.watch import FlowWatch  # noqa: PLC0415
    from evenly.spark.short_errors import told_shortly  # noqa: PLC0415

    begun, watch, peak = perf_counter(), FlowWatch(), None
    try:
        with nullcontext() if trace else told_shortly():
            if until_unstable:
                peak = _peak(flow, wanted, spark, planned, watch)
            else:
                _run(flow, wanted, spark, planned, watch, progress=progress)
    finally:
        watch.batches  # noqa: B018 - what Spark tells of the last one, while it still can
        spark.stop()
    verdict = None if batch else watch.verdict(planned) if peak is None else peak.verdict
    results = run_results(watch.batches, verdict, watch.changes, peak, watch.instances if each_instance else {})
    if page is not None:
        write_whole(page, run_page(flow.name, watch.batches, verdict, watch.changes, peak, numbers=results))
    if not watch.batches:
        source = next(one for one in flow.operators if one.kind == "source")
        what = ", ".join(filter(None, (source.format or "a function", source.path)))
        note(f"no batch was run: the source {source.name!r} ({what}) had no rows that were not read before")
    if json:
        print_json("run", parameters, results)
    else:
        done = f"{len(watch.batches)} batches" if len(watch.batches) != 1 else "1 batch"
        say((f"{flow.name}", "bold"), f": done after {perf_counter() - begun:.1f} s, {done}")
        print_run(watch.batches, verdict, watch.changes, peak)


def _shown(flow: Dataflow, *, json: bool) -> list[dict[str, Any]]:
    """Say what a dataflow becomes, or have it said as an object."""
    for line in [] if json else shown(flow):
        say(line)
    return [asdict(it) for it in becoming(flow)]


def _written(flow: Dataflow, wanted: RunOptions, submit: Path) -> list[dict[str, Any]]:
    """Write the script that runs a dataflow."""
    script = job_script(flow, wanted.checkpoint, wanted.query_trigger(), exactly_once=wanted.exactly_once)
    write_whole(submit, script)
    command = submit_command(flow, submit)
    note(f"{submit} runs it: {command}")
    return [{"series": "script", "becomes": command}]


def _session(flow: Dataflow, wanted: RunOptions, plan: SparkPlan | None) -> Any:
    """Where it runs: on a cluster, or on this machine with the slots that are asked for or planned."""
    if find_spec("pyspark") is None:
        raise MissingDependency("evenly run needs PySpark: pip install 'evenly[spark]'")
    from evenly.spark.session import cluster_session, local_session  # noqa: PLC0415

    settings = wanted.settings(flow)
    if settings.get("spark.master", "local").partition("[")[0] != "local":
        return cluster_session(flow.name, settings)
    slots = wanted.slots or (plan.slots if plan is not None and wanted.master is None else None)
    return local_session(flow.name, slots=slots, settings=settings)


def _run(flow: Dataflow, wanted: RunOptions, spark: Any, plan: SparkPlan | None, watch: Any, *, progress: bool) -> None:
    from evenly.spark.flows.run import run  # noqa: PLC0415

    query = run(
        flow,
        spark=spark,
        checkpoint=wanted.checkpoint,
        trigger=wanted.query_trigger(),
        watch=watch,
        exactly_once=wanted.exactly_once,
        plan=plan,
        replan=wanted.replan,
    )
    if query is not None:
        note(f"{flow.name} runs as a streaming query; Ctrl-C ends it")
        _await(query, wanted.seconds, _Lines(watch, plan).look if progress else lambda: None)


def _peak(flow: Dataflow, wanted: RunOptions, spark: Any, plan: SparkPlan | None, watch: Any) -> Peak:
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
