"""`evenly paper`: a published paper's figures, rerun."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from evenly.cli.output import people, print_json, runs_progress
from evenly.errors import InvalidParameter
from evenly.files import write_whole
from evenly.lab.papers.dkg import paper
from evenly.lab.papers.dkg.bench import Bench
from evenly.lab.papers.hone import paper as hone_paper
from evenly.lab.papers.hone.bench import Bench as HoneBench
from evenly.lab.papers.verdicts import REPRODUCED
from evenly.report.figures import PaperFigure, draw_png
from evenly.report.paper_page import Paper, paper_page, shown

FEWEST_RUNS, MOST_RUNS = 100, 10_000
HONE_FEWEST_RUNS, HONE_MOST_RUNS = 2, 10_000

app = typer.Typer(name="paper", help="Rerun a published paper and compare.", no_args_is_help=True)


@app.callback()
def papers() -> None:
    """Rerun a published paper's figures: what it states beside what is measured here."""


@app.command("dkg")
def dkg(
    figure: Annotated[
        list[str] | None, typer.Option(help=f"Which figures, with commas between or repeated: {', '.join(paper.FIGURES)}.")
    ] = None,
    runs: Annotated[
        int, typer.Option(help=f"Streams drawn for each point, {FEWEST_RUNS} to {MOST_RUNS} (the paper's).")
    ] = 1_000,
    out: Annotated[Path | None, typer.Option(help="A folder for the page (dkg.html) and a PNG for each figure.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other streams and hashes.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead, for programs.")] = False,
) -> None:
    """Rerun "Efficient Key Grouping for Near-Optimal Load Balancing in Stream Processing Systems" (DKG, DEBS 2015).

    Every value and sentence of the text is compared with what is measured: reproduced, or not and why. All figures with
    1,000 runs take a few minutes. Figure 10 needs a recorded trace: EVENLY_DATA names the folder that has it.
    """
    if not FEWEST_RUNS <= runs <= MOST_RUNS:
        raise InvalidParameter(f"--runs must be from {FEWEST_RUNS} to {MOST_RUNS}, got {runs}")
    names = paper.chosen([name.strip() for text in figure or [] for name in text.split(",")])
    if out is not None:
        _make_folder(out)
    started = perf_counter()
    figures = _measure(names, runs, seed)
    about = Paper(paper.TITLE, paper.CITATION, runs, seed, perf_counter() - started)
    written = [] if out is None else _write(out, about, figures)
    if json:
        parameters = {"paper": "dkg", "figures": names, "runs": runs, "seed": seed}
        print_json("paper", parameters, [row for one in figures for row in one.rows()])
    else:
        _print(figures, about, written)


@app.command("hone")
def hone(
    figure: Annotated[
        list[str] | None, typer.Option(help=f"Which figures, with commas between or repeated: {', '.join(hone_paper.FIGURES)}.")
    ] = None,
    runs: Annotated[int, typer.Option(help=f"Runs of 10,000 slots a point, {HONE_FEWEST_RUNS} to {HONE_MOST_RUNS}.")] = 100,
    out: Annotated[Path | None, typer.Option(help="A folder for the page (hone.html) and a PNG for each figure.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other arrivals.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead, for programs.")] = False,
) -> None:
    """Rerun the simulation of "Hone: Mitigating Stragglers in Distributed Stream Processing With Tuple Scheduling" (2021).

    Every value and sentence on figures 6, 7 and 8 is compared with what is measured, and largest-backlog-first with rules
    that the paper leaves out: a round-robin that skips empty queues, and first come first served.
    """
    if not HONE_FEWEST_RUNS <= runs <= HONE_MOST_RUNS:
        raise InvalidParameter(f"--runs must be from {HONE_FEWEST_RUNS} to {HONE_MOST_RUNS}, got {runs}")
    names = hone_paper.chosen([name.strip() for text in figure or [] for name in text.split(",")])
    if out is not None:
        _make_folder(out)
    started = perf_counter()
    with runs_progress() as progress:
        bar = progress.add_task("slots", total=max(1, hone_paper.work(names, runs)))
        bench = HoneBench(runs, seed, progress=lambda done: progress.advance(bar, done))
        figures = [hone_paper.FIGURES[name].make(bench) for name in names]
    about = Paper(
        hone_paper.TITLE,
        hone_paper.CITATION,
        runs,
        seed,
        perf_counter() - started,
        each=hone_paper.EACH,
        footnote=hone_paper.FOOTNOTE,
    )
    written = [] if out is None else _write(out, about, figures, name="hone")
    if json:
        parameters = {"paper": "hone", "figures": names, "runs": runs, "seed": seed}
        print_json("paper", parameters, [row for one in figures for row in one.rows()])
    else:
        _print(figures, about, written)


def _make_folder(out: Path) -> None:
    """Before the work, so that a bad folder does not cost it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameter(f"--out must name a folder that can be made and written to, got {out}: {error}") from error


def _measure(names: list[str], runs: int, seed: int) -> list[PaperFigure]:
    figures = []
    with runs_progress() as progress:
        bar = progress.add_task("drawing streams", total=max(1, paper.work(names, runs)))
        bench = Bench(runs, seed, progress=lambda done: progress.advance(bar, done))
        for name in names:
            progress.update(bar, description=name if name.startswith("table") else f"figure {name}")
            figures.append(paper.FIGURES[name].make(bench))
    return figures


def _write(out: Path, about: Paper, figures: list[PaperFigure], *, name: str = "dkg") -> list[Path]:
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
        table = Table(*headings, title=f"{one.label}. {one.title}", title_justify="left")
        for row in rows:
            table.add_row(*row)
        people.print(table)


def _print(figures: list[PaperFigure], about: Paper, written: list[Path]) -> None:
    table = Table(title=f"{about.title}: {about.runs:,} runs in {about.seconds:.0f} s", title_justify="left")
    table.add_column("")
    for heading in ("series", "published", "measured"):
        table.add_column(heading, overflow="fold", ratio=1 if heading == "series" else 2)
    table.add_column("verdict", no_wrap=True)
    reasons: list[str] = []
    for one in figures:
        if one.skipped:
            table.add_row(one.label, "", "", escape(one.skipped), "not run")
        for place, verdict in enumerate(one.verdicts):
            good = verdict["verdict"] == REPRODUCED
            table.add_row(
                one.label if place == 0 else "",
                " ".join(text for text in (str(verdict["series"]), _at(verdict["x"])) if text),
                shown(verdict["published"]),
                shown(verdict["measured"]),
                "[green]reproduced[/]" if good else "[bold red]not reproduced[/]",
            )
            if not good:
                reasons.append(f"{one.label}, {verdict['series']}: {verdict['published']}: {verdict['why']}")
        table.add_section()
    people.print(table)
    for one in figures:
        _print_table(one)
    if reasons:
        people.print("Not reproduced, and why:")
    for reason in reasons:
        people.print(f"  {escape(reason)}", soft_wrap=True)
    if written:
        people.print(f"Page: {written[0]}, and {len(written) - 1} pictures beside it", soft_wrap=True)
