"""Numbers out of measured times: what Spark needs, by least squares; and which numbers of threads to try."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from evenly.errors import InvalidModel
from evenly.kernels.types import F64
from evenly.planning.micro_batches.curves import CurvePoint

THREADS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
GAIN = 1.03
"""More threads that carry less than this times as much do not carry more."""


def least_squares(counts: Sequence[Sequence[float]], seconds: Sequence[float]) -> F64:
    """What one of each count takes, none of them negative: times are the sum of counts times that, as near as can be.

    A cost that would be negative is 0, and the others are fitted without it. Every count must be above 0 somewhere.
    """
    matrix, took = np.array(counts, np.float64), np.array(seconds, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != took.size or matrix.shape[0] < matrix.shape[1]:
        raise InvalidModel(f"{len(took)} times do not tell the costs of {len(counts[0]) if counts else 0} things: measure more")
    scale = matrix.max(axis=0)
    if not np.all(scale > 0.0):
        raise InvalidModel("a cost cannot be told from times in which it does not occur: measure some in which it does")
    left = list(range(matrix.shape[1]))
    found = np.zeros(matrix.shape[1])
    while left:
        fitted = np.linalg.lstsq(matrix[:, left] / scale[left], took, rcond=None)[0]
        if np.all(fitted >= 0.0):
            found[left] = fitted / scale[left]
            break
        left.pop(int(np.argmin(fitted)))
    return found


def slope(small: tuple[float, float], large: tuple[float, float]) -> float:
    """Seconds that one row more takes, between two sizes, each rows and seconds.

    Where the larger one took no longer (a disturbance), its own time for a row, which is above the slope.
    """
    (few, few_s), (many, many_s) = small, large
    found = (many_s - few_s) / (many - few)
    return found if found > 0.0 else many_s / many


def profile_curve(measure: Callable[[int], CurvePoint], *, most_threads: int = THREADS[-1]) -> Iterator[CurvePoint]:
    """A point for each number of threads, until two in a row carry no more than what is there."""
    best, idle = 0.0, 0
    for threads in THREADS:
        if threads > most_threads or idle == 2:
            return
        point = measure(threads)
        idle = 0 if point.rows_per_s > GAIN * best else idle + 1
        best = max(best, point.rows_per_s)
        yield point
