"""`evenly paper`: a published paper's figures, rerun."""

from __future__ import annotations

from typing import Annotated

import typer

from evenly.cli.options import Json
from evenly.cli.paper_all import all_papers
from evenly.cli.paper_rerun import Out, checked_runs, figure_option, rerun
from evenly.cli.paper_shuffle import osg, posg
from evenly.lab.papers.dkg.bench import Bench as DkgBench
from evenly.lab.papers.dkg.paper import PAPER as DKG
from evenly.lab.papers.hone.bench import Bench as HoneBench
from evenly.lab.papers.hone.paper import PAPER as HONE
from evenly.lab.papers.model_driven.bench import Bench as PlansBench
from evenly.lab.papers.model_driven.paper import PAPER as MODEL_DRIVEN

FEWEST_RUNS, MOST_RUNS = 100, 10_000
HONE_FEWEST_RUNS, HONE_MOST_RUNS = 2, 10_000

app = typer.Typer(name="paper", help="Rerun a published paper and compare.", no_args_is_help=True)


@app.callback()
def papers() -> None:
    """Rerun a published paper's figures: what it states beside what is measured here."""


@app.command("dkg")
def dkg(
    figure: Annotated[list[str] | None, figure_option(DKG)] = None,
    runs: Annotated[
        int, typer.Option(help=f"Streams drawn for each point, {FEWEST_RUNS} to {MOST_RUNS} (the paper's).")
    ] = 1_000,
    out: Out = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other streams and hashes.")] = 0,
    json: Json = False,
) -> None:
    """Rerun "Efficient Key Grouping for Near-Optimal Load Balancing in Stream Processing Systems" (DKG, DEBS 2015).

    Every value and sentence of the text is compared with what is measured: reproduced, or not and why. All figures with
    1,000 runs take a few minutes. Figure 10 has a recorded trace beside generated ones where EVENLY_DATA names its folder.
    """
    checked_runs(runs, FEWEST_RUNS, MOST_RUNS)
    rerun(DKG, DkgBench(runs, seed), figure, runs=runs, out=out, json=json)


@app.command("hone")
def hone(
    figure: Annotated[list[str] | None, figure_option(HONE)] = None,
    runs: Annotated[int, typer.Option(help=f"Runs of 10,000 slots per point, {HONE_FEWEST_RUNS} to {HONE_MOST_RUNS}.")] = 100,
    out: Out = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other arrivals.")] = 0,
    json: Json = False,
) -> None:
    """Rerun the simulation of "Hone: Mitigating Stragglers in Distributed Stream Processing With Tuple Scheduling" (2021).

    Every value and sentence on figures 6 to 8, the theorems, and the gains of the authors' cluster (figures 10 to 14, on one
    simulated link) are compared with what is measured, and largest-backlog-first with rules that the paper leaves out: a
    round-robin that skips empty queues, and first come first served.
    """
    checked_runs(runs, HONE_FEWEST_RUNS, HONE_MOST_RUNS)
    rerun(HONE, HoneBench(runs, seed), figure, runs=runs, out=out, json=json)


@app.command("model-driven")
def model_driven(
    figure: Annotated[list[str] | None, figure_option(MODEL_DRIVEN)] = None,
    out: Out = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other execution times in the simulator.")] = 0,
    json: Json = False,
) -> None:
    """Rerun "Model-driven Scheduling for Distributed Stream Processing Systems": slots, rates and predictions.

    The paper's slot counts and rates stand beside ours: reproduced, or not and why. What the authors observed on a cluster
    is observed in the simulator here. All figures take some minutes, the slot counts alone a second.
    """
    rerun(MODEL_DRIVEN, PlansBench(seed), figure, runs=None, out=out, json=json)


app.command("posg")(posg)
app.command("osg")(osg)
app.command("all")(all_papers)
