"""A user's own function as a destination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from evenly.emission.destinations.base import Connection, NumberedRow, check_done


@dataclass(frozen=True)
class OwnFunction:
    """Calls a function with every row, in order; when it returns the row counts as delivered.

    It runs in a thread of the task's process. One call that takes longer than the time limit, or raises, fails the task.
    """

    function: Callable[[NumberedRow], object]
    rows_at_once: ClassVar[int] = 1
    limits: ClassVar[int] = 1

    def connect(self, timeout_s: float) -> Connection:  # noqa: ARG002 - the queue holds each call to the limit
        """Nothing to connect to."""
        return _Calls(self.function, str(self))

    def __str__(self) -> str:
        return f"the function {getattr(self.function, '__name__', repr(self.function))}"


class _Calls:
    def __init__(self, function: Callable[[NumberedRow], object], name: str) -> None:
        self._function, self._name = function, name

    def send(self, rows: Sequence[NumberedRow]) -> None:
        for row in rows:
            check_done(self._function(row), self._name)

    def flush(self) -> None:
        """Every call has returned."""

    def close(self) -> None:
        """Nothing is open."""
