"""How evenly tuples wait in the queues of a link."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenly.kernels.types import F64


def jain(backlogs: ArrayLike, *, empty: float = np.nan) -> F64:
    """Jain's fairness index (Σ B)² / (N Σ B²) of every row: 1 if all queues wait alike, 1/N if one has everything.

    Where no queue has anything it is 0/0, and `empty` says what that counts as: not at all, unless it is given.
    """
    rows = np.atleast_2d(np.asarray(backlogs, np.float64))
    total, squares = rows.sum(axis=1), (rows**2).sum(axis=1)
    return np.where(squares > 0.0, total**2 / np.maximum(rows.shape[1] * squares, 1e-300), empty)
