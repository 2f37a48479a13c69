"""By how much each key's groups take longer or shorter than the curve of times by rows says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenly.costs.group_curve import FittedCurve, GroupCurve
from evenly.kernels.types import F64, I64

FORGOTTEN = 1e-3
"""What weighs less than that is gone."""
_NOISE, _NOISE_AS = 0.1, 8.0
"""What the time of one key varies from run to run, in parts, before it is seen again; that counts as so many times."""
_MOST_APART = 20.0


@dataclass(frozen=True, eq=False)
class KeyFactors:
    """By id, sorted: how often a key was seen (less as it is forgotten), the mean logarithm of its rows, and of its times over
    the curve's the logarithms and their squares, added up."""

    ids: I64
    seen: F64
    log_rows: F64
    logs: F64
    squares: F64

    @classmethod
    def empty(cls) -> KeyFactors:
        return cls(np.empty(0, np.int64), *(np.empty(0) for _ in range(4)))

    @classmethod
    def of(cls, ids: I64, rows: F64, seconds: F64, curve: GroupCurve) -> KeyFactors:
        """Groups that were timed once."""
        order = np.argsort(ids, kind="stable")
        sizes = np.maximum(rows[order], 1.0)
        logs = np.clip(np.log(np.maximum(seconds[order], 1e-9) / curve.seconds(sizes)), -_MOST_APART, _MOST_APART)
        return cls(ids[order], np.ones(ids.size), np.log(sizes), logs, logs * logs)

    @property
    def mean_logs(self) -> F64:
        return self.logs / self.seen

    def based_on(self, old: FittedCurve | None, new: FittedCurve | None) -> KeyFactors:
        """The same over another curve."""
        if old is None or new is None or old.likely == new.likely or not self.ids.size:
            return self
        sizes = np.exp(self.log_rows)
        moved = np.log(old.likely.seconds(sizes) / new.likely.seconds(sizes))
        squares = self.squares + 2.0 * moved * self.logs + self.seen * moved * moved
        return KeyFactors(self.ids, self.seen, self.log_rows, self.logs + self.seen * moved, np.maximum(squares, 0.0))

    def with_others(self, other: KeyFactors) -> KeyFactors:
        """Both together; ids of both become one."""
        ids, at = np.unique(np.concatenate([self.ids, other.ids]), return_inverse=True)

        def added(first: F64, second: F64) -> F64:
            return np.asarray(np.bincount(at, np.concatenate([first, second]), ids.size), np.float64)

        seen = added(self.seen, other.seen)
        sizes = added(self.seen * self.log_rows, other.seen * other.log_rows) / seen
        return KeyFactors(ids, seen, sizes, added(self.logs, other.logs), added(self.squares, other.squares))

    def taken(self, keep: np.ndarray[Any, Any]) -> KeyFactors:
        return KeyFactors(*(values[keep] for values in (self.ids, self.seen, self.log_rows, self.logs, self.squares)))

    def faded(self, factor: float) -> KeyFactors:
        """Each weighs `factor` times as much; what weighs next to nothing is gone."""
        less = KeyFactors(self.ids, self.seen * factor, self.log_rows, self.logs * factor, self.squares * factor)
        return less.taken(less.seen >= FORGOTTEN)

    def shifted(self, by: float) -> KeyFactors:
        """The same if every group had taken e^`by` times as long."""
        squares = self.squares + 2.0 * by * self.logs + self.seen * by * by
        return KeyFactors(self.ids, self.seen, self.log_rows, self.logs + self.seen * by, np.maximum(squares, 0.0))

    def doubted(self, which: np.ndarray[Any, Any], factor: float) -> KeyFactors:
        """Some of them weigh `factor` times as much."""
        weight = np.where(which, factor, 1.0)
        return KeyFactors(self.ids, self.seen * weight, self.log_rows, self.logs * weight, self.squares * weight)

    def noise(self) -> float:
        """The variance of one key's logarithms from run to run."""
        spread = np.maximum(self.squares - self.logs * self.mean_logs, 0.0).sum() if self.ids.size else 0.0
        again = float(np.maximum(self.seen - 1.0, 0.0).sum())
        return (float(spread) + _NOISE_AS * _NOISE**2) / (again + _NOISE_AS)
