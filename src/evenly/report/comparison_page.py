"""The page of the demonstration: one job placed twice, and who was busy."""

from __future__ import annotations

from evenly.report.comparison import Comparison
from evenly.report.page import picture, rendered
from evenly.report.pictures import SMALLEST, busy_bars


def comparison_page(comparison: Comparison, *, rows: int, wait_us: float) -> str:
    """The page of `comparison`, of a job over so many rows that each waited `wait_us`."""
    drawn = picture(busy_bars(comparison), smallest=SMALLEST)
    return rendered(
        "comparison", numbers=comparison.results(), comparison=comparison, picture=drawn, rows=rows, wait_us=wait_us
    )
