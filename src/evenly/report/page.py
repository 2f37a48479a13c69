"""Pages: one self-contained HTML file each, with no script and nothing loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from evenly.numbers import plain


def shown(value: object) -> str:
    """A value as people read it: numbers short, sentences as they are."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return plain(value) if abs(value) < 10.0 else f"{value:,.1f}".removesuffix(".0")


_PAGES = Environment(
    loader=PackageLoader("evenly.report"), autoescape=select_autoescape(["html"]), undefined=StrictUndefined, trim_blocks=True
)
_PAGES.filters["shown"] = shown


_LEAST_PX = 11.2
"""Letters of a picture are at least this high, whatever the window."""


def picture(panels: Sequence[str], *, smallest: float) -> Markup:
    """Drawings (SVG, made here) side by side or below each other. Each is at least as wide as its `smallest` letters need to
    be read, and scrolled within itself where the window is narrower."""
    parts = []
    for drawn in panels:
        found = re.search(r'viewBox="\S+ \S+ (\S+) ', drawn)
        least_px = float(found[1]) * _LEAST_PX / smallest if found else 0.0
        parts.append(f'<div class="panel" style="--least: {least_px:.0f}px">{drawn}</div>')
    return Markup(f'<div class="picture">{"".join(parts)}</div>')  # noqa: S704 - made here, and names in them are escaped


def rendered(template: str, **values: object) -> str:
    """The page of a template, which extends `base.html`. Bytes of a path that are no text become question marks."""
    return _PAGES.get_template(f"{template}.html").render(values).encode("utf-8", "replace").decode()
