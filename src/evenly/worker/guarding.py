"""Rows run in a child of the worker's process, so that a row that ends its process costs the child alone.

The child gets rows from the worker and gives results back over a socket; before each call it notes the call's number in memory
that both share. When it dies, the note says which calls were running. One alone is the culprit; of several, which ran at once,
fewer and fewer are run at once in further children until one is left. All other calls without a result are made again.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from signal import Signals

import numpy as np
import pyarrow as pa

from evenly.errors import EvenlyError, RowTooSlow, WorkerDied
from evenly.worker.calling import Stretch
from evenly.worker.child import Child, ChildDied, EndedCalls, Journal, Message
from evenly.worker.parts import Part

Body = Callable[[int, Iterator[Part], Journal], Iterator[EndedCalls]]
"""Runs calls, so many at once, and notes them."""

_SLOTS_TO_SPARE = 128
_MOST_IDLE_DEATHS = 3
_FEWER = 4


def fork_works() -> bool:
    return hasattr(os, "fork")


@dataclass
class _Death:
    """How a child ended: its status, the calls without a result, and which of them ran, since when."""

    status: int
    left: list[Part]
    running: dict[int, float]
    progress: bool


class Guard:
    """Runs calls in children, one child at a time, and goes on when one dies.

    `body` is called in the child; `died(rows, stretch)` makes the output of a call whose failure is in `stretch`. A call that
    ends its process is made `retries` times again, alone.
    """

    def __init__(
        self,
        body: Body,
        died: Callable[[pa.RecordBatch, Stretch], list[pa.RecordBatch]],
        *,
        threads: int,
        retries: int,
        limit_s: float | None,
    ) -> None:
        self._body = body
        self._died = died
        self._threads = threads
        self._retries = retries
        self._limit_s = limit_s

    def run(self, parts: Iterator[Part]) -> Iterator[EndedCalls]:
        """The outcomes of all calls, in the order in which they end."""
        again: deque[Part] = deque()
        suspects: deque[Part] = deque()
        at_once = 1
        idle_deaths = 0
        deaths: dict[int, int] = {}
        while True:
            source, threads = (_taken(suspects), at_once) if suspects else (_taken(again, parts), self._threads)
            trying = bool(suspects)
            death = yield from self._lived(source, threads)
            if death is None:
                if trying:
                    continue
                return
            idle_deaths = 0 if death.progress or death.running else idle_deaths + 1
            if idle_deaths > _MOST_IDLE_DEATHS:
                raise WorkerDied(
                    f"a worker's process ended {idle_deaths} times in turn while it ran no row ({told_status(death.status)}): "
                    "something that the function left running ends it, or there is too little memory"
                )
            ran, others = _parted(death.left, set(death.running))
            if len(death.running) == 1:
                (number,) = death.running
                deaths[number] = deaths.get(number, 0) + 1
                if deaths[number] > self._retries:
                    yield self._failed(ran[0], death.status, death.running[number])
                    ran = []
                at_once = 1 if not trying else at_once
            else:
                at_once = max(1, len(death.running) // _FEWER)
            suspects.extendleft(reversed([*ran, *others] if trying else ran))
            if not trying:
                again.extendleft(reversed(others))

    def _lived(self, source: Iterator[Part], threads: int) -> Generator[EndedCalls, None, _Death | None]:
        """The outcomes of one child; how it died, or None if it ended well."""
        open_calls: dict[int, tuple[Part, int]] = {}
        journal = Journal(threads + _SLOTS_TO_SPARE)
        child = Child(lambda parts: self._body(threads, parts, journal))
        progress = False
        try:
            while True:
                message = child.receive()
                if message is Message.NEXT:
                    part = next(source, None)
                    if part is not None:
                        open_calls.update((number, (part, at)) for at, number in enumerate(part.numbers.tolist()))
                    child.give(part)
                elif message is Message.END:
                    return None
                else:
                    stretch, made = message
                    for number in stretch.numbers:
                        del open_calls[number]
                    progress = True
                    yield stretch, made
        except ChildDied as death:
            now_s = time.monotonic()
            running = {number: now_s - since_s for number, since_s in journal.running() if number in open_calls}
            return _Death(death.status, _left(open_calls), running, progress)
        finally:
            child.close()
            journal.close()

    def _failed(self, part: Part, status: int, took_s: float) -> EndedCalls:
        error: EvenlyError
        if self._limit_s is not None and took_s > self._limit_s:
            error = RowTooSlow(f"the function took longer than time_limit_s={self._limit_s:g} and was ended with its process")
        else:
            error = WorkerDied(f"the function ended its process: {told_status(status)}")
        rows = part.batch.num_rows
        stretch = Stretch(
            payloads=[],
            values=[None],
            costs_s=np.empty(0),
            ends_s=np.empty(0),
            failures={0: error},
            span_s=took_s,
            ids=np.zeros(rows, np.int64),
            sizes=part.sizes,
            timed=np.empty(0, np.int64),
        )
        return stretch, self._died(part.batch, stretch)


def told_status(status: int) -> str:
    """How a process ended, in words; `status` as `os.waitstatus_to_exitcode` gives it."""
    if status >= 0:
        return f"it exited with status {status}"
    return f"signal {-status}, {_signal_name(-status)}"


def _signal_name(number: int) -> str:
    names = {9: "SIGKILL (killed from outside, as when memory runs out)", 11: "SIGSEGV (a crash in native code)"}
    known = {each.value: each.name for each in Signals}
    return names.get(number, known.get(number, "unknown"))


def _taken(first: deque[Part], then: Iterator[Part] | None = None) -> Iterator[Part]:
    """Parts from the front of a queue while it has any, then others."""
    while first:
        yield first.popleft()
    for part in then or ():  # noqa: UP028 - `yield from` would close `then` when a child dies and this is given up
        yield part


def _left(open_calls: dict[int, tuple[Part, int]]) -> list[Part]:
    """The calls that are open, by parts, in the order of their numbers within each."""
    found: dict[int, tuple[Part, list[int]]] = {}
    for part, at in open_calls.values():
        found.setdefault(id(part), (part, []))[1].append(at)
    return [part.only(np.array(sorted(calls), np.int64)) for part, calls in found.values()]


def _parted(parts: list[Part], numbers: set[int]) -> tuple[list[Part], list[Part]]:
    """Parts of one call each for these numbers, and what is left without them."""
    chosen, others = [], []
    for part in parts:
        at = np.isin(part.numbers, np.array(sorted(numbers), np.int64)) if numbers else np.zeros(part.numbers.size, np.bool_)
        chosen += [part.only(np.array([call])) for call in np.flatnonzero(at).tolist()]
        if not at.all():
            others.append(part.only(np.flatnonzero(~at)))
    return chosen, others
