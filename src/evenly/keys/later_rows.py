"""What came earlier and what came later, of rows whose number is not known before the last: bounded memory, one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Part = TypeVar("Part")

_LEAST_HELD_BACK = 0.25


class LaterRows(Generic[Part]):
    """Parts in order, each with its weight, kept as three: the earliest, those after them, and the newest.

    When the newest weigh as much as all before, they become the middle, and what was in the middle is joined to the earliest.
    So at any end the newest, or they and the middle, are a quarter to five eighths of all, as long as no part
    weighs more than `room`. `join` makes one part of an earlier and a later one.
    """

    def __init__(self, join: Callable[[Part, Part], Part]) -> None:
        self._join = join
        self._parts: list[Part | None] = [None, None, None]
        self._weights = [0.0, 0.0, 0.0]

    @property
    def room(self) -> float:
        """What the next part may weigh. 0 for the first one, which decides."""
        earliest, middle, newest = self._weights
        return earliest + middle - newest

    def add(self, part: Part, weight: float) -> None:
        """A part that came after all others."""
        if self._parts[0] is None:
            self._put(0, part, weight)
            return
        self._put(2, part, weight)
        earliest, middle, newest = self._weights
        if newest >= earliest + middle:
            if (between := self._parts[1]) is not None:
                self._put(0, between, middle)
            self._parts[1:], self._weights[1:] = [self._parts[2], None], [newest, 0.0]

    def cut(self) -> tuple[Part | None, Part | None]:
        """All earlier parts as one, and all later ones. None where there are none."""
        earliest, middle, newest = self._parts
        if self._weights[2] >= _LEAST_HELD_BACK * sum(self._weights):
            return self._joined(earliest, middle), newest
        return earliest, self._joined(middle, newest)

    def _put(self, at: int, part: Part, weight: float) -> None:
        held = self._parts[at]
        self._parts[at] = part if held is None else self._join(held, part)
        self._weights[at] += weight

    def _joined(self, earlier: Part | None, later: Part | None) -> Part | None:
        if earlier is None or later is None:
            return later if earlier is None else earlier
        return self._join(earlier, later)
