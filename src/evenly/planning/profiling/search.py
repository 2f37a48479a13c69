"""The search of the paper's algorithm 1: rates for each number of threads, and numbers of threads, until it is flat.

It is pure: it asks for trials and is told what they showed, so it can be tested without a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from evenly.errors import InvalidParameter
from evenly.measures.slope import slope
from evenly.planning.models import PerformanceModel, Point


@dataclass(frozen=True)
class SlotTrial:
    """What one run at one rate showed: whether it was stable, and the slot's cpu and memory in percent."""

    threads: int
    rate: float
    stable: bool
    cpu_pct: float
    mem_pct: float
    slope: float = 0.0


@dataclass(frozen=True)
class SearchOptions:
    """How to search.

    `precision` (0.005 to 0.5): how near the peak rate is bracketed. `rate_step`: grow the rate by this from one step on
    instead, as the paper does. `thread_step`: the same for threads; without it they grow by half. Threads stop growing
    when, over the last `window` numbers of threads, the line through the peak rates rises by no more than `flat` of the
    best a step.
    """

    precision: float = 0.05
    rate_step: float | None = None
    thread_step: int | None = None
    most_threads: int = 128
    window: int = 3
    flat: float = 0.02
    first_rate: float = 10.0
    most_rate: float = 200_000.0
    least_rate: float = 0.05

    def __post_init__(self) -> None:
        if not 0.005 <= self.precision <= 0.5:
            raise InvalidParameter(f"precision must be from 0.005 to 0.5, got {self.precision}")
        for name in ("rate_step", "thread_step"):
            step = getattr(self, name)
            if step is not None and not step > 0:
                raise InvalidParameter(f"{name} must be above 0, got {step}")
        if self.most_threads < 1 or self.window < 2 or not self.first_rate > 0.0:
            raise InvalidParameter(
                f"most_threads must be at least 1, window at least 2, first_rate above 0, got {self.most_threads}, "
                f"{self.window}, {self.first_rate}"
            )


RunTrial = Callable[[int, float], SlotTrial]


def profile_threads(run: RunTrial, options: SearchOptions | None = None) -> Iterator[SlotTrial]:
    """The stable trial of the peak rate for each number of threads, as it is found."""
    how = options or SearchOptions()
    peaks: list[SlotTrial] = []
    for threads in thread_counts(how):
        guess = peaks[-1].rate if peaks else how.first_rate
        best = _stepped(run, threads, how, how.rate_step) if how.rate_step else _bracketed(run, threads, how, guess)
        peaks.append(best)
        yield best
        if flat_or_falling([one.rate for one in peaks], how):
            return


def thread_counts(how: SearchOptions) -> Iterator[int]:
    """1, 2, 3, 4, 6, 9, 13, … or in steps."""
    threads = 1
    while threads <= how.most_threads:
        yield threads
        threads += how.thread_step or max(1, threads // 2)


def flat_or_falling(rates: list[float], how: SearchOptions) -> bool:
    """Whether the last peak rates say that more threads carry no more."""
    if len(rates) < how.window:
        return False
    last = np.asarray(rates[-how.window :]) / max(rates)
    return slope(np.arange(float(how.window)), last) <= how.flat


def model_of(name: str, peaks: list[SlotTrial], about: str = "") -> PerformanceModel:
    """The performance model that the peaks make."""
    points = tuple(Point(one.threads, one.rate, min(one.cpu_pct, 100.0), min(one.mem_pct, 100.0)) for one in peaks)
    return PerformanceModel(name, points, about)


def _stepped(run: RunTrial, threads: int, how: SearchOptions, step: float) -> SlotTrial:
    """The paper's way: one step more until it is not stable."""
    best = run(threads, step)
    if not best.stable:
        raise InvalidParameter(f"even {step:g} tuples/s are not stable with {threads} threads: take a smaller rate step")
    while best.rate + step <= how.most_rate:
        following = run(threads, best.rate + step)
        if not following.stable:
            break
        best = following
    return best


def _bracketed(run: RunTrial, threads: int, how: SearchOptions, guess: float) -> SlotTrial:
    """Double or halve until a stable rate has an unstable one above it, then bisect."""
    found = run(threads, guess)
    best: SlotTrial | None = found if found.stable else None
    above = None if found.stable else found.rate
    while best is None and above is not None:
        if above / 2.0 < how.least_rate:
            raise InvalidParameter(f"no rate down to {how.least_rate:g} tuples/s is stable with {threads} threads")
        found = run(threads, above / 2.0)
        best, above = (found, above) if found.stable else (None, found.rate)
    assert best is not None  # noqa: S101 - the loop above ends with one or raises
    while above is None:
        if best.rate * 2.0 > how.most_rate:
            return best
        found = run(threads, best.rate * 2.0)
        best, above = (found, None) if found.stable else (best, found.rate)
    while above - best.rate > how.precision * above:
        found = run(threads, (best.rate + above) / 2.0)
        best, above = (found, above) if found.stable else (best, found.rate)
    return best
