"""What a router needs of a cost model: ids, their estimates, and one estimate for all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenly.costs.moments import checked_ids
from evenly.kernels.types import F64, I64


@dataclass(frozen=True, eq=False)
class CostTable:
    """Estimates by id, to be sent to the workers: 16 bytes an id, answers by binary search.

    `ids` are sorted; `costs_s[i]` is the estimate of `ids[i]`, above 0, and the last one, which has no id, that of all others.
    """

    ids: I64
    costs_s: F64

    @classmethod
    def constant(cls, cost_s: float = 1e-3) -> CostTable:
        """One estimate for every row."""
        return cls(np.empty(0, np.int64), np.array([cost_s]))

    def entries(self, ids: ArrayLike) -> I64:
        """The place of each id in `costs_s`."""
        wanted = checked_ids(ids)
        known = self.ids.size
        if known == 0:
            return np.zeros(wanted.size, np.int64)
        at = np.searchsorted(self.ids, wanted)
        at[self.ids[np.minimum(at, known - 1)] != wanted] = known
        return at

    def estimate(self, ids: ArrayLike) -> F64:
        """What a row of each id is expected to cost, in seconds."""
        return self.costs_s[self.entries(ids)]
