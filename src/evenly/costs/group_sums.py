"""What groups take that were counted before any was timed: sums of powers of their rows become seconds once times are known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenly.costs.group_curve import GroupCurve
from evenly.costs.group_times import UNKNOWN, GroupEstimates
from evenly.kernels.types import F64, I64
from evenly.measures.load import instance_loads

_ORDER = np.argsort(UNKNOWN)
_EXPONENTS = np.array(UNKNOWN)[_ORDER]


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Groups that were counted while nothing was known of times: of some their ids and rows, of all (these too) the sums of
    their rows to the powers of `UNKNOWN`, by bucket."""

    ids: I64
    rows: F64
    buckets: F64

    def with_timed(self, estimates: GroupEstimates) -> GroupSums:
        """With the ids and rows, as they were then, of keys that were timed and are not told here: few rows may take long."""
        more = ~np.isin(estimates.ids, self.ids)
        ids = np.concatenate([self.ids, estimates.ids[more]])
        return replace(self, ids=ids, rows=np.concatenate([self.rows, estimates.rows[more]]))

    def seconds(self, estimates: GroupEstimates) -> tuple[F64, F64]:
        """What the groups take that are told by their ids, and those of each bucket: a row for each guess, the likeliest first.

        As if groups were estimated where they were counted: exactly so for curves of an exponent in `UNKNOWN`. For others the
        sum of a bucket's rows to that power is drawn between those that are known and is never too small, for all buckets
        alike; for groups that are told by their ids it is exact (`tests/property/test_group_sums.py`).
        """
        weights = estimates.seconds_of(self.ids, self.rows)
        at = self._buckets_of(self.ids)
        sizes = np.maximum(self.rows, 1.0)
        light = self.buckets - np.stack([self._summed(at, sizes**exponent) for exponent in UNKNOWN])
        light = np.where(light > 1e-9 * self.buckets, light, 0.0)
        others = [estimates.others * _curve_s(curve, light) for curve in estimates.curves]
        return weights, np.stack([rest + self._summed(at, own) for rest, own in zip(others, weights, strict=True)])

    def _buckets_of(self, ids: I64) -> I64:
        buckets = self.buckets.shape[1]
        return (ids.view(np.uint64) % np.uint64(buckets)).astype(np.int64)

    def _summed(self, at: I64, values: F64) -> F64:
        return instance_loads(at, self.buckets.shape[1], values)


def _curve_s(curve: GroupCurve, sums: F64) -> F64:
    """What groups take together by a curve, of their sums to the powers of `UNKNOWN`."""
    by_number: F64 = curve.fixed_s * sums[UNKNOWN.index(0.0)]
    return by_number + curve.coefficient_s * _to_the_power(sums[_ORDER], curve.exponent)


def _to_the_power(sums: F64, exponent: float) -> F64:
    """The sums of rows to another power, of those to `_EXPONENTS`: on a line between their logarithms."""
    low = int(np.clip(np.searchsorted(_EXPONENTS, exponent) - 1, 0, _EXPONENTS.size - 2))
    part = (exponent - _EXPONENTS[low]) / (_EXPONENTS[low + 1] - _EXPONENTS[low])
    there = sums[low] > 0.0
    one, two = np.where(there, sums[low], 1.0), np.where(there, sums[low + 1], 1.0)
    drawn: F64 = np.where(there, one ** (1.0 - part) * np.maximum(two, 1e-300) ** part, 0.0)
    return drawn
