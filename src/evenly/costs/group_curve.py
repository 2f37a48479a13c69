"""What a group costs by its number of rows: a fixed part and a power of the rows, fitted with its uncertainty.

Groups are counted in bins by their rows, four to a doubling, and of each bin the logarithms of the times are added up. So what
is kept does not grow with the groups, adds up over tasks and runs, and a wild time weighs as its logarithm does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenly.kernels.types import F64, I64

BINS = 164
"""Four to a doubling, up to 2^41 rows; the last holds all that is larger."""
LEAST_S = 1e-6
"""Shorter times are taken for this one: below, a clock says nothing."""

_A_DOUBLING = 4.0
_GROUPS, _ROWS, _SECONDS, _LOGS, _SQUARES = range(5)
_EXPONENTS = np.arange(4, 161) * 0.025
_LIKELY, _LIKELY_WITHIN = 1.0, 0.75
"""What is thought of an exponent before anything is seen: 1, give or take."""
_MISFIT = 0.04
"""No function is a power of its rows exactly: so far off, in parts, is taken to be no news, however many groups say so."""
_NOISE, _NOISE_AS = 0.1, 8.0
"""What times of equal groups vary, in parts, before that is seen; it counts as so many groups."""
_WILD = 2.0
_STEPS = 4
_LOW, _HIGH = 0.1, 0.9


@dataclass(frozen=True)
class GroupCurve:
    """Seconds of a group of n rows: `fixed_s` + `coefficient_s` · n^`exponent`."""

    fixed_s: float
    coefficient_s: float
    exponent: float

    def seconds(self, rows: ArrayLike) -> F64:
        """What groups of so many rows take, above 0."""
        grown: F64 = self.coefficient_s * np.asarray(rows, np.float64) ** self.exponent
        return np.maximum(self.fixed_s + grown, LEAST_S)


@dataclass(frozen=True)
class FittedCurve:
    """The likeliest curve, one with as low an exponent as may well be, and one with as high a one (nine of ten each way).

    `exponent_unsure` is the standard error of the exponent; `variance` is what the logarithms of times of groups of one size
    vary, by their keys and by chance.
    """

    low: GroupCurve
    likely: GroupCurve
    high: GroupCurve
    exponent_unsure: float
    variance: float

    @property
    def all(self) -> tuple[GroupCurve, GroupCurve, GroupCurve]:
        """The likeliest first."""
        return self.likely, self.low, self.high


def bins_of(rows: ArrayLike) -> I64:
    """The bin of each group by its rows."""
    sizes = np.maximum(np.asarray(rows, np.float64), 1.0)
    return np.minimum(np.floor(_A_DOUBLING * np.log2(sizes) + 0.5), BINS - 1).astype(np.int64)


def binned(rows: ArrayLike, seconds: ArrayLike) -> F64:
    """Groups and their times as sums by bin: groups, rows, seconds, their logarithms, the squares of these."""
    sizes, took = np.asarray(rows, np.float64), np.maximum(np.asarray(seconds, np.float64), LEAST_S)
    at, logs = bins_of(sizes), np.log(took)
    columns = (np.ones(sizes.size), sizes, took, logs, logs * logs)
    return np.stack([np.bincount(at, values, BINS) for values in columns])


def shifted(bins: F64, by: float) -> F64:
    """The sums of the same groups if each had taken e^`by` times as long."""
    groups, rows, seconds, logs, squares = bins
    moved = [groups, rows, seconds * np.exp(by), logs + by * groups, squares + 2.0 * by * logs + by * by * groups]
    return np.where(groups > 0.0, np.stack(moved), 0.0)


def curve_total_s(bins: F64, curve: GroupCurve) -> float:
    """What the curve says that all groups of the bins take together."""
    seen = bins[:, bins[_GROUPS] > 0.0]
    return float((seen[_GROUPS] * curve.seconds(seen[_ROWS] / seen[_GROUPS])).sum()) if seen.size else 0.0


def fitted(bins: F64) -> FittedCurve | None:
    """The curve of groups that were added up by `binned`; None if there are none.

    For every exponent the other two are fitted to the mean logarithms of the bins, by least squares in parts of the time,
    repeated with less weight for bins that are far off (Huber). The likelihood of each exponent, times what was thought of it
    before, tells the likeliest one and how sure that is.
    """
    seen = bins[:, bins[_GROUPS] > 0.0]
    if seen.size == 0:
        return None
    groups = seen[_GROUPS]
    sizes, logs = seen[_ROWS] / groups, seen[_LOGS] / groups
    spread = float(np.maximum(seen[_SQUARES] - groups * logs * logs, 0.0).sum())
    variance = (spread + _NOISE_AS * _NOISE**2) / (max(float(groups.sum()) - groups.size, 0.0) + _NOISE_AS)
    sure = 1.0 / (variance / groups + _MISFIT**2)
    reference = float(np.exp(np.average(np.log(sizes), weights=sure)))
    grown = (sizes / reference)[None, :] ** _EXPONENTS[:, None]
    fixed, coefficient, loss = _least_squares(grown, np.exp(logs)[None, :], sure)
    loss = loss + ((_EXPONENTS - _LIKELY) / _LIKELY_WITHIN) ** 2
    belief = np.exp(-0.5 * (loss - loss.min()))
    belief /= belief.sum()
    mean = float(belief @ _EXPONENTS)
    unsure = float(np.sqrt(belief @ (_EXPONENTS - mean) ** 2))
    passed = np.cumsum(belief)

    def curve(at: int) -> GroupCurve:
        exponent = float(_EXPONENTS[at])
        return GroupCurve(float(fixed[at]), float(coefficient[at] / reference**exponent), exponent)

    best = int(loss.argmin())
    low, high = min(int(np.searchsorted(passed, _LOW)), best), max(int(np.searchsorted(passed, _HIGH)), best)
    return FittedCurve(curve(low), curve(best), curve(min(high, _EXPONENTS.size - 1)), unsure, variance)


def _least_squares(grown: F64, level: F64, sure: F64) -> tuple[F64, F64, F64]:
    """For each row of `grown` the best fixed part and coefficient, none below 0, and how far off they leave the levels."""
    guess, weight = np.broadcast_to(level, grown.shape), np.broadcast_to(sure, grown.shape)
    for _ in range(_STEPS):
        by = weight / (guess * guess)
        one, cross, square = by.sum(axis=1), (by * grown).sum(axis=1), (by * grown * grown).sum(axis=1)
        first, second = (by * level).sum(axis=1), (by * grown * level).sum(axis=1)
        free = one * square - cross * cross
        apart = free > 1e-9 * one * square  # groups of one size do not tell the two parts from each other
        divisor = np.where(apart, free, 1.0)
        fixed = np.where(apart, (first * square - second * cross) / divisor, 0.0)
        coefficient = np.where(apart, (second * one - first * cross) / divisor, second / square)
        below = coefficient < 0.0
        fixed, coefficient = np.where(below, first / one, fixed), np.where(below, 0.0, coefficient)
        below = fixed < 0.0
        fixed, coefficient = np.where(below, 0.0, fixed), np.where(below, second / square, coefficient)
        guess = np.maximum(fixed[:, None] + coefficient[:, None] * grown, LEAST_S)
        off = np.abs(np.log(level / guess)) * np.sqrt(sure)
        weight = sure * np.minimum(1.0, _WILD / np.maximum(off, 1e-12))
    loss = np.where(off <= _WILD, off * off, 2.0 * _WILD * off - _WILD**2).sum(axis=1)
    return fixed, coefficient, loss
