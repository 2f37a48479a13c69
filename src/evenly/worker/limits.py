"""What keeps a user's function from taking the worker with it: a time limit, a watchdog, an end to forked children."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from evenly.errors import RowTooSlow

_STDERR = 2
_ENDED_CHILD = 70
_GRACE_S = 5.0


class OutOfTime(BaseException):
    """Raised inside a call that has used up its time: not an `Exception`, so that a function does not catch it by habit."""


class ForkGuard:
    """Ends a process that a function has forked and that comes back from it: it would write into Spark's socket too."""

    def __init__(self) -> None:
        self.pid = os.getpid()

    def check(self) -> None:
        if os.getpid() != self.pid:
            os.write(
                _STDERR,
                f"evenly: process {os.getpid()}, forked by the function, returned from it and is ended: "
                "let a forked child end with os._exit, or use subprocess or multiprocessing\n".encode(),
            )
            os._exit(_ENDED_CHILD)


def alarm_works() -> bool:
    """Whether a call can be interrupted by a signal here: in a process's main thread, not on Windows."""
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


class Alarm:
    """Calls a function in the main thread, and ends the call when it has run for `limit_s`: Python code and waits alike.

    If the function swallows the alarm (a bare except), it rings again after the same time.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._armed = False
        self._before = signal.signal(signal.SIGALRM, self._ring)

    def call(self, function: Callable[[Any], Any], payload: Any) -> Any:
        began_s = time.perf_counter()
        try:
            try:
                self._armed = True
                signal.setitimer(signal.ITIMER_REAL, self._limit_s, self._limit_s)
                value = function(payload)
            finally:
                self._disarm()
        except OutOfTime:
            self._disarm()  # the alarm may ring on the very way out
            raise too_slow(self._limit_s) from None
        if time.perf_counter() - began_s > self._limit_s:
            raise too_slow(self._limit_s)
        return value

    def close(self) -> None:
        self._disarm()
        signal.signal(signal.SIGALRM, self._before)

    def _disarm(self) -> None:
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _ring(self, _signal: int, _frame: FrameType | None) -> None:
        if self._armed:
            raise OutOfTime


class Watchdog:
    """Ends this process, with a traceback on its stderr, when a call holds on though its time is up.

    For what neither a signal nor an exception reaches: native code that does not return. It works while the interpreter
    is blocked. Spark sees a worker that has died and tries the task again. Nothing is watched without a limit.
    """

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._fed_s: float | None = None

    def feed(self) -> None:
        """Calls are being made: the process may go on for twice the limit and some seconds."""
        if self._limit_s is None:
            return
        now_s = time.perf_counter()
        if self._fed_s is None or now_s - self._fed_s > self._limit_s / 2.0:
            faulthandler.dump_traceback_later(2.0 * self._limit_s + _GRACE_S, exit=True, file=_STDERR)
            self._fed_s = now_s

    def rest(self) -> None:
        """Nothing of the user's runs: reading input and handing over results may take as long as it takes."""
        if self._fed_s is not None:
            faulthandler.cancel_dump_traceback_later()
            self._fed_s = None


def too_slow(limit_s: float) -> RowTooSlow:
    return RowTooSlow(f"the function took longer than time_limit_s={limit_s:g}")


def interrupt(thread: threading.Thread) -> None:
    """Raise `OutOfTime` in a thread, at its next step of Python code."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(OutOfTime))


def end_process(why: str) -> None:
    """End this worker at once; Spark tries its task again."""
    sys.stderr.flush()
    os.write(_STDERR, f"evenly: {why}\n".encode())
    os._exit(_ENDED_CHILD)
