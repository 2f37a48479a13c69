"""Lines over a TCP connection."""

from __future__ import annotations

import fcntl
import socket
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from evenly.emission.destinations.base import Connection, NumberedRow, until_accepted
from evenly.errors import DestinationFailed, InvalidParameter

_STEP_S = 0.25


@dataclass(frozen=True)
class TcpLines:
    """One line a row, one connection a task.

    A line is sender, batch, partition, number and the row itself, with a tab after each of the first four; with `ids=False`
    only the row. With `acknowledge` the receiver answers with lines: how many lines it has taken in on this connection so far,
    whenever it likes and when the sender has ended its side. Only then does a task succeed, so that a row which the receiver
    lost in a crash is sent again. With `acknowledge=False` a task succeeds when the receiver's machine has all bytes.

    Parameters: `host`; `port`, 1 to 65,535; `rows_at_once`: rows in one write, at least 1; `buffer_bytes`: what the kernel may
    hold of what was sent, at least 4,096. What is in there no policy can hold back, so it is small.
    """

    host: str
    port: int
    acknowledge: bool = True
    ids: bool = True
    rows_at_once: int = 1
    buffer_bytes: int = 65_536
    limits: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not isinstance(self.host, str) or not self.host:
            raise InvalidParameter(f"host must be a name or an address, got {self.host!r}")
        for name, least, most in (("port", 1, 65_535), ("rows_at_once", 1, 100_000), ("buffer_bytes", 4_096, 2**30)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise InvalidParameter(f"{name} must be a whole number from {least:,} to {most:,}, got {value!r}")

    def connect(self, timeout_s: float) -> Connection:
        """Connect; refused connections are tried again until the time is up."""
        return _Lines(self, timeout_s)

    def __str__(self) -> str:
        return f"tcp://{self.host}:{self.port}"


class _Lines:
    def __init__(self, to: TcpLines, timeout_s: float) -> None:
        self._to, self._timeout_s = to, timeout_s
        self._sent = 0
        self._socket = until_accepted(lambda left_s: socket.create_connection((to.host, to.port), left_s), timeout_s, str(to))
        self._socket.settimeout(timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, to.buffer_bytes)

    def send(self, rows: Sequence[NumberedRow]) -> None:
        lines = b"".join([self._line(row) for row in rows])
        try:
            self._socket.sendall(lines)
        except TimeoutError as error:
            raise DestinationFailed(f"{self._to} took nothing for {self._timeout_s:g} s, at {rows[0]}: it hangs") from error
        except OSError as error:
            raise DestinationFailed(f"{self._to} broke the connection at {rows[0]}: {error}") from error
        self._sent += len(rows)

    def _line(self, row: NumberedRow) -> bytes:
        if b"\n" in row.body:
            raise InvalidParameter(
                f"{row} has a line break, which would end its line: send rows as JSON (without column=), or over HTTP"
            )
        if not self._to.ids:
            return row.body + b"\n"
        return b"%s\t%d\t%d\t%d\t%s\n" % (row.sender.encode(), row.batch, row.partition, row.number, row.body)

    def flush(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
            if self._to.acknowledge:
                self._wait_for_acknowledgement()
            else:
                self._wait_for_kernel()
        except TimeoutError as error:
            raise self._unacknowledged(f"nothing was heard for {self._timeout_s:g} s") from error
        except OSError as error:
            if isinstance(error, DestinationFailed):
                raise
            raise self._unacknowledged(str(error)) from error

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def _wait_for_acknowledgement(self) -> None:
        """Until the last count that came is that of all lines; every sign of life gives the receiver the time limit again."""
        heard, told, waiting = b"", 0, self._unsent()
        until_s = time.monotonic() + self._timeout_s
        self._socket.settimeout(min(_STEP_S, self._timeout_s))
        while told < self._sent:
            try:
                came = self._socket.recv(4_096)
            except TimeoutError:
                left = self._unsent()
                if left < waiting:
                    waiting, until_s = left, time.monotonic() + self._timeout_s
                if time.monotonic() >= until_s:
                    raise
                continue
            if not came:
                raise self._unacknowledged(f"it ended the connection after it had acknowledged {told}")
            *lines, heard = (heard + came).split(b"\n")
            until_s = time.monotonic() + self._timeout_s
            for line in lines:
                if not line.strip().isdigit():
                    raise self._unacknowledged(f"it answered {line[:80]!r}, not a count")
                told = int(line)

    def _wait_for_kernel(self) -> None:
        """Until the kernel there has all bytes; where the kernel here does not tell, it is trusted."""
        waiting, until_s = self._unsent(), time.monotonic() + self._timeout_s
        while waiting > 0:
            time.sleep(0.001)
            left = self._unsent()
            if left < waiting:
                waiting, until_s = left, time.monotonic() + self._timeout_s
            elif time.monotonic() >= until_s:
                raise TimeoutError
        if failed := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(failed, "the connection broke")

    def _unsent(self) -> int:
        """Bytes that the receiver's kernel has not confirmed."""
        if sys.platform != "linux":
            return 0
        return int.from_bytes(fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)

    def _unacknowledged(self, why: str) -> DestinationFailed:
        remedy = "; if it never acknowledges, use TcpLines(…, acknowledge=False)" if self._to.acknowledge else ""
        return DestinationFailed(f"{self._to} did not acknowledge {self._sent} lines: {why}{remedy}")
