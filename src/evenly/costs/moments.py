"""Exact moments of costs by key id: how many rows, the sum of their costs, the sum of the squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenly.errors import InvalidCost, InvalidKeys
from evenly.kernels.types import F64, I64


def checked_ids(ids: ArrayLike) -> I64:
    """`ids` as one row of int64. Unsigned 64-bit ids keep their bits: Spark's xxhash64 is signed."""
    array = np.asarray(ids)
    if array.dtype == np.uint64:
        array = array.view(np.int64)
    if array.ndim != 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        raise InvalidKeys(
            f"ids must be one row of 64-bit integers, got {array.dtype} of shape {array.shape}: give xxhash64 of the key"
        )
    return np.ascontiguousarray(array, np.int64)


def checked_costs(costs_s: ArrayLike, rows: int, *, what: str = "costs_s") -> F64:
    """`costs_s` as float64, one for each of `rows` rows, all finite and none negative."""
    try:
        array = np.asarray(costs_s, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidCost(f"{what} must be numbers of seconds: {error}") from error
    if array.shape != (rows,):
        raise InvalidCost(f"{rows} rows came with {what} of shape {array.shape}: give one cost for each row")
    # One pass each: a NaN makes both false, and an infinite or negative cost one of them.
    if rows and not (array.min() >= 0.0 and array.max() < np.inf):
        at = int(np.argmax(~(np.isfinite(array) & (array >= 0.0))))
        raise InvalidCost(f"{what}[{at}] is {array[at]}: a cost is a finite number of seconds, at least 0")
    return array


@dataclass(frozen=True, eq=False)
class Moments:
    """For each id, sorted, and each once: weighted count of rows, sum of costs, sum of squared costs.

    Whatever the order in which parts come together, the keys are the same and the sums are equal up to rounding; for two
    parts they are equal to the last bit.
    """

    ids: I64
    counts: F64
    sums_s: F64
    squares: F64

    @classmethod
    def empty(cls) -> Moments:
        return cls(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0))

    @classmethod
    def of_rows(cls, ids: I64, costs_s: F64, weights: F64) -> Moments:
        """The moments of rows with their costs and weights."""
        order = np.argsort(ids)
        by_id = ids[order]
        costs = costs_s[order]
        counts = weights[order]
        sums = costs * counts
        return cls._of_sorted(by_id, counts, sums, sums * costs)

    @classmethod
    def _of_sorted(cls, ids: I64, counts: F64, sums_s: F64, squares: F64) -> Moments:
        """Equal ids, which stand together, become one."""
        if ids.size == 0:
            return cls.empty()
        first = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
        if first.size == ids.size:
            return cls(ids, counts, sums_s, squares)
        add = np.add.reduceat
        return cls(ids[first], add(counts, first), add(sums_s, first), add(squares, first))

    @classmethod
    def pooled(cls, parts: Sequence[Moments]) -> Moments:
        """The moments of all parts together."""
        ids = np.concatenate([part.ids for part in parts]) if parts else np.empty(0, np.int64)
        if ids.size == 0:
            return cls.empty()
        order = np.argsort(ids, kind="stable")
        counts, sums, squares = (
            np.concatenate([getattr(part, name) for part in parts])[order] for name in ("counts", "sums_s", "squares")
        )
        return cls._of_sorted(ids[order], counts, sums, squares)

    @property
    def size(self) -> int:
        """How many ids there are."""
        return int(self.ids.size)

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes + self.counts.nbytes + self.sums_s.nbytes + self.squares.nbytes

    @property
    def total(self) -> F64:
        """Count, sum and squares of all ids together."""
        return np.array([self.counts.sum(), self.sums_s.sum(), self.squares.sum()])

    def scaled(self, factor: float, *, cost: float = 1.0) -> Moments:
        """Every row weighs `factor` times as much, and costs `cost` times as much."""
        return Moments(self.ids, self.counts * factor, self.sums_s * (factor * cost), self.squares * (factor * cost * cost))

    def divided(self, keep: NDArray[np.bool_]) -> tuple[Moments, F64]:
        """The ids to keep, and the moments of all others together."""
        kept = Moments(self.ids[keep], self.counts[keep], self.sums_s[keep], self.squares[keep])
        return kept, np.array([self.counts[~keep].sum(), self.sums_s[~keep].sum(), self.squares[~keep].sum()])
