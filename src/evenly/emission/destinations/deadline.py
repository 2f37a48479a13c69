"""A socket that all of one exchange must be done with by a point in time, however slowly bytes come and go."""

from __future__ import annotations

import io
import select
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

_MOST_BYTES = 1 << 20


class DeadlineSocket:
    """What `http.client` needs of a socket. A time limit of a socket holds for each call; this one holds for all together.

    Every call raises TimeoutError once `until(…)` has passed, on the clock that was given.
    """

    def __init__(self, connected: socket.socket, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._socket, self._clock_s, self._until_s = connected, clock_s, float("inf")
        self._readers, self._left = 0, False

    def until(self, at_s: float) -> None:
        """Set the end of what follows."""
        self._until_s = at_s

    def sendall(self, data: Any) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            self._limit()
            rest = rest[self._socket.send(rest[:_MOST_BYTES]) :]

    def has_news(self) -> bool:
        """Whether the other side has said something, or ended the connection, that nobody has read."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0)) or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0)

    def makefile(self, _: str) -> io.BufferedReader:
        self._readers += 1
        return io.BufferedReader(_Reader(self))

    def recv_into(self, buffer: Any) -> int:
        self._limit()
        return self._socket.recv_into(buffer)

    def close(self) -> None:
        """Close it, once the files made of it are closed too: an answer is still read after its connection was let go."""
        self._left = True
        if self._readers == 0:
            self._socket.close()

    def reader_closed(self) -> None:
        self._readers -= 1
        if self._left and self._readers == 0:
            self._socket.close()

    def _limit(self) -> None:
        left_s = self._until_s - self._clock_s()
        if left_s <= 0.0:
            raise TimeoutError("the time is up")
        self._socket.settimeout(min(left_s, 1e6))


class _Reader(io.RawIOBase):
    def __init__(self, connected: DeadlineSocket) -> None:
        self._connected = connected

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._connected.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            self._connected.reader_closed()
        super().close()
