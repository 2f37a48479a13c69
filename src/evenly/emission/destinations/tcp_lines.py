"""Lines over a TCP connection."""

from __future__ import annotations

import fcntl
import select
import socket
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from evenly.emission.destinations.base import Connection, NumberedRow, check_one_line, until_accepted
from evenly.errors import DestinationFailed, InvalidParameter

_STEP_S = 0.25
_HEARD_BYTES = 65_536


@dataclass(frozen=True)
class TcpLines:
    """One line per row, one connection per partition.

        evenly.send(df, to=evenly.TcpLines("collector", 9000, rows_at_once=100))

    A line is sender, batch, partition, number and the row itself, with a tab after each of the first four; with `ids=False`
    only the row. A row with a line break in it (LF or CR) is refused; all other bytes go as they are.

    With `acknowledge` the receiver answers with lines: how many lines it has taken in on this connection so far, whenever it
    likes (after each line, if it wants to) and when the sender has ended its side. Only then does a task succeed, so that a row
    which the receiver lost in a crash is sent again. More lines than were sent are an error. With `acknowledge=False` a task
    succeeds when the receiver's machine has all bytes.

    A slow receiver does not hang: the time limit begins anew whenever it takes or says something.

    Parameters: `host`; `port`, 1 to 65,535; `rows_at_once`: rows in one write, at least 1; `buffer_bytes`: what the kernel may
    hold of what was sent, at least 4,096. What is in there no policy can hold back, so it is small.
    """

    host: str
    port: int
    acknowledge: bool = True
    ids: bool = True
    rows_at_once: int = 1
    buffer_bytes: int = 65_536
    limits: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if not isinstance(self.host, str) or not self.host:
            raise InvalidParameter(f"host must be a name or an address, got {self.host!r}")
        if self.host.count(":") == 1:  # an address of IPv6 has more
            raise InvalidParameter(f"host {self.host!r} has a port in it: give that as port=")
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
        self._told, self._counts = 0, False
        self._heard, self._hearing = b"", True
        self._socket = until_accepted(lambda left_s: socket.create_connection((to.host, to.port), left_s), timeout_s, str(to))
        self._socket.settimeout(0.0)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, to.buffer_bytes)
        self._alive_s, self._unconfirmed = 0.0, 0

    def send(self, rows: Sequence[NumberedRow]) -> None:
        lines = memoryview(b"".join([self._line(row) for row in rows]))
        # Before the first byte: an acknowledgement may overtake our own count.
        self._sent += len(rows)
        try:
            self._write(lines)
        except TimeoutError as error:
            raise DestinationFailed(f"{self._to} took nothing for {self._timeout_s:g} s, at {rows[0]}: it hangs") from error
        except OSError as error:
            if isinstance(error, DestinationFailed):
                raise
            raise DestinationFailed(f"{self._to} broke the connection at {rows[0]}: {error}") from error

    def flush(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
            self._alive_s, self._unconfirmed = time.monotonic(), self._unsent()
            while self._told < self._sent if self._to.acknowledge else self._unconfirmed > 0:
                self._wait(writing=False)
            self._check_broken()
        except TimeoutError as error:
            raise self._unacknowledged(f"nothing was heard for {self._timeout_s:g} s") from error
        except OSError as error:
            if isinstance(error, DestinationFailed):
                raise
            raise self._unacknowledged(str(error)) from error

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def _line(self, row: NumberedRow) -> bytes:
        check_one_line(row, "send rows as JSON (without column=; it escapes LF and CR), or over HTTP")
        if not self._to.ids:
            return row.body + b"\n"
        return b"%s\t%d\t%d\t%d\t%s\n" % (row.sender.encode(), row.batch, row.partition, row.number, row.body)

    def _write(self, lines: memoryview) -> None:
        """Hand all bytes to the kernel, and read what comes meanwhile: a receiver that cannot answer does not read either."""
        held_up = False
        while lines:
            try:
                lines = lines[self._socket.send(lines) :]
                held_up = False
            except BlockingIOError:
                if not held_up:
                    held_up, self._alive_s, self._unconfirmed = True, time.monotonic(), self._unsent()
                self._wait(writing=True)

    def _wait(self, *, writing: bool) -> None:
        """Until something can be written or was heard, for a moment; TimeoutError if nothing has moved for the time limit."""
        if writing or self._to.acknowledge:
            poll = select.poll()  # not select.select, which knows only the first 1,024 descriptors of a process
            poll.register(self._socket, (select.POLLIN if self._hearing else 0) | (select.POLLOUT if writing else 0))
            ready = sum(events for _, events in poll.poll(min(_STEP_S, self._timeout_s) * 1e3))
            if self._hearing and ready & ~select.POLLOUT:
                self._hear()
        else:
            time.sleep(0.001)
            self._hear()
        left = self._unsent()
        if left < self._unconfirmed:
            self._alive_s = time.monotonic()
        self._unconfirmed = left
        if time.monotonic() - self._alive_s >= self._timeout_s:
            raise TimeoutError

    def _hear(self) -> None:
        try:
            came = self._socket.recv(_HEARD_BYTES)
        except BlockingIOError:
            return
        if not self._to.acknowledge:
            self._hearing = bool(came)  # nobody asked, but a receiver that is not heard waits, and reads no further
            return
        if not came:
            cut = f", and said {self._heard[:80]!r} without a line break" if self._heard else ""
            raise self._unacknowledged(f"it ended the connection after it had acknowledged {self._told}{cut}")
        self._alive_s = time.monotonic()
        *lines, self._heard = (self._heard + came).split(b"\n")
        for line in lines:
            if not line.strip().isdigit() or len(line) > 20:
                raise self._unacknowledged(f"it answered {line[:80]!r}, not a count")
            self._told, self._counts = int(line), True
            if self._told > self._sent:
                raise self._unacknowledged(
                    f"it says that it has {self._told}, more than were sent on this connection; it must count those of each "
                    "connection alone"
                )
        if len(self._heard) > 20:
            raise self._unacknowledged(f"it answered {self._heard[:80]!r}, not a count")

    def _check_broken(self) -> None:
        if failed := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(failed, "the connection broke")

    def _unsent(self) -> int:
        """Bytes that the receiver's kernel has not confirmed; where the kernel here does not tell, it is trusted."""
        if sys.platform != "linux":
            return 0
        return int.from_bytes(fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)

    def _unacknowledged(self, why: str) -> DestinationFailed:
        # To one that does acknowledge this would lose the rows that it has just not acknowledged.
        never = self._to.acknowledge and not self._counts
        remedy = "; if it never acknowledges, use TcpLines(…, acknowledge=False)" if never else ""
        return DestinationFailed(f"{self._to} did not acknowledge {self._sent} lines: {why}{remedy}")
