"""The page of a rerun paper: every figure drawn anew, beside a verdict on every value that the paper states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenly.report.figures import SMALLEST, PaperFigure, draw_svgs
from evenly.report.page import picture, rendered

_INDEPENDENT = "independent"
BASES: Mapping[str, str] = {
    _INDEPENDENT: "computed from the method alone",
    "recovered": "numbers lost from the text of the paper and recovered",
    "input": "settings of the paper that are put in",
    "fit": "statements that something was fitted to",
    "ours": "bars or algorithms of our own",
}
"""What a measured value can rest on, in words."""


@dataclass(frozen=True)
class Paper:
    """What the page says of the paper and of the campaign: `each` is what a run is, `footnote` explains words."""

    title: str
    citation: str
    runs: int
    seed: int
    seconds: float
    each: str
    footnote: str


def paper_page(paper: Paper, figures: Sequence[PaperFigure]) -> str:
    """One self-contained page, with every point of every figure in it."""
    verdicts = [verdict for figure in figures for verdict in figure.verdicts]
    rested = Counter((str(verdict["basis"]), str(verdict["verdict"])) for verdict in verdicts)
    pictures = {
        figure.figure: picture(draw_svgs(figure.panels, columns=figure.columns), smallest=SMALLEST)
        for figure in figures
        if figure.panels
    }
    return rendered(
        "paper",
        numbers=[row for figure in figures for row in figure.rows()],
        paper=paper,
        figures=figures,
        pictures=pictures,
        counts=_counts(rested),
        beside=_beside(rested),
    )


def _counts(rested: Mapping[tuple[str, str], int]) -> list[tuple[str, int]]:
    """How many independent statements had each verdict, those that had any."""
    words = ("reproduced", "not reproduced", "undecided", "not rerun")
    return [(word, rested[_INDEPENDENT, word]) for word in words if rested[_INDEPENDENT, word]]


def _beside(rested: Mapping[tuple[str, str], int]) -> list[tuple[str, int, int]]:
    """What rests on something that was put in: how it is called, how many there are, and how many agree."""
    found = []
    for basis, said in BASES.items():
        every = sum(count for (one, _), count in rested.items() if one == basis)
        if every and basis != _INDEPENDENT:
            found.append((said, every, rested[basis, "reproduced"]))
    return found
