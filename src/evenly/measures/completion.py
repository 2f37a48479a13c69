"""How long tuples take, from their arrival to the end of their execution."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenly.errors import EmptyStream
from evenly.kernels.types import F64


def mean_completion_ms(completion_ms: ArrayLike) -> float:
    """The mean over all tuples: the POSG paper's L."""
    return float(_some(completion_ms).mean())


def p99_completion_ms(completion_ms: ArrayLike) -> float:
    """What 99 % of the tuples do not exceed."""
    return float(np.quantile(_some(completion_ms), 0.99))


def speedup(baseline_ms: ArrayLike, completion_ms: ArrayLike) -> float:
    """S_L: the mean completion time of a baseline (round-robin in the paper) over that of the same tuples here.

    If no tuple takes any time in both, the speedup is 1.
    """
    before, after = mean_completion_ms(baseline_ms), mean_completion_ms(completion_ms)
    if after == 0.0:
        return 1.0 if before == 0.0 else float("inf")
    return before / after


def _some(completion_ms: ArrayLike) -> F64:
    values = np.asarray(completion_ms, np.float64)
    if values.size == 0:
        raise EmptyStream("there is no completion time of no tuples: give at least one")
    return values
