"""Count-Min kernels for a pair of matrices that share their hashes: tuples counted, and their cost."""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled
from evenly.kernels.hashing import affine61, fold61, scale61
from evenly.kernels.types import F64, U64


@compiled
def update(keys: U64, costs: F64, a: U64, b: U64, cells: F64) -> None:
    """Count each tuple and add its cost, once in every row. `cells[row, column]` is (F, W)."""
    rows, columns = cells.shape[0], np.uint64(cells.shape[1])
    for i in range(keys.size):
        x = fold61(keys[i])
        cost = costs[i]
        for row in range(rows):
            column = scale61(affine61(a[row], b[row], x), columns)
            cells[row, column, 0] += 1.0
            cells[row, column, 1] += cost


@compiled
def estimate(keys: U64, a: U64, b: U64, cells: F64, unseen: float) -> F64:
    """W / F of the row with the least F, the first such row; `unseen` where that F is 0."""
    rows, columns = cells.shape[0], np.uint64(cells.shape[1])
    out = np.empty(keys.size, np.float64)
    for i in range(keys.size):
        x = fold61(keys[i])
        least, cost = np.inf, 0.0
        for row in range(rows):
            column = scale61(affine61(a[row], b[row], x), columns)
            if cells[row, column, 0] < least:
                least, cost = cells[row, column, 0], cells[row, column, 1]
        out[i] = cost / least if least > 0.0 else unseen
    return out


@compiled
def frequency(keys: U64, a: U64, b: U64, cells: F64) -> F64:
    """The least F over the rows."""
    rows, columns = cells.shape[0], np.uint64(cells.shape[1])
    out = np.full(keys.size, np.inf)
    for i in range(keys.size):
        x = fold61(keys[i])
        for row in range(rows):
            column = scale61(affine61(a[row], b[row], x), columns)
            out[i] = min(out[i], cells[row, column, 0])
    return out
