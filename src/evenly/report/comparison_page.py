"""The page of the demonstration: one job placed twice, and who was busy."""

from __future__ import annotations

from markupsafe import Markup

from evenly.report.comparison import Comparison
from evenly.report.page import rendered
from evenly.report.pictures import busy_bars


def comparison_page(comparison: Comparison, *, rows: int, wait_us: float) -> str:
    """The page of `comparison`, of a job over so many rows that each waited `wait_us`."""
    picture = Markup(busy_bars(comparison))  # noqa: S704 - drawn here, from numbers alone
    return rendered("comparison", comparison=comparison, picture=picture, rows=rows, wait_us=wait_us)
