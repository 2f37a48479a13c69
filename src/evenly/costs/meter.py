"""What rows cost, measured beside the user's function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenly.costs.moments import Moments, checked_costs, checked_ids
from evenly.costs.report import MAX_IDS, InstanceReport
from evenly.costs.shrinkage import folded
from evenly.errors import InvalidCost, InvalidParameter

_PENDING_ROWS = 65_536


class CostMeter:
    """Adds up what rows cost, by id, beside the user's function.

    Memory is bounded whatever the rows: at most twice `limit` ids and 65,536 rows that wait to be added. When there are
    more ids, those that are believed to cost least in all are folded into `rest`; totals stay exact. An id that was folded
    and comes back starts again, with exact moments of its later rows.

    Parameters: `limit`, 1 to 8,192 ids.
    """

    def __init__(self, *, limit: int = MAX_IDS) -> None:
        if not 1 <= limit <= MAX_IDS:
            raise InvalidParameter(f"limit must be from 1 to {MAX_IDS} ids, got {limit}")
        self.limit = limit
        self._known = Moments.empty()
        self._rest = np.zeros(3)
        self._timed = 0
        self._ids = np.empty(_PENDING_ROWS, np.int64)
        self._costs = np.empty(_PENDING_ROWS)
        self._weights = np.empty(_PENDING_ROWS)
        self._pending = 0

    @property
    def timed(self) -> int:
        """How many rows were added."""
        return self._timed

    @property
    def memory_bytes(self) -> int:
        return self._known.nbytes + self._ids.nbytes + self._costs.nbytes + self._weights.nbytes + self._rest.nbytes

    def add(self, ids: ArrayLike, costs_s: ArrayLike, *, weight: float = 1.0) -> None:
        """Take in rows and their measured costs; each stands for `weight` rows (16 when one row of 16 is timed)."""
        if not (math.isfinite(weight) and weight > 0.0):
            raise InvalidCost(f"weight is {weight}: a timed row stands for a finite number of rows above 0")
        of_rows = checked_ids(ids)
        costs = checked_costs(costs_s, of_rows.size)
        self._timed += of_rows.size
        at = 0
        while at < of_rows.size:
            take = min(of_rows.size - at, _PENDING_ROWS - self._pending)
            room = slice(self._pending, self._pending + take)
            self._ids[room] = of_rows[at : at + take]
            self._costs[room] = costs[at : at + take]
            self._weights[room] = weight
            self._pending += take
            at += take
            if self._pending == _PENDING_ROWS:
                self._flush(2 * self.limit)

    def report(
        self,
        *,
        instance: int,
        executor: str = "",
        rows: int | None = None,
        busy_s: float | None = None,
        estimated_s: float = 0.0,
        first_s: float = 0.0,
        last_s: float = 0.0,
        completion_s: float = 0.0,
        errors: int = 0,
        columns: dict[str, NDArray[Any]] | None = None,
    ) -> InstanceReport:
        """All that was measured; `rows` and `busy_s` are those of the meter unless they are given."""
        self._flush(self.limit)
        total = self._known.total + self._rest
        return InstanceReport(
            instance=instance,
            executor=executor,
            rows=round(float(total[0])) if rows is None else rows,
            busy_s=float(total[1]) if busy_s is None else busy_s,
            estimated_s=estimated_s,
            first_s=first_s,
            last_s=last_s,
            completion_s=completion_s,
            errors=errors,
            ids=self._known.ids,
            counts=self._known.counts,
            sums_s=self._known.sums_s,
            squares=self._known.squares,
            rest=(float(self._rest[0]), float(self._rest[1]), float(self._rest[2])),
            columns=columns,
            timed=self._timed,
        )

    def _flush(self, limit: int) -> None:
        new = slice(0, self._pending)
        added = Moments.of_rows(self._ids[new], self._costs[new], self._weights[new])
        self._pending = 0
        both = Moments.pooled([self._known, added])
        if both.size > limit:
            both, self._rest = folded(both, self._rest, limit=self.limit)
        self._known = both
