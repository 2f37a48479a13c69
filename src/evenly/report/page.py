"""Pages: one self-contained HTML file each. Nothing in it runs and nothing is loaded; its numbers are in it as JSON, too."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from evenly.look import style_sheet
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
_PAGES.globals["style"] = Markup(style_sheet())  # noqa: S704 - a file of ours

_LEAST_PX = 11.2
"""Letters of a picture are at least this high, whatever the window."""


def picture(panels: Sequence[str], *, smallest: float) -> Markup:
    """Drawings (SVG, made here) side by side or below each other. Each is at least as wide as its `smallest` letters need to
    be read, and scrolled within itself where the window is narrower."""
    parts = []
    for drawn in panels:
        found = re.search(r'viewBox="\S+ \S+ (\S+) ', drawn)
        least_px = float(found[1]) * _LEAST_PX / smallest if found else 0.0
        parts.append(f'<div class="panel" tabindex="0" style="--least: {least_px:.0f}px">{drawn}</div>')
    return Markup(f'<div class="picture">{"".join(parts)}</div>')  # noqa: S704 - made here, and names in them are escaped


def numbers_json(results: Sequence[Mapping[str, object]]) -> Markup:
    """Flat objects as JSON that can stand in a page: what ends a script is written otherwise, what is no number is null."""
    told = json.dumps([_plain(one) for one in results], allow_nan=False, separators=(",", ":"))
    for mark in "<>&":
        told = told.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(told)  # noqa: S704 - nothing in it is markup any more


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def rendered(template: str, *, numbers: Sequence[Mapping[str, object]], **values: object) -> str:
    """The page of a template, which extends `base.html`, with its `numbers` as a command's `--json` has them.

    Bytes of a path that are no text become question marks.
    """
    text = _PAGES.get_template(f"{template}.html").render(values, numbers=numbers_json(numbers))
    return text.encode("utf-8", "replace").decode()
