"""`evenly profile --on spark` and `--engine`: what plans for Spark rest on, measured where it will run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from evenly.cli.options import import_from_here, session_settings
from evenly.cli.output import print_json, print_table, runs_progress, say
from evenly.dataflow.files import read_dataflow
from evenly.dataflow.stages import settings_of, stages_of
from evenly.errors import MissingDependency
from evenly.files import write_whole
from evenly.numbers import plain
from evenly.planning.micro_batches.curves import CurvePoint, SlotCurve
from evenly.planning.micro_batches.engine import EngineCosts
from evenly.planning.micro_batches.frame_costs import FrameCost
from evenly.planning.micro_batches.models import SparkModels
from evenly.planning.model_files import models_yaml, read_models, read_spark_models

_COSTS = {
    "batch_s": "a batch",
    "stage_s": "a stage",
    "sink_s": "a sink",
    "file_sink_s": "more for a sink that is files",
    "task_s": "a turn of tasks on all slots",
    "worker_s": "more for a Python worker in each",
    "moved_row_s": "a row through a shuffle, on one slot",
    "kept_row_s": "a row that is persisted, on one slot",
}


def profile_on_spark(
    dataflow: str | None,
    *,
    engine: bool,
    out: Path,
    rows: int,
    seconds: float | None,
    most_threads: int,
    source: str | None,
    folder: str | None,
    master: str | None,
    conf: list[str],
    json: bool,
) -> None:
    """Measure the operators of a dataflow, or Spark itself, and keep it in the file beside what is there."""
    if find_spec("pyspark") is None:
        raise MissingDependency("profiling on Spark needs PySpark: pip install 'evenly[spark]'")
    # Imported here, so that `evenly profile --help` needs no Spark.
    from evenly.spark.flows.engine_profile import profile_engine  # noqa: PLC0415
    from evenly.spark.flows.profiling import ProfileOptions, profile_flow  # noqa: PLC0415
    from evenly.spark.session import local_session  # noqa: PLC0415

    import_from_here()
    settings = session_settings(conf, master)
    kept = read_models(out).values() if out.exists() else []
    known = read_spark_models(out) if out.exists() else SparkModels()
    flow = None if dataflow is None else read_dataflow(dataflow)
    how = ProfileOptions(rows, seconds or ProfileOptions.seconds, most_threads)
    if flow is not None:
        stages_of(flow)  # what is wrong is said before Spark starts
        known.check_replaced(flow)
        settings = {**settings_of(flow), **settings}
    spark = local_session("evenly profile", settings=settings)
    found = SparkModels()
    try:
        with runs_progress() as progress:
            bar = progress.add_task("Spark itself" if engine else "operators", total=None)

            def step(text: str) -> None:
                progress.advance(bar)
                progress.console.print(text)

            if engine:
                costs = profile_engine(spark, folder=folder, told=lambda kind, s: step(f"{kind}: {plain(s)} s a batch"))
                found = found.with_others(SparkModels(costs))
            if flow is not None:
                given = None if source is None else spark.read.load(source)
                measured = profile_flow(
                    spark, flow, options=how, source=given, told=lambda *it: step(_told(*it)), folder=folder
                )
                found = found.with_others(measured)
    finally:
        spark.stop()
    write_whole(out, models_yaml(kept, known.with_others(found)))
    if json:
        parameters = {"operator": dataflow, "on": "spark", "engine": engine, "rows": rows, "seconds": how.seconds}
        print_json("profile", parameters, _rows(found))
    else:
        _print(found, out)


def _told(name: str, point: CurvePoint | FrameCost) -> str:
    if isinstance(point, FrameCost):
        return f"{name}: {_of_frame(point)}"
    threads = "1 thread" if point.threads == 1 else f"{point.threads} threads"
    return f"{name}: a slot with {threads} carries {plain(point.rows_per_s, 4)} rows/s"


def _of_frame(cost: FrameCost) -> str:
    shuffles = f", {cost.shuffles} shuffle{'s' * (cost.shuffles > 1)} of its own" if cost.shuffles else ""
    keys = f", while it keeps {cost.keys:,} keys" if cost.keys else ""
    nothing = "rows take it no time that could be measured"
    carried = f"a slot carries {plain(1.0 / cost.row_s, 4)} rows/s" if cost.row_s > 0.0 else nothing
    return f"{carried}, and each batch takes {plain(1e3 * cost.fixed_s)} ms more{shuffles}{keys} (Spark itself)"


def _rows(models: SparkModels) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    if models.engine is not None:
        costs = {name: getattr(models.engine, name) for name in _COSTS}
        slots = {"slots": models.engine.slots, "cores_per_slot": models.engine.cores_per_slot}
        found.append({"operator": "engine", **slots, **costs})
    found += [
        {
            "operator": name,
            "slots": curve.slots,
            "threads": point.threads,
            "rate": point.rows_per_s,
            "cpu_row_s": point.cpu_row_s,
            "longest_row_s": curve.longest_row_s,
            "memory_mib": curve.memory_mib,
            "best": point == curve.best,
            "basis": "measured",
        }
        for name, curve in models.curves.items()
        for point in curve.points
    ]
    found += [
        {
            "operator": name,
            "slots": cost.slots,
            **({"rate": 1.0 / cost.row_s} if cost.row_s > 0.0 else {}),
            "fixed_s": cost.fixed_s,
            "shuffles": cost.shuffles,
            "sample": cost.sample,
            "left": cost.left,
            **({"keys": cost.keys} if cost.keys else {}),
            "basis": "measured",
        }
        for name, cost in models.frames.items()
    ]
    return found


def _print(models: SparkModels, out: Path) -> None:
    if models.engine is not None:
        _print_engine(models.engine)
    lines = [line for curve in models.curves.values() for line in _lines(curve)]
    if lines:
        print_table(("operator", "threads", "rows/s a slot", "cpu ms a row", ""), lines, section=lambda line: line[0])
    for cost in models.frames.values():
        say(f"{cost.name}: {_of_frame(cost)}")
    say(f"Measured with {_slots(models)}, in {out}")


def _slots(models: SparkModels) -> str:
    found = {curve.slots for curve in models.curves.values()} | {cost.slots for cost in models.frames.values()}
    found |= {models.engine.slots} if models.engine else set()
    return ", ".join(f"{slots} slot{'s' * (slots != 1)}" for slots in sorted(found))


def _print_engine(costs: EngineCosts) -> None:
    lines = [(told, plain(1e3 * getattr(costs, name), 4)) for name, told in _COSTS.items()]
    print_table(("what Spark itself needs", "ms"), lines)
    say(f"A slot gets {100.0 * costs.cores_per_slot:.0f} % of a core when all compute")


def _lines(curve: SlotCurve) -> list[tuple[str, ...]]:
    return [
        (
            curve.name,
            str(point.threads),
            plain(point.rows_per_s, 4),
            plain(1e3 * point.cpu_row_s),
            "best" if point == curve.best else "",
        )
        for point in curve.points
    ]
