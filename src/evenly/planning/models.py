"""Performance models: what a number of threads of one operator carries on one slot, and what it uses there.

A model holds measured points. Between them it answers by straight line or by the nearest point, and every answer says
which: an answer that was not measured is marked.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from evenly.errors import InvalidModel

Lookup = Literal["interpolated", "nearest"]
Basis = Literal["measured", "synthetic", "interpolated", "nearest", "beyond", "static"]
LOOKUPS: tuple[Lookup, ...] = get_args(Lookup)

_STUDENT_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Student's t at 97.5 % for 1 to 15 degrees of freedom."""


@dataclass(frozen=True)
class Point:
    """`threads` on one slot: peak stable rate in tuples/s, and cpu % and memory % of the slot at that rate.

    `rates` has the peak of every run where it was measured several times (`rate` is then their mean). `origin` is
    `measured`, or `synthetic` where a number was chosen and not measured.
    """

    threads: int
    rate: float
    cpu_pct: float
    mem_pct: float
    origin: Literal["measured", "synthetic"] = "measured"
    rates: tuple[float, ...] = ()

    def interval(self) -> tuple[float, float]:
        """Where the peak of the next slot lies in 95 % of cases, by the spread of the runs (Student's t).

        One run has no spread: then it is the rate itself.
        """
        runs = len(self.rates)
        if runs < 2:
            return self.rate, self.rate
        mean = sum(self.rates) / runs
        spread = math.sqrt(sum((one - mean) ** 2 for one in self.rates) / (runs - 1))
        t = _STUDENT_975[runs - 2] if runs - 2 < len(_STUDENT_975) else 1.96 + 2.4 / (runs - 1)
        off = t * spread * math.sqrt(1.0 + 1.0 / runs)
        return max(0.0, mean - off), mean + off


@dataclass(frozen=True)
class Estimate:
    """What a bundle of threads on one slot carries and uses, and on what the answer rests."""

    rate: float
    cpu_pct: float
    mem_pct: float
    basis: Basis

    def at_rate(self, rate: float) -> tuple[float, float]:
        """Cpu % and memory % when `rate` arrives: in proportion below the peak, as at the peak from there on."""
        part = 1.0 if math.isinf(self.rate) or rate >= self.rate else rate / self.rate
        return self.cpu_pct * part, self.mem_pct * part


@dataclass(frozen=True)
class PerformanceModel:
    """Points by ascending threads, the first with 1 thread.

    A model whose only point has an infinite rate is static: one thread and its reservation at any rate (sources and
    sinks). `about` says where the numbers come from.
    """

    name: str
    points: tuple[Point, ...]
    about: str = ""

    def __post_init__(self) -> None:
        if not self.points or self.points[0].threads != 1:
            raise InvalidModel(f"the model {self.name!r} needs a point with 1 thread first")
        for before, after in zip(self.points, self.points[1:], strict=False):
            if after.threads <= before.threads:
                raise InvalidModel(f"the points of {self.name!r} must ascend: {after.threads} threads follow {before.threads}")
        for one in self.points:
            if not one.rate > 0.0 or (math.isinf(one.rate) and len(self.points) > 1):
                raise InvalidModel(f"the rate of {self.name!r} with {one.threads} threads must be above 0, got {one.rate}")
            if not (0.0 <= one.cpu_pct <= 100.0 and 0.0 <= one.mem_pct <= 100.0):
                raise InvalidModel(
                    f"cpu and memory of {self.name!r} with {one.threads} threads must be from 0 to 100 % of a slot, "
                    f"got {one.cpu_pct} and {one.mem_pct}"
                )

    @property
    def is_static(self) -> bool:
        """One thread and a reservation, whatever the rate."""
        return math.isinf(self.points[0].rate)

    @cached_property
    def best(self) -> Point:
        """The point of the highest rate, that with the fewest threads of equals."""
        return max(self.points, key=lambda one: (one.rate, -one.threads))

    @cached_property
    def _threads(self) -> list[int]:
        return [one.threads for one in self.points]

    def at(self, threads: int, *, lookup: Lookup = "interpolated") -> Estimate:
        """What `threads` (at least 1) on one slot carry and use.

        Beyond the last point the answer is that of the last point: nothing says that more threads would carry more.
        """
        if threads < 1:
            raise InvalidModel(f"a bundle has at least 1 thread, got {threads}")
        place = bisect.bisect_left(self._threads, threads)
        if self.is_static:
            return _estimate(self.points[0], "static")
        if place == len(self.points):
            return _estimate(self.points[-1], "beyond")
        above = self.points[place]
        if above.threads == threads:
            return _estimate(above, above.origin)
        below = self.points[place - 1]
        part = (threads - below.threads) / (above.threads - below.threads)
        if lookup == "nearest":
            return _estimate(below if part <= 0.5 else above, "nearest")
        return Estimate(
            below.rate + part * (above.rate - below.rate),
            below.cpu_pct + part * (above.cpu_pct - below.cpu_pct),
            below.mem_pct + part * (above.mem_pct - below.mem_pct),
            "interpolated",
        )

    def fewest_for(self, rate: float) -> Point:
        """The modelled point with the fewest threads that carries `rate` on one slot."""
        for one in self.points:
            if one.rate >= rate:
                return one
        raise InvalidModel(f"one slot of {self.name!r} carries at most {self.best.rate:g} tuples/s, not {rate:g}")

    def bound(self, side: Literal["low", "high"]) -> PerformanceModel:
        """The model with every rate at the low or the high end of its interval."""
        if self.is_static:
            return self
        end = 0 if side == "low" else 1
        return replace(self, points=tuple(replace(one, rate=max(one.interval()[end], 1e-9), rates=()) for one in self.points))


def _estimate(point: Point, basis: Basis) -> Estimate:
    return Estimate(point.rate, point.cpu_pct, point.mem_pct, basis)


def static_model(name: str, *, cpu_pct: float, mem_pct: float, about: str = "") -> PerformanceModel:
    """One thread that uses the same at any rate."""
    return PerformanceModel(name, (Point(1, math.inf, cpu_pct, mem_pct),), about)


class Models(Mapping[str, PerformanceModel]):
    """Performance models by name; an unknown name is an `InvalidModel` that lists those there are."""

    def __init__(self, models: Iterable[PerformanceModel]) -> None:
        self._models = {one.name: one for one in models}

    def __getitem__(self, name: str) -> PerformanceModel:
        if name not in self._models:
            raise InvalidModel(f"there is no performance model {name!r}: there are {', '.join(sorted(self._models))}")
        return self._models[name]

    def __contains__(self, name: object) -> bool:
        return name in self._models

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    def with_others(self, others: Iterable[PerformanceModel]) -> Models:
        """These and others; of two with one name the other's is kept."""
        return Models([*self._models.values(), *others])

    def bound(self, side: Literal["low", "high"]) -> Models:
        """Every model at the low or the high end of its interval."""
        return Models([one.bound(side) for one in self._models.values()])

    @property
    def measured_repeatedly(self) -> bool:
        """Whether some point has a spread."""
        return any(len(point.rates) > 1 for one in self._models.values() for point in one.points)


def merge_runs(runs: Sequence[PerformanceModel]) -> PerformanceModel:
    """One model of several runs of one operator: at each number of threads the means, and the rates for the interval.

    Only numbers of threads that every run has are kept.
    """
    if not runs:
        raise InvalidModel("there are no runs to merge: give at least one model")
    shared = set.intersection(*({point.threads for point in one.points} for one in runs))
    points = []
    for threads in sorted(shared):
        found = [point for one in runs for point in one.points if point.threads == threads]
        rates = tuple(rate for point in found for rate in (point.rates or (point.rate,)))
        cpu_pct = sum(point.cpu_pct for point in found) / len(found)
        mem_pct = sum(point.mem_pct for point in found) / len(found)
        points.append(Point(threads, sum(rates) / len(rates), cpu_pct, mem_pct, found[0].origin, rates))
    return PerformanceModel(runs[0].name, tuple(points), runs[0].about)
