"""Which instance runs which row: longest first across instances, in whole levels of like cost."""

from __future__ import annotations

import heapq
import math
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenly.checks import checked_instances
from evenly.costs.model import CostModel
from evenly.costs.moments import checked_costs
from evenly.costs.table import CostTable
from evenly.errors import InvalidParameter
from evenly.kernels.types import F64, I32, I64
from evenly.measures.water_level import water_level

DealingRule = Literal["longest-first", "arrival", "even"]


def levels(estimates: F64, step: float = 0.02) -> tuple[I32, F64]:
    """Rows of nearly the same estimate, together: the level of each row, and the mean estimate of each level.

    Level 0 is the most expensive. Estimates of one level differ by at most the factor 1 + `step`, and the mean keeps the sum
    of all. Estimates of 0 are a level of their own.
    """
    if not (math.isfinite(step) and step > 0.0):
        raise InvalidParameter(f"step must be above 0, got {step}")
    checked = checked_costs(estimates, np.size(estimates), what="estimates")
    _, of_row = np.unique(-_steps(checked, step), return_inverse=True)
    return of_row.astype(np.int32), np.bincount(of_row, checked) / np.bincount(of_row)


def _steps(estimates: F64, step: float) -> I64:
    """The number of each estimate's level on the scale of all levels."""
    exact = np.floor(np.log(np.where(estimates > 0.0, estimates, 1.0)) / math.log1p(step))
    return np.where(estimates > 0.0, exact, -(2.0**40)).astype(np.int64)


def deal(counts: I64, costs: F64, loads: F64, *, speeds: F64 | None = None, start: int = 0) -> I64:
    """How many rows of each level go to each instance: every row, in the order of the levels, to where it ends first.

    `counts[l]` rows cost `costs[l]` each; instance i has the load `loads[i]` and ends it at loads[i] / speeds[i]. `loads`
    is updated in place. Among equals the first from instance `start` on is chosen. With levels in descending order this is LPT:
    at most 4/3 of the least possible batch time for equal speeds and loads of 0. The n rows of a level take the n smallest of
    the finish times (load + j · cost) / speed, j = 1, 2, …, found with no loop over rows. Rows of cost 0 are dealt evenly.
    `tests/property/test_cost_dealing.py` compares it with a heap, row by row.
    """
    rate = _checked_speeds(speeds, loads.size)
    turn = np.roll(np.arange(loads.size), -start % loads.size)
    load, pace = loads[turn], rate[turn]
    dealt = np.zeros((counts.size, loads.size), np.int64)
    given = 0
    for level in range(counts.size):
        rows, cost = int(counts[level]), float(costs[level])
        if rows == 0:
            continue
        if cost <= 0.0:
            dealt[level] = np.roll(np.full(loads.size, rows // loads.size) + (np.arange(loads.size) < rows % loads.size), given)
            given = (given + rows) % loads.size
            continue
        dealt[level] = _poured(rows, cost, load, pace)
        load += dealt[level] * cost
    loads[turn] = load
    out = np.empty_like(dealt)
    out[:, turn] = dealt
    return out


def _poured(rows: int, cost: float, load: F64, pace: F64) -> I64:
    """How many of `rows` alike rows each instance takes if each row goes where it ends first."""
    if rows == 1:
        one = np.zeros(load.size, np.int64)
        one[np.argmin((load + cost) / pace)] = 1
        return one
    # Loads count from the earliest finish on, or their rounding would be larger than small costs.
    load = load - (load / pace).min() * pace
    # Rows that end below the level to which all the work would rise, if it were water, are surely among the first to end.
    top = water_level(load, pace, rows * cost)
    taken = np.maximum(np.floor((top * pace - load) / cost - 1e-9 * (rows + 1)), 0.0).astype(np.int64)
    left = rows - int(taken.sum())
    while left > 0:
        following = (load + (taken + 1) * cost) / pace
        # What ends before anybody's second next row is surely next.
        sure = np.flatnonzero(following < ((load + (taken + 2) * cost) / pace).min())
        if sure.size == 0:
            sure = np.flatnonzero(following == following.min())
        if sure.size > left:
            sure = sure[np.argsort(following[sure], kind="stable")[:left]]
        taken[sure] += 1
        left -= sure.size
    return np.asarray(taken, np.int64)


def _checked_speeds(speeds: F64 | None, instances: int) -> F64:
    if instances < 1:
        raise InvalidParameter("there must be at least 1 instance, got no loads")
    if speeds is None:
        return np.ones(instances)
    rate = np.asarray(speeds, np.float64)
    if rate.shape != (instances,) or not (np.isfinite(rate) & (rate > 0.0)).all():
        raise InvalidParameter(f"speeds must be {instances} finite numbers above 0, one for each instance, got {speeds}")
    return rate


class BatchDealer:
    """One router: it says for each row, chunk by chunk, which instance runs it, and what it is expected to cost.

    - "longest-first": rows of a chunk from the most expensive level down, each to where it ends first (`deal`);
    - "arrival": the online rule of POSG: in arrival order, each row to where it ends first by the estimates;
    - "even": each instance gets its share of the rows, whatever they cost.

    Loads are carried from chunk to chunk. Every row gets an instance. The same chunks give the same answer.

    Parameters: `costs`, a model, its table, or None (all rows alike); `instances`; `shares`, the part of the work that
    each instance should get (None: the same); `start`, the instance preferred among equals: give each router another one, so
    that what is left over by many of them does not pile up; `step` of the levels; `loads` to begin with, in seconds.
    """

    def __init__(
        self,
        costs: CostModel | CostTable | None,
        instances: int,
        *,
        shares: ArrayLike | None = None,
        start: int = 0,
        rule: DealingRule = "longest-first",
        step: float = 0.02,
        loads: ArrayLike | None = None,
    ) -> None:
        if rule not in get_args(DealingRule):
            raise InvalidParameter(f"rule must be one of {', '.join(get_args(DealingRule))}, got {rule!r}")
        self.instances, self.rule, self.start = checked_instances(instances), rule, start % instances
        self.table = costs.table if isinstance(costs, CostModel) else costs or CostTable.constant()
        self._speeds = _checked_speeds(None if shares is None else np.asarray(shares, np.float64), instances)
        self._speeds = self._speeds * (instances / self._speeds.sum())
        self._loads = np.zeros(instances) if loads is None else checked_costs(loads, instances, what="loads").copy()
        self._rows = np.zeros(instances)
        # Levels of the table's entries, once: rows then need no logarithm and no sorting of floats.
        _, of_entry = np.unique(-_steps(self.table.costs_s, step), return_inverse=True)
        self._level = of_entry.astype(np.int16 if of_entry.max() < 2**15 else np.int32)
        self._levels = int(of_entry.max()) + 1
        self._mixed: I64 = np.empty(0, np.int64)

    @property
    def loads(self) -> F64:
        """What each instance has been given, in estimated seconds."""
        return self._loads.copy()

    def route(self, ids: ArrayLike) -> tuple[I32, F64]:
        """The instance and the estimate of each row of a chunk."""
        entries = self.table.entries(ids)
        estimates = self.table.costs_s[entries]
        if self.rule == "arrival":
            return self._by_arrival(estimates), estimates
        if self.rule == "even":
            counts = deal(np.array([entries.size]), np.ones(1), self._rows, speeds=self._speeds, start=self.start)
            placed = self._placed(np.zeros(entries.size, np.int16), counts)
            self._loads += np.bincount(placed, estimates, self.instances)
            return placed, estimates
        level = self._level[entries]
        rows = np.bincount(level, minlength=self._levels)
        costs = np.bincount(level, estimates, self._levels) / np.maximum(rows, 1)
        return self._placed(level, deal(rows, costs, self._loads, speeds=self._speeds, start=self.start)), estimates

    def _placed(self, level: NDArray[Any], counts: I64) -> I32:
        """Rows to instances as counted. Rows of a level are mixed: neighbours may be alike in ways that no estimate knows."""
        if self._mixed.size != level.size:
            self._mixed = np.random.default_rng(self.start).permutation(level.size)
        order = self._mixed[np.argsort(level[self._mixed], kind="stable")]
        out = np.empty(level.size, np.int32)
        out[order] = np.repeat(np.tile(np.arange(self.instances, dtype=np.int32), counts.shape[0]), counts.ravel())
        return out

    def _by_arrival(self, estimates: F64) -> I32:
        out = np.empty(estimates.size, np.int32)
        if (self._speeds == self._speeds[0]).all():
            heap = [(load, (at - self.start) % self.instances, at) for at, load in enumerate(self._loads.tolist())]
            heapq.heapify(heap)
            for row, cost in enumerate(estimates.tolist()):
                load, turn, at = heap[0]
                out[row] = at
                heapq.heapreplace(heap, (load + cost, turn, at))
            for load, _, at in heap:
                self._loads[at] = load
            return out
        order = np.roll(np.arange(self.instances), -self.start)
        loads, pace = self._loads[order], self._speeds[order]
        for row, cost in enumerate(estimates.tolist()):
            at = int(np.argmin((loads + cost) / pace))
            loads[at] += cost
            out[row] = order[at]
        self._loads[order] = loads
        return out
