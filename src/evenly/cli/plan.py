"""`evenly plan`: threads, slots and machines for a rate, before deployment."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from evenly.cli.options import Json, check_file
from evenly.cli.output import note, print_json, print_table, say
from evenly.cli.plan_spark import plan_for_spark
from evenly.dataflow.files import find_dataflow, shipped_names
from evenly.dataflow.graph import Dataflow
from evenly.errors import InvalidParameter
from evenly.files import write_whole
from evenly.numbers import plain
from evenly.planning.machines import AZURE_D, Catalogue, Cluster, MachineSize, parse_machines, read_catalogue
from evenly.planning.micro_batches.choosing import USUAL_TRIGGER_S
from evenly.planning.micro_batches.settings import USUAL_CORES
from evenly.planning.model_files import read_models, shipped_models
from evenly.planning.models import LOOKUPS, Models
from evenly.planning.plan import ALLOCATIONS, MAPPINGS, Plan, compare_pairs, highest_rate, plan, planned
from evenly.planning.prediction import CONTENTIONS, THREAD_ROUTINGS, Assumptions
from evenly.planning.rehearsal import Rehearsal, rehearse
from evenly.planning.replan import Replan, replan
from evenly.planning.spark_settings import source_options, spark_settings
from evenly.planning.summary import TOTAL, rows
from evenly.report.plan_page import plan_page

_HEADINGS = ("operator", "tuples/s", "threads", "slots", "cpu %", "mem %", "part %", "breaks at", "by")
_PAIR_HEADINGS = ("pair", "threads", "slots", "extra", "machines", "predicted", "slot-aware", "breaks first")
_MOST_MACHINES = 16


def plan_command(
    dataflow: Annotated[str, typer.Argument(help=f"A YAML file, or one that ships: {', '.join(shipped_names())}.")],
    rate: Annotated[
        float | None, typer.Option(help="Tuples/s at every source. Without it: the highest that --have or --slots holds.")
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="spark: plan for Spark's micro-batches, by what `evenly profile --on spark` measured.")
    ] = None,
    slots: Annotated[int | None, typer.Option(help="On Spark: task slots; else the fewest that hold the rate.")] = None,
    executor_cores: Annotated[int, typer.Option(help="On Spark: slots of an executor.")] = USUAL_CORES,
    models: Annotated[
        list[Path] | None, typer.Option(help="YAML files of performance models, beside the shipped ones.")
    ] = None,
    allocation: Annotated[str, typer.Option(help=f"How many threads: {', '.join(ALLOCATIONS)}.")] = "mba",
    mapping: Annotated[str, typer.Option(help=f"Which thread on which slot: {', '.join(MAPPINGS)}.")] = "sam",
    routing: Annotated[str, typer.Option(help=f"How tuples reach threads: {', '.join(THREAD_ROUTINGS)}.")] = "slot-aware",
    lookup: Annotated[str, typer.Option(help=f"Between measured points: {', '.join(LOOKUPS)}.")] = "interpolated",
    contention: Annotated[str, typer.Option(help=f"Who shares cores: {', '.join(CONTENTIONS)}.")] = "machine",
    machines: Annotated[
        Path | None, typer.Option(help="A YAML catalogue of machine sizes and prices; else Azure D1 to D3.")
    ] = None,
    have: Annotated[list[str] | None, typer.Option(help="A fixed set of machines, such as D3=5.")] = None,
    here: Annotated[bool, typer.Option("--here", help="The fixed set is this machine, one slot per core.")] = False,
    run_s: Annotated[float | None, typer.Option("--run", hidden=True)] = None,
    step: Annotated[float | None, typer.Option(help="Search the highest rate in these steps, as the paper does.")] = None,
    from_rate: Annotated[float | None, typer.Option(help="A plan for this rate is running: move few threads.")] = None,
    compare_all: Annotated[bool, typer.Option("--compare", help="Every allocation with every mapping, side by side.")] = False,
    rehearsal: Annotated[bool, typer.Option("--rehearse", help="Run the plan in the simulator at the planned rate.")] = False,
    spark_conf: Annotated[
        bool, typer.Option("--spark-conf", help="Print only the Spark settings for the plan, as spark-defaults.")
    ] = False,
    trigger: Annotated[
        float | None, typer.Option(help="Seconds between micro-batches; else 10, or with --slots the shortest that holds.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Where to write a page with tables and a drawing.")] = None,
    json: Json = False,
) -> None:
    """Say how many threads, slots and machines a dataflow needs for a rate, what breaks first, and how sure that is.

    `evenly run` runs a dataflow.

    Try: evenly plan linear --rate 100
    """
    if run_s is not None:
        raise InvalidParameter(f"evenly plan only plans: run the dataflow on Spark, by evenly run {dataflow}")
    check_file(page, "--page")
    of_machines = {
        "--have": have,
        "--here": here,
        "--machines": machines,
        "--run": run_s is not None,
        "--step": step is not None,
        "--from-rate": from_rate is not None,
        "--compare": compare_all,
        "--rehearse": rehearsal,
        "--page": page,
    }
    if _for_spark(on, slots, of_machines):
        plan_for_spark(
            dataflow,
            models=models or [],
            rate=rate,
            slots=slots,
            trigger=trigger,
            allocation=allocation,
            cores=executor_cores,
            spark_conf=spark_conf,
            json=json,
        )
        return
    trigger = USUAL_TRIGGER_S if trigger is None else trigger
    flow, known = find_dataflow(dataflow), _models(models or [])
    assumed = Assumptions(routing, lookup, contention)  # type: ignore[arg-type]
    catalogue = AZURE_D if machines is None else read_catalogue(machines)
    hosts = _hosts(catalogue, have or [], here=here)
    best = _plan(flow, known, rate, hosts, assumed, allocation, mapping, step)
    moved = None
    if from_rate is not None:
        if isinstance(hosts, Cluster):
            raise InvalidParameter("--from-rate takes the machines that it needs: leave --have and --here out")
        running = plan(flow, known, from_rate, allocation=allocation, mapping=mapping, machines=hosts)
        moved = replan(running.placement, known, best.rate, catalogue=hosts)
        best = planned(moved.placement, known, assumed)
    plans = compare_pairs(flow, known, best.rate, machines=hosts, assumptions=assumed) if compare_all else [best]
    settings = {**spark_settings(best, trigger_s=trigger), **source_options(best, trigger_s=trigger)}
    if page is not None:
        write_whole(page, plan_page(best, plans, settings))
    run = rehearse(best.placement, known, best.rate, assumptions=assumed) if rehearsal else None
    if json:
        parameters = {
            "dataflow": dataflow,
            "rate": rate,
            "models": [str(path) for path in models or []],
            "allocation": allocation,
            "mapping": mapping,
            "routing": routing,
            "lookup": lookup,
            "contention": contention,
            "have": have or [],
            "from_rate": from_rate,
        }
        print_json("plan", parameters, _results(plans, moved, run, settings if spark_conf else None))
    elif spark_conf:
        for name, value in settings.items():
            typer.echo(f"{name} {value}" if name.startswith("spark.") else f"# {name} {value}")
    else:
        _print(best, known)
        if compare_all:
            _print_comparison(plans, known)
        _print_more(moved, run, page)


def _for_spark(on: str | None, slots: int | None, of_machines: Mapping[str, object]) -> bool:
    """Whether the plan is for Spark; options of the other kind of plan are refused."""
    if on not in (None, "spark"):
        raise InvalidParameter(f"--on must be spark, got {on!r}")
    if on is None and slots is not None:
        raise InvalidParameter("--slots is of a plan for Spark: give --on spark too, or --have machines")
    given = [name for name, value in of_machines.items() if value]
    if on == "spark" and given:
        raise InvalidParameter(f"{', '.join(given)}: of a plan for machines. With --on spark give --slots, --trigger or --rate")
    return on == "spark"


def _results(
    plans: list[Plan], moved: Replan | None, run: Rehearsal | None, settings: dict[str, str] | None
) -> list[dict[str, object]]:
    results = [row for one in plans for row in rows(one)]
    if moved is not None:
        results[-1] |= {"moved_threads": moved.moved, "moved_threads_afresh": moved.moved_afresh}
    if run is not None:
        results[-1] |= {
            "stable": run.stable,
            "observed_completion_ms_mean": _told(run.completion_ms_mean),
            "observed_completion_ms_p99": _told(run.completion_ms_p99),
        }
    if settings is not None:
        results.append({"operator": "spark", **settings})
    return results


def _print_more(moved: Replan | None, run: Rehearsal | None, page: Path | None) -> None:
    if moved is not None:
        say(
            f"From the running plan: {moved.moved} threads move ({moved.moved_afresh} in a plan made afresh), "
            f"{moved.started} start, {moved.stopped} stop",
        )
    if run is not None:
        completion = f"completion time {run.completion_ms_mean:,.0f} ms on average, {run.completion_ms_p99:,.0f} ms at p99"
        say(
            f"Rehearsed at {plain(run.rate, 6)} tuples/s: {'stable' if run.stable else 'not stable'}, "
            f"{completion if run.completion_ms.size else 'and no tuple reached a sink in the meantime'}",
        )
    if page is not None:
        note(f"Page: {page}")


def _hosts(catalogue: Catalogue, have: list[str], *, here: bool) -> Catalogue | Cluster:
    if here:
        size = MachineSize("here", os.cpu_count() or 1)
        return Catalogue((size,)).take([("here", 1)])
    return catalogue.take(parse_machines(have)) if have else catalogue


def _models(paths: list[Path]) -> Models:
    known = shipped_models()
    for path in paths:
        known = known.with_others(read_models(path).values())
    return known


def _plan(
    flow: Dataflow,
    models: Models,
    rate: float | None,
    hosts: Catalogue | Cluster,
    assumed: Assumptions,
    allocation: str,
    mapping: str,
    step: float | None,
) -> Plan:
    if rate is not None:
        return plan(flow, models, rate, allocation=allocation, mapping=mapping, machines=hosts, assumptions=assumed)
    if not isinstance(hosts, Cluster):
        raise InvalidParameter("give --rate for the machines that it needs, or --have for the rate that machines hold")
    return highest_rate(flow, models, hosts, allocation=allocation, mapping=mapping, step=step, assumptions=assumed)


def _print(one: Plan, models: Models) -> None:
    found = rows(one)
    every = found[-1]
    name = one.placement.allocation.dataflow.name
    say(
        (f"{name} at {plain(one.rate, 6)} tuples/s", "bold"),
        f": {every['threads']} threads on {one.placement.slots} slots of "
        f"{len(one.placement.cluster.machines)} machines ({one.placement.cluster.named()}), by {one.pair.upper()}",
    )
    lines = [
        (
            str(row["operator"]),
            "" if row["operator"] == TOTAL else _number(row["rate"]),
            str(row["threads"]),
            str(row["slots"]),
            f"{row['cpu_pct']:.1f}",
            f"{row['mem_pct']:.1f}",
            f"{row['share_pct']:.0f}" if "share_pct" in row else "100",
            _number(row["breaks_at_rate"]),
            str(row["basis"]),
        )
        for row in found
    ]
    print_table(_HEADINGS, lines, left=(0, len(_HEADINGS) - 1), section=lambda line: line[0] == TOTAL)
    _print_machines(one)
    prediction = one.prediction
    sure = f" (95 %: {plain(prediction.low, 4)} to {plain(prediction.high, 4)})" if prediction.low < prediction.high else ""
    if math.isinf(prediction.rate):
        say(f"Predicted: any rate, for {prediction.binding}")
        return
    say(
        f"Predicted with {prediction.assumptions.routing} routing: {plain(prediction.rate, 4)} tuples/s{sure}. First to break: "
        f"{prediction.binding}",
    )
    other = replace(
        prediction.assumptions, routing="shuffle" if prediction.assumptions.routing == "slot-aware" else "slot-aware"
    )
    rival = planned(one.placement, models, other).prediction
    say(f"With {other.routing} routing: {plain(rival.rate, 4)} tuples/s, first to break {rival.binding.operator}")
    if every["completion_ms_mean"] is not None:
        say(
            f"Completion time at {plain(0.9 * one.rate, 6)} tuples/s: about {every['completion_ms_mean']:,.0f} ms on average, "
            f"{every['completion_ms_p99']:,.0f} ms at p99",
        )
    if one.placement.extra_slots:
        say(f"{one.placement.extra_slots} slots more than the {one.placement.allocation.slots} allocated were needed")
    if every["price_per_hour"] is not None:
        say(f"Price: {_number(every['price_per_hour'])} per hour")


def _told(value: float) -> float | None:
    """JSON has only numbers that are numbers."""
    return value if math.isfinite(value) else None


def _number(value: object) -> str:
    """A number of a row, if it has one."""
    return plain(value, 4) if isinstance(value, int | float) else ""


def _print_machines(one: Plan) -> None:
    cluster = one.placement.cluster
    for place, machine in enumerate(cluster.machines[:_MOST_MACHINES]):
        first = cluster.first_slot[place]
        cells = []
        for slot in range(first, first + machine.slots):
            held = ", ".join(f"{bundle.operator} {bundle.threads}" for bundle in one.placement.by_slot[slot]) or "empty"
            cells.append(f"[{slot + 1}: {held} | {one.slot_usage[slot].cpu_pct:.0f} % cpu]")
        say(f"  {machine.name} ({machine.size.name})  {'  '.join(cells)}")
    if len(cluster.machines) > _MOST_MACHINES:
        say(f"  and {len(cluster.machines) - _MOST_MACHINES} machines more (--page shows all)")


def _print_comparison(plans: list[Plan], models: Models) -> None:
    lines = []
    for one in plans:
        by = {
            routing: planned(one.placement, models, replace(one.prediction.assumptions, routing=routing))
            for routing in THREAD_ROUTINGS
        }
        lines.append(
            (
                one.pair,
                str(one.placement.allocation.threads),
                str(one.placement.slots),
                str(one.placement.extra_slots),
                str(len(one.placement.cluster.machines)),
                plain(by["shuffle"].prediction.rate, 4),
                plain(by["slot-aware"].prediction.rate, 4),
                one.prediction.binding.operator or "",
            )
        )
    print_table(_PAIR_HEADINGS, lines, left=(0, len(_PAIR_HEADINGS) - 1))
    say("predicted: tuples spread over threads alike; slot-aware: over slots by what they carry.")
