"""`evenly profile`: the performance model of a Python operator, measured on one slot of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from evenly.cli.options import Json, check_file, import_from_here
from evenly.cli.output import print_json, print_table, runs_progress, say
from evenly.cli.profile_spark import profile_on_spark
from evenly.errors import InvalidParameter
from evenly.files import write_whole
from evenly.lab.slots.operators import OperatorSpec
from evenly.lab.slots.trials import SlotTrials, TrialOptions
from evenly.numbers import plain
from evenly.planning.model_files import models_yaml, read_models, read_spark_models
from evenly.planning.models import PerformanceModel, merge_runs
from evenly.planning.profiling.search import SearchOptions, SlotTrial, model_of
from evenly.planning.profiling.search import profile_threads as search
from evenly.planning.profiling.trial_log import TrialLog
from evenly.report.figures import Curve, Curves, draw_svgs

MOST_REPEATS = 50
_TRIAL_S = 5.0


def profile(
    out: Annotated[Path, typer.Option(help="The YAML file that `evenly plan --models` reads; other models in it are kept.")],
    operator: Annotated[
        str | None,
        typer.Argument(
            help="MODULE:FUNCTION, called with a tuple's number; a class is made once per slot. On Spark: a dataflow's file."
        ),
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="spark: measure the operators of a dataflow in Spark's Python workers.")
    ] = None,
    engine: Annotated[
        bool, typer.Option("--engine", help="Measure what Spark itself needs for a batch, once per cluster.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="The model's name; else that of the function.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Seconds of a trial: 5, on Spark 3.")] = None,
    precision: Annotated[float, typer.Option(help="How near the peak rate is found, 0.005 to 0.5.")] = 0.05,
    most_threads: Annotated[int, typer.Option(help="Threads are not tried beyond this.")] = 128,
    slope: Annotated[float, typer.Option(help="Stable while completion times grow by no more than this, in s/s.")] = 0.02,
    flat: Annotated[
        float, typer.Option(help="Stop when the peak rate rises by no more than this part of the best per step.")
    ] = 0.02,
    rate_step: Annotated[float | None, typer.Option(help="Grow the rate in these steps, as the paper does.")] = None,
    thread_step: Annotated[int | None, typer.Option(help="Grow the threads in these steps.")] = None,
    first_rate: Annotated[float, typer.Option(help="The rate to begin with, tuples/s.")] = 10.0,
    memory_mib: Annotated[int, typer.Option(help="The memory of a slot, MiB.")] = 3584,
    repeat: Annotated[int, typer.Option(help="Measure this many times: plans then come with an interval.")] = 1,
    picture: Annotated[Path | None, typer.Option(help="Where to draw rate, cpu and memory over threads (SVG).")] = None,
    rows: Annotated[
        int, typer.Option(help="On Spark: rows of the source that are run through the dataflow as a sample.")
    ] = 256,
    source: Annotated[
        str | None, typer.Option(help="On Spark: a Parquet table in place of the source, such as of a stream that is no table.")
    ] = None,
    folder: Annotated[
        str | None, typer.Option(help="With --engine, or state: where files are put, and removed, while it measures.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master, such as spark://host:7077; else this machine.")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="A setting of Spark, name=value; may be repeated.")] = None,
    json: Json = False,
) -> None:
    """Measure what threads of an operator carry on one slot: the peak stable rate, cpu and memory for each number of them.

    With --on spark: of every operator of rows and batches of a dataflow, in Spark's Python workers with all slots busy, and of
    every one of Spark's own (frame, state), as a batch of a stream runs it. With --engine: what Spark itself needs.

    The operator runs in a process pinned to one core. A trial that was made is kept beside the file until the profile is
    whole, so an interrupted profile goes on where it was.

    Try: evenly profile evenly.planning.examples:Pi --out models.yaml
    """
    if not 1 <= repeat <= MOST_REPEATS:
        raise InvalidParameter(f"--repeat must be from 1 to {MOST_REPEATS}, got {repeat}")
    for path, option in ((out, "--out"), (picture, "--picture")):
        check_file(path, option)
    if on not in (None, "spark"):
        raise InvalidParameter(f"--on must be spark, got {on!r}")
    if operator is not None and engine and on is None:
        raise InvalidParameter("--engine measures Spark itself: leave the operator out, or give a dataflow and --on spark too")
    if engine or (on == "spark" and operator is not None):
        profile_on_spark(
            operator,
            engine=engine,
            out=out,
            rows=rows,
            seconds=seconds,
            most_threads=most_threads,
            source=source,
            folder=folder,
            master=master,
            conf=conf or [],
            json=json,
        )
        return
    if operator is None:
        raise InvalidParameter("name what to measure: MODULE:FUNCTION, FLOW.yaml with --on spark, or --engine")
    seconds = _TRIAL_S if seconds is None else seconds
    import_from_here()
    spec = OperatorSpec(operator)
    spec.load()
    kept = read_models(out).values() if out.exists() else []
    on_spark = read_spark_models(out) if out.exists() else None
    label = name or operator.rpartition(":")[2]
    how = SearchOptions(
        precision=precision,
        rate_step=rate_step,
        thread_step=thread_step,
        most_threads=most_threads,
        flat=flat,
        first_rate=first_rate,
    )
    trial = TrialOptions(seconds=seconds, slope=slope, memory_mib=memory_mib)
    about = f"{operator}, measured on one slot of this machine in trials of {seconds:g} s"
    runs = [_measure(spec, label, about, how, trial, out, turn) for turn in range(repeat)]
    model = merge_runs(runs) if repeat > 1 else runs[0]
    write_whole(out, models_yaml([*(one for one in kept if one.name != label), model], on_spark))
    for turn in range(repeat):
        _log_path(out, label, turn).unlink(missing_ok=True)
    if picture is not None:
        write_whole(picture, draw_svgs([_panel(model)], columns=1, alone=True)[0])
    if json:
        parameters = {"operator": operator, "name": label, "seconds": seconds, "precision": precision, "repeat": repeat}
        print_json("profile", parameters, _rows(model))
    else:
        _print(model, out, picture)


def _log_path(out: Path, label: str, turn: int) -> Path:
    return out.with_name(f"{out.name}.{quote(label, safe='')[:100]}-{turn + 1}.trials")


def _measure(
    spec: OperatorSpec, label: str, about: str, how: SearchOptions, trial: TrialOptions, out: Path, turn: int
) -> PerformanceModel:
    log = TrialLog(_log_path(out, label, turn), f"{spec.target} {how} {trial}")
    peaks: list[SlotTrial] = []
    with runs_progress() as progress, SlotTrials(spec, trial) as trials:
        bar = progress.add_task(label, total=None)

        def shown(threads: int, rate: float) -> SlotTrial:
            progress.update(bar, description=f"{threads} threads, {plain(rate, 4)}/s")
            found = trials.run(threads, rate)
            progress.advance(bar)
            return found

        for peak in search(log.wrap(shown), how):
            peaks.append(peak)
            progress.console.print(
                f"{label}: {peak.threads} threads carry {plain(peak.rate, 4)} tuples/s "
                f"at {peak.cpu_pct:.0f} % cpu, {peak.mem_pct:.1f} % memory"
            )
    return model_of(label, peaks, about)


def _rows(model: PerformanceModel) -> list[dict[str, object]]:
    return [
        {
            "operator": model.name,
            "threads": point.threads,
            "rate": point.rate,
            "rate_low": point.interval()[0],
            "rate_high": point.interval()[1],
            "cpu_pct": point.cpu_pct,
            "mem_pct": point.mem_pct,
            "best": point == model.best,
            "basis": point.origin,
        }
        for point in model.points
    ]


def _panel(model: PerformanceModel) -> Curves:
    threads = [point.threads for point in model.points]
    return Curves(
        f"{model.name}: at most {plain(model.best.rate, 4)} tuples/s, with {model.best.threads} threads",
        "threads on one slot",
        "% of the best rate, of the slot",
        [
            Curve("rate", threads, [100.0 * point.rate / model.best.rate for point in model.points]),
            Curve("cpu", threads, [point.cpu_pct for point in model.points]),
            Curve("memory", threads, [point.mem_pct for point in model.points]),
        ],
    )


def _print(model: PerformanceModel, out: Path, picture: Path | None) -> None:
    lines = [
        (
            str(point.threads),
            plain(point.rate, 4),
            " to ".join(plain(end, 4) for end in point.interval()) if point.interval()[1] > point.interval()[0] else "",
            f"{point.cpu_pct:.1f}",
            f"{point.mem_pct:.1f}",
            "best" if point == model.best else "",
        )
        for point in model.points
    ]
    print_table(("threads", "tuples/s", "95 %", "cpu %", "mem %", ""), lines, left=())
    say(f"Model {model.name} in {out}" + (f", picture in {picture}" if picture else ""))
