"""Whether a mapping that earlier runs have left is kept, told by what the rows or groups of a run really gave each instance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenly.errors import InvalidParameter
from evenly.kernels.types import F64
from evenly.keys.expectation import Weighed, by_chance
from evenly.measures.load import imbalance_pct

DRIFT_PCT = 5.0
"""By how many percentage points λ may be off, beyond chance, before a mapping is learnt anew."""
TIME_DRIFT_PCT = 10.0
"""The same of measured times, which are never quite the same twice."""


@dataclass(frozen=True)
class Keeping:
    """Whether to keep a mapping, and why: λ that its loads promised, λ of what was carried, and how many rows that were, or
    what they weigh."""

    anew: bool
    why: str
    promised_pct: float
    carried_pct: float
    rows: float


def keeping(
    promised: F64,
    carried: F64,
    *,
    told: float | None = None,
    learnt_on: float | None = None,
    capacities: F64 | None = None,
    drift_pct: float = DRIFT_PCT,
) -> Keeping:
    """Judge a mapping by a run: `promised` are the loads of its instances when it was learnt, `carried` the rows of the run.

    It is kept if λ of what was carried is

    - at most `drift_pct`, or no more than chance alone gives as many rows on as many instances, for nothing is to be gained
      then; or
    - within `drift_pct` points of what was promised, or within what chance makes of that: the rows are as they were, and
      what is uneven among them (a key that is hotter than an instance) would be so under a fresh mapping too.

    Else keys have changed, in either direction, and it is to be learnt anew. `told` is how many rows `carried` was measured on,
    where that is a sample of them, or where rows have weights, of which `promised` and `carried` are sums (`Weighed.rows`);
    `learnt_on` the same of `promised`. Rows like those that it was learnt from are told from others in nine of ten
    runs even with `drift_pct=0`; and where there are so many rows that chance is below `drift_pct`, λ of a run that leaves it
    kept is at most `drift_pct` above an even spread or above what was promised (`tests/property/test_keeping.py`). Without rows
    nothing is known, and it is kept.
    """
    if not drift_pct >= 0.0:
        raise InvalidParameter(f"drift_pct must be at least 0, got {drift_pct}")
    if promised.shape != carried.shape:
        raise InvalidParameter(f"{promised.size} instances were promised and {carried.size} carried rows")
    rows, known = float(carried.sum()), float(promised.sum())
    promised_pct = imbalance_pct(promised, capacities) if known > 0.0 else 0.0
    if rows <= 0.0:
        return Keeping(anew=False, why="nothing was carried", promised_pct=promised_pct, carried_pct=0.0, rows=0.0)
    carried_pct = imbalance_pct(carried, capacities)

    def judged(why: str, *, anew: bool) -> Keeping:
        return Keeping(anew, why, promised_pct, carried_pct, rows)

    even = np.ones(promised.size) if capacities is None else capacities
    told = rows if told is None else told
    learnt_on = known if learnt_on is None else learnt_on
    _, chance_pct = by_chance(Weighed(even, np.inf), told, capacities)
    if carried_pct <= max(chance_pct, drift_pct):
        return judged(f"λ {carried_pct:.1f} %, and chance alone may give {chance_pct:.1f} %", anew=False)
    if known > 0.0:
        low_pct, high_pct = by_chance(Weighed(promised, learnt_on), told, capacities)
        if min(low_pct, promised_pct - drift_pct) <= carried_pct <= max(high_pct, promised_pct + drift_pct):
            return judged(f"λ {carried_pct:.1f} %, as promised ({promised_pct:.1f} %)", anew=False)
    return judged(f"λ {carried_pct:.1f} % where {promised_pct:.1f} % were promised", anew=True)


def keeping_by_time(promised_s: F64, busy_s: F64, *, groups: float) -> Keeping:
    """The same by times: how long instances were expected to be busy, and were. `groups` is as how many equal groups by chance
    these vary from run to run (`steady_groups`)."""
    total_s, expected_s = float(busy_s.sum()), float(promised_s.sum())
    if not (total_s > 0.0 and expected_s > 0.0 and groups > 0.0):
        return keeping(promised_s, np.zeros(promised_s.size), drift_pct=TIME_DRIFT_PCT)
    return keeping(groups / expected_s * promised_s, groups / total_s * busy_s, drift_pct=TIME_DRIFT_PCT)
