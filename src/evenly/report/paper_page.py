"""The page of a rerun paper: every figure drawn anew, beside a verdict on every value that the paper states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from evenly.report.figures import Curves, PaperFigure, draw_svg

_PAGES = Environment(
    loader=PackageLoader("evenly.report"), autoescape=select_autoescape(["html"]), undefined=StrictUndefined, trim_blocks=True
)


@dataclass(frozen=True)
class Paper:
    """What the page says of the paper and of the campaign: `each` is what a run is, `footnote` explains words."""

    title: str
    citation: str
    runs: int
    seed: int
    seconds: float
    each: str = "streams of 100,000 tuples a point"
    footnote: str = (
        "λ = (max load / mean load − 1) · 100 %; σ is the standard deviation of the instances' loads. Full lines are means "  # noqa: RUF001
        "over the runs, dashed lines the worst run. Worst cases grow with the number of runs. Figures 1, 11 and 12 are a "
        "drawing and measurements of the authors' cluster."
    )


def shown(value: object) -> str:
    """A value of a verdict as people read it: numbers short, sentences as they are."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:.3g}" if abs(value) < 10.0 else f"{value:,.1f}".removesuffix(".0")


_PAGES.filters["shown"] = shown


def paper_page(paper: Paper, figures: Sequence[PaperFigure]) -> str:
    """One self-contained page: no script, nothing loaded from elsewhere."""
    verdicts = [verdict for figure in figures for verdict in figure.verdicts]
    pictures = {
        figure.figure: Markup(draw_svg(figure.panels, columns=figure.columns))  # noqa: S704 - drawn here, from numbers alone
        for figure in figures
        if figure.panels
    }
    return _PAGES.get_template("paper.html").render(
        paper=paper,
        figures=figures,
        pictures=pictures,
        reproduced=sum(verdict["verdict"] == "reproduced" for verdict in verdicts),
        stated=len(verdicts),
    )


KEYS_FOOTNOTE = (
    "k: instances; λ own: fitted on the evaluated part itself; λ first: fitted on the first part; moved: load that changes "
    "its instance when the mapping is made anew. λ = (max load / mean load − 1) · 100 % of the part evaluated. No grouping "  # noqa: RUF001
    "that keeps a key on one instance can go below the least λ, because the heaviest key needs an instance. A grouping marked "
    "* may put a key on several instances, so what is computed by key must be merged afterwards."
)


def simulation_page(
    source: str, table: Sequence[Sequence[str]], panels: Sequence[Curves], *, footnote: str = KEYS_FOOTNOTE
) -> str:
    """One self-contained page with the picture and the table (its first row has the headings) of a simulation."""
    picture = Markup(draw_svg(panels))  # noqa: S704 - drawn by matplotlib, which escapes text
    return _PAGES.get_template("simulation.html").render(source=source, table=table, picture=picture, footnote=footnote)
