"""`evenly simulate shuffle`: shuffle groupings tried on a user's own stream of keys and costs, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenly.cli.options import Json, check_file, instance_numbers, wanted_names
from evenly.cli.output import note, print_json, print_table, runs_progress, say
from evenly.cli.recorded_columns import keys_of, numbers_of
from evenly.errors import InvalidParameter
from evenly.files import write_whole
from evenly.lab.simulation.catalogue import SHUFFLE, shuffling
from evenly.lab.simulation.shuffle import ShuffleOutcome, best_of, compare_shuffle
from evenly.numbers import plain
from evenly.report.figures import Curve, Curves
from evenly.report.simulation_page import simulation_page

DEFAULT_GROUPINGS = ("evenly", "posg-cp", "round-robin", "two-choices", "shortest-queue", "least-work")
UNITS_MS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
_HEADINGS = ("grouping", "k", "load %", "mean ms", "p99 ms", "S_L", "messages", "memory B")
_EXPLAINED = (
    "k: instances; load: work that arrives, in % of what the instances can do; mean, p99: completion time of a row, from its "
    "arrival to its end; S_L: mean of round-robin over this mean; messages: of instances to schedulers; memory: of a scheduler."
)


def shuffle(
    file: Annotated[Path, typer.Argument(help="A Parquet or CSV file, one row per tuple, in the order of arrival.")],
    key: Annotated[str, typer.Option(help="The column that says what a row costs, more or less: integers or text.")],
    cost: Annotated[str, typer.Option(help="The column with the cost of each row.")],
    unit: Annotated[str, typer.Option(help=f"The unit of the costs: {', '.join(UNITS_MS)}.")] = "ms",
    grouping: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Which groupings, with commas between or repeated: {', '.join(SHUFFLE)}; or your own, as MODULE:CLASS."
        ),
    ] = None,
    instances: Annotated[str, typer.Option(help="Numbers of instances, with commas between.")] = "4,8,16",
    load: Annotated[str, typer.Option(help="Loads in % of what the instances can do, with commas between.")] = "80,90,95,100",
    schedulers: Annotated[int, typer.Option(help="How many schedulers share the stream.")] = 1,
    poisson: Annotated[bool, typer.Option("--poisson", help="Rows arrive at random, not at a constant rate.")] = False,
    seed: Annotated[int, typer.Option(help="Another seed draws other hashes and arrivals.")] = 0,
    json: Json = False,
    page: Annotated[Path | None, typer.Option(help="Where to write a page with the table and a picture.")] = None,
) -> None:
    """Compare shuffle groupings on a recorded stream of keys and costs: how long rows take, at which load, by whom.

    Instances have queues and are all alike; rows arrive in the file's order, at the rate that gives the load.
    """
    names = wanted_names(grouping or DEFAULT_GROUPINGS)
    for name in names:
        shuffling(name)
    counts, loads = instance_numbers(instances), _loads(load)
    factor = checked_unit(unit)
    check_file(page, "--page")
    column = keys_of(file, key)
    costs_ms = numbers_of(file, cost, "--cost") * factor
    with runs_progress() as progress:
        bar = progress.add_task("simulating", total=len(names) * len(counts) * len(loads))
        outcomes = compare_shuffle(
            column,
            costs_ms,
            groupings=names,
            instances=counts,
            loads_pct=loads,
            schedulers=schedulers,
            poisson=poisson,
            seed=seed,
            progress=lambda done: progress.advance(bar, done),
        )
    source = f"{len(column):,} rows of {file.name} by {key}, {plain(costs_ms.mean())} ms each on average"
    rows = [outcome.row() for outcome in outcomes]
    if page is not None:
        table = [_HEADINGS, *(_line(one) for one in outcomes)]
        panels = _panels(outcomes, counts, loads)
        write_whole(page, simulation_page(source, table, panels, numbers=rows, footnote=_EXPLAINED))
    if json:
        parameters = {
            "file": str(file),
            "key": key,
            "cost": cost,
            "unit": unit,
            "groupings": names,
            "instances": counts,
            "loads_pct": loads,
            "schedulers": schedulers,
            "poisson": poisson,
            "seed": seed,
        }
        print_json("simulate shuffle", parameters, rows)
    else:
        _print(source, outcomes, page)


def _loads(text: str) -> list[float]:
    try:
        return list(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError as error:
        raise InvalidParameter(f"--load must be numbers with commas between, such as 80,95,100, got {text!r}") from error


def checked_unit(unit: str) -> float:
    """How many ms it has."""
    if unit not in UNITS_MS:
        raise InvalidParameter(f"--unit must be one of {', '.join(UNITS_MS)}, got {unit!r}")
    return UNITS_MS[unit]


def _line(one: ShuffleOutcome) -> tuple[str, ...]:
    return (
        f"{one.grouping} *" if one.knows_costs else one.grouping,
        str(one.instances),
        f"{one.load_pct:g}",
        f"{one.completion_ms_mean:,.3g}" if one.completion_ms_mean < 100.0 else f"{one.completion_ms_mean:,.0f}",
        f"{one.completion_ms_p99:,.3g}" if one.completion_ms_p99 < 100.0 else f"{one.completion_ms_p99:,.0f}",
        f"{one.speedup_mean:.2f}",
        f"{one.messages:,}",
        f"{one.memory_bytes:,}",
    )


def _panels(outcomes: list[ShuffleOutcome], counts: list[int], loads: list[float]) -> list[Curves]:
    by = {(one.grouping, one.instances, one.load_pct): one.speedup_mean for one in outcomes}
    names = list(dict.fromkeys(one.grouping for one in outcomes))
    x = sorted(loads)
    return [
        Curves(
            f"{count} instances",
            "load, %",
            "S_L against round-robin",
            [Curve(name, x, [by[name, count, load] for load in x]) for name in names],
        )
        for count in counts
    ]


def _print(source: str, outcomes: list[ShuffleOutcome], page: Path | None) -> None:
    say(source)
    print_table(_HEADINGS, [_line(one) for one in outcomes], section=lambda line: line[1:3])
    say(_EXPLAINED)
    if any(one.knows_costs for one in outcomes):
        say("* knows the exact cost of every row beforehand: a bound, not a choice")
    for count in dict.fromkeys(one.instances for one in outcomes):
        best = [
            best_of([one for one in outcomes if (one.instances, one.load_pct) == (count, load)]) for load in _each(outcomes)
        ]
        said = ", ".join(f"{one.grouping} at {one.load_pct:g} % ({one.speedup_mean:.2f} times)" for one in best)
        say(f"Best on {count} instances: {said}")
    if page is not None:
        note(f"Page: {page}")


def _each(outcomes: list[ShuffleOutcome]) -> list[float]:
    return list(dict.fromkeys(one.load_pct for one in outcomes))
