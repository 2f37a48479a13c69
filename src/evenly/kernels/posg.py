"""Kernels of POSG's estimates: matrices F and W, how much they changed, and greedy sending by what they say.

A pair of matrices is one array rows x columns x 2 of (F, W), as in `evenly.kernels.count_min`. `places` has the column
of every tuple in every row. Steps take whole arrays and the places in them: a view costs more than the step itself.
"""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.hashing import affine61, fold61, scale61
from evenly.kernels.types import F64, I32, U64


@compiled
def places_of(keys: U64, a: U64, b: U64, columns: int) -> I32:
    """The column of every key in every row: keys x rows."""
    out = np.empty((keys.size, a.size), np.int32)
    for i in range(keys.size):
        x = fold61(keys[i])
        for row in range(a.size):
            out[i, row] = scale61(affine61(a[row], b[row], x), np.uint64(columns))
    return out


@inlined
def add(pairs: F64, i: int, places: I32, j: int, cost: float) -> None:
    """Count tuple j and its cost in pair i."""
    for row in range(places.shape[1]):
        pairs[i, row, places[j, row], 0] += 1.0
        pairs[i, row, places[j, row], 1] += cost


@inlined
def mean_cost(cells: F64) -> float:
    """The mean cost of all tuples counted, 0 if there are none."""
    counted, cost = 0.0, 0.0
    for column in range(cells.shape[1]):
        counted += cells[0, column, 0]
        cost += cells[0, column, 1]
    return cost / counted if counted > 0.0 else 0.0


@inlined
def expected(pairs: F64, i: int, places: I32, j: int, unseen: float) -> float:
    """What tuple j costs by pair i: W / F of the first row with the least F, `unseen` where that F is 0."""
    least, cost = np.inf, 0.0
    for row in range(places.shape[1]):
        counted = pairs[i, row, places[j, row], 0]
        if counted < least:
            least, cost = counted, pairs[i, row, places[j, row], 1]
    return cost / least if least > 0.0 else unseen


@compiled
def snapshot(cells: F64, out: F64) -> None:
    """W / F of every cell, NaN where F is 0: equation (1) passes over cells that were empty then."""
    for row in range(cells.shape[0]):
        for column in range(cells.shape[1]):
            counted = cells[row, column, 0]
            out[row, column] = cells[row, column, 1] / counted if counted > 0.0 else np.nan


@compiled
def relative_change(cells: F64, before: F64) -> float:
    """Equation (1): how far W / F has moved from a snapshot, as a share of the snapshot."""
    moved, total = 0.0, 0.0
    for row in range(cells.shape[0]):
        for column in range(cells.shape[1]):
            ratio = before[row, column]
            if not np.isnan(ratio):
                moved += abs(ratio - cells[row, column, 1] / cells[row, column, 0])
                total += ratio
    return moved / total if total > 0.0 else 0.0


@compiled
def send_greedily(places: I32, pairs: F64, unseen: F64, sent_ms: F64) -> I32:
    """Each tuple to the instance with the least estimated work sent, the lowest of equals; `sent_ms` grows by estimates.

    `pairs` has the pair of every instance, or one for all.
    """
    out = np.empty(places.shape[0], np.int32)
    for j in range(places.shape[0]):
        best = 0
        for i in range(1, sent_ms.size):
            if sent_ms[i] < sent_ms[best]:
                best = i
        pair = min(best, pairs.shape[0] - 1)
        sent_ms[best] += expected(pairs, pair, places, j, unseen[pair])
        out[j] = best
    return out
