"""An outgoing queue that sends when its machine's link says so: the way a task takes part in emission scheduling."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from evenly.emission.link.links import attach, detach
from evenly.emission.link.segment import BYTES, DUE_NS, HEAD_NS, IDLE, OTHERS, SENT, SPEED, TUPLES, segment_path
from evenly.emission.policies.base import Emission
from evenly.emission.policies.catalogue import new_policy
from evenly.errors import InvalidParameter, QueueClosed, SendFailed

T = TypeVar("T")
UNSCHEDULED = "none"
"""The policy of a queue that takes no part: it sends as soon as it can."""


class Outgoing(Generic[T]):
    """Tuples that wait in this process and are sent, in order, by `transmit`, while the link's signal for the queue is 1.

    Processes of one machine that name the same `link` share it: every `interval_ms` the one that leads looks at all
    backlogs and gives the signal to the queue that the policy chooses; if nothing waits anywhere, to all. There is nothing
    to install: the first process leads, and when it ends or hangs another takes over.

    Guarantees (`tests/processes/test_outgoing.py`, with real processes that are killed): tuples of a queue are transmitted in
    order, each once, and all of them before `flush` or `close` returns; a queue whose process dies is dropped; a queue is
    never held back for longer than `patience_ms` after the next sign of a leader was due, nor by the policy for longer than
    `longest_wait_ms` at a time; memory is bounded by `capacity` and `capacity_bytes`.

    Parameters:
        transmit: called with every tuple, in a thread of the queue; returns when the tuple is sent. If it raises, nothing
            more is sent, and the next call on the queue raises SendFailed.
        link: the name of what is shared, such as "eth0".
        policy: a name of `evenly.emission.policies.catalogue` or an Emission; "none" takes no part and sends at once.
        interval_ms: τ, 1 to 60,000. A link has one policy and one interval, those of the first queue on it; one that comes with
            others is told so in the log. Of 2,048 queues on a link, those that come later send without waiting for their turn.
        capacity: tuples that may wait, at least 1; `send` blocks while there are as many.
        capacity_bytes: bytes of them, 64 MiB by default; `send` blocks while as many wait. One tuple may be larger.
        patience_ms: 10 intervals by default.
        longest_wait_ms: 100 intervals by default; then the queue sends for one interval whatever the policy says.
        limit_s: how long one call of `transmit` may take, no limit by default. After that `send`, `flush` and `close` raise
            SendFailed and nothing more is sent; the call itself cannot be ended, so what it does may still happen.
        speed: how fast this queue can send, at least 1, for `weighted-lbf`; bytes per second or any other unit.
        folder: where the shared memory is; /dev/shm by default.

    >>> sent = []
    >>> with Outgoing(sent.append, link="doctest") as queue:
    ...     queue.send(b"first")
    ...     queue.send(b"second")
    >>> sent
    [b'first', b'second']
    """

    def __init__(
        self,
        transmit: Callable[[T], object],
        *,
        link: str = "default",
        policy: str | Emission = "lbf",
        interval_ms: float = 10.0,
        capacity: int = 10_000,
        capacity_bytes: int = 1 << 26,
        patience_ms: float | None = None,
        longest_wait_ms: float | None = None,
        limit_s: float | None = None,
        speed: int = 1,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        interval_ns = int(checked_number(interval_ms, "interval_ms", 1.0, 60_000.0) * 1e6)
        patience_ns, longest_ns = _nanoseconds(patience_ms, "patience_ms"), _nanoseconds(longest_wait_ms, "longest_wait_ms")
        self._limit_ns = None if limit_s is None else int(checked_number(limit_s, "limit_s", 1e-3, 1e6) * 1e9)
        self._began_ns = 0
        self._capacity = int(checked_number(capacity, "capacity", 1, 2**40))
        self._capacity_bytes = int(checked_number(capacity_bytes, "capacity_bytes", 1, 2**60))
        speed = int(checked_number(speed, "speed", 1, 2**60))
        self._transmit = transmit
        self._items: deque[tuple[T, int, int]] = deque()
        self._bytes = 0
        self.sent = 0
        self.sent_unasked = 0
        self._free_until_ns = 0
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._closing = self._aborted = self._closed = False
        self._pid = os.getpid()
        joined = None
        if policy != UNSCHEDULED:
            rules = new_policy(policy) if isinstance(policy, str) else policy
            joined = attach(segment_path(link, folder), interval_ns, rules)
        self._paced = joined is not None
        if joined is not None:
            self._agent, self._place = joined
            interval_ns = self._agent.interval_ns
            self._header = self._agent.segment.header
            self._row = self._agent.segment.rows[self._place]
            self._row[SPEED] = speed
            self._signal = self._agent.segment.signal(self._place)
        self._interval_ns = interval_ns
        self._patience_ns = patience_ns or 10 * interval_ns
        self._longest_ns = longest_ns or 100 * interval_ns
        self._thread = threading.Thread(target=self._pump, name=f"evenly outgoing on {link}", daemon=True)
        self._thread.start()

    @property
    def backlog(self) -> int:
        """Tuples that wait here."""
        return len(self._items)

    @property
    def leads(self) -> bool:
        """Whether this process leads the link."""
        return self._paced and self._agent.leads

    def send(self, data: T, *, size_bytes: int | None = None, timeout_s: float | None = None) -> None:
        """Put a tuple at the end of the queue; blocks while it is full, at most `timeout_s` (no limit by default).

        `size_bytes` is the tuple's length by default, or 1 if it has none.
        """
        size = _size(data) if size_bytes is None else int(checked_number(size_bytes, "size_bytes", 0, 2**60))
        self._check_process()  # before the lock, which a thread of the parent may have held at the fork
        with self._changed:
            self._check()
            if not self._wait_for(self._has_room, timeout_s):
                raise SendFailed(f"{self.backlog} tuples have waited for {timeout_s:g} s: the link or its destination is stuck")
            self._check()
            self._items.append((data, size, time.monotonic_ns()))
            self._bytes += size
            if len(self._items) == 1:
                self._changed.notify_all()
            self._report()
            if self._paced and len(self._items) > 1 and self._header[IDLE]:
                self._agent.segment.kick.change()  # the leader sleeps, and tuples begin to wait

    def flush(self, *, timeout_s: float | None = None) -> None:
        """Return when all tuples are sent; SendFailed after `timeout_s` (no limit by default)."""
        self._check_process()
        with self._changed:
            self._check()
            done = self._wait_for(lambda: not self._items or self._error is not None, timeout_s)
            self._check()
        if not done:
            raise SendFailed(f"{self.backlog} tuples are not sent after {timeout_s:g} s: the link or its destination is stuck")

    def close(self, *, timeout_s: float | None = None) -> None:
        """Send what waits, then leave the link. Once closed, closing does nothing."""
        if self._closed:
            return
        try:
            self.flush(timeout_s=timeout_s)
        finally:
            self.abort()

    def abort(self) -> None:
        """Leave the link at once; what waits is not sent, but a tuple on its way is not called back."""
        if self._closed or self._pid != os.getpid():
            self._closed = True
            return
        with self._changed:
            self._closing = self._aborted = True
            self._closed = True
            self._changed.notify_all()
        if self._paced:
            self._signal.set(self._signal.value)
        if threading.current_thread() is not self._thread:
            self._thread.join(1.0)
        if self._paced:
            detach(self._agent, self._place)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _has_room(self) -> bool:
        return not self._is_full() or self._error is not None or self._closed

    def _is_full(self) -> bool:
        return len(self._items) >= self._capacity or self._bytes >= self._capacity_bytes

    def _wait_for(self, condition: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait with the lock held; whether the condition came true. A transmission that takes too long is an error."""
        if self._limit_ns is None:
            return self._changed.wait_for(condition, timeout_s)
        until_ns = None if timeout_s is None else time.monotonic_ns() + int(timeout_s * 1e9)
        while not condition():
            now_ns = time.monotonic_ns()
            left_ns = self._limit_ns - (now_ns - self._began_ns if self._began_ns else 0)
            if left_ns <= 0:
                self._error = TimeoutError(f"a tuple has been on its way for more than {self._limit_ns / 1e9:g} s")
                continue
            if until_ns is not None:
                if now_ns >= until_ns:
                    return False
                left_ns = min(left_ns, until_ns - now_ns)
            self._changed.wait(left_ns / 1e9)
        return True

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise QueueClosed(f"this queue belongs to process {self._pid}: open one in process {os.getpid()} itself")

    def _check(self) -> None:
        if self._closed:
            raise QueueClosed("this queue is closed: open another")
        if self._error is not None:
            raise SendFailed(f"{self.backlog} tuples were not sent: {self._error!r}") from self._error
        if self._paced and self._agent.error is not None:
            raise SendFailed(f"the policy {self._agent.policy.name!r} failed: {self._agent.error!r}") from self._agent.error

    def _report(self) -> None:
        """Tell the link what waits here."""
        if self._paced and not self._aborted:
            row = self._row
            row[BYTES] = self._bytes
            row[HEAD_NS] = self._items[0][2] if self._items else 0
            row[SENT] = self.sent
            row[TUPLES] = len(self._items)

    def _pump(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._closing)
                if self._aborted or not self._items:
                    return
                data = self._items[0][0]
            asked = not self._paced or self._permitted()
            if self._aborted:
                return
            try:
                self._began_ns = time.monotonic_ns()
                self._transmit(data)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the caller of the queue hears of it
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._began_ns = 0
                if self._error is not None:
                    return  # it took too long, which the caller has been told
                was_full = self._is_full()
                _, size, _ = self._items.popleft()
                self._bytes -= size
                self.sent += 1
                self.sent_unasked += not asked
                self._report()
                if not self._items or (was_full and not self._is_full()):
                    self._changed.notify_all()
            if self._paced and not self._items and self._header[OTHERS] > 0:
                self._agent.segment.kick.change()

    def _permitted(self) -> bool:
        """Wait until the signal is 1, or until waiting has to end without it; whether it is 1."""
        began_ns = 0
        while not self._aborted:
            if self._signal.value == 1:
                return True
            now_ns = time.monotonic_ns()
            began_ns = began_ns or now_ns
            left_ns = self._patience_ns - (now_ns - self._header[DUE_NS])
            if now_ns < self._free_until_ns:
                return False
            if left_ns <= 0:
                self._agent.nudge()
                return False
            if now_ns - began_ns >= self._longest_ns:
                self._free_until_ns = now_ns + self._interval_ns
                return False
            self._signal.wait(0, min(left_ns, self._longest_ns - (now_ns - began_ns)) / 1e9)
        return False


def _size(data: object) -> int:
    try:
        return len(data)  # type: ignore[arg-type]
    except TypeError:
        return 1


def checked_number(value: float, name: str, least: float, most: float) -> float:
    """`value` if it is a number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidParameter(f"{name} must be from {least:,g} to {most:,g}, got {value!r}")
    return value


def _nanoseconds(value_ms: float | None, name: str) -> int | None:
    return None if value_ms is None else int(checked_number(value_ms, name, 1.0, 1e9) * 1e6)
