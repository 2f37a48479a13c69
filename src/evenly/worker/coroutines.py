"""Calls of an `async def` function, several at a time on one event loop. Results come as calls end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from evenly.worker.calling import STRETCH_ITEMS, STRETCH_S, Calls, Chunk, Stretch, checked_error
from evenly.worker.limits import ForkGuard, Watchdog, too_slow
from evenly.worker.shared_clock import SharedClock
from evenly.worker.threads import Item, ends_all, items_of, stretch_of


class Coroutines:
    """`threads` coroutines at once. One that takes longer than its limit is cancelled where it awaits.

    The loop stands still while results are handed to Spark and rows are read. A coroutine that does not await holds up the
    others; one that never does is for the watchdog.
    """

    def __init__(self, calls: Calls, *, batches: bool) -> None:
        self._calls = calls
        self._batches = batches
        self._clock = SharedClock()
        self._guard = ForkGuard()
        self._watchdog = Watchdog(calls.limit_s)
        self._loop = asyncio.new_event_loop()
        self._running: set[asyncio.Task[Item]] = set()

    def run(self, chunks: Iterator[Chunk]) -> Iterator[Stretch]:
        items = items_of(chunks)
        while True:
            begun = time.perf_counter()
            ended, more = self._loop.run_until_complete(self._stretch(items, begun))
            self._watchdog.rest()
            if ended:
                yield stretch_of(ended, batches=self._batches, span_s=time.perf_counter() - begun)
            if not more:
                return

    def close(self) -> None:
        """What still runs is cancelled."""
        self._watchdog.rest()
        for task in self._running:
            task.cancel()
        if self._running:
            self._loop.run_until_complete(asyncio.gather(*self._running, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _stretch(self, items: Iterator[Item], begun: float) -> tuple[list[Item], bool]:
        """Calls that have ended, and whether there are more."""
        ended: list[Item] = []
        more = True
        while more or self._running:
            while more and len(self._running) < self._calls.threads:
                self._watchdog.rest()
                item = next(items, None)
                more = item is not None
                if item is not None:
                    self._running.add(self._loop.create_task(self._settled(item)))
            self._watchdog.feed()
            if self._running:
                wait_s = None if self._calls.limit_s is None else self._calls.limit_s / 2.0
                done, self._running = await asyncio.wait(self._running, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                new = [task.result() for task in done]
                ended += new
                if any(item.ends_all for item in new):
                    return ended, False
            if len(ended) >= STRETCH_ITEMS or (ended and time.perf_counter() - begun > STRETCH_S):
                return ended, True
        return ended, False

    async def _settled(self, item: Item) -> Item:
        begun = self._clock.begin()
        for _ in range(self._calls.retries + 1):
            item.error = None
            try:
                item.value = self._calls.owned(await self._limited(item))
                break
            except asyncio.CancelledError as error:
                current = asyncio.current_task()
                if current is not None and current.cancelling():
                    raise
                item.error = error
            except BaseException as error:  # noqa: BLE001 - whatever a user's function raises is its row's error
                item.error = checked_error(error, self._guard)
        self._guard.check()
        item.cost_s, item.end_s = self._clock.end(begun), time.perf_counter()
        item.ends_all = ends_all(self._calls, item.value, item.error)
        return item

    async def _limited(self, item: Item) -> object:
        limit_s = self._calls.limit_s
        if limit_s is None:
            return await self._calls.function(item.payload)
        expiry = asyncio.timeout(limit_s)
        try:
            async with expiry:
                return await self._calls.function(item.payload)
        except TimeoutError:
            if expiry.expired():
                raise too_slow(limit_s) from None
            raise
