"""Calls of a user's function on several threads of one task, for functions that wait. Results come as calls end."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from evenly.worker.calling import STRETCH_ITEMS, STRETCH_S, Calls, Chunk, Stretch, checked_error
from evenly.worker.limits import ForkGuard, OutOfTime, Watchdog, end_process, interrupt, too_slow
from evenly.worker.shared_clock import SharedClock

_MOST_LEFT_BEHIND = 64
_WAITING_FOR_EACH = 2


@dataclass(eq=False)
class Item:
    """One call: what it gets, its rows, and what became of it."""

    payload: Any
    ids: list[int]
    estimates_s: list[float]
    value: Any = None
    error: BaseException | None = None
    cost_s: float = 0.0
    end_s: float = 0.0
    tries: int = 1
    ends_all: bool = False


def ends_all(calls: Calls, value: Any, error: BaseException | None) -> bool:
    """Whether a call that came out so is the last one: it failed, and none may."""
    return calls.fits is not None and (error is not None or not calls.fits([value]))


def items_of(chunks: Iterator[Chunk]) -> Iterator[Item]:
    """The calls of all chunks, one after the other."""
    for chunk in chunks:
        ids = chunk.ids.tolist()
        estimates_s = [] if chunk.estimates_s is None else chunk.estimates_s.tolist()
        begin = 0
        for size, payload in zip(chunk.sizes or [1] * len(ids), chunk.payloads, strict=True):
            yield Item(payload, ids[begin : begin + size], estimates_s[begin : begin + size])
            begin += size


def stretch_of(done: list[Item], *, batches: bool, span_s: float) -> Stretch:
    """Ended calls as a stretch."""
    estimates = [value for item in done for value in item.estimates_s]
    return Stretch(
        payloads=[item.payload for item in done],
        values=[item.value for item in done],
        ids=np.array([identity for item in done for identity in item.ids], np.int64),
        estimates_s=np.array(estimates) if estimates else None,
        costs_s=np.array([item.cost_s for item in done]),
        ends_s=np.array([item.end_s for item in done]),
        sizes=np.array([len(item.ids) for item in done], np.int64) if batches else None,
        failures={at: item.error for at, item in enumerate(done) if item.error is not None},
        span_s=span_s,
    )


class _Worker(threading.Thread):
    """A thread that calls the function until it is told to stop, or is given up."""

    def __init__(self, pool: Threads) -> None:
        super().__init__(daemon=True, name="evenly call")
        self.pool = pool
        self.item: Item | None = None
        self.began_s = 0.0
        self.begun = 0.0
        self.given_up = False

    def run(self) -> None:
        try:
            while (item := self.pool.work.get()) is not None and not self.pool.ended and self.pool.settle(self, item):
                pass
        except OutOfTime:  # given up in the very moment that it was done
            return


class Threads:
    """`threads` calls at once. A call that takes longer than its limit is given up, and another thread takes its place."""

    def __init__(self, calls: Calls, *, batches: bool) -> None:
        self._calls = calls
        self._batches = batches
        self._clock = SharedClock()
        self._lock = threading.Lock()
        self._guard = ForkGuard()
        self._watchdog = Watchdog(calls.limit_s)
        self.ended = False
        self.work: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        self._left_behind: list[_Worker] = []

    def run(self, chunks: Iterator[Chunk]) -> Iterator[Stretch]:
        items, pending, more = items_of(chunks), 0, True
        for _ in range(self._calls.threads):
            self._start()
        ended: list[Item] = []
        begun = time.perf_counter()
        while more or pending:
            while more and pending < _WAITING_FOR_EACH * self._calls.threads:
                self._watchdog.rest()
                item = next(items, None)
                more = item is not None
                if item is not None:
                    self.work.put(item)
                    pending += 1
            if not pending:
                break
            self._watchdog.feed()
            new = self._ended()
            pending -= len(new)
            ended += new
            now = time.perf_counter()
            if self.ended and any(item.ends_all for item in new):
                more, pending = False, 0
            elif len(ended) >= STRETCH_ITEMS or (ended and now - begun > STRETCH_S):
                self._watchdog.rest()
                yield stretch_of(ended, batches=self._batches, span_s=now - begun)
                ended, begun = [], time.perf_counter()
        self._watchdog.rest()
        if ended:
            yield stretch_of(ended, batches=self._batches, span_s=time.perf_counter() - begun)

    def close(self) -> None:
        """Nothing is called any more; a call that still runs is ended at its next step."""
        self._watchdog.rest()
        for worker in self._workers:
            self.work.put(None)
            with self._lock:
                if worker.item is not None:
                    worker.given_up = True
                    interrupt(worker)

    def settle(self, worker: _Worker, item: Item) -> bool:
        """A worker's part: one call with its retries. False when the worker was given up meanwhile."""
        with self._lock:
            worker.item, worker.began_s, worker.begun = item, time.perf_counter(), self._clock.begin()
        value, error = self._called(worker, item)
        self._guard.check()
        last = ends_all(self._calls, value, error)
        with self._lock:
            if worker.given_up:
                return False
            worker.item = None
            item.ends_all = last
            self.ended = self.ended or last
            item.value, item.error = value, error
            item.cost_s, item.end_s = item.cost_s + self._clock.end(worker.begun), time.perf_counter()
        self._done.put(item)
        return True

    def _called(self, worker: _Worker, item: Item) -> tuple[Any, BaseException | None]:
        while True:
            try:
                return self._calls.owned(self._calls.function(item.payload)), None
            except BaseException as error:  # noqa: BLE001 - whatever a user's function raises is its row's error
                self._guard.check()
                with self._lock:
                    if worker.given_up or item.tries > self._calls.retries:
                        return None, error
                    item.tries += 1
                    worker.began_s = time.perf_counter()

    def _ended(self) -> list[Item]:
        """The calls that have ended or been given up; waits for at least one, or until the next may be given up."""
        found: list[Item] = []
        limit_s = self._calls.limit_s
        try:
            found.append(self._done.get(timeout=None if limit_s is None else self._next_deadline(limit_s)))
            while True:
                found.append(self._done.get_nowait())
        except queue.Empty:
            pass
        for item in found:
            if item.error is not None:
                checked_error(item.error, self._guard)
        return found if limit_s is None else found + self._overdue(limit_s)

    def _next_deadline(self, limit_s: float) -> float:
        now_s = time.perf_counter()
        with self._lock:
            ends = [worker.began_s + limit_s - now_s for worker in self._workers if worker.item is not None]
        return min(max(min(ends, default=limit_s), 0.001), limit_s / 2.0 + 0.001)

    def _overdue(self, limit_s: float) -> list[Item]:
        """Calls whose time is up. They are interrupted if possible; a thread that hangs in native code stays behind."""
        found = []
        now_s = time.perf_counter()
        with self._lock:
            late = [worker for worker in self._workers if worker.item is not None and now_s - worker.began_s > limit_s]
            for worker in late:
                worker.given_up = True
                interrupt(worker)
                item = replace(cast("Item", worker.item), error=too_slow(limit_s), end_s=now_s)
                item.cost_s += self._clock.end(worker.begun)
                if item.tries > self._calls.retries:
                    item.ends_all = ends_all(self._calls, None, item.error)
                    self.ended = self.ended or item.ends_all
                    found.append(item)
                else:
                    self.work.put(replace(item, tries=item.tries + 1, error=None))
        for worker in late:
            self._workers.remove(worker)
            self._start()
        self._left_behind = [worker for worker in (*self._left_behind, *late) if worker.is_alive()]
        if len(self._left_behind) > _MOST_LEFT_BEHIND:
            end_process(f"{len(self._left_behind)} calls do not end though their time is up")
        return found

    def _start(self) -> None:
        worker = _Worker(self)
        self._workers.append(worker)
        worker.start()
