"""`evenly paper posg` and `evenly paper osg`: shuffle grouping as published, rerun."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Annotated

import typer

from evenly.cli import paper as shared
from evenly.cli.output import print_json, runs_progress
from evenly.errors import InvalidParameter
from evenly.papers import osg as osg_paper
from evenly.papers import posg as posg_paper
from evenly.papers.posg_bench import Bench
from evenly.report.paper_page import Paper

FEWEST_RUNS, MOST_RUNS = 2, 10_000

Runs = Annotated[int, typer.Option(help=f"Streams drawn for each point, {FEWEST_RUNS} to {MOST_RUNS} (100 in the paper).")]
Seed = Annotated[int, typer.Option(help="Another seed draws other streams, costs and hashes.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead, for programs.")]


def posg(
    figure: Annotated[
        list[str] | None, typer.Option(help=f"Which figures, with commas between or repeated: {', '.join(posg_paper.FIGURES)}.")
    ] = None,
    runs: Runs = 100,
    out: Annotated[Path | None, typer.Option(help="A folder for the page (posg.html) and a PNG for each figure.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Rerun "Proactive Online Scheduling for Shuffle Grouping in Distributed Stream Processing Systems" (POSG).

    Every value and sentence of the text is compared with four readings of it, full knowledge and our default: reproduced,
    or not and why. All figures with 100 streams take some minutes. Figure 12 takes recorded tweets from the folder that
    EVENLY_DATA names, or generated ones.
    """
    _rerun("posg", posg_paper, figure, runs, out, seed, json)


def osg(
    figure: Annotated[
        list[str] | None, typer.Option(help=f"Which figures, with commas between or repeated: {', '.join(osg_paper.FIGURES)}.")
    ] = None,
    runs: Runs = 100,
    out: Annotated[Path | None, typer.Option(help="A folder for the page (osg.html) and a PNG for each figure.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Rerun "Load balancing of stateless operators" (OSG): reach at depth 3, and schedulers in parallel.

    Figure 2 takes recorded costs from the folder that EVENLY_DATA names, or generated ones.
    """
    _rerun("osg", osg_paper, figure, runs, out, seed, json)


def _rerun(name: str, module: ModuleType, figure: list[str] | None, runs: int, out: Path | None, seed: int, json: bool) -> None:
    if not FEWEST_RUNS <= runs <= MOST_RUNS:
        raise InvalidParameter(f"--runs must be from {FEWEST_RUNS} to {MOST_RUNS}, got {runs}")
    names = module.chosen([text.strip() for part in figure or [] for text in part.split(",")])
    if out is not None:
        shared._make_folder(out)  # noqa: SLF001 - of the same command
    started = perf_counter()
    figures = []
    with runs_progress() as progress:
        bar = progress.add_task("drawing streams", total=max(1, module.work(names, runs)))
        bench = Bench(runs, seed, progress=lambda done: progress.advance(bar, done))
        for one in names:
            progress.update(bar, description=one if one.startswith("table") else f"figure {one}")
            figures.append(module.FIGURES[one].make(bench))
    seconds = perf_counter() - started
    about = Paper(module.TITLE, module.CITATION, runs, seed, seconds, each=module.EACH, footnote=module.FOOTNOTE)
    written = [] if out is None else shared._write(out, about, figures, name=name)  # noqa: SLF001
    if json:
        parameters = {"paper": name, "figures": names, "runs": runs, "seed": seed}
        print_json("paper", parameters, [row for one in figures for row in one.rows()])
    else:
        shared._print(figures, about, written)  # noqa: SLF001
