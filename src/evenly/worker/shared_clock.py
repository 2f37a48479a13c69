"""What a call costs its slot when several calls run in it at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class SharedClock:
    """Time that is shared equally by the calls that run at a moment.

    A virtual clock runs at 1 / n while n calls run. The difference between a call's end and its beginning is the slot's time
    that it took: the costs of all calls add up to the time in which at least one ran (tests/spark/test_apply_by_cost_calls.py).
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._running = 0
        self._virtual_s = 0.0
        self._last_s = 0.0

    def begin(self) -> float:
        """A call begins; keep what is returned for `end`."""
        with self._lock:
            self._advance()
            self._running += 1
            return self._virtual_s

    def end(self, begun_s: float) -> float:
        """A call ends: its cost in seconds."""
        with self._lock:
            self._advance()
            self._running -= 1
            return self._virtual_s - begun_s

    def _advance(self) -> None:
        now_s = self._now()
        if self._running:
            self._virtual_s += (now_s - self._last_s) / self._running
        self._last_s = now_s
