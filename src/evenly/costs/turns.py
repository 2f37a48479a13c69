"""Rows dealt in turn, the costliest first: what needs no look at other rows than a sort, and so no Python.

Each part of the input sorts its rows by their estimate and deals them out in rounds of one row for each instance, the odd
rounds backwards (a snake): what an instance got too much of in one round it gets too little of in the next. What is left over
is about one row for each instance and part; parts begin at instances far apart, so that this does not pile up.
"""

from __future__ import annotations

import numpy as np

from evenly.costs.table import CostTable
from evenly.kernels.types import I64

COST_BITS = 48
"""Of a packed estimate: nanoseconds (up to 78 hours a row); above them is its rank, 0 for the costliest."""
SPREAD = 2_654_435_761
"""2^32 over the golden ratio: multiples of it lie evenly in 2^32, however many they are."""
_MOST_NS = (1 << COST_BITS) - 1


def packed(table: CostTable) -> I64:
    """For each entry of a table its rank among the estimates, and the estimate, in one number that sorts by the rank."""
    _, from_least = np.unique(table.costs_s, return_inverse=True)
    rank = int(from_least.max()) - from_least.astype(np.int64)
    cost_ns = np.clip(np.rint(table.costs_s * 1e9), 1, _MOST_NS).astype(np.int64)
    return (rank << COST_BITS) | cost_ns


def first_instance(part: int, instances: int) -> int:
    """Where a part of the input begins to deal: far from the parts beside it. Two neighbours begin at the same instance, since
    the second goes the other way."""
    return ((part >> 1) * SPREAD % 2**32) * instances >> 32


def in_turn(positions: I64, part: int, instances: int) -> I64:
    """The instance of each row of a part, by its position in the sorted part. Every instance gets as many, or one more."""
    turn, place = np.divmod(positions, instances)
    backwards = (turn + part) % 2 == 1
    return (np.where(backwards, instances - 1 - place, place) + first_instance(part, instances)) % instances
