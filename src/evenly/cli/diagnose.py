"""`evenly diagnose`: what is wrong with a user's keys, past jobs or streaming state, and what would fix it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from evenly.cli.options import Json, check_file, instance_numbers
from evenly.cli.output import bytes_progress, note, print_json, print_table, say, steps_progress
from evenly.diagnosis.application import read_application
from evenly.diagnosis.causes import LogDiagnosis, diagnose_application
from evenly.diagnosis.event_log import open_event_log
from evenly.diagnosis.findings import Cause, Repeated, Thresholds, repeated_findings
from evenly.diagnosis.keys import COMBINED, KeysDiagnosis
from evenly.diagnosis.past import Application
from evenly.diagnosis.source import check_columns
from evenly.diagnosis.state import CheckpointDiagnosis
from evenly.errors import InvalidCheckpoint, InvalidParameter, MissingDependency
from evenly.files import write_whole
from evenly.report.diagnosis_page import STAGES_EXPLAINED, checkpoint_page, keys_page, log_page, log_results

_LOG_HEADINGS = ("stage", "tasks", "s", "max s", "med s", "λ time", "λ rows", "saved", "cause")
_STAGE = 12
"""So wide is a stage's name at least: all else must be whole in 80 columns."""

app = typer.Typer(name="diagnose", help="Say what is uneven, why, and what would fix it.", no_args_is_help=True)

_Page = Annotated[Path | None, typer.Option(help="Where to write a page with pictures.")]


@app.callback()
def diagnoses() -> None:
    """Say what is uneven, why, and what would fix it."""


@app.command("keys", epilog="Example: evenly diagnose keys orders.parquet --key country,user --instances 8,64")
def keys(
    source: Annotated[str, typer.Argument(help="A Parquet or CSV file or folder, or the name of a table that Spark knows.")],
    key: Annotated[str, typer.Option(help="The key columns, with commas between.")],
    instances: Annotated[str, typer.Option(help="Numbers of instances, with commas between.")] = "8,16",
    heaviest: Annotated[int, typer.Option(help="How many of the heaviest keys to name: 0 to 1000.")] = 10,
    json: Json = False,
    page: _Page = None,
) -> None:
    """How uneven the keys of a table are, by Spark's hash and by Evenly, and which call to use.

    Counts every row, on Spark on this machine. In a session of your own:
    evenly.diagnose_keys(df, key="user", instances=[8, 16]).
    """
    names = [name.strip() for name in key.split(",") if name.strip()]
    counts = instance_numbers(instances)
    if not names:
        raise InvalidParameter(f"--key names no column, got {key!r}: give names with commas between")
    if not 0 <= heaviest <= 1000:
        raise InvalidParameter(f"--heaviest must be from 0 to 1000, got {heaviest}")
    check_file(page, "--page")
    if Path(source).exists():
        check_columns(Path(source), names)
    diagnosis = _diagnose_keys(source, names, counts, heaviest)
    table = _keys_table(diagnosis)
    if page is not None:
        write_whole(page, keys_page(source, diagnosis, table))
    if json:
        parameters = {"source": source, "key": names, "instances": counts, "heaviest": heaviest}
        print_json("diagnose keys", parameters, diagnosis.results())
    else:
        _print_keys(source, diagnosis, table, page)


@app.command("log", epilog="Example: evenly diagnose log /var/log/spark/eventlog_v2_app-20260101 --page stages.html")
def log(
    event_log: Annotated[
        str, typer.Argument(help="A Spark event log: a file (compressed or not), or a rolling folder (eventlog_v2_…).")
    ],
    stages: Annotated[int, typer.Option(help="How many stages to show, those that lost most time first: at least 1.")] = 10,
    least_seconds: Annotated[float, typer.Option(help="Stages in which less could be saved count as even: 0 or more.")] = 1.0,
    json: Json = False,
    page: _Page = None,
) -> None:
    """Which stages of a past job were uneven, why, how much time that cost, and which call fixes it.

    Needs no Spark and no Java. Spark writes event logs if spark.eventLog.enabled is set, to the folder spark.eventLog.dir;
    a log of an application that still runs can be read too.
    """
    if stages < 1:
        raise InvalidParameter(f"--stages must be at least 1, got {stages}")
    if not 0.0 <= least_seconds < float("inf"):
        raise InvalidParameter(f"--least-seconds must be 0 or more, got {least_seconds}")
    check_file(page, "--page")
    opened = open_event_log(event_log)
    with bytes_progress() as progress:
        bar = progress.add_task("reading", total=opened.size_bytes)
        application = read_application(opened, lambda read: progress.advance(bar, read))
    diagnosis = diagnose_application(application, Thresholds(least_saved_s=least_seconds))
    repeated = repeated_findings(diagnosis.findings)
    table = [_LOG_HEADINGS, *(_log_line(one) for one in repeated[:stages])]
    if page is not None:
        write_whole(page, log_page(event_log, application, diagnosis, repeated, table))
    if json:
        parameters = {"event_log": event_log, "stages": stages, "least_seconds": least_seconds}
        print_json("diagnose log", parameters, log_results(application, diagnosis))
    else:
        _print_log(application, diagnosis, repeated[:stages], table, page)


@app.command("checkpoint", epilog="Example: evenly diagnose checkpoint /data/checkpoints/clicks --json")
def checkpoint(
    path: Annotated[str, typer.Argument(help="The checkpoint of a streaming query: its checkpointLocation.")],
    json: Json = False,
    page: _Page = None,
) -> None:
    """How uneven the state of a streaming query is: rows of every partition, for every stateful operator.

    Reads the state after the last finished batch; the query may be running or stopped. Nothing is written there.
    """
    check_file(page, "--page")
    if "://" not in path and not Path(path).is_dir():
        raise InvalidCheckpoint(f"{path} is not a folder: give the checkpointLocation of a streaming query")
    diagnosis = _diagnose_checkpoint(path)
    table = _state_table(diagnosis)
    if page is not None:
        write_whole(page, checkpoint_page(diagnosis, table))
    if json:
        print_json("diagnose checkpoint", {"checkpoint": path}, diagnosis.results())
    else:
        _print_checkpoint(diagnosis, table, page)


@contextmanager
def _spark(total: int) -> Iterator[tuple[Any, Callable[[str], None]]]:
    """A session on all cores of this machine, and a function that shows the next of `total` steps."""
    if find_spec("pyspark") is None:
        raise MissingDependency("this diagnosis needs PySpark: pip install 'evenly[spark]'")
    # Imported here, so that `evenly --help` and `evenly diagnose log` need no Spark.
    from evenly.spark.session import local_session  # noqa: PLC0415

    with steps_progress() as progress:
        bar = progress.add_task("starting Spark", total=total)
        spark = local_session("evenly diagnose", slots=os.cpu_count() or 1)
        try:
            yield spark, lambda description: progress.update(bar, advance=1, description=description)
        finally:
            spark.stop()


def _diagnose_keys(source: str, names: list[str], counts: list[int], heaviest: int) -> KeysDiagnosis:
    with _spark(2 + 2 * len(counts)) as (spark, step):
        from evenly.spark.diagnosis import diagnose_source  # noqa: PLC0415

        return diagnose_source(spark, source, key=names, instances=counts, heaviest=heaviest, progress=step)


def _diagnose_checkpoint(path: str) -> CheckpointDiagnosis:
    with _spark(2) as (spark, step):
        from evenly.spark.diagnosis import diagnose_checkpoint  # noqa: PLC0415

        step("counting state rows")
        return diagnose_checkpoint(spark, path)


def _keys_table(diagnosis: KeysDiagnosis) -> list[tuple[str, ...]]:
    headings = ("instances", "λ hash %", "λ Evenly %", "least λ %", "what to do")
    return [
        headings,
        *(
            (str(one.instances), f"{one.hash_pct:.1f}", f"{one.evenly_pct:.1f}", f"{one.least_pct:.1f}", one.advice.value)
            for one in diagnosis.at
        ),
    ]


def _log_line(one: Repeated) -> tuple[str, ...]:
    stage = one.worst.stage
    times = f" ×{one.times}" if one.times > 1 else ""
    return (
        f"{stage.what}{times}\n{stage.line}",
        str(stage.instances),
        f"{stage.seconds:,.1f}",
        f"{stage.tasks.run_ms.max() / 1000.0:,.1f}",
        f"{np.median(stage.tasks.run_ms) / 1000.0:,.1f}",
        f"{stage.time_imbalance_pct:.0f} %",
        f"{stage.rows_imbalance_pct:.0f} %",
        f"{one.saved_s:,.1f}",
        "\n".join(one.worst.cause.value.rsplit(" ", 1)),  # the line is two lines high in any case
    )


def _state_table(diagnosis: CheckpointDiagnosis) -> list[tuple[str, ...]]:
    headings = ("operator", "store", "batch", "partitions", "state rows", "λ %", "80 % in", "state")
    return [
        headings,
        *(
            (
                f"{store.operator} {store.name}",
                store.store,
                str(store.batch),
                str(store.instances),
                f"{sum(store.rows):,}",
                f"{store.imbalance_pct:.0f}",
                str(len(store.heaviest)),
                "even" if store.even else "uneven",
            )
            for store in diagnosis.stores
        ),
    ]


def _print_table(table: Sequence[Sequence[str]]) -> None:
    """A table whose first row has the headings; its first column takes more lines where it is long."""
    print_table(table[0], table[1:], left=(0, len(table[0]) - 1), folded=0, folded_at_least=_STAGE)


def _print_keys(source: str, diagnosis: KeysDiagnosis, table: Sequence[Sequence[str]], page: Path | None) -> None:
    say(f"{diagnosis.rows:,} rows of {source}, {diagnosis.distinct_keys:,} distinct keys by {', '.join(diagnosis.keys)}")
    if diagnosis.heaviest:
        heavy = [
            ("heaviest keys", "rows", "share"),
            *((one.key, f"{one.rows:,}", f"{one.share:.2%}") for one in diagnosis.heaviest),
        ]
        _print_table(heavy)
    _print_table(table)
    for one in diagnosis.at:
        say(f"{one.instances} instances: {one.why}.")
        if one.call:
            say("  ", (one.call, "bold"))
    say(f"\nλ = (max / mean - 1) · 100 % of the instances' rows; least λ: the heaviest key alone on an instance.\n{COMBINED}")
    _say_page(page)


def _print_log(
    application: Application,
    diagnosis: LogDiagnosis,
    shown: Sequence[Repeated],
    table: Sequence[Sequence[str]],
    page: Path | None,
) -> None:
    attempt = f", attempt {application.attempt}" if application.attempt else ""
    say(
        f"{application.name} ({application.id}{attempt}): {application.seconds:,.1f} s, {application.slots} slots, "
        f"{application.finished} finished {'stage' if application.finished == 1 else 'stages'}"
    )
    if shown:
        _print_table(table)
        say(STAGES_EXPLAINED)
    wrong = [one for one in shown if one.worst.cause is not Cause.EVEN]
    if shown and not wrong:
        say("\n", ("Nothing to do:", "bold green"), " the stages were even, or too short to matter.")
    for one in wrong:
        times = f", {one.times} times" if one.times > 1 else ""
        say("\n", (one.worst.stage.where, "bold"), times)
        say("  cause: ", (one.worst.cause.value, "bold red"), f" ({one.worst.confidence.value}): {one.worst.why}")
        say(f"  saved at best: {one.saved_s:,.1f} s. What to do: {one.worst.remedy}")
        for line in (one.worst.call or "").splitlines():
            say("    ", (line, "bold"))
    if wrong:
        say(
            f"\nIn all the application would save at most {diagnosis.saved_s:,.1f} s of {application.seconds:,.1f} s: what "
            "runs at the same time counts once."
        )
    if application.own_told:
        say(f"{application.own_told}.")
    for limit in application.notes():
        say(limit)
    _say_page(page)


def _print_checkpoint(diagnosis: CheckpointDiagnosis, table: Sequence[Sequence[str]], page: Path | None) -> None:
    _print_table(table)
    for store in diagnosis.stores:
        say(f"operator {store.operator}, {store.store}: {store.why}.")
    say(diagnosis.advice)
    _say_page(page)


def _say_page(page: Path | None) -> None:
    if page is not None:
        note(f"Page: {page}")
