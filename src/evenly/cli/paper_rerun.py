"""A paper rerun by a command: measured with a progress bar, printed for people or programs, and written as a page."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from evenly.cli.options import make_folder
from evenly.cli.output import note, print_json, results, runs_progress, say
from evenly.errors import InvalidParameter
from evenly.files import write_whole
from evenly.lab.papers.publication import B, Publication
from evenly.lab.papers.verdicts import REPRODUCED
from evenly.report.figures import PaperFigure, draw_png
from evenly.report.page import shown
from evenly.report.paper_page import Paper, paper_page

Out = Annotated[Path | None, typer.Option(help="A folder for the page and a PNG for each figure.")]


def figure_option(paper: Publication[B]) -> Any:
    """The option `--figure` of a paper's command."""
    return typer.Option(help=f"Which figures, with commas between or repeated: {', '.join(paper.figures)}.")


def checked_runs(runs: int, fewest: int, most: int, *, where: str = "") -> int:
    """`runs` if there are enough and not too many."""
    if not fewest <= runs <= most:
        raise InvalidParameter(f"--runs must be from {fewest} to {most}{where}, got {runs}")
    return runs


def rerun(paper: Publication[B], bench: B, figure: list[str] | None, *, runs: int | None, out: Path | None, json: bool) -> None:
    """Make the chosen figures and tell. `runs` of each setting; None: as many as there are settings."""
    names = paper.chosen([name.strip() for text in figure or [] for name in text.split(",")])
    if out is not None:
        make_folder(out, "--out")
    started = perf_counter()
    work, figures = paper.work(names, bench), []
    with runs_progress() as progress:
        bar = progress.add_task("starting", total=max(1, work))
        bench.progress = lambda done: progress.advance(bar, done)
        for name in names:
            progress.update(bar, description=f"figure {name}" if name.isdecimal() else name)
            figures.append(paper.figures[name].make(bench))
    about = paper.about(work if runs is None else runs, bench.seed, perf_counter() - started)
    written = [] if out is None else _write(out, about, figures, f"{paper.name}-spark" if paper.on_spark else paper.name)
    if json:
        counted = {} if runs is None else {"runs": runs}
        parameters = {"paper": paper.name, "figures": names, **counted, "seed": bench.seed}
        rows = [row for one in figures for row in one.rows()]
        print_json("paper", {**parameters, "spark": True} if paper.on_spark else parameters, rows)
    else:
        _print(figures, about, written)


def _write(out: Path, about: Paper, figures: list[PaperFigure], name: str) -> list[Path]:
    written = [out / f"{name}.html"]
    write_whole(written[0], paper_page(about, figures))
    for one in figures:
        if one.panels:
            written.append(out / f"{name}-figure-{one.figure}.png")
            partial = written[-1].with_suffix(".partial")
            partial.write_bytes(draw_png(one.panels, columns=one.columns))
            partial.replace(written[-1])
    return written


def _at(x: object) -> str:
    return "" if x is None else f"({shown(x)})"


def _print_table(one: PaperFigure) -> None:
    """What more a figure has to say."""
    if one.table:
        headings, *rows = one.table
        table = Table(*headings, title=one.heading, title_justify="left")
        for row in rows:
            table.add_row(*row)
        results.print(table)


def _print(figures: list[PaperFigure], about: Paper, written: list[Path]) -> None:
    table = Table(title=f"{about.title}: {about.runs:,} runs in {about.seconds:.0f} s", title_justify="left")
    table.add_column("")
    for heading in ("series", "published", "measured"):
        table.add_column(heading, overflow="fold", ratio=1 if heading == "series" else 2)
    table.add_column("verdict", no_wrap=True)
    reasons: list[str] = []
    for one in figures:
        if one.skipped:
            table.add_row(one.label, "", "", one.skipped, "not run")
        for place, verdict in enumerate(one.verdicts):
            good = verdict["verdict"] == REPRODUCED
            table.add_row(
                one.label if place == 0 else "",
                " ".join(text for text in (str(verdict["series"]), _at(verdict["x"])) if text),
                shown(verdict["published"]),
                shown(verdict["measured"]),
                Text("reproduced", "green") if good else Text("not reproduced", "bold red"),
            )
            if not good:
                reasons.append(f"{one.label}, {verdict['series']}: {verdict['published']}: {verdict['why']}")
        table.add_section()
    results.print(table)
    for one in figures:
        _print_table(one)
    if reasons:
        say("Not reproduced, and why:")
    for reason in reasons:
        say(f"  {reason}")
    if written:
        note(f"Page: {written[0]}, and {len(written) - 1} pictures beside it")
