"""One table of verdicts over several papers, as a page and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenly.report.figures import PaperFigure
from evenly.report.page import rendered, shown
from evenly.report.tally import REPRODUCED, Tally

HEADINGS = ("", "of", "stated", "measured", "rests on", "verdict")
_TALLY_HEADINGS = ("", "stated", "independent", "reproduced", "not reproduced", "undecided", "not rerun")
_LONG = 240
"""From this length on a reason loses its later parts in Markdown; the page has all of it."""

WORDS = (
    "Independent is what follows from the method alone. Recovered: a number that is lost from the paper's text, chosen so that "
    "others agree. Input: a setting. Fit: parameters were fitted to it. Ours: no statement of the paper, and not counted. A "
    "tolerance is a share of what is claimed, the distance from no effect, and always below it. Undecided: two standard errors "
    "reach over the border, and more runs decide. Not rerun: not measured by this command; the reason says why."
)


@dataclass(frozen=True)
class PaperVerdicts:
    """A paper that was rerun: its `name`, what `command` reruns it alone, and the figures with their verdicts."""

    name: str
    title: str
    command: str
    figures: Sequence[PaperFigure]

    @property
    def tally(self) -> Tally:
        """How many statements there are, and what became of them."""
        return Tally.of(verdict for figure in self.figures for verdict in figure.verdicts)

    def rows(self) -> list[dict[str, object]]:
        """Its verdicts and then their count, as flat objects."""
        verdicts = [
            {"paper": self.name, "figure": figure.figure, **verdict} for figure in self.figures for verdict in figure.verdicts
        ]
        return [*verdicts, {"paper": self.name, "series": "tally", **self.tally.row()}]


def verdict_line(label: str, verdict: Mapping[str, object]) -> tuple[str, ...]:
    """A verdict under `HEADINGS`."""
    at = f" ({shown(verdict['x'])})" if verdict["x"] is not None else ""
    stated, measured = (shown(verdict[name]) for name in ("published", "measured"))
    return label, f"{verdict['series']}{at}", stated, measured, str(verdict["basis"]), str(verdict["verdict"])


def tally_lines(papers: Sequence[PaperVerdicts]) -> list[tuple[str, ...]]:
    """Each paper's counts, headings first, and all together last."""
    lines = [(paper.name, *_counts(paper.tally)) for paper in papers]
    every = Tally.of(verdict for paper in papers for figure in paper.figures for verdict in figure.verdicts)
    return [_TALLY_HEADINGS, *lines, ("all", *_counts(every))]


def _counts(tally: Tally) -> tuple[str, ...]:
    return tuple(map(str, tally.row().values()))


def markdown(papers: Sequence[PaperVerdicts], command: str) -> str:
    """The table as a document of its own, which names the command that wrote it."""
    parts = [
        "# Verdicts on what papers state",
        f"Every statement of the papers' abstracts and evaluations beside what is measured here. Written by `{command}`.",
        "Of each paper: how many statements there are, how many are independent of what was put in, and what became of these.",
        _lines(tally_lines(papers)),
        WORDS,
    ]
    for paper in papers:
        parts += [f"## {paper.title}", f"`{paper.command}` draws the figures.", _lines([HEADINGS, *_of(paper)])]
    return "\n\n".join(parts) + "\n"


def _of(paper: PaperVerdicts) -> list[tuple[str, ...]]:
    lines = []
    for figure in paper.figures:
        for place, verdict in enumerate(figure.verdicts):
            *cells, said = verdict_line(figure.label if place == 0 else "", verdict)
            reason = "" if verdict["verdict"] == REPRODUCED else f": {_short(str(verdict['why']))}"
            lines.append((*cells, said + reason))
    return lines


def _short(reason: str) -> str:
    """The first parts of a reason."""
    kept, *parts = reason.split("; ")
    for part in parts:
        if len(kept) + len(part) > _LONG:
            break
        kept += f"; {part}"
    return kept


def _lines(table: Sequence[Sequence[str]]) -> str:
    headings, *rows = ([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in table)
    return "\n".join("| " + " | ".join(row) + " |" for row in (headings, ["---"] * len(headings), *rows))


def verdict_page(papers: Sequence[PaperVerdicts], command: str) -> str:
    """One self-contained page, with the whole reason of every verdict."""
    table = tally_lines(papers)
    numbers = [row for paper in papers for row in paper.rows()]
    return rendered("verdicts", numbers=numbers, papers=papers, command=command, tallies=table, words=WORDS, line=verdict_line)
