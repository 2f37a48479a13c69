"""What a notebook shows of an object: a title, what is known of it in two columns, and how even instances are in bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

_MOST_BARS = 200
_WIDTH, _HEIGHT = 600.0, 36.0
_CELL = 'style="text-align:left;padding:0 1em 0 0;border:none"'

_UNSHOWN = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000)), "\ufffd")
"""Control characters and halves of characters: from a user's data, they have no place in a page."""


def shown(title: str, facts: Mapping[str, object], loads: Mapping[str, Sequence[float]] | None = None) -> str:
    """HTML that stands alone in light and dark notebooks. `loads` are one number for each instance, drawn under their name.

    Where there are more than 200 instances a bar is the busiest of several: what makes a stage slow is never left out.
    """
    lines = "".join(
        f"<tr><td {_CELL}>{_escape(name)}</td><td {_CELL}>{_escape(str(value))}</td></tr>" for name, value in facts.items()
    )
    pictures = "".join(f"<div>{_escape(name)}</div>{_bars(name, list(values))}" for name, values in (loads or {}).items())
    return f'<div><b>{_escape(title)}</b><table style="border:none">{lines}</table>{pictures}</div>'


def _escape(text: str) -> str:
    """A text as it can stand in a page."""
    return escape(text.translate(_UNSHOWN))


def _bars(name: str, values: Sequence[float]) -> str:
    values = [float(value) for value in values]
    if not math.isfinite(sum(values)):
        return "<div>no picture: these are not all numbers</div>"
    most = max(values, default=0.0)
    if most <= 0.0:
        return "<div>nothing yet</div>"
    each = -(-len(values) // _MOST_BARS)
    tops = [max(values[at : at + each]) for at in range(0, len(values), each)]
    mean = sum(values) / len(values)
    step = _WIDTH / len(tops)
    rects = "".join(
        f'<rect x="{step * at:.1f}" y="{_HEIGHT * (1.0 - top / most):.1f}" width="{0.8 * step:.2f}" '
        f'height="{_HEIGHT * top / most:.1f}" fill="currentColor" fill-opacity="0.55"/>'
        for at, top in enumerate(tops)
    )
    even = _HEIGHT * (1.0 - mean / most)
    line = f'<line x1="0" x2="{_WIDTH:g}" y1="{even:.1f}" y2="{even:.1f}" stroke="currentColor" stroke-dasharray="4 3"/>'
    label = f"{name}: {len(values)} instances, the busiest has {most / mean:.2f} times the mean"
    several = "" if each == 1 else f", each bar the busiest of {each}"
    return (
        f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" preserveAspectRatio="none" role="img" aria-label="{_escape(label)}" '
        f'style="width:100%;max-width:{_WIDTH:g}px;height:{_HEIGHT:g}px"><title>{_escape(label)}</title>{rects}{line}</svg>'
        f"<div><small>{_escape(label)}{several}; dashed: the mean</small></div>"
    )
