"""`evenly paper all`: the verdicts on every paper, in one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from evenly.cli.options import Json, make_folder, names_in
from evenly.cli.output import note, print_json, print_table, say
from evenly.cli.paper_rerun import checked_runs, measured, print_verdicts
from evenly.errors import InvalidParameter
from evenly.files import write_whole
from evenly.lab.papers.dkg.bench import Bench as DkgBench
from evenly.lab.papers.dkg.paper import PAPER as DKG
from evenly.lab.papers.hone.bench import Bench as HoneBench
from evenly.lab.papers.hone.paper import PAPER as HONE
from evenly.lab.papers.model_driven.bench import Bench as PlansBench
from evenly.lab.papers.model_driven.paper import PAPER as MODEL_DRIVEN
from evenly.lab.papers.osg.paper import PAPER as OSG
from evenly.lab.papers.posg.bench import Bench as StreamsBench
from evenly.lab.papers.posg.paper import PAPER as POSG
from evenly.lab.papers.publication import Publication
from evenly.report.verdict_table import PaperVerdicts, markdown, tally_lines, verdict_page

FEWEST_RUNS, MOST_RUNS = 2, 10_000


@dataclass(frozen=True)
class _Rerun:
    """A paper, what it is run on (a bench for so many runs and a seed), and how many runs it has unless told."""

    paper: Publication[Any]
    bench: Callable[[int, int], Any]
    runs: int | None
    fewest: int = FEWEST_RUNS

    def runs_of(self, wanted: int | None) -> int | None:
        """How many runs it gets if so many are `wanted`; None if it has no choice."""
        return self.runs if wanted is None or self.runs is None else max(self.fewest, wanted)


RERUNS = {
    one.paper.name: one
    for one in (
        _Rerun(DKG, DkgBench, 1_000, fewest=100),
        _Rerun(POSG, StreamsBench, 100),
        _Rerun(OSG, StreamsBench, 100),
        _Rerun(HONE, HoneBench, 100),
        _Rerun(MODEL_DRIVEN, lambda _, seed: PlansBench(seed), None),
    )
}


def all_papers(
    paper: Annotated[
        list[str] | None, typer.Option(help=f"Which papers, with commas between or repeated: {', '.join(RERUNS)}.")
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            help=f"Runs of each point, {FEWEST_RUNS} to {MOST_RUNS}; DKG has 100 at least. By default as many as each "
            "paper's own command makes.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for the table as a page and as Markdown.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other streams, costs and hashes.")] = 0,
    json: Json = False,
) -> None:
    """Rerun every paper and print one table: what each states, what is measured, and whether it is reproduced.

    A statement is independent if nothing of it was put in; for each paper the independent ones and the reproduced ones of
    these are counted. Recorded streams are taken from the folder that EVENLY_DATA names. All papers take some minutes.
    """
    if runs is not None:
        checked_runs(runs, FEWEST_RUNS, MOST_RUNS)
    names = names_in(paper or list(RERUNS))
    unknown = [name for name in names if name not in RERUNS]
    if unknown:
        raise InvalidParameter(f"there is no paper {unknown[0]!r}: choose from {', '.join(RERUNS)}")
    if out is not None:
        make_folder(out, "--out")
    found = []
    for one in (RERUNS[name] for name in RERUNS if name in names):
        count = one.runs_of(runs)
        figures = measured(one.paper, one.bench(count or 0, seed), one.paper.stated, said=f"{one.paper.name}: ")
        how = f"evenly paper {one.paper.name}" + ("" if count is None else f" --runs {count}")
        found.append(PaperVerdicts(one.paper.name, one.paper.title, how, figures))
    options = ["--paper " + ",".join(names)] * (paper is not None) + [f"--runs {runs}"] * (runs is not None)
    command = " ".join(["evenly paper all", *options, *[f"--seed {seed}"] * (seed != 0)])
    written = [] if out is None else [out / "papers.html", out / "papers.md"]
    for path, text in zip(written, (verdict_page(found, command), markdown(found, command)), strict=False):
        write_whole(path, text)
    if json:
        parameters = {"papers": names, **({} if runs is None else {"runs": runs}), "seed": seed}
        print_json("paper all", parameters, [row for one in found for row in one.rows()])
    else:
        _print(found)
    if written:
        note(f"Page: {written[0]}, Markdown: {written[1]}")


def _print(papers: list[PaperVerdicts]) -> None:
    for paper in papers:
        say("")
        print_verdicts(paper.title, paper.figures, reasons=False)
    headings, *lines = tally_lines(papers)
    say("\nStatements, how many are independent of what was put in, and what became of these:")
    print_table(headings, lines)
