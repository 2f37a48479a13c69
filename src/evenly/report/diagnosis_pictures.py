"""Bars of a diagnosis: what each task, instance or partition had to do, with the mean, and those above it in another colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure

from evenly.diagnosis.stages import PastStage, tallest
from evenly.kernels.types import F64, I64
from evenly.look.palette import EVEN, UNEVEN
from evenly.report.page import picture
from evenly.report.pictures import SMALLEST, STYLE, Tips, as_svg, draw_mean, number_bars

MOST_BARS = 160
ABOVE = 1.1
"""Bars above this many times the mean are drawn as uneven."""


@dataclass(frozen=True, eq=False)
class Loads:
    """A panel: one bar for each value."""

    title: str
    y_label: str
    x_label: str
    values: F64 | I64


def stage_bars(stage: PastStage) -> Markup:
    """The run time and, where they were counted, the rows of every task of a stage."""
    panels = [Loads(f"Time: λ = {stage.time_imbalance_pct:.0f} %", "seconds", "task", stage.tasks.run_ms / 1000.0)]
    if stage.tasks.rows.any():
        panels.append(Loads(f"Rows: λ = {stage.rows_imbalance_pct:.0f} %", "rows", "task", stage.tasks.rows))
    return bars(panels)


def bars(panels: Sequence[Loads], *, same_scale: bool = False) -> Markup:
    """Panels side by side, for a page. Of very many bars the largest are drawn first, thinned out."""
    tops = [max(float(np.max(panel.values)) * 1.08, 1e-9) for panel in panels]
    drawn = [_drawn(panel, max(tops) if same_scale else top) for panel, top in zip(panels, tops, strict=True)]
    return picture(drawn, smallest=SMALLEST)


def _drawn(panel: Loads, top: float) -> str:
    with rc_context(STYLE):
        figure = Figure(figsize=(4.2, 2.9), layout="constrained")
        tips = Tips()
        _draw(figure.subplots(), panel, top, tips)
        return as_svg(figure, tips)


def _draw(place: Any, panel: Loads, top: float, tips: Tips) -> None:
    values = np.asarray(panel.values, np.float64)
    mean = float(values.mean())
    many = values.size > MOST_BARS
    shown = tallest(values, MOST_BARS) if many else values
    at = np.arange(shown.size)
    drawn = place.bar(at, shown, width=0.8, color=np.where(shown > ABOVE * mean, UNEVEN, EVEN))
    for number, bar in enumerate(drawn):
        which = panel.x_label if many else f"{panel.x_label} {number}"
        tips.put(
            bar, f"{which}: {shown[number]:,.6g} {panel.y_label}, {shown[number] / mean if mean else 1.0:.2f} times the mean"
        )
    draw_mean(place, mean)
    place.set_title(panel.title, fontsize=10.5)
    place.set_ylabel(panel.y_label)
    place.set_xlabel(f"{panel.x_label}s, {values.size:,} of them, the largest first" if many else panel.x_label)
    if many:
        place.set_xticks([])
    else:
        number_bars(place, at)
    place.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    place.set_ylim(0.0, top)
    place.set_xlim(-0.8, shown.size - 0.2)
    place.spines[["top", "right"]].set_visible(False)
