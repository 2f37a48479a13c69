"""Pictures, drawn with matplotlib and given as SVG text that a page can hold."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from evenly.report.comparison import Comparison, PlacedRun

UNEVEN = "#c2571a"
EVEN = "#1b7f6b"
INK = "#22303c"
_MOST_NUMBERED = 16

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#9aa5b1",
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "evenly",
}


SMALLEST = 10.0
"""The smallest letters of these pictures, in their own units."""


def busy_bars(comparison: Comparison) -> list[str]:
    """Seconds that each instance was busy, by hash and by Evenly, on one scale: two pictures."""
    top_s = 1.05 * max(float(comparison.hash.busy_s.max()), float(comparison.evenly.busy_s.max()), 1e-9)
    return [
        _busy(comparison.hash, UNEVEN, "Spark's hash", top_s),
        _busy(comparison.evenly, EVEN, "Evenly", top_s),
    ]


def _busy(run: PlacedRun, colour: str, title: str, top_s: float) -> str:
    with rc_context(STYLE):
        figure = Figure(figsize=(4.2, 3.4), layout="constrained")
        panel = figure.subplots()
        places = np.arange(run.busy_s.size)
        panel.bar(places, run.busy_s, color=colour, width=0.75)
        mean = float(run.busy_s.mean())
        panel.axhline(mean, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        panel.annotate(
            "mean", (1.0, mean), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points", va="center"
        )
        panel.set_title(f"{title}: λ = {run.imbalance_pct:.1f} %, stage {run.stage_s:.1f} s", fontsize=11)
        panel.set_xlabel("instance")
        panel.set_ylabel("seconds busy")
        if places.size <= _MOST_NUMBERED:
            panel.set_xticks(places)
        panel.set_ylim(0.0, top_s)
        panel.spines[["top", "right"]].set_visible(False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawn = buffer.getvalue()
    return drawn[drawn.index("<svg") :]
