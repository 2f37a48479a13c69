"""Whether what a batch measured contradicts what the cost model says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenly.costs.model import CostModel
from evenly.costs.moments import Moments
from evenly.costs.report import InstanceReport

_WELL_KNOWN_ROWS = 8.0
_SEEN_ROWS = 2.0
_TOLERATED = 0.15
_MOST = 25.0
_ALIKE = 1.25


@dataclass(frozen=True)
class Contradiction:
    """What a batch says of a model: all rows cost `scale` times as much as estimated, and beyond that keys are `off`.

    `off` is in squared standard errors: about 1 or less if the model is right, 25 at most. `keys` is how many keys say so, as
    if all cost the same. `contradicts`: `off` exceeds 4, or more if few keys say so (12 for one): one may be off by chance.
    """

    scale: float = 1.0
    off: float = 0.0
    keys: float = 0.0

    @property
    def contradicts(self) -> bool:
        return self.keys > 0.0 and self.off > 4.0 + 8.0 / self.keys


def contradiction_of(model: CostModel, reports: Sequence[InstanceReport], *, speeds: Sequence[float]) -> Contradiction:
    """Compare a batch with the model, by keys that the model has seen 8 times and the batch twice.

    A machine that is slower for every key changes nothing in how rows are to be dealt, so that is told apart: `scale` is
    the median of measured over estimated (1 within a quarter). What is left of the difference of a key's mean
    cost and its estimate is squared, over the variance that chance explains (by the model, or by the batch if that is more)
    and the square of 15 % of the estimate. Keys
    count by what they cost; none is off by more than 25, so that a single wild measurement is no contradiction.
    """
    known, _ = model.moments
    parts = [report.moments.scaled(report.sampling, cost=speed) for report, speed in zip(reports, speeds, strict=True)]
    seen = Moments.pooled(parts)
    if known.size == 0 or seen.size == 0:
        return Contradiction()
    at = np.minimum(np.searchsorted(known.ids, seen.ids), known.size - 1)
    judged = (known.ids[at] == seen.ids) & (known.counts[at] >= _WELL_KNOWN_ROWS) & (seen.counts >= _SEEN_ROWS)
    if not judged.any():
        return Contradiction()
    at, counts, sums, squares = at[judged], seen.counts[judged], seen.sums_s[judged], seen.squares[judged]
    expected = counts * model.table.costs_s[at]
    order = np.argsort(sums / expected)
    middle = np.searchsorted(np.cumsum(expected[order]), 0.5 * expected.sum())
    scale = float((sums / expected)[order[min(int(middle), order.size - 1)]])
    if not 1.0 / _ALIKE < scale < _ALIKE:
        expected = expected * max(scale, 1e-9)
    else:
        scale = 1.0
    # One wild cost among a key's rows shows in their own variance, and is then no more than chance.
    usual = model.variances.of_keys[at] * max(scale, 1e-9) ** 2
    chance = np.maximum(squares / counts - (sums / counts) ** 2, usual) / counts + usual / known.counts[at]
    off = ((sums - expected) / counts) ** 2 / (chance + (_TOLERATED * expected / counts) ** 2)
    weights = np.maximum(sums, expected)
    weights = weights / weights.sum()
    return Contradiction(scale, float((np.minimum(off, _MOST) * weights).sum()), 1.0 / float((weights**2).sum()))
