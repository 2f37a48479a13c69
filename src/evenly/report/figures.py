"""Figures as data (curves, bars, heat maps), and their drawing as PNG or SVG."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter

from evenly.kernels.types import F64
from evenly.look.palette import GRID, GROUND, INK, PALETTE, SERIES
from evenly.numbers import plain
from evenly.report.pictures import STYLE, Tips, as_svg

_SERIES = {name: PALETTE[name].light for name in SERIES}
COLOURS: Mapping[str, str] = {
    "dkg": _SERIES["even"],
    "evenly": _SERIES["navy"],
    "zipf-1.0": _SERIES["blue"],
    "zipf-2.0": _SERIES["even"],
    "zipf-3.0": _SERIES["purple"],
    "o-apx": INK,
    "universal": _SERIES["uneven"],
    "modulo": _SERIES["amber"],
    "sia": _SERIES["grey"],
    "one-instance": _SERIES["grey"],
    "pkg": _SERIES["purple"],
    "pkg-distinct": _SERIES["lilac"],
    "dkg+pkg": _SERIES["blue"],
    "dkg-wosim": _SERIES["rose"],
}
_YARDSTICK = "o-apx"
"""Drawn broad and pale, because good groupings lie on it."""
_MOST_TICKS = 8
SMALLEST = 9.2
"""The smallest letters of a panel on a page, in its own units."""
_NARROW_INCHES, _WIDE_INCHES, _HIGH_INCHES, _LINE_INCHES = 3.9, 6.2, 2.9, 0.19
_LETTERS_PER_INCH, _HANDLE_LETTERS = 13.5, 7
_BESIDE_INCHES, _TITLE = 1.1, 0.86
"""What stands left of an axis, and how many letters of a title fit where one of a label does."""
_SAME_PART = 0.012
"""Lines nearer than this part of the axis hide each other."""
_BESIDE = 0.14
"""Between series over one name of the x axis."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h")
_DASHES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1.5, 2)), (0, (5, 2, 1, 2)))
_LEVELS: tuple[Any, ...] = ((0, (1, 1.5)), (0, (5, 3)))
_HATCHES = ("", "///", "...")
_OTHERS = tuple(_SERIES[name] for name in ("blue", "purple", "amber", "navy", "rose", "brown", "lilac", "grey"))


@dataclass(frozen=True)
class Curve:
    """One line of a panel. `worst` is drawn dashed, beside the mean of the same name; `published` as markers without a line."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    worst: bool = False
    published: bool = False

    @property
    def label(self) -> str:
        """What the legend says."""
        return self.name + ", worst" * self.worst + ", published" * self.published


@dataclass(frozen=True)
class Curves:
    """A panel of lines over one axis.

    `levels` are published values without a place on the x axis, lines across by label; `marks` are places alone, lines
    upwards. `x_names` are what 1, 2, … stand for. `equal` is for axes of the same measure: points are pairs without a line
    between them, and the line where both are equal is drawn, under this name.
    """

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False
    levels: Mapping[str, float] = field(default_factory=dict)
    marks: Mapping[str, float] = field(default_factory=dict)
    x_names: Sequence[str] = ()
    equal: str = ""


@dataclass(frozen=True)
class Bars:
    """A panel that says how often each value (rounded to `width`) was measured. `levels`: published ones, by label."""

    title: str
    x_label: str
    width: float
    values: Mapping[str, F64]
    levels: Mapping[str, float] = field(default_factory=dict)


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


def draw_svgs(panels: Sequence[Panel], *, columns: int = 2, alone: bool = False) -> list[str]:
    """Each panel as SVG text that a page can hold, narrow enough for a telephone, with what its lines mean below it.
    `alone`: for files of their own."""
    colours = _colours([name for panel in panels for name in _names(panel)])
    found = []
    for panel in panels:
        with rc_context(STYLE):
            wide = _NARROW_INCHES if columns > 1 else _WIDE_INCHES
            canvas = Canvas(figsize=(wide, _HIGH_INCHES), layout="constrained")
            place = canvas.subplots()
            tips = Tips()
            _draw_panel(canvas, place, panel, colours, tips, wide)
            _legend_below(canvas, place, wide)
            found.append(as_svg(canvas, tips, alone=alone))
    return found


def _legend_below(canvas: Canvas, place: Any, wide: float) -> None:
    handles, labels = place.get_legend_handles_labels()
    more = place.get_title().count("\n") + place.get_xlabel().count("\n")
    letters = int(wide * _LETTERS_PER_INCH)
    labels = [_in_lines(label, letters - _HANDLE_LETTERS) for label in labels]
    longest = max((len(line) for label in labels for line in label.split("\n")), default=0)
    columns = max(1, min(len(labels), letters // (longest + _HANDLE_LETTERS)))
    rows = -(-sum(1 + label.count("\n") for label in labels) // columns)
    canvas.set_size_inches(wide, _HIGH_INCHES + _LINE_INCHES * (rows + more))
    if not labels:
        return
    canvas.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=SMALLEST)


def _draw(panels: Sequence[Panel], columns: int) -> Canvas:
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width = 8.2 if columns == 1 else 5.0 * columns
    canvas = Canvas(figsize=(width, 3.6 * rows), layout="constrained")
    axes = canvas.subplots(rows, columns, squeeze=False).ravel()
    colours = _colours([name for panel in panels for name in _names(panel)])
    for place, panel in zip(axes, panels, strict=False):
        _draw_panel(canvas, place, panel, colours, Tips(), width / columns)
        if isinstance(panel, Curves):
            place.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        elif isinstance(panel, Bars):
            place.legend(frameon=False, fontsize=8)
    for place in axes[len(panels) :]:
        place.set_visible(False)
    return canvas


def _minor(value: float, _: int) -> str:
    """Between powers of ten: only 2, 3 and 5 times one, so that names do not meet."""
    return plain(value) if f"{value:e}"[0] in "235" and f"{value:.6e}"[2:8] == "000000" else ""


def _in_lines(text: str, letters: int) -> str:
    return "\n".join(textwrap.wrap(text, max(letters, 1))) or text


def _draw_panel(
    canvas: Canvas, place: Any, panel: Panel, colours: Mapping[str, str], tips: Tips, wide: float
) -> None:  # what is written over and under the axis may be as long as that
    axis = int((wide - _BESIDE_INCHES) * _LETTERS_PER_INCH)
    place.set_title(_in_lines(panel.title, int(_TITLE * axis)), fontsize=10.5)
    place.set_xlabel(_in_lines(panel.x_label, axis))
    if isinstance(panel, Curves):
        _draw_curves(place, panel, colours, tips)
    elif isinstance(panel, Bars):
        _draw_bars(place, panel, colours, tips)
    else:
        _draw_heat_map(canvas, place, panel)


def _names(panel: Panel) -> list[str]:
    if isinstance(panel, Curves):
        return [curve.name for curve in panel.curves]
    return list(panel.values) if isinstance(panel, Bars) else []


def _colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name, the same in every panel of a figure."""
    spare = [colour for colour in _OTHERS if colour not in {COLOURS.get(name) for name in names}]
    unnamed = [name for name in dict.fromkeys(names) if name not in COLOURS]
    return {**COLOURS, **{name: spare[i % len(spare)] for i, name in enumerate(unnamed)}}


def _draw_curves(place: Any, panel: Curves, colours: Mapping[str, str], tips: Tips) -> None:
    names = list(dict.fromkeys(curve.name for curve in panel.curves))
    beneath, above = _covered([curve for curve in panel.curves if not curve.published], log_y=panel.log_y)
    if panel.equal:
        place.axline((0.0, 0.0), slope=1.0, label=panel.equal, color=INK, linewidth=1.0, linestyle=_LEVELS[0], zorder=1.5)
    for curve in panel.curves:
        colour, marker = colours[curve.name], _MARKERS[names.index(curve.name) % len(_MARKERS)]
        # Things without an order have no line between them, and series stand side by side.
        beside = _BESIDE * (names.index(curve.name) - (len(names) - 1) / 2.0) if panel.x_names else 0.0
        x = [at + beside for at in curve.x]
        told = _told(panel, curve)
        if curve.published:
            (points,) = place.plot(
                x, curve.y, label=curve.label, linestyle="", marker=marker, zorder=4,
                markersize=6.0 if curve.worst else 9.0, markerfacecolor="none", markeredgecolor=colour, markeredgewidth=1.6,
            )  # fmt: skip
            tips.put(points, *told)
            continue
        covering, covered_by = above[id(curve)], beneath[id(curve)]
        pale = covered_by > 0 or curve.name == _YARDSTICK
        if panel.x_names or panel.equal:
            (points,) = place.plot(x, curve.y, label=curve.label, linestyle="", color=colour, marker=marker, markersize=5.5)
            tips.put(points, *told)
            continue
        (line,) = place.plot(
            x,
            curve.y,
            label=curve.label,
            color=colour,
            linestyle=_DASHES[min(covering, len(_DASHES) - 1)] if not curve.worst else (0, (3, 2)),
            linewidth=1.4 + 1.5 * min(covered_by, 3) if curve.name != _YARDSTICK else 3.4,
            alpha=0.45 if pale else 1.0,
            marker=marker,
            markersize=3.6 + 1.5 * min(covered_by, 3),
            markerfacecolor=GROUND if curve.worst else colour,
        )
        tips.put(line, *told)
    _draw_axes(place, panel)


def _told(panel: Curves, curve: Curve) -> list[str]:
    """What each point of a curve stands for."""
    named = {float(at): name for at, name in enumerate(panel.x_names, start=1)}
    return [
        f"{curve.label}: {_measured(panel.y_label, plain(y))} at {named.get(float(x)) or _measured(panel.x_label, plain(x, 6))}"
        for x, y in zip(curve.x, curve.y, strict=True)
    ]


def _measured(label: str, value: str) -> str:
    """A value of an axis: percent come behind it."""
    return f"{label.removesuffix('%')}{value} %" if label == "%" or label.endswith(" %") else f"{label} {value}"


def _draw_axes(place: Any, panel: Curves) -> None:
    """What stands beside the curves: published levels and places, ticks and labels."""
    for number, (label, level) in enumerate(panel.levels.items()):
        place.axhline(level, label=label, color=INK, linewidth=1.3, linestyle=_LEVELS[number % len(_LEVELS)], zorder=1.5)
    for number, (label, at) in enumerate(panel.marks.items()):
        place.axvline(at, label=label, color=INK, linewidth=1.3, linestyle=_LEVELS[number % len(_LEVELS)], zorder=1.5)
    if panel.x_names:
        place.set_xticks(range(1, len(panel.x_names) + 1), panel.x_names, rotation=25, ha="right")
    elif panel.log_x:
        place.set_xscale("log")
        measured = sorted({float(x) for curve in panel.curves for x in curve.x})
        if len(measured) <= _MOST_TICKS:
            place.set_xticks(measured, [plain(x) for x in measured])
            place.minorticks_off()
        else:
            place.xaxis.set_major_formatter(FuncFormatter(_tick))
    else:
        place.xaxis.set_major_formatter(FuncFormatter(_tick))
    if panel.log_y:
        place.set_yscale("log")
        place.yaxis.set_minor_formatter(FuncFormatter(_minor))
    elif all(y >= 0.0 for curve in panel.curves for y in curve.y):
        place.set_ylim(bottom=0.0)
    place.yaxis.set_major_formatter(FuncFormatter(_tick))
    place.set_ylabel(panel.y_label)
    place.spines[["top", "right"]].set_visible(False)
    place.grid(visible=True, color=GRID, linewidth=0.7)


def _covered(curves: Sequence[Curve], *, log_y: bool) -> tuple[dict[int, int], dict[int, int]]:
    """For each curve how many later ones lie on it, and on how many earlier ones it lies: at half its points or more.

    Those beneath are drawn broad and pale and those above dashed, so that all of them are seen.
    """
    every = [_height(y, log_y=log_y) for curve in curves for y in curve.y]
    lowest = min(every, default=0.0)
    near = _SAME_PART * (max(every, default=0.0) - (lowest if log_y else min(lowest, 0.0)) or 1.0)
    beneath, above = {id(curve): 0 for curve in curves}, {id(curve): 0 for curve in curves}
    for place, later in enumerate(curves):
        heights = dict(zip(later.x, later.y, strict=True))
        for earlier in curves[:place]:
            shared = [(y, heights[x]) for x, y in zip(earlier.x, earlier.y, strict=True) if x in heights]
            same = [abs(_height(one, log_y=log_y) - _height(other, log_y=log_y)) <= near for one, other in shared]
            if shared and 2 * sum(same) >= len(same):
                beneath[id(earlier)] += 1
                above[id(later)] += 1
    return beneath, above


def _height(y: float, *, log_y: bool) -> float:
    return (math.log10(y) if y > 0.0 else 0.0) if log_y else float(y)


def _tick(value: float, _: int) -> str:
    return plain(value, 6)


def _draw_bars(place: Any, panel: Bars, colours: Mapping[str, str], tips: Tips) -> None:
    for number, (name, values) in enumerate(panel.values.items()):
        rounded, times = np.unique(np.round(values / panel.width) * panel.width, return_counts=True)
        # Bars beneath are broad and those above narrow and hatched, so that one series does not hide another.
        width = panel.width * 0.85 * (1.0 - 0.35 * min(number, 2))
        drawn = place.bar(
            rounded, times, width=width, color=colours[name], alpha=0.85, label=name, hatch=_HATCHES[number % len(_HATCHES)]
        )
        for bar, value, count in zip(drawn, rounded, times, strict=True):
            tips.put(bar, f"{name}: {panel.x_label} {plain(float(value), 6)}, {count} runs")
    for number, (label, level) in enumerate(panel.levels.items()):
        place.axvline(level, label=label, color=INK, linewidth=1.3, linestyle=_LEVELS[number % len(_LEVELS)])
    place.xaxis.set_major_formatter(FuncFormatter(_tick))
    place.set_ylabel("runs")
    place.spines[["top", "right"]].set_visible(False)


def _draw_heat_map(canvas: Canvas, place: Any, panel: HeatMap) -> None:
    shown = place.imshow(panel.values, cmap="YlGn_r", aspect="auto", origin="lower")
    place.set_xticks(range(len(panel.x)), [plain(x) for x in panel.x])
    place.set_yticks(range(len(panel.y)), [plain(y) for y in panel.y])
    place.set_ylabel(panel.y_label)
    canvas.colorbar(shown, ax=place)
