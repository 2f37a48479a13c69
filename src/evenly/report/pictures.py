"""Drawings of matplotlib as SVG text that a page can hold: in the page's colours, with what each bar and point stands for."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from evenly.kernels.types import I64
from evenly.look.palette import AXIS, EVEN, GROUND, INK, UNEVEN, themed
from evenly.report.comparison import Comparison, PlacedRun

_MOST_NUMBERED, _ALL_NUMBERED = 16, 10

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": AXIS,
    "axes.facecolor": "none",
    "figure.facecolor": GROUND,
    "savefig.facecolor": GROUND,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "evenly",
}


SMALLEST = 10.0
"""The smallest letters of these pictures, in their own units."""


class Tips:
    """What is shown when a pointer rests on a bar or a point."""

    def __init__(self) -> None:
        self._told: list[Sequence[str]] = []

    def put(self, artist: Any, *told: str) -> None:
        """`told` of the artist: one text for a bar, one for each point of a line."""
        artist.set_gid(f"tip-{len(self._told)}")
        self._told.append(told)

    def placed(self, drawn: str) -> str:
        """The drawing with these texts, and without names of groups, which other drawings of the page have too."""
        for number, told in enumerate(self._told):
            start = drawn.find(f'<g id="tip-{number}">')
            if start >= 0:
                end = _end_of_group(drawn, start)
                drawn = drawn[:start] + self._with(drawn[start:end], told) + drawn[end:]
        return re.sub(r'<g id="[^"]*"', "<g", drawn)

    def _with(self, group: str, told: Sequence[str]) -> str:
        points = group.count("<use ")
        if len(told) == 1 and points <= 1:
            head, _, rest = group.partition(">")
            return f"{head}><title>{escape(told[0])}</title>{rest}"
        if points != len(told):
            return group  # some lie outside: nobody knows which
        texts = iter(told)
        return re.sub(r"<use [^>]*/>", lambda found: f"<g><title>{escape(next(texts))}</title>{found[0]}</g>", group)


def _end_of_group(drawn: str, start: int) -> int:
    depth = 0
    for found in re.finditer(r"<g\b|</g>", drawn[start:]):
        depth += 1 if found[0] == "<g" else -1
        if depth == 0:
            return start + found.end()
    return len(drawn)


def as_svg(canvas: Figure, tips: Tips, *, alone: bool = False) -> str:
    """A figure of matplotlib as SVG text: in the colours of the page that holds it, or `alone` in a file, on white."""
    buffer = io.StringIO()
    canvas.savefig(buffer, format="svg", metadata={"Date": None}, facecolor=GROUND if alone else "none")
    drawn = buffer.getvalue()
    drawn = tips.placed(drawn[drawn.index("<svg") :])
    return drawn if alone else themed(drawn)


def draw_mean(place: Any, mean: float) -> None:
    """A dashed line across, with its name at the right."""
    place.axhline(mean, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    place.annotate(
        "mean", (1.0, mean), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points", va="center"
    )


def number_bars(place: Any, at: I64) -> None:
    """Whole numbers below bars, no more than have room beside each other; of more bars matplotlib chooses."""
    if at.size <= _MOST_NUMBERED:
        place.set_xticks(at[:: 1 if at.size <= _ALL_NUMBERED else 2])


def busy_bars(comparison: Comparison) -> list[str]:
    """Seconds that each instance was busy, by hash and by Evenly, on one scale: two pictures."""
    top_s = 1.05 * max(float(comparison.hash.busy_s.max()), float(comparison.evenly.busy_s.max()), 1e-9)
    return [
        _busy(comparison.hash, UNEVEN, "Spark's hash", top_s),
        _busy(comparison.evenly, EVEN, "Evenly", top_s),
    ]


def _busy(run: PlacedRun, colour: str, title: str, top_s: float) -> str:
    tips = Tips()
    with rc_context(STYLE):
        figure = Figure(figsize=(4.2, 3.4), layout="constrained")
        panel = figure.subplots()
        places: I64 = np.arange(run.busy_s.size)
        for place, bar in zip(places, panel.bar(places, run.busy_s, color=colour, width=0.75), strict=True):
            tips.put(bar, f"instance {place}: {run.busy_s[place]:.2f} s, {run.rows[place]:,} rows")
        draw_mean(panel, float(run.busy_s.mean()))
        panel.set_title(f"{title}: λ = {run.imbalance_pct:.1f} %, stage {run.stage_s:.1f} s", fontsize=11)
        panel.set_xlabel("instance")
        panel.set_ylabel("seconds busy")
        number_bars(panel, places)
        panel.set_ylim(0.0, top_s)
        panel.spines[["top", "right"]].set_visible(False)
        return as_svg(figure, tips)
