"""Figures as data (curves, bars, heat maps), and their drawing as PNG or SVG."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure as Canvas

from evenly.kernels.types import F64
from evenly.report.pictures import EVEN, INK, STYLE, UNEVEN

COLOURS: Mapping[str, str] = {
    "dkg": EVEN,
    "evenly": "#0b4f6c",
    "zipf-1.0": "#5b7fa6",
    "zipf-2.0": EVEN,
    "zipf-3.0": "#8a5a9e",
    "o-apx": INK,
    "universal": UNEVEN,
    "modulo": "#d9a441",
    "sia": "#a0a8b2",
    "one-instance": "#a0a8b2",
    "pkg": "#8a5a9e",
    "pkg-distinct": "#c49bd3",
    "dkg+pkg": "#5b7fa6",
    "dkg-wosim": "#b0566b",
}
_YARDSTICK = "o-apx"
"""Drawn broad and pale, because good groupings lie on it."""
_MOST_TICKS = 8
_OTHERS = ("#5b7fa6", "#8a5a9e", "#d9a441", "#7c8f3f", "#b0566b", "#3f8f8a", "#c49bd3", "#8c6d4f")


@dataclass(frozen=True)
class Curve:
    """One line of a panel. `worst` is drawn dashed, beside the mean of the same name."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    worst: bool = False


@dataclass(frozen=True)
class Curves:
    """A panel of lines over one axis."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Bars:
    """A panel that says how often each value (rounded to `width`) was measured."""

    title: str
    x_label: str
    width: float
    values: Mapping[str, F64]


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A panel of cells: `values[row, column]`."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    y: Sequence[float]
    values: F64


Panel = Curves | Bars | HeatMap


@dataclass(frozen=True, eq=False)
class PaperFigure:
    """One figure or table of a paper: what was measured, how it is drawn, and what became of each stated value.

    `points` and `verdicts` are flat objects with the field names of every command. `table` is what more there is to say,
    its first row the headings. `skipped` says why nothing was measured, if so.
    """

    figure: str
    title: str
    panels: Sequence[Panel] = ()
    points: Sequence[Mapping[str, object]] = ()
    verdicts: Sequence[Mapping[str, object]] = field(default_factory=tuple)
    columns: int = 2
    skipped: str | None = None
    table: Sequence[Sequence[str]] = ()

    @property
    def label(self) -> str:
        """How people call it: Figure 2, Table 1. One that has no number in the paper is called by its title."""
        name = self.figure.removeprefix("table-")
        if not name[:1].isdigit():
            return self.title
        return f"Table {name}" if self.figure.startswith("table-") else f"Figure {name}"

    @property
    def heading(self) -> str:
        """Its label and its title."""
        return self.title if self.label == self.title else f"{self.label}. {self.title}"

    def rows(self) -> list[dict[str, object]]:
        """Points, then verdicts, as flat objects; of a figure that was skipped, first one that says why."""
        base: dict[str, object] = {"figure": self.figure, "published": None, "verdict": None, "why": self.skipped}
        found = [{**base, **row} for row in (*self.points, *self.verdicts)]
        return found if self.skipped is None else [base, *found]


def draw_png(panels: Sequence[Panel], *, columns: int = 2) -> bytes:
    """The panels as one PNG."""
    buffer = io.BytesIO()
    with rc_context(STYLE):
        _draw(panels, columns).savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()


def draw_svg(panels: Sequence[Panel], *, columns: int = 2) -> str:
    """The panels as SVG text that a page can hold."""
    buffer = io.StringIO()
    with rc_context(STYLE):
        _draw(panels, columns).savefig(buffer, format="svg", metadata={"Date": None})
    drawn = buffer.getvalue()
    return drawn[drawn.index("<svg") :]


def _draw(panels: Sequence[Panel], columns: int) -> Canvas:
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width = 8.2 if columns == 1 else 5.0 * columns
    canvas = Canvas(figsize=(width, 3.6 * rows), layout="constrained")
    axes = canvas.subplots(rows, columns, squeeze=False).ravel()
    colours = _colours([name for panel in panels for name in _names(panel)])
    for place, panel in zip(axes, panels, strict=False):
        place.set_title(panel.title, fontsize=10.5)
        place.set_xlabel(panel.x_label)
        if isinstance(panel, Curves):
            _draw_curves(place, panel, colours)
        elif isinstance(panel, Bars):
            _draw_bars(place, panel, colours)
        else:
            _draw_heat_map(canvas, place, panel)
    for place in axes[len(panels) :]:
        place.set_visible(False)
    return canvas


def _names(panel: Panel) -> list[str]:
    if isinstance(panel, Curves):
        return [curve.name for curve in panel.curves]
    return list(panel.values) if isinstance(panel, Bars) else []


def _colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name, the same in every panel of a figure."""
    spare = [colour for colour in _OTHERS if colour not in {COLOURS.get(name) for name in names}]
    unnamed = [name for name in dict.fromkeys(names) if name not in COLOURS]
    return {**COLOURS, **{name: spare[i % len(spare)] for i, name in enumerate(unnamed)}}


def _draw_curves(place: Any, panel: Curves, colours: Mapping[str, str]) -> None:
    for curve in panel.curves:
        place.plot(
            curve.x,
            curve.y,
            label=f"{curve.name}, worst" if curve.worst else curve.name,
            color=colours[curve.name],
            linestyle=(0, (3, 2)) if curve.worst else "-",
            linewidth=3.4 if curve.name == _YARDSTICK else 1.4,
            alpha=0.35 if curve.name == _YARDSTICK else 1.0,
            marker="o",
            markersize=3.2,
            markerfacecolor="white" if curve.worst else colours[curve.name],
        )
    if panel.log_x:
        place.set_xscale("log")
        measured = sorted({float(x) for curve in panel.curves for x in curve.x})
        if len(measured) <= _MOST_TICKS:
            place.set_xticks(measured, [f"{x:,g}" for x in measured])
            place.minorticks_off()
    if panel.log_y:
        place.set_yscale("log")
    else:
        place.set_ylim(bottom=0.0)
    place.set_ylabel(panel.y_label)
    place.spines[["top", "right"]].set_visible(False)
    place.grid(visible=True, color="#e6eaee", linewidth=0.7)
    place.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_bars(place: Any, panel: Bars, colours: Mapping[str, str]) -> None:
    for name, values in panel.values.items():
        rounded, times = np.unique(np.round(values / panel.width) * panel.width, return_counts=True)
        place.bar(rounded, times, width=panel.width * 0.85, color=colours[name], alpha=0.85, label=name)
    place.set_ylabel("runs")
    place.spines[["top", "right"]].set_visible(False)
    place.legend(frameon=False, fontsize=8)


def _draw_heat_map(canvas: Canvas, place: Any, panel: HeatMap) -> None:
    shown = place.imshow(panel.values, cmap="YlGn_r", aspect="auto", origin="lower")
    place.set_xticks(range(len(panel.x)), [f"{x:g}" for x in panel.x])
    place.set_yticks(range(len(panel.y)), [f"{y:g}" for y in panel.y])
    place.set_ylabel(panel.y_label)
    canvas.colorbar(shown, ax=place)
