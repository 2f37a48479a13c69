"""The page of a rerun paper: every figure drawn anew, beside a verdict on every value that the paper states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from evenly.report.figures import PaperFigure, draw_svg
from evenly.report.page import rendered


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
    """One self-contained page: no script, nothing loaded from elsewhere."""
    verdicts = [verdict for figure in figures for verdict in figure.verdicts]
    pictures = {
        figure.figure: Markup(draw_svg(figure.panels, columns=figure.columns))  # noqa: S704 - drawn here, from numbers alone
        for figure in figures
        if figure.panels
    }
    return rendered(
        "paper",
        paper=paper,
        figures=figures,
        pictures=pictures,
        reproduced=sum(verdict["verdict"] == "reproduced" for verdict in verdicts),
        stated=len(verdicts),
    )
