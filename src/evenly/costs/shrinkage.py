"""How far a key's mean cost is to be believed: empirical Bayes on the variance within keys and between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenly.costs.moments import Moments
from evenly.kernels.types import F64

_OWN_AFTER = 8.0
"""A key's own variance counts as much as that of all keys once it has been seen 8 times more than once."""
_SEEN_ONCE = 1.05
"""One row counts 1 up to rounding, and less as it is forgotten: a key that counts more was seen again, however long ago."""


@dataclass(frozen=True, eq=False)
class Variances:
    """The variance of costs, divided: `within` a key (what no key can tell) and `between` keys (what scheduling can use).

    `freedom` is how many rows were seen of keys that had been seen before: only these tell the two apart. Without any,
    all variance is taken to be within, and every key is estimated at the mean. `unsure` is the standard error of `between`.

    `to_come` is what the estimates of a next batch's rows leave: what is within keys, what is not known of the mean of a key
    that was seen a few times, and all of what keys vary that were never seen. As Good and Turing argued, the share of rows
    of such keys is that of the keys seen once, and they vary as those do.
    """

    mean_s: float
    total: float
    within: float
    between: float
    freedom: float
    of_keys: F64
    unsure: float = 0.0
    to_come: float = 0.0

    @property
    def shares(self) -> tuple[float, float]:
        """Standard deviation in parts of the mean: of all costs, and of what is left within keys."""
        return self._shares(self.between)

    @property
    def shares_at_most(self) -> tuple[float, float]:
        """The same if as much lies between keys as could well be: two standard errors more."""
        return self._shares(self.between + 2.0 * self.unsure)

    @property
    def shares_to_come(self) -> tuple[float, float]:
        """The same of rows to come: of all costs, and of what their estimates leave, which is no more."""
        every, within = self.shares
        return every, min(max(math.sqrt(self.to_come) / self.mean_s, within), every) if self.mean_s > 0.0 else 0.0

    def _shares(self, between: float) -> tuple[float, float]:
        if self.mean_s <= 0.0:
            return 0.0, 0.0
        return math.sqrt(self.within + between) / self.mean_s, math.sqrt(self.within) / self.mean_s


def variances(known: Moments, rest: F64) -> Variances:
    """Divide the variance by the method of moments; rows of `rest` count as keys that were seen once.

    That is right for `rest` whether its keys were seen once or often: a row's square deviation from the mean has the
    expectation within + between either way. And it makes up for the choice of the costliest keys: all rows are in.
    """
    count, cost, square = (float(value) for value in known.total + rest)
    if count <= 0.0:
        return Variances(0.0, 0.0, 0.0, 0.0, 0.0, np.zeros(known.size))
    mean = cost / count
    total = max(square / count - mean * mean, 0.0)
    means = known.sums_s / known.counts
    spread = np.maximum(known.squares - known.sums_s * means, 0.0)
    free = np.maximum(known.counts - 1.0, 0.0)
    freedom = float(free.sum())
    # Rounding leaves some of a square behind; below this it says nothing.
    spread[spread < 1e-12 * known.squares] = 0.0
    within = min(float(spread.sum()) / freedom, total) if freedom > 0.0 else total
    of_keys = (spread + _OWN_AFTER * within) / (free + _OWN_AFTER)
    others = float(rest[0])
    apart = max(float(rest[2]) - 2.0 * mean * float(rest[1]) + others * mean * mean, 0.0)
    deviation = float((known.counts * (means - mean) ** 2).sum()) + apart
    # The rest may vary less than the keys that are known: no more than all of its variance is chance.
    own = max(float(rest[2]) / others - (float(rest[1]) / others) ** 2, 0.0) if others > 0.0 else 0.0
    by_chance = float((of_keys * (1.0 - known.counts / count)).sum()) + min(within, own) * others
    weight = count - (float((known.counts**2).sum()) + others) / count
    between = max((deviation - by_chance) / weight, 0.0) if freedom > 0.0 and weight > 1e-9 * count else 0.0
    if between < 1e-12 * mean * mean:
        between = 0.0
    # As in an analysis of variance: the mean squares among keys and within them, each by its degrees of freedom.
    groups = max(known.size + others - 1.0, 1.0)
    among = deviation / groups
    unsure = (
        groups / weight * math.sqrt(2.0 * among * among / groups + 2.0 * within * within / freedom)
        if freedom > 0.0 < weight
        else 0.0
    )
    to_come = _to_come(known, rest, of_keys, between)
    return Variances(mean, total, within, between, freedom, of_keys, unsure, to_come)


def seen_once(known: Moments) -> NDArray[np.bool_]:
    """Which keys were seen once, or so long ago that no more is left of them."""
    return known.counts < _SEEN_ONCE


def _to_come(known: Moments, rest: F64, of_keys: F64, between: float) -> float:
    """The variance of rows to come around their estimates: see `Variances`."""
    again = ~seen_once(known)
    kept, others = known.divided(again)
    new = others + rest
    unknown = max(float(new[2] / new[0] - (new[1] / new[0]) ** 2), 0.0) if new[0] > 0.0 else 0.0
    chance = of_keys[again]
    # A key's mean is known up to what its own rows vary over their number, and no worse than keys vary.
    mean_of_key = between * chance / np.maximum(kept.counts * between + chance, 1e-300)
    left = float((kept.counts * (chance + mean_of_key)).sum()) + float(new[0]) * unknown
    return left / float(kept.counts.sum() + new[0])


def believed(known: Moments, found: Variances) -> F64:
    """The estimate of each key: its mean, drawn toward the mean of all the more, the less was seen of it."""
    means = known.sums_s / known.counts
    if found.between == 0.0:
        return np.full(known.size, found.mean_s)
    signal = known.counts * found.between
    return found.mean_s + (means - found.mean_s) * (signal / (signal + found.of_keys))


def folded(known: Moments, rest: F64, *, limit: int) -> tuple[Moments, F64]:
    """The `limit` ids whose rows are believed to cost most in all (of equals the lower ids), and the others added to `rest`.

    By the believed cost, not the measured: of many keys that were seen once, those that happened to be measured high would be
    kept, and all that is learnt from them would be too high.
    """
    if known.size <= limit:
        return known, rest
    worth = known.counts * believed(known, variances(known, rest))
    least = np.partition(worth, known.size - limit)[known.size - limit]
    keep = worth > least
    keep[np.flatnonzero(worth == least)[: limit - int(keep.sum())]] = True
    kept, others = known.divided(keep)
    return kept, rest + others
