"""`evenly simulate batches`: would dealing by cost pay, tried on a user's own rows and costs, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from evenly.cli.options import Json, instance_numbers, wanted_names
from evenly.cli.output import print_json, print_table, runs_progress, say
from evenly.cli.recorded_columns import keys_of, numbers_of
from evenly.cli.simulate_shuffle import UNITS_MS, checked_unit
from evenly.errors import InvalidParameter
from evenly.lab.simulation.batch_comparison import SCHEDULERS, BatchesOutcome, compare_batches, scheduling
from evenly.lab.simulation.batches import Objective
from evenly.numbers import plain

_HEADINGS = ("scheduler", "k", "batches", "by cost", "time s", "bound s", "ratio", "mean ms", "S_L")
_EXPLAINED = (
    "k: instances; by cost: batches that were not dealt evenly; time: of all batches; bound: below it no dealing can go; "
    "ratio: time over that of repartition(k); mean: completion time of a row, from the start of its batch; S_L: mean of "
    "repartition(k) over this mean. What Spark itself takes for stages, tasks and routing is not simulated."
)


def batches(
    file: Annotated[Path, typer.Argument(help="A Parquet or CSV file, one row per tuple, in the order of arrival.")],
    key: Annotated[str, typer.Option(help="The column that says what a row costs, more or less: integers or text.")],
    cost: Annotated[str, typer.Option(help="The column with the cost of each row.")],
    unit: Annotated[str, typer.Option(help=f"The unit of the costs: {', '.join(UNITS_MS)}.")] = "ms",
    scheduler: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Which schedulers, with commas between or repeated: {', '.join(SCHEDULERS)}; or your own, as MODULE:CLASS."
        ),
    ] = None,
    instances: Annotated[str, typer.Option(help="Numbers of instances, with commas between.")] = "4,8,16",
    batch_rows: Annotated[int, typer.Option(help="The rows of a batch.")] = 2_000,
    objective: Annotated[str, typer.Option(help=f"What is wanted: {', '.join(get_args(Objective))}.")] = "completion",
    parts: Annotated[int, typer.Option(help="In how many parts a batch is read.")] = 4,
    seed: Annotated[int, typer.Option(help="Another seed reads the rows of a batch in another order.")] = 0,
    json: Json = False,
) -> None:
    """Compare ways to deal out batches of rows of unequal cost: what `apply_by_cost` does beside `repartition(k)`.

    Costs are learnt from batch to batch, by the same scheduler as on Spark; the first batch is dealt evenly.
    """
    names = wanted_names(scheduler or tuple(SCHEDULERS))
    for name in names:
        scheduling(name)
    counts = instance_numbers(instances)
    if objective not in get_args(Objective):
        raise InvalidParameter(f"--objective must be one of {', '.join(get_args(Objective))}, got {objective!r}")
    factor = checked_unit(unit)
    column = keys_of(file, key)
    costs_ms = numbers_of(file, cost, "--cost") * factor
    with runs_progress() as progress:
        bar = progress.add_task("simulating", total=len(names) * len(counts))
        outcomes = compare_batches(
            column,
            costs_ms,
            schedulers=names,
            instances=counts,
            batch_rows=batch_rows,
            objective=cast("Objective", objective),
            parts=parts,
            seed=seed,
            progress=lambda done: progress.advance(bar, done),
        )
    if json:
        parameters = {
            "file": str(file),
            "key": key,
            "cost": cost,
            "unit": unit,
            "schedulers": names,
            "instances": counts,
            "batch_rows": batch_rows,
            "objective": objective,
            "parts": parts,
            "seed": seed,
        }
        print_json("simulate batches", parameters, [one.row() for one in outcomes])
        return
    say(f"{len(column):,} rows of {file.name} by {key}, {plain(costs_ms.mean())} ms each on average")
    print_table(_HEADINGS, [_line(one) for one in outcomes], section=lambda line: line[1:2])
    say(_EXPLAINED)


def _line(one: BatchesOutcome) -> tuple[str, ...]:
    return (
        one.scheduler,
        str(one.instances),
        f"{one.batches:,}",
        f"{one.by_cost_batches:,}",
        plain(one.seconds, 4),
        plain(one.bound_s, 4),
        f"{one.ratio:.2f}",
        plain(one.completion_ms_mean, 4),
        f"{one.speedup_mean:.2f}",
    )
