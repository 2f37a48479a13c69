"""`evenly demo`: a skewed job run twice, and who was busy."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from evenly.checks import checked_instances
from evenly.cli.options import Json, check_file, make_folder
from evenly.cli.output import note, print_json, results, say, steps_progress
from evenly.errors import InvalidParameter, MissingDependency
from evenly.files import write_whole
from evenly.report.comparison import Comparison, PlacedRun
from evenly.report.comparison_page import comparison_page

_TRY_NEXT = """
Try next:
  evenly demo --instances 4      fewer instances
  evenly demo --instances 24     one key is then too heavy for an instance
In your own job:
  df.transform(evenly.by_key, key="user", instances=16).groupBy("user", "slot")
"""


def demo(
    rows: Annotated[int, typer.Option(help="How many rows to group (the recorded events are repeated).")] = 2_000_000,
    instances: Annotated[int, typer.Option(help="How many partitions, and tasks at a time.")] = 8,
    wait_us: Annotated[float, typer.Option(help="How long the function waits for each row, in microseconds.")] = 32.0,
    page: Annotated[Path, typer.Option(help="Where to write the page with the picture.")] = Path("evenly-demo.html"),
    event_log: Annotated[
        Path | None, typer.Option(help="A folder for Spark's event log, to look into with evenly diagnose log.")
    ] = None,
    json: Json = False,
) -> None:
    """Run a skewed PySpark job twice, by Spark's hash and with Evenly, and show who was busy.

    The job groups recorded football events by player and runs a Python function for each. One player id stands for
    "unknown" and has 7 % of the rows, as happens in most real tables. Takes about a minute.
    """
    _check(rows, instances, wait_us, page)
    if event_log is not None:
        make_folder(event_log, "--event-log")
    comparison = _compare(rows, instances, wait_us, event_log)
    write_whole(page, comparison_page(comparison, rows=rows, wait_us=wait_us))
    if json:
        print_json("demo", {"rows": rows, "instances": instances, "wait_us": wait_us}, comparison.results())
    else:
        _print(comparison, page)


def _check(rows: int, instances: int, wait_us: float, page: Path) -> None:
    checked_instances(instances)
    if rows < 1:
        raise InvalidParameter(f"--rows must be at least 1, got {rows}")
    if not 0.0 <= wait_us <= 1e6:
        raise InvalidParameter(f"--wait-us must be from 0 to 1000000, got {wait_us}")
    check_file(page, "--page")
    if find_spec("pyspark") is None:
        raise MissingDependency("the demo needs PySpark: pip install 'evenly[spark]'")


def _compare(rows: int, instances: int, wait_us: float, event_log: Path | None) -> Comparison:
    # Imported here, so that `evenly --help` needs no Spark.
    from evenly.spark import comparison as job  # noqa: PLC0415
    from evenly.spark.session import local_session  # noqa: PLC0415

    with steps_progress() as progress:
        bar = progress.add_task("starting Spark", total=6)

        def step(description: str) -> None:
            progress.update(bar, advance=1, description=description)

        logged = (
            {} if event_log is None else {"spark.eventLog.enabled": "true", "spark.eventLog.dir": event_log.resolve().as_uri()}
        )
        spark = local_session("evenly demo", slots=instances, memory="2g", settings=logged)
        try:
            step("repeating the recorded events")
            df = job.football_rows(spark, rows)
            step("starting Python on every slot")
            job.warm_up(df, instances)
            step("running the job by Spark's hash")
            by_hash = job.run_by_hash(df, instances, wait_us)
            step("learning the mapping")
            mapping, learning_s = job.learn(df, instances)
            step("running the job with Evenly")
            by_evenly = job.run_by_evenly(df, mapping, wait_us)
        finally:
            spark.stop()
    return Comparison(
        hash=PlacedRun("hash", by_hash.rows, by_hash.busy_s, by_hash.stage_s, by_hash.job_s),
        evenly=PlacedRun("evenly", by_evenly.rows, by_evenly.busy_s, by_evenly.stage_s, by_evenly.job_s),
        learning_s=learning_s,
        least_imbalance_pct=mapping.least_imbalance_pct,
        same_results=by_hash.groups.equals(by_evenly.groups),
    )


def _print(comparison: Comparison, page: Path) -> None:
    by_hash, by_evenly = comparison.hash, comparison.evenly
    table = Table(title="Who was busy", title_justify="left")
    for heading in ("instance", "rows by hash", "busy s", "rows by Evenly", "busy s"):
        table.add_column(heading, justify="right")
    for i in range(by_hash.rows.size):
        table.add_row(
            str(i),
            Text(f"{by_hash.rows[i]:,}", "bold red" if by_hash.rows[i] == by_hash.rows.max() else ""),
            f"{by_hash.busy_s[i]:.2f}",
            f"{by_evenly.rows[i]:,}",
            f"{by_evenly.busy_s[i]:.2f}",
        )
    table.add_section()
    table.add_row("λ of rows", f"{by_hash.imbalance_pct:.1f} %", "", f"{by_evenly.imbalance_pct:.1f} %", "")
    table.add_row("stage", "", f"{by_hash.stage_s:.1f}", "", f"{by_evenly.stage_s:.1f}")
    table.add_row("whole job", "", f"{by_hash.job_s:.1f}", "", f"{by_evenly.job_s:.1f}")
    results.print(table)
    say(
        "By hash the grouped stage took ",
        (f"{comparison.ratio:.2f}", "bold"),
        f" times as long. Learning the mapping took {comparison.learning_s:.1f} s; with it counted, the whole job by hash took "
        f"{comparison.ratio_with_learning:.2f} times as long.\nResults: ",
        "the same" if comparison.same_results else ("different", "bold red"),
        ".",
    )
    note(f"Page: {page}")
    note(_TRY_NEXT)
