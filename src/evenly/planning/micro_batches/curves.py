"""What one slot carries of an operator, measured in Spark's Python worker with all slots busy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from evenly.dataflow.subjects import Subject
from evenly.errors import InvalidModel

AS_GOOD = 0.9
"""More threads are taken only where fewer carry less than this part of the best rate: less is noise, or is lost to threads
that take turns (operators that compute carried up to 9 % less with the 8 threads that a curve had 3 % above one)."""


@dataclass(frozen=True)
class CurvePoint:
    """`threads` in one task: rows/s that a slot carries, and the seconds of cpu that a row takes in its Python worker."""

    threads: int
    rows_per_s: float
    cpu_row_s: float = 0.0


@dataclass(frozen=True)
class SlotCurve:
    """Points by ascending threads, the first with 1, measured while `slots` slots were busy with the same.

    `longest_row_s`: the longest call that was seen. `memory_mib`: the most that a Python worker held. `about` says where it
    was, and `of` what was measured (None: nobody knows).
    """

    name: str
    points: tuple[CurvePoint, ...]
    slots: int = 1
    longest_row_s: float = 0.0
    memory_mib: float = 0.0
    about: str = ""
    of: Subject | None = None

    def __post_init__(self) -> None:
        if not self.points or self.points[0].threads != 1:
            raise InvalidModel(f"the curve of {self.name!r} needs a point with 1 thread first")
        for before, after in zip(self.points, self.points[1:], strict=False):
            if after.threads <= before.threads:
                raise InvalidModel(f"the points of {self.name!r} must ascend: {after.threads} threads follow {before.threads}")
        for one in self.points:
            if not (math.isfinite(one.rows_per_s) and one.rows_per_s > 0.0):
                raise InvalidModel(
                    f"rows_per_s of {self.name!r} with {one.threads} threads must be above 0, got {one.rows_per_s}"
                )
            if not (math.isfinite(one.cpu_row_s) and one.cpu_row_s >= 0.0):
                raise InvalidModel(f"cpu_row_s of {self.name!r} with {one.threads} threads must be at least 0")
        if self.slots < 1 or not self.longest_row_s >= 0.0 or not self.memory_mib >= 0.0:
            raise InvalidModel(f"slots of {self.name!r} must be at least 1, longest_row_s and memory_mib at least 0")

    @cached_property
    def best(self) -> CurvePoint:
        """Where a slot carries most, with the fewest threads that do (within 10 %)."""
        most = max(one.rows_per_s for one in self.points)
        return next(one for one in self.points if one.rows_per_s >= AS_GOOD * most)

    def has(self, threads: int) -> bool:
        """Whether so many threads were measured."""
        return any(one.threads == threads for one in self.points)

    def at(self, threads: int) -> CurvePoint:
        """What `threads` (at least 1) in a task carry: by straight line between points, and as the last one beyond it."""
        if threads < 1:
            raise InvalidModel(f"a task has at least 1 thread, got {threads}")
        below = max((one for one in self.points if one.threads <= threads), key=lambda one: one.threads)
        above = min((one for one in self.points if one.threads >= threads), key=lambda one: one.threads, default=None)
        if above is None or above.threads == below.threads:
            return CurvePoint(threads, below.rows_per_s, below.cpu_row_s)
        part = (threads - below.threads) / (above.threads - below.threads)
        return CurvePoint(
            threads,
            below.rows_per_s + part * (above.rows_per_s - below.rows_per_s),
            below.cpu_row_s + part * (above.cpu_row_s - below.cpu_row_s),
        )
