"""A paper rerun by a command: measured with a progress bar, printed for people or programs, and written as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.text import Text

from evenly.cli.options import make_folder
from evenly.cli.output import note, print_in_parts, print_json, print_pairs, runs_progress, say
from evenly.errors import InvalidParameter
from evenly.files import write_whole
from evenly.lab.papers.publication import B, Publication
from evenly.report.figures import PaperFigure, draw_png
from evenly.report.paper_page import Paper, paper_page
from evenly.report.tally import NOT_REPRODUCED, NOT_RERUN, REPRODUCED, UNDECIDED, Basis, Tally
from evenly.report.verdict_table import verdict_line

_STYLES = {REPRODUCED: "green", NOT_REPRODUCED: "bold red", UNDECIDED: "yellow", NOT_RERUN: "dim"}
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
    figures = measured(paper, bench, names)
    about = paper.about(paper.work(names, bench) if runs is None else runs, bench.seed, perf_counter() - started)
    written = [] if out is None else _write(out, about, figures, f"{paper.name}-spark" if paper.on_spark else paper.name)
    if json:
        counted = {} if runs is None else {"runs": runs}
        parameters = {"paper": paper.name, "figures": names, **counted, "seed": bench.seed}
        rows = [row for one in figures for row in one.rows()]
        print_json("paper", {**parameters, "spark": True} if paper.on_spark else parameters, rows)
    else:
        _print(figures, about, written)


def measured(paper: Publication[B], bench: B, names: list[str], *, said: str = "") -> list[PaperFigure]:
    """The figures of these names, with a progress bar; `said` goes before what is being done."""
    figures = []
    with runs_progress() as progress:
        bar = progress.add_task(f"{said}starting", total=max(1, paper.work(names, bench)))
        bench.progress = lambda done: progress.advance(bar, done)
        for name in names:
            progress.update(bar, description=said + (f"figure {name}" if name.isdecimal() else name))
            figures.append(paper.figures[name].make(bench))
    return figures


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


def _print_table(one: PaperFigure) -> None:
    """What more a figure has to say."""
    if one.table:
        headings, *rows = one.table
        say(f"\n{one.heading}")
        print_in_parts(headings, rows)


def print_verdicts(title: str, figures: Sequence[PaperFigure], *, reasons: bool) -> None:
    """Every statement with what was measured; those that are not independent say what they rest on."""
    say((title, "bold"))
    for one in figures:
        if one.skipped or one.verdicts:
            say(f"\n{one.label}")
        lines = [[Text("not run"), Text(one.skipped)]] if one.skipped else []
        for verdict in one.verdicts:
            found = str(verdict["verdict"])
            said = Text(found, _STYLES[found])
            if verdict["basis"] != Basis.INDEPENDENT:
                said.append(f"\n({verdict['basis']})", "dim")
            _, series, published, measured_, *_ = verdict_line("", verdict)
            why = f"\nwhy: {verdict['why']}" if reasons and found != REPRODUCED else ""
            lines.append([said, Text(f"{series}: {published}\nmeasured: {measured_}{why}")])
        print_pairs(lines)


def _print(figures: list[PaperFigure], about: Paper, written: list[Path]) -> None:
    print_verdicts(f"{about.title}: {about.runs:,} runs in {about.seconds:.0f} s", figures, reasons=True)
    for one in figures:
        _print_table(one)
    say("")
    tally = Tally.of(verdict for one in figures for verdict in one.verdicts)
    say(f"{tally.reproduced} of {tally.independent} independent statements reproduced ({tally.stated} stated)")
    if written:
        pictures = len(written) - 1
        note(f"Page: {written[0]}" + f", and {pictures} picture{'s' * (pictures != 1)} beside it" * (pictures > 0))
