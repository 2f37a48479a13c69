"""The process of one slot: pinned to one core, with threads for each bundle that sits on it.

Tuples come in batches over a pipe and wait in a queue for each bundle; what is done goes back in batches. The messages
are plain values: the batches are bytes, so that a slot spends its core on the operator and not on the transport.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from evenly.lab.slots.operators import Function, OperatorSpec

TUPLE = np.dtype([("bundle", np.int32), ("number", np.int64), ("born_s", np.float64), ("done_s", np.float64)])
FLUSH_S = 0.004
_WAITING = 0.5


@dataclass(frozen=True)
class SlotBundle:
    """Threads of one operator on the slot."""

    operator: OperatorSpec
    threads: int


def slot_main(pipe: Connection, core: int | None, memory_mib: int | None) -> None:
    """The life of a slot: bundles are set up, cleared and fed as the messages say, until it is told to stop."""
    if core is not None and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {core})
    slot = _Slot(pipe)
    if memory_mib is not None:
        _limit_memory(memory_mib)
    try:
        slot.answer("up")
        while True:
            message = pipe.recv_bytes()
            if message[:1] == b"t":
                slot.feed(np.frombuffer(message, TUPLE, offset=1))
            elif message[:1] == b"c":
                slot.clear()
                slot.answer("cleared")
            elif message[:1] == b"s":
                slot.set_up(pipe.recv())
            else:
                return
    except (EOFError, OSError):
        return
    finally:
        slot.close()


def _limit_memory(memory_mib: int) -> None:
    """Let the process grow by so much and no more; what is beyond is a MemoryError in the operator."""
    try:
        import resource  # noqa: PLC0415 - not on every system

        import psutil  # noqa: PLC0415

        used = psutil.Process().memory_info()
        resource.setrlimit(resource.RLIMIT_DATA, (getattr(used, "data", used.vms) + memory_mib * 2**20, resource.RLIM_INFINITY))
    except (ImportError, ValueError, OSError):
        return


class _Slot:
    """Queues and threads of the bundles."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.sending = threading.Lock()
        self.done: deque[tuple[int, int, float, float]] = deque()
        self.queues: list[SimpleQueue[tuple[int, float] | None]] = []
        self.threads: list[threading.Thread] = []
        self.made: list[Function] = []
        self.busy = 0
        self.error: str | None = None
        self.closing = False
        self.flusher = threading.Thread(target=self._flush, daemon=True)
        self.flusher.start()

    def set_up(self, bundles: list[SlotBundle]) -> None:
        """New bundles instead of those before."""
        self._stop_threads()
        self.error = None
        try:
            self.made = [one.operator.make() for one in bundles]
        except Exception as error:  # noqa: BLE001 - whatever a user's code raises is told, not lost
            self.answer(f"{type(error).__name__}: {error}")
            return
        self.queues = [SimpleQueue() for _ in bundles]
        for place, one in enumerate(bundles):
            for _ in range(one.threads):
                thread = threading.Thread(target=self._work, args=(place, self.made[place], self.queues[place]), daemon=True)
                self.threads.append(thread)
                thread.start()
        self.answer("ready")

    def feed(self, batch: np.ndarray) -> None:
        """Tuples for the queues."""
        for bundle, number, born_s in zip(
            batch["bundle"].tolist(), batch["number"].tolist(), batch["born_s"].tolist(), strict=True
        ):
            self.queues[bundle].put((number, born_s))

    def clear(self) -> None:
        """Forget what waits, and let what is being executed end."""
        for queue in self.queues:
            with contextlib.suppress(Empty):
                while True:
                    queue.get_nowait()
        until = time.monotonic() + 30.0
        while self.busy > 0 and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(2 * FLUSH_S)

    def answer(self, text: str) -> None:
        with self.sending:
            self.pipe.send_bytes(b"a" + text.encode())

    def close(self) -> None:
        self.closing = True
        self._stop_threads()
        for one in self.made:
            close = getattr(one, "close", None)
            if close is not None:
                with contextlib.suppress(Exception):
                    close()

    def _stop_threads(self) -> None:
        for _ in self.threads:
            for queue in self.queues:
                queue.put(None)
        for thread in self.threads:
            thread.join(timeout=5.0)
        self.threads = []

    def _work(self, bundle: int, function: Function, queue: SimpleQueue[tuple[int, float] | None]) -> None:
        while True:
            item = queue.get()
            if item is None:
                return
            self.busy += 1
            try:
                function(item[0])
            except Exception as error:  # noqa: BLE001 - told to the hub, which stops the run
                self.error = f"{type(error).__name__}: {error}"
            finally:
                self.busy -= 1
            self.done.append((bundle, item[0], item[1], time.monotonic()))

    def _flush(self) -> None:
        while not self.closing:
            time.sleep(FLUSH_S)
            if self.error is not None:
                text, self.error = self.error, None
                self.answer(f"error {text}")
            count = len(self.done)
            if count:
                batch = np.array([self.done.popleft() for _ in range(count)], TUPLE)
                with self.sending, contextlib.suppress(OSError):
                    self.pipe.send_bytes(b"t" + batch.tobytes())


def setup_message(pipe: Connection, bundles: list[SlotBundle]) -> None:
    """Tell a slot its bundles."""
    pipe.send_bytes(b"s")
    pipe.send(bundles)


def batch_of(bundle: Any, number: Any, born_s: Any) -> bytes:
    """Tuples as a message."""
    batch = np.zeros(len(number), TUPLE)
    batch["bundle"], batch["number"], batch["born_s"] = bundle, number, born_s
    return b"t" + batch.tobytes()
