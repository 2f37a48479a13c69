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
from evenly.lab.papers.osg import on_spark as osg_spark
from evenly.lab.papers.osg import paper as osg_paper
from evenly.lab.papers.posg import on_spark as posg_spark
from evenly.lab.papers.posg import paper as posg_paper
from evenly.lab.papers.posg.bench import Bench
from evenly.lab.papers.posg.spark_bench import SparkBench
from evenly.report.figures import PaperFigure
from evenly.report.paper_page import Paper

FEWEST_RUNS, MOST_RUNS = 2, 10_000
SPARK_MOST_RUNS = 100
RUNS, SPARK_RUNS = 100, 2

Runs = Annotated[
    int | None,
    typer.Option(
        help=f"Streams drawn for each point, {FEWEST_RUNS} to {MOST_RUNS} (100 in the paper, and if not given). With --spark: "
        f"micro-batches for each point, 1 to {SPARK_MOST_RUNS} ({SPARK_RUNS} if not given).",
        show_default=False,
    ),
]
OnSpark = Annotated[
    bool, typer.Option("--spark", help="Measure the prototype's figures on Spark instead of simulating. Takes some minutes.")
]
Seed = Annotated[int, typer.Option(help="Another seed draws other streams, costs and hashes.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead, for programs.")]


def posg(
    figure: Annotated[
        list[str] | None, typer.Option(help=f"Which figures, with commas between or repeated: {', '.join(posg_paper.FIGURES)}.")
    ] = None,
    runs: Runs = None,
    out: Annotated[Path | None, typer.Option(help="A folder for the page (posg.html) and a PNG for each figure.")] = None,
    seed: Seed = 0,
    spark: OnSpark = False,
    json: Json = False,
) -> None:
    """Rerun "Proactive Online Scheduling for Shuffle Grouping in Distributed Stream Processing Systems" (POSG).

    Every value and sentence of the text is compared with four readings of it, full knowledge and our default: reproduced,
    or not and why. All figures with 100 streams take some minutes. Figure 12 takes recorded tweets from the folder that
    EVENLY_DATA names, or generated ones. With --spark: figures 11 and 12 on Spark, `repartition(k)` against
    `evenly.apply_by_cost`.
    """
    _rerun("posg", posg_spark if spark else posg_paper, figure, _runs(runs, spark), out, seed, spark, json)


def osg(
    figure: Annotated[
        list[str] | None, typer.Option(help=f"Which figures, with commas between or repeated: {', '.join(osg_paper.FIGURES)}.")
    ] = None,
    runs: Runs = None,
    out: Annotated[Path | None, typer.Option(help="A folder for the page (osg.html) and a PNG for each figure.")] = None,
    seed: Seed = 0,
    spark: OnSpark = False,
    json: Json = False,
) -> None:
    """Rerun "Load balancing of stateless operators" (OSG): reach at depth 3, and schedulers in parallel.

    Figure 2 takes recorded costs from the folder that EVENLY_DATA names, or generated ones. With --spark: figure 2 on Spark,
    `repartition(k)` against `evenly.apply_by_cost`, with a real search for each row.
    """
    _rerun("osg", osg_spark if spark else osg_paper, figure, _runs(runs, spark), out, seed, spark, json)


def _runs(runs: int | None, spark: bool) -> int:
    fewest, most, usual = (1, SPARK_MOST_RUNS, SPARK_RUNS) if spark else (FEWEST_RUNS, MOST_RUNS, RUNS)
    wanted = usual if runs is None else runs
    if not fewest <= wanted <= most:
        raise InvalidParameter(f"--runs must be from {fewest} to {most}{' with --spark' if spark else ''}, got {wanted}")
    return wanted


def _rerun(
    name: str, module: ModuleType, figure: list[str] | None, runs: int, out: Path | None, seed: int, spark: bool, json: bool
) -> None:
    names = module.chosen([text.strip() for part in figure or [] for text in part.split(",")])
    if out is not None:
        shared._make_folder(out)  # noqa: SLF001 - of the same command
    started = perf_counter()
    figures = (_on_spark if spark else _simulated)(module, names, runs, seed)
    seconds = perf_counter() - started
    about = Paper(module.TITLE, module.CITATION, runs, seed, seconds, each=module.EACH, footnote=module.FOOTNOTE)
    written = [] if out is None else shared._write(out, about, figures, name=f"{name}-spark" if spark else name)  # noqa: SLF001
    if json:
        parameters = {"paper": name, "figures": names, "runs": runs, "seed": seed, **({"spark": True} if spark else {})}
        print_json("paper", parameters, [row for one in figures for row in one.rows()])
    else:
        shared._print(figures, about, written)  # noqa: SLF001


def _simulated(module: ModuleType, names: list[str], runs: int, seed: int) -> list[PaperFigure]:
    figures = []
    with runs_progress() as progress:
        bar = progress.add_task("drawing streams", total=max(1, module.work(names, runs)))
        bench = Bench(runs, seed, progress=lambda done: progress.advance(bar, done))
        for one in names:
            progress.update(bar, description=one if one.startswith("table") else f"figure {one}")
            figures.append(module.FIGURES[one].make(bench))
    return figures


def _on_spark(module: ModuleType, names: list[str], runs: int, seed: int) -> list[PaperFigure]:
    figures = []
    with runs_progress() as progress, SparkBench(runs, seed) as bench:
        bar = progress.add_task("starting Spark", total=max(1, module.work(names, bench)))
        bench.progress = lambda done: progress.advance(bar, done)
        for one in names:
            progress.update(bar, description=f"figure {one}")
            figures.append(module.FIGURES[one].make(bench))
    return figures
