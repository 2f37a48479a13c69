"""`evenly paper model-driven`: model-driven scheduling as published, rerun."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from evenly.cli import paper as shared
from evenly.cli.output import print_json, runs_progress
from evenly.lab.papers.model_driven import paper
from evenly.lab.papers.model_driven.bench import Bench
from evenly.report.paper_page import Paper


def model_driven(
    figure: Annotated[
        list[str] | None, typer.Option(help=f"Which figures, with commas between or repeated: {', '.join(paper.FIGURES)}.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for the page (model-driven.html) and a PNG for each figure.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other execution times in the simulator.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead, for programs.")] = False,
) -> None:
    """Rerun "Model-driven Scheduling for Distributed Stream Processing Systems": slots, rates and predictions.

    The paper's slot counts and rates stand beside ours: reproduced, or not and why. What the authors observed on a cluster
    is observed in the simulator here. All figures take some minutes, the slot counts alone a second.
    """
    names = paper.chosen([name.strip() for text in figure or [] for name in text.split(",")])
    if out is not None:
        shared._make_folder(out)  # noqa: SLF001 - of the same command
    started = perf_counter()
    figures = []
    work = paper.work(names)
    with runs_progress() as progress:
        bar = progress.add_task("planning", total=max(1, work))
        bench = Bench(seed, progress=lambda done: progress.advance(bar, done))
        for name in names:
            progress.update(bar, description=name)
            figures.append(paper.FIGURES[name].make(bench))
    about = Paper(paper.TITLE, paper.CITATION, work, seed, perf_counter() - started, each=paper.EACH, footnote=paper.FOOTNOTE)
    written = [] if out is None else shared._write(out, about, figures, name="model-driven")  # noqa: SLF001
    if json:
        parameters = {"paper": "model-driven", "figures": names, "seed": seed}
        print_json("paper", parameters, [row for one in figures for row in one.rows()])
    else:
        shared._print(figures, about, written)  # noqa: SLF001
