"""`evenly plan --on spark`: slots, trigger and threads for a rate on Spark's micro-batches."""

from __future__ import annotations

import math
from pathlib import Path

import typer

from evenly.cli.options import import_from_here
from evenly.cli.output import note, print_json, print_table, say
from evenly.dataflow.files import find_dataflow
from evenly.numbers import plain
from evenly.planning.micro_batches.choosing import plan_on_spark
from evenly.planning.micro_batches.models import SparkModels
from evenly.planning.micro_batches.plan import PlannedStage, SparkPlan
from evenly.planning.micro_batches.settings import executor_memory, executors, settings_on_spark, source_on_spark
from evenly.planning.micro_batches.summary import spark_rows
from evenly.planning.model_files import read_spark_models

_HEADINGS = ("stage (operators with their threads)", "tasks", "rows/s", "seconds", "part %")


def plan_for_spark(
    dataflow: str,
    *,
    models: list[Path],
    rate: float | None,
    slots: int | None,
    trigger: float | None,
    allocation: str,
    cores: int,
    spark_conf: bool,
    json: bool,
) -> None:
    """Print the plan."""
    import_from_here()
    flow, known = find_dataflow(dataflow), SparkModels()
    for path in models:
        known = known.with_others(read_spark_models(path))
    best = plan_on_spark(flow, known, rate=rate, slots=slots, trigger_s=trigger, allocation=allocation)
    rival = plan_on_spark(flow, known, rate=best.rate, slots=best.slots, trigger_s=best.trigger_s, allocation="lsa")
    settings = {**settings_on_spark(best, cores=cores), **source_on_spark(best)}
    if json:
        parameters = {
            "dataflow": dataflow,
            "on": "spark",
            "rate": rate,
            "slots": slots,
            "trigger": trigger,
            "models": [str(path) for path in models],
            "allocation": allocation,
        }
        found = [*spark_rows(best, cores=cores), *([] if best.allocation == "lsa" else [spark_rows(rival, cores=cores)[-1]])]
        print_json("plan", parameters, [*found, *([{"operator": "spark", **settings}] if spark_conf else [])])
    elif spark_conf:
        for name, value in settings.items():
            typer.echo(f"{name} {value}" if name.startswith("spark.") else f"# {name} {value}")
    else:
        _print(best, rival, cores)


def _print(plan: SparkPlan, rival: SparkPlan, cores: int) -> None:
    count, each = executors(plan, cores)
    rows, batch_s = plan.rows_per_batch, plan.batch_s(plan.rows_per_batch)
    say(
        (f"{plan.flow.name} at {plain(plan.rate, 4)} rows/s on Spark", "bold"),
        f": {_many(plan.slots, 'task slot')} ({_many(count, 'executor')} of {_many(each, 'core')} and "
        f"{executor_memory(plan, cores).all / 1024:.1f} GiB), a batch of about "
        f"{rows:,.0f} rows every {plan.interval_s:g} s, by {plan.allocation.upper()}",
    )
    lines = [_line(plan, stage, batch_s) for stage in plan.stages]
    outside_s = plan.fixed_s
    lines.append(("Spark, beside its stages", "", "", plain(outside_s), _part_of(outside_s, batch_s)))
    lines.append(("a batch", "", "", plain(batch_s), "100"))
    print_table(_HEADINGS, lines, folded=0, section=lambda line: line[0] == "a batch")
    first = plan.first_to_break
    say(
        f"Highest rate: {plan.told_peak}" + (f". First to break: {first}" if first else ""),
        "" if plan.holds else ". It does not hold the rate: give more --slots or a longer --trigger",
    )
    if plan.holds:
        say(
            f"Completion time: about {plain(plan.completion_s_mean)} s on average, {plain(plan.completion_s_p99)} s at p99, "
            "from a row's arrival to the end of its batch",
        )
    if rival.allocation != plan.allocation and math.isfinite(plan.peak_rate):
        times = f"; this plan carries {plan.peak_rate / rival.peak_rate:.2f} times as much" if rival.peak_rate > 0.0 else ""
        say(f"With one thread per task (LSA): {plain(rival.peak_rate, 4)} rows/s{times}")
    if plan.unmeasured:
        say(f"Not measured, and counted as nothing: {_unmeasured(plan)}")
    for doubt in plan.doubts:
        note(("in doubt: ", "bold"), doubt)
    if plan.between:
        note(f"Not measured with this number of threads: {', '.join(plan.between)}")
    if plan.slots != plan.engine.slots:
        note(f"Measured with {_many(plan.engine.slots, 'slot')}: others are taken to be as fast, on machines of the same kind")


def _line(plan: SparkPlan, stage: PlannedStage, batch_s: float) -> tuple[str, ...]:
    names = [f"{name} ×{plan.threads[name]}" if name in plan.threads else name for name in stage.operators]
    took_s = stage.seconds(plan.rows_per_batch)
    entering = plan.rate * max(stage.rows_in.values(), default=0.0)
    return " + ".join(names), str(stage.tasks), plain(entering, 4), plain(took_s), _part_of(took_s, batch_s)


def _part_of(seconds: float, batch_s: float) -> str:
    """In percent; of a batch that takes no time, nothing."""
    return f"{100.0 * seconds / batch_s:.0f}" if batch_s > 0.0 else ""


def _unmeasured(plan: SparkPlan) -> str:
    """State and operators of Spark itself that nobody has measured yet."""
    told = [f"{name} (state)" if plan.flow.by_name[name].kind == "state" else name for name in plan.unmeasured]
    return f"{', '.join(told)} (evenly profile FLOW --on spark measures {'it' if len(told) == 1 else 'them'})"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
