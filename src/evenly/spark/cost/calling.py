"""Calls of a user's function, one after the other, measured. Several at a time: `threads.py`, `coroutines.py`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from evenly.kernels.types import F64, I64
from evenly.spark.cost.limits import Alarm, ForkGuard, Watchdog, alarm_works

STRETCH_S, STRETCH_ITEMS = 1.0, 10_000
"""Results are handed on when calls have gone on for so long, or when there are so many."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """What the function is to be called with: rows, or small Arrow batches (`sizes`: the rows of each)."""

    payloads: Iterator[Any]
    ids: I64
    estimates_s: F64 | None = None
    sizes: list[int] | None = None


@dataclass(eq=False)
class Stretch:
    """Calls that have ended. `ids` and `estimates_s` are of rows; all else is of calls, which `sizes` tells the rows of.

    `costs_s` and `ends_s` are of the calls that were timed, those at `timed` (None: all).
    """

    payloads: list[Any]
    values: list[Any]
    costs_s: F64
    ends_s: F64
    failures: dict[int, BaseException]
    span_s: float
    ids: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    estimates_s: F64 | None = None
    sizes: I64 | None = None
    timed: I64 | None = None


class Caller(Protocol):
    """Runs a function over chunks."""

    def run(self, chunks: Iterator[Chunk]) -> Iterator[Stretch]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Calls:
    """How the function is called."""

    function: Callable[[Any], Any]
    threads: int = 1
    retries: int = 0
    limit_s: float | None = None
    time_every: int = 1


def checked(error: BaseException, guard: ForkGuard) -> BaseException:
    """An error that counts as the row's. A forked child ends here; an interrupt from outside is passed on."""
    guard.check()
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        raise error
    return error


class Serial:
    """One call at a time, in the worker's main thread."""

    def __init__(self, calls: Calls) -> None:
        self._retries = calls.retries
        self._every = calls.time_every
        self._guard = ForkGuard()
        self._watchdog = Watchdog(calls.limit_s)
        self._alarm = Alarm(calls.limit_s) if calls.limit_s is not None and alarm_works() else None
        alarm, function = self._alarm, calls.function
        self._call: Callable[[Any], Any] = function if alarm is None else lambda payload: alarm.call(function, payload)
        self._phase = 0

    def run(self, chunks: Iterator[Chunk]) -> Iterator[Stretch]:
        for chunk in chunks:
            count = len(chunk.ids) if chunk.sizes is None else len(chunk.sizes)
            done = rows = 0
            while done < count:
                self._watchdog.feed()
                stretch = self._stretch(chunk.payloads)
                self._watchdog.rest()
                calls = len(stretch.values)
                if chunk.sizes is not None:
                    stretch.sizes = np.array(chunk.sizes[done : done + calls], np.int64)
                end = rows + (calls if stretch.sizes is None else int(stretch.sizes.sum()))
                stretch.ids = chunk.ids[rows:end]
                stretch.estimates_s = None if chunk.estimates_s is None else chunk.estimates_s[rows:end]
                done, rows = done + calls, end
                yield stretch

    def close(self) -> None:
        self._watchdog.rest()
        if self._alarm is not None:
            self._alarm.close()

    def _stretch(self, payloads: Iterator[Any]) -> Stretch:
        """Calls for about a second. Ids are for the caller to fill in."""
        clock, call, forked, feed = time.perf_counter, self._call, self._guard.check, self._watchdog.feed
        watched = self._alarm is not None
        every, phase = self._every, self._phase
        called: list[Any] = []
        values: list[Any] = []
        costs: list[float] = []
        ends: list[float] = []
        timed: list[int] = []
        failures: dict[int, BaseException] = {}
        begun = end = clock()
        for payload in payloads:
            if every > 1:
                phase = (phase + 1) % every
            if watched:
                feed()
            called.append(payload)
            start = end if phase else clock()
            try:
                value = call(payload)
            except BaseException as error:  # noqa: BLE001 - whatever a user's function raises is its row's error
                value, failed = self._again(payload, checked(error, self._guard))
                if failed is not None:
                    failures[len(values)] = failed
            forked()
            if not phase:
                end = clock()
                costs.append(end - start)
                ends.append(end)
                if every > 1:
                    timed.append(len(values))
                if end - begun > STRETCH_S:
                    values.append(value)
                    break
            values.append(value)
        self._phase = phase
        at = np.array(timed, np.int64) if every > 1 else None
        return Stretch(called, values, np.array(costs), np.array(ends), failures, clock() - begun, timed=at)

    def _again(self, payload: Any, error: BaseException) -> tuple[Any, BaseException | None]:
        """The value of a further call, or the last error."""
        for _ in range(self._retries):
            try:
                return self._call(payload), None
            except BaseException as further:  # noqa: BLE001
                error = checked(further, self._guard)
        return None, error
