"""`evenly run`: a dataflow on Spark."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from evenly.cli.options import Json, check_file, wanted_names
from evenly.cli.output import note, print_json, print_table, say
from evenly.dataflow.files import read_dataflow
from evenly.dataflow.formats import check_once
from evenly.dataflow.graph import Dataflow
from evenly.dataflow.job_script import job_script, submit_command
from evenly.dataflow.reports import Measured
from evenly.dataflow.shown import shown
from evenly.dataflow.stages import stages_of
from evenly.errors import InvalidParameter, MissingDependency
from evenly.files import write_whole

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_HEADINGS = ("operator", "rows in", "rows out", "ms a row", "busy s", "λ % of the last batch")


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
    master: Annotated[str | None, typer.Option(help="Spark's master, such as spark://host:7077; else this machine.")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="A setting of Spark, name=value; may be repeated.")] = None,
    exactly_once: Annotated[
        bool, typer.Option("--exactly-once", help="Refuse sinks that may get a row twice when a batch is run again.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Only say what each stage and edge becomes on Spark.")] = False,
    submit: Annotated[
        Path | None, typer.Option(help="Only write a script that runs it so under spark-submit, to this file (.py).")
    ] = None,
    json: Json = False,
) -> None:
    """Run a dataflow on Spark: as a streaming query, or once over tables.

    Its functions are looked for where the command is run, too. A query ends with Ctrl-C and goes on when it is started again.

    Try: evenly run flow.yaml --batch
    """
    if not show:
        _check_mode(checkpoint, trigger, batch=batch, until_read=until_read)
    _check_script(submit, master, conf or [])
    settings = _settings(conf or [], master)
    wanted_names([])  # functions that are beside the file's user
    flow = read_dataflow(dataflow)
    if show:
        for line in shown(flow):
            say(line)
        return
    if submit is not None:
        write_whole(submit, job_script(flow, checkpoint, _trigger(trigger, until_read=until_read), exactly_once=exactly_once))
        note(f"{submit} runs it: {submit_command(flow, submit)}")
        return
    if find_spec("pyspark") is None:
        raise MissingDependency("evenly run needs PySpark: pip install 'evenly[spark]'")
    # Imported here, so that `evenly run --help` needs no Spark.
    from evenly.spark.flows.run import run  # noqa: PLC0415
    from evenly.spark.flows.watch import FlowWatch  # noqa: PLC0415
    from evenly.spark.session import cluster_session, local_session  # noqa: PLC0415

    _check_flow(flow, exactly_once=exactly_once)
    if any(one.kind == "state" for one in flow.operators):
        settings.setdefault("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)  # state that can be moved
    spark = cluster_session(flow.name, settings) if _remote(settings) else local_session(flow.name, settings=settings)
    begun, watch = perf_counter(), FlowWatch()
    try:
        wanted = _trigger(trigger, until_read=until_read)
        query = run(flow, spark=spark, checkpoint=checkpoint, trigger=wanted, watch=watch, exactly_once=exactly_once)
        if query is not None:
            note(f"{flow.name} runs as a streaming query; Ctrl-C ends it")
            _await(query)
    finally:
        spark.stop()
    rows = [_row(batch.number, it) for batch in watch.batches for it in batch.operators.values()]
    if json:
        print_json("run", {"dataflow": str(dataflow), "checkpoint": checkpoint, "batch": batch}, rows)
    else:
        say((f"{flow.name}", "bold"), f": done after {perf_counter() - begun:.1f} s, {_batches(len(watch.batches))}")
        _print(rows)


def _check_mode(checkpoint: str | None, trigger: float | None, *, batch: bool, until_read: bool) -> None:
    if batch == (checkpoint is not None):
        raise InvalidParameter("give --checkpoint FOLDER to run a streaming query, or --batch to run once")
    if batch and (until_read or trigger is not None):
        raise InvalidParameter("--until-read and --trigger are for a streaming query: leave --batch out")
    if until_read and trigger is not None:
        raise InvalidParameter("--until-read reads all that is there, without waiting: leave --trigger out")
    if trigger is not None and not 0.0 < trigger < 86_400.0:
        raise InvalidParameter(f"--trigger must be seconds, above 0 and below a day, got {trigger}")


def _check_script(submit: Path | None, master: str | None, conf: list[str]) -> None:
    if submit is not None and (master is not None or conf):
        raise InvalidParameter("--master and --conf of a script are those of spark-submit: give them there")
    if submit is not None and submit.suffix != ".py":
        raise InvalidParameter(f"--submit must name a file that ends in .py, which spark-submit takes, got {submit}")
    check_file(submit, "--submit")


def _check_flow(flow: Dataflow, *, exactly_once: bool) -> None:
    """What is wrong is said before Spark starts."""
    stages_of(flow)
    if exactly_once:
        check_once(flow)


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"


def _row(number: int | None, it: Measured) -> dict[str, object]:
    return {
        "batch": number,
        "operator": it.operator,
        "rows_in": it.rows_in,
        "rows_out": it.rows_out,
        "busy_s": it.busy_s,
        "call_ms": it.call_ms,
        "instances": it.instances,
        "imbalance_pct_time": it.imbalance_pct,
    }


def _print(rows: list[dict[str, Any]]) -> None:
    """Operators over all batches that were kept; λ of the last."""
    lines = []
    for name in dict.fromkeys(row["operator"] for row in rows):
        found = [row for row in rows if row["operator"] == name]
        entered, left, busy_s = (sum(row[field] for row in found) for field in ("rows_in", "rows_out", "busy_s"))
        each = f"{1e3 * busy_s / entered:.3g}" if entered else ""
        lines.append((name, f"{entered:,}", f"{left:,}", each, f"{busy_s:.1f}", f"{found[-1]['imbalance_pct_time']:.1f}"))
    if lines:
        print_table(_HEADINGS, lines)


def _await(query: Any) -> None:
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()


def _trigger(seconds: float | None, *, until_read: bool) -> dict[str, Any] | None:
    if until_read:
        return {"availableNow": True}
    return None if seconds is None else {"processingTime": f"{seconds:g} seconds"}


def _settings(conf: list[str], master: str | None) -> dict[str, str]:
    settings = {} if master is None else {"spark.master": master}
    for text in conf:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals):
            raise InvalidParameter(f"--conf must be name=value, such as spark.executor.memory=4g, got {text!r}")
        settings[name.strip()] = value
    return settings


def _remote(settings: dict[str, str]) -> bool:
    return settings.get("spark.master", "local").partition("[")[0] != "local"
