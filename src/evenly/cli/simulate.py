"""`evenly simulate`: groupings tried on a user's own stream, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenly.cli.options import Json, check_file, instance_numbers, wanted_names
from evenly.cli.output import note, print_json, print_table, runs_progress, say
from evenly.cli.recorded_columns import keys_of, numbers_of
from evenly.cli.simulate_batches import batches
from evenly.cli.simulate_shuffle import shuffle
from evenly.files import write_whole
from evenly.lab.simulation.catalogue import KEYED, keyed
from evenly.lab.simulation.recorded import BEFORE, ITSELF, Outcome, compare
from evenly.report.figures import Curve, Curves
from evenly.report.simulation_page import simulation_page

DEFAULT_GROUPINGS = ("evenly", "dkg", "o-apx", "universal", "modulo")
_HEADINGS = ("grouping", "k", "λ own %", "λ first %", "least λ %", "learner B", "mapping B", "moved %")
_EXPLAINED = (
    "k: instances; λ own: fitted on the evaluated part itself; λ first: fitted on the first part; "
    "least λ: the heaviest key alone; moved: load that changes its instance when the mapping is made anew."
)

app = typer.Typer(name="simulate", help="Try groupings on your own data, without Spark.", no_args_is_help=True)


@app.callback()
def simulations() -> None:
    """Try groupings on your own data, without Spark."""


@app.command("keys")
def keys(
    file: Annotated[Path, typer.Argument(help="A Parquet or CSV file, one row per tuple, in the order of arrival.")],
    key: Annotated[str, typer.Option(help="The column of keys: integers or text.")],
    grouping: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Which groupings, with commas between or repeated: {', '.join(KEYED)}; or your own, as MODULE:CLASS."
        ),
    ] = None,
    instances: Annotated[str, typer.Option(help="Numbers of instances, with commas between.")] = "4,8,16",
    fit_share: Annotated[float, typer.Option(help="The first part of the rows, to fit on: above 0, below 1.")] = 0.2,
    weight: Annotated[
        str | None, typer.Option(help="A column with the load of each row; every row weighs 1 without it.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other hashes.")] = 0,
    json: Json = False,
    page: Annotated[Path | None, typer.Option(help="Where to write a page with the table and a picture.")] = None,
) -> None:
    """Compare key groupings on a recorded stream: imbalance, memory, and what a rebuild would move.

    Each is fitted twice, on the first part of the rows and on the rest, and evaluated on the rest both times: the
    second says what the grouping can do, the first what it would have done.
    """
    names = wanted_names(grouping or DEFAULT_GROUPINGS)
    for name in names:
        keyed(name)
    counts = instance_numbers(instances)
    check_file(page, "--page")
    column = keys_of(file, key)
    weights = None if weight is None else numbers_of(file, weight, "--weight")
    with runs_progress() as progress:
        bar = progress.add_task("simulating", total=len(names) * len(counts))
        outcomes = compare(
            column,
            groupings=names,
            instances=counts,
            fit_share=fit_share,
            weights=weights,
            seed=seed,
            progress=lambda done: progress.advance(bar, done),
        )
    source = f"{len(column):,} rows of {file.name} by {key}, evaluated on all but the first {100.0 * fit_share:g} %"
    rows = [outcome.row() for outcome in outcomes]
    if page is not None:
        write_whole(page, simulation_page(source, [_HEADINGS, *_table(outcomes)], _panels(outcomes, counts), numbers=rows))
    if json:
        parameters = {
            "file": str(file),
            "key": key,
            "weight": weight,
            "groupings": names,
            "instances": counts,
            "fit_share": fit_share,
            "seed": seed,
        }
        print_json("simulate keys", parameters, rows)
    else:
        _print(source, outcomes, page)


app.command("shuffle")(shuffle)
app.command("batches")(batches)


def _table(outcomes: list[Outcome]) -> list[tuple[str, ...]]:
    """One line for each grouping and number of instances, as text."""
    by = {(one.grouping, one.instances, one.series): one for one in outcomes}
    lines: list[tuple[str, ...]] = []
    for name, count in dict.fromkeys((one.grouping, one.instances) for one in outcomes):
        own, before = by[name, count, ITSELF], by[name, count, BEFORE]
        lines.append(
            (
                f"{name} *" if own.needs_merge else name,
                str(count),
                f"{own.imbalance_pct_mean:.1f}",
                f"{before.imbalance_pct_mean:.1f}",
                f"{own.least_imbalance_pct:.1f}",
                f"{before.memory_bytes:,}",
                "" if before.mapping_bytes is None else f"{before.mapping_bytes:,}",
                "" if before.moved_load_pct is None else f"{before.moved_load_pct:.0f}",
            )
        )
    return lines


def _panels(outcomes: list[Outcome], counts: list[int]) -> list[Curves]:
    ordered = sorted(set(counts))
    by = {(one.grouping, one.instances, one.series): one.imbalance_pct_mean for one in outcomes}
    names = list(dict.fromkeys(one.grouping for one in outcomes))
    return [
        Curves(
            series[0].upper() + series[1:],
            "instances",
            "imbalance λ, %",
            [Curve(name, ordered, [by[name, count, series] for count in ordered]) for name in names],
        )
        for series in (ITSELF, BEFORE)
    ]


def _print(source: str, outcomes: list[Outcome], page: Path | None) -> None:
    say(source)
    print_table(_HEADINGS, _table(outcomes), section=lambda line: line[0])
    say(_EXPLAINED)
    if any(one.needs_merge for one in outcomes):
        say("* may put a key on several instances: what is computed by key must be merged afterwards")
    if page is not None:
        note(f"Page: {page}")
