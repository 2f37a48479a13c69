"""`evenly paper posg` and `evenly paper osg`: shuffle grouping as published, rerun."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenly.cli.options import Json
from evenly.cli.paper_rerun import Out, checked_runs, figure_option, rerun
from evenly.lab.papers.osg.on_spark import PAPER as OSG_SPARK
from evenly.lab.papers.osg.paper import PAPER as OSG
from evenly.lab.papers.posg.bench import Bench
from evenly.lab.papers.posg.on_spark import PAPER as POSG_SPARK
from evenly.lab.papers.posg.paper import PAPER as POSG
from evenly.lab.papers.posg.spark_bench import SparkBench
from evenly.lab.papers.publication import Publication

FEWEST_RUNS, MOST_RUNS = 2, 10_000
SPARK_MOST_RUNS = 100
RUNS, SPARK_RUNS = 100, 2

Runs = Annotated[
    int | None,
    typer.Option(
        help=f"Streams drawn for each point, {FEWEST_RUNS} to {MOST_RUNS} (100 in the paper, and by default). With --spark: "
        f"micro-batches for each point, 1 to {SPARK_MOST_RUNS} ({SPARK_RUNS} by default).",
        show_default=False,
    ),
]
OnSpark = Annotated[
    bool, typer.Option("--spark", help="Measure the prototype's figures on Spark instead of simulating. Takes some minutes.")
]
Seed = Annotated[int, typer.Option(help="Another seed draws other streams, costs and hashes.")]


def posg(
    figure: Annotated[list[str] | None, figure_option(POSG)] = None,
    runs: Runs = None,
    out: Out = None,
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
    _rerun(POSG_SPARK if spark else None, POSG, figure, runs, out, seed, json)


# The options of `posg` once more: Typer reads them from the signature of each command.
def osg(
    figure: Annotated[list[str] | None, figure_option(OSG)] = None,
    runs: Runs = None,
    out: Out = None,
    seed: Seed = 0,
    spark: OnSpark = False,
    json: Json = False,
) -> None:
    """Rerun "Load balancing of stateless operators" (OSG): reach at depth 3, and schedulers in parallel.

    Figure 2 takes recorded costs from the folder that EVENLY_DATA names, or generated ones. With --spark: figure 2 on Spark,
    `repartition(k)` against `evenly.apply_by_cost`, with a real search for each row.
    """
    _rerun(OSG_SPARK if spark else None, OSG, figure, runs, out, seed, json)


def _rerun(
    on_spark: Publication[SparkBench] | None,
    simulated: Publication[Bench],
    figure: list[str] | None,
    runs: int | None,
    out: Path | None,
    seed: int,
    json: bool,
) -> None:
    if on_spark is None:
        count = checked_runs(RUNS if runs is None else runs, FEWEST_RUNS, MOST_RUNS)
        rerun(simulated, Bench(count, seed), figure, runs=count, out=out, json=json)
        return
    count = checked_runs(SPARK_RUNS if runs is None else runs, 1, SPARK_MOST_RUNS, where=" with --spark")
    with SparkBench(count, seed) as bench:
        rerun(on_spark, bench, figure, runs=count, out=out, json=json)
