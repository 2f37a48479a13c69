"""What the texts of the POSG and OSG papers give as points of their figures, for the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenly.lab.papers.posg.bench import NEAREST
from evenly.report.figures import Curve, Curves

GAINS: Mapping[str, Sequence[Curve]] = {
    "4": [Curve(NEAREST, (0.0, 0.5, 1.0), (1.06, 1.06, 1.25), published=True)],
    "5": [Curve(NEAREST, (102.0, 115.0), (1.26, 1.07), published=True)],
    "8": [Curve(NEAREST, (1.0,), (1.0,), published=True)],
    "12": [Curve(NEAREST, (10.0,), (1.16,), published=True)],
    "osg 2": [Curve(NEAREST, (5.0,), (3.4,), published=True)],
}
"""S_L at a place of the x axis, by figure."""

GAIN_LEVELS: Mapping[str, Mapping[str, float]] = {
    "5": {"published: 1.15 or more from 100 to 109 %": 1.15},
    "6": {"published: 1.19 on average": 1.19},
    "7": {"published: 1.19 on average": 1.19},
    "12": {"published: 1.37 on average, k = 2 to 10": 1.37},
    "osg 2": {"published: 1.5 on average": 1.5, "published: 1.05 at least": 1.05},
}
"""S_L of a whole figure."""

MOMENTS: Mapping[str, Mapping[str, float]] = {
    "10": {"published: leaves round-robin": 10_690.0, "published: all new matrices": 84_912.0},
    "11": {"published: leaves round-robin": 20_978.0, "published: all new matrices": 82_311.0},
}
"""Tuples read when something happens."""


def gains_panel(figure: str, x_label: str, gains: Sequence[Curve], *, log_x: bool = False) -> Curves:
    """The panel of S_L of a figure, with what its paper states of it."""
    drawn = [*gains, *GAINS.get(figure, ())]
    return Curves("Against round-robin", x_label, "S_L", drawn, log_x=log_x, levels=GAIN_LEVELS.get(figure, {}))
