"""The page of a simulation: groupings side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenly.report.figures import SMALLEST, Curves, draw_svgs
from evenly.report.page import picture, rendered

KEYS_FOOTNOTE = (
    "k: instances; λ own: fitted on the evaluated part itself; λ first: fitted on the first part; moved: load that changes "
    "its instance when the mapping is made anew. λ = (max load / mean load − 1) · 100 % of the part evaluated. No grouping "  # noqa: RUF001
    "that keeps a key on one instance can go below the least λ, because the heaviest key needs an instance. A grouping marked "
    "* may put a key on several instances, so what is computed by key must be merged afterwards."
)


def simulation_page(
    source: str,
    table: Sequence[Sequence[str]],
    panels: Sequence[Curves],
    *,
    numbers: Sequence[Mapping[str, object]],
    footnote: str = KEYS_FOOTNOTE,
) -> str:
    """One self-contained page with the picture, the table (its first row has the headings) and the numbers of a simulation."""
    drawn = picture(draw_svgs(panels), smallest=SMALLEST)
    return rendered("simulation", numbers=numbers, source=source, lines=table, picture=drawn, footnote=footnote)
