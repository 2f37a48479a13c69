"""Numbers out of measured times: what Spark needs, by least squares; and which numbers of threads to try."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evenly.errors import InvalidModel
from evenly.kernels.types import F64
from evenly.planning.micro_batches.curves import CurvePoint
from evenly.planning.micro_batches.engine import EngineCosts
from evenly.planning.micro_batches.steps import Counts

THREADS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_MOST_ROWS, _MOST_FASTER = 50_000_000, 10.0
_SMALL, _MORE = 0.1, 0.4
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


@dataclass(frozen=True)
class TimedBatches:
    """Batches of one kind: what Spark did in each, the rows at the source, those that went through an operator that does
    nothing, and how long a batch took."""

    counts: Counts
    rows: float
    called: float
    seconds: float


def fit_engine(batches: Sequence[TimedBatches], *, slots: int, cores_per_slot: float, about: str = "") -> EngineCosts:
    """The costs of Spark that explain batches best. What the operator that does nothing takes is told apart and left out."""
    counts = [
        (
            1.0,
            one.counts.stages,
            one.counts.sinks,
            one.counts.file_sinks,
            one.counts.turns,
            one.counts.workers,
            one.rows * one.counts.moved / slots,
            one.rows * one.counts.kept / slots,
            one.rows * one.called / slots,
        )
        for one in batches
    ]
    batch_s, stage_s, sink_s, file_sink_s, task_s, worker_s, moved_row_s, kept_row_s, _ = map(
        float, least_squares(counts, [one.seconds for one in batches])
    )
    return EngineCosts(
        slots,
        cores_per_slot,
        batch_s=batch_s,
        stage_s=stage_s,
        sink_s=sink_s,
        file_sink_s=file_sink_s,
        task_s=task_s,
        worker_s=worker_s,
        moved_row_s=moved_row_s,
        kept_row_s=kept_row_s,
        about=about,
    )


def slope(small: tuple[float, float], large: tuple[float, float]) -> float:
    """Seconds that one row more takes, between two sizes, each rows and seconds.

    Where the larger one took no longer (a disturbance), its own time for a row, which is above the slope.
    """
    (few, few_s), (many, many_s) = small, large
    found = (many_s - few_s) / (many - few)
    return found if found > 0.0 else many_s / many


def profile_curve(
    measure: Callable[[int], CurvePoint], *, given: int | None = None, most_threads: int = THREADS[-1]
) -> Iterator[CurvePoint]:
    """A point for each number of threads, until two in a row carry no more than what is there.

    Where a description gives a number, it is measured with that and with 1 alone: a function may not bear more.
    """
    if given is not None:
        yield from map(measure, sorted({1, given}))
        return
    best, idle = 0.0, 0
    for threads in THREADS:
        if threads > most_threads or idle == 2:
            return
        point = measure(threads)
        idle = 0 if point.rows_per_s > GAIN * best else idle + 1
        best = max(best, point.rows_per_s)
        yield point


class Sizes:
    """How many rows each slot gets, so that a measurement takes about `seconds`, in which each size is run twice: the small
    one for a tenth, the large one for two fifths more. `row_s` is a first guess of what a row takes one thread."""

    def __init__(self, seconds: float, row_s: float) -> None:
        self._seconds = seconds
        self._rate = 1.0 / max(row_s, 1e-7)
        self._threads = 1

    def pair(self, threads: int) -> tuple[int, int]:
        """The small and the large number of rows for so many threads, which carry at most as many times as much as fewer."""
        rate = self._rate * max(1.0, threads / self._threads)
        few = max(2 * threads, math.ceil(_SMALL * self._seconds * rate))
        return few, few + max(2 * threads, math.ceil(_MORE * self._seconds * rate))

    def enough(self, threads: int, rows: int, took_s: float) -> bool:
        """Whether so many rows more took long enough to tell; if not, the next pair is larger."""
        if took_s >= 0.25 * _MORE * self._seconds or rows >= _MOST_ROWS:
            return True
        self._rate, self._threads = min(_MOST_FASTER, _MORE * self._seconds / max(took_s, 1e-9)) * self._rate, threads
        return False

    def found(self, threads: int, row_s: float) -> None:
        """What was measured guides the next."""
        self._rate, self._threads = 1.0 / row_s, threads
