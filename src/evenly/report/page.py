"""Pages: one self-contained HTML file each, with no script and nothing loaded from elsewhere."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from evenly.report.comparison import Comparison
from evenly.report.pictures import busy_bars

_PAGES = Environment(
    loader=PackageLoader("evenly.report"), autoescape=select_autoescape(["html"]), undefined=StrictUndefined, trim_blocks=True
)


def comparison_page(comparison: Comparison, *, rows: int, wait_us: float) -> str:
    """The page of the demonstration."""
    picture = Markup(busy_bars(comparison))  # noqa: S704 - drawn here, from numbers alone
    return _PAGES.get_template("comparison.html").render(comparison=comparison, picture=picture, rows=rows, wait_us=wait_us)
