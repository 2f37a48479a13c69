"""What a destination is, and the identity that every row has on its way there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from evenly.checks import has_only_begun
from evenly.errors import DestinationFailed, InvalidParameter

T = TypeVar("T")
_LINE_ENDS = re.compile(rb"[\n\r]")
"""What programs that read lines take for the end of one: LF, CR, or both."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5


class NumberedRow(NamedTuple):
    """One row on its way: what is sent, and which row of which partition of which batch of which sender it is.

        evenly.send(df, to=lambda row: store.put(row.identity, row.body))

    A row that is sent again, because a task, a batch or a query runs again, has the same `identity`. So a receiver that keeps
    the largest number it has taken in for each (sender, batch, partition), and drops rows up to it, has every row once.
    """

    sender: str
    batch: int
    partition: int
    number: int
    body: bytes

    @property
    def identity(self) -> tuple[str, int, int, int]:
        """Equal for a row that is sent again, and for no other."""
        return self[:4]

    def __str__(self) -> str:
        return f"row {self.number} of partition {self.partition}, batch {self.batch} of {self.sender}"


def check_one_line(row: NumberedRow, remedy: str) -> None:
    """InvalidParameter for a row that a program which reads lines would take for several."""
    if end := _LINE_ENDS.search(row.body):
        raise InvalidParameter(f"{row} has a line break ({end.group()!r}), which would end its line: {remedy}")


def check_done(gave: object, what: str) -> None:
    """DestinationFailed for what has yet to be run, by nobody: its rows would count as sent."""
    if gave is not None and has_only_begun(gave):
        raise DestinationFailed(f"{what} has done nothing yet, it gave {gave!r}: let it return when the rows are sent")


@runtime_checkable
class Connection(Protocol):
    """An open way to a destination. It belongs to one queue, and sends one thing at a time."""

    def send(self, rows: Sequence[NumberedRow]) -> None:
        """Send rows, in order; return when they are on their way, raise if they are not."""

    def flush(self) -> None:
        """Return when the destination has all that was sent, raise if that cannot be told. Nothing is sent afterwards."""

    def close(self) -> None:
        """Let go of the connection, whatever its state; never raises."""


@runtime_checkable
class Destination(Protocol):
    """Plain data that says where rows go; it travels to every task, which connects by itself.

    `rows_at_once` is how many rows one call of `Connection.send` may have. `limits` says how many times the time limit one such
    call may take altogether; None if the connection sees to it by itself that no call hangs.
    """

    @property
    def rows_at_once(self) -> int: ...

    @property
    def limits(self) -> int | None: ...

    def connect(self, timeout_s: float) -> Connection:
        """Open a connection; it gives up after `timeout_s` for each step."""


def until_accepted(connect: Callable[[float], T], timeout_s: float, where: str) -> T:
    """Call `connect` with what is left of the time until it is not refused: what listens there may be starting again."""
    until_s, pause_s = time.monotonic() + timeout_s, _FIRST_PAUSE_S
    while True:
        left_s = until_s - time.monotonic()
        try:
            return connect(max(left_s, 0.001))
        except ConnectionRefusedError as error:
            if left_s <= 0.0:
                raise DestinationFailed(
                    f"{where} refused connections for {timeout_s:g} s: is something listening there, on that port?"
                ) from error
        except TimeoutError as error:
            raise DestinationFailed(f"{where} took no connection within {timeout_s:g} s: is it up, and reachable?") from error
        except (OSError, UnicodeError) as error:  # a name that is none fails as the latter
            raise DestinationFailed(f"{where} cannot be reached: {error}") from error
        time.sleep(max(0.0, min(pause_s, left_s)))
        pause_s = min(2.0 * pause_s, _LONGEST_PAUSE_S)
