"""Pictures, drawn with matplotlib and given as SVG text that a page can hold."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from evenly.report.comparison import Comparison

UNEVEN = "#c2571a"
EVEN = "#1b7f6b"
INK = "#22303c"

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


def busy_bars(comparison: Comparison) -> str:
    """Seconds that each instance was busy, by hash and by Evenly, on one scale."""
    with rc_context(STYLE):
        figure = Figure(figsize=(9.0, 3.6), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for panel, run, colour, title in (
            (panels[0], comparison.hash, UNEVEN, "Spark's hash"),
            (panels[1], comparison.evenly, EVEN, "Evenly"),
        ):
            places = np.arange(run.busy_s.size)
            panel.bar(places, run.busy_s, color=colour, width=0.75)
            mean = float(run.busy_s.mean())
            panel.axhline(mean, color=INK, linewidth=1, linestyle=(0, (4, 3)))
            panel.annotate("mean", (places[-1] + 0.6, mean), textcoords="offset points", xytext=(4, 0), va="center", fontsize=9)
            panel.set_title(f"{title}: λ = {run.imbalance_pct:.1f} %, stage {run.stage_s:.1f} s", fontsize=11)
            panel.set_xlabel("instance")
            panel.set_xticks(places)
            panel.spines[["top", "right"]].set_visible(False)
        panels[0].set_ylabel("seconds busy")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    drawn = buffer.getvalue()
    return drawn[drawn.index("<svg") :]
