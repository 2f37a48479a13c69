"""Calls of a user's function, one after the other, measured. Several at a time: `threads.py`, `coroutines.py`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from evenly.kernels.types import F64, I64
from evenly.worker.limits import Alarm, ForkGuard, Watchdog, alarm_works
from evenly.worker.owned import own

STRETCH_S, STRETCH_ITEMS = 1.0, 10_000
"""Results are handed on when calls have gone on for so long, or when there are so many."""
_LOOK_S, _LOOK_CALLS = 1e-3, 32
"""Where a wrong result ends the task, results are looked at after so much time, or so many calls."""


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

    `costs_s` and `ends_s` are of the calls that were timed, those at `timed` (None: all). `numbers`
    are the calls' own, where they have any.
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
    numbers: list[int] = field(default_factory=list)


class Caller(Protocol):
    """Runs a function over chunks."""

    def run(self, chunks: Iterator[Chunk]) -> Iterator[Stretch]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Calls:
    """How the function is called.

    `fits` is given where the first call that fails is to end them all: it says of results whether they are as they should be.
    Then nothing is called any more once a call has failed or its result was seen not to fit. `owned` makes a result one's own,
    which the function may change in its next call.
    """

    function: Callable[[Any], Any]
    threads: int = 1
    retries: int = 0
    limit_s: float | None = None
    time_every: int = 1
    fits: Callable[[list[Any]], bool] | None = None
    owned: Callable[[Any], Any] = own


def checked_error(error: BaseException, guard: ForkGuard) -> BaseException:
    """An error that counts as the row's. A forked child ends here; an interrupt from outside is passed on."""
    guard.check()
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        raise error
    return error


class _Look:
    """Looks at results while calls go on: after each one that takes long, and never after more than a few."""

    def __init__(self, fits: Callable[[list[Any]], bool]) -> None:
        self._fits = fits
        self._after = 1
        self._unseen = 0
        self._begun_s = self._looked_s = 0.0
        self.over = False

    def begun(self) -> Callable[[list[Any], dict[int, BaseException]], bool]:
        """A stretch begins: what says after each of its calls whether it ends there."""
        self._unseen = 0
        self._begun_s = self._looked_s = time.perf_counter()
        return self._ends

    def _ends(self, values: list[Any], failures: dict[int, BaseException]) -> bool:
        self._unseen += 1
        if not failures and self._unseen < self._after:
            return False
        self.over = bool(failures) or not self._fits(values[-self._unseen :])
        now_s = time.perf_counter()
        took_s = max(now_s - self._looked_s, 1e-9)
        self._after = max(1, min(_LOOK_CALLS, 2 * self._after, int(self._unseen * _LOOK_S / took_s)))
        self._looked_s, self._unseen = now_s, 0
        return self.over or now_s - self._begun_s > STRETCH_S


class Serial:
    """One call at a time, in the worker's main thread."""

    def __init__(self, calls: Calls) -> None:
        self._retries = calls.retries
        self._every = calls.time_every
        self._owned = calls.owned
        self._guard = ForkGuard()
        self._watchdog = Watchdog(calls.limit_s)
        self._alarm = Alarm(calls.limit_s) if calls.limit_s is not None and alarm_works() else None
        alarm, function = self._alarm, calls.function
        self._call: Callable[[Any], Any] = function if alarm is None else lambda payload: alarm.call(function, payload)
        self._phase = 0
        self._look = None if calls.fits is None else _Look(calls.fits)

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
                if self._look is not None and self._look.over:
                    return

    def close(self) -> None:
        self._watchdog.rest()
        if self._alarm is not None:
            self._alarm.close()

    def _stretch(self, payloads: Iterator[Any]) -> Stretch:
        """Calls for about a second. Ids are for the caller to fill in."""
        clock, call, forked, feed = time.perf_counter, self._call, self._guard.check, self._watchdog.feed
        watched = self._alarm is not None
        every, phase, owned = self._every, self._phase, self._owned
        ends_at = None if self._look is None else self._look.begun()
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
                value, failed = self._again(payload, checked_error(error, self._guard))
                if failed is not None:
                    failures[len(values)] = failed
            forked()
            values.append(owned(value))
            if not phase:
                end = clock()
                costs.append(end - start)
                ends.append(end)
                if every > 1:
                    timed.append(len(values) - 1)
                if end - begun > STRETCH_S:
                    break
            if ends_at is not None and ends_at(values, failures):
                break
        self._phase = phase
        at = np.array(timed, np.int64) if every > 1 else None
        return Stretch(called, values, np.array(costs), np.array(ends), failures, clock() - begun, timed=at)

    def _again(self, payload: Any, error: BaseException) -> tuple[Any, BaseException | None]:
        """The value of a further call, or the last error."""
        for _ in range(self._retries):
            try:
                return self._call(payload), None
            except BaseException as further:  # noqa: BLE001
                error = checked_error(further, self._guard)
        return None, error
