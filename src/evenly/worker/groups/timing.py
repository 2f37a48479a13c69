"""The times of an instance's groups, by the ids of their keys, as they are cut out and run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from evenly.costs.group_report import GroupMeter
from evenly.kernels.types import I64
from evenly.worker.engine import running_task
from evenly.worker.groups.layout import Layout

Batch = TypeVar("Batch")
_UNNAMED = "a key that cannot be shown"


class GroupClock:
    """Times groups that come in the order of their rows, each whole: a group's id is that of its first row.

    A group's time is from the end of the group before it, or from when its last batch was there, to the end of its function:
    waiting for rows is nobody's, cutting them is the group's.
    """

    def __init__(self, layout: Layout, *, ids: Callable[[Any], I64], value: Callable[[Any, int, int], Any], limit: int) -> None:
        """`ids` are those of a batch's rows; `value` is what a batch has at a row and a position."""
        self._layout, self._ids, self._value = layout, ids, value
        self._meter = GroupMeter(limit=limit)
        self._held: deque[tuple[int, Any, I64]] = deque()
        self._arrived = self._first = 0
        self._begun_s = 0.0

    def passed(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The batches as they come."""
        for batch in batches:
            ids = self._ids(batch)
            if ids.size:
                self._let_go()
                while len(self._held) > 1:
                    self._held.pop()  # a group that has begun before it goes on behind it: none begins in it
                self._held.append((self._arrived, batch, ids))
                self._arrived += ids.size
            self.resume()
            yield batch

    def resume(self) -> None:
        """What was done since the last group is not the next one's."""
        self._begun_s = time.perf_counter()

    def ended(self, rows: int) -> None:
        """A group of so many rows is done."""
        now_s = time.perf_counter()
        took_s = now_s - self._begun_s
        self._let_go()
        offset, batch, ids = self._held[0]
        at = self._first - offset
        self._first += rows
        if self._meter.add(int(ids[at]), rows, took_s):
            self._meter.name(int(ids[at]), took_s, self._name(batch, at))
        self.resume()

    def report(self) -> bytes:
        """All groups so far."""
        task = running_task()
        return self._meter.report(0 if task is None else task.partitionId()).to_bytes()

    def _let_go(self) -> None:
        """Of batches before that in which the next group begins."""
        while len(self._held) > 1 and self._held[1][0] <= self._first:
            self._held.popleft()

    def _name(self, batch: Any, at: int) -> str:
        null_at = dict(self._layout.flags)
        try:
            values = [
                None if position in null_at and self._value(batch, at, null_at[position]) else self._value(batch, at, position)
                for position in self._layout.keys
            ]
            return ", ".join(repr(value) if isinstance(value, (str, bytes)) else str(value) for value in values)
        except Exception:  # noqa: BLE001 - a time beyond Python's, an object of the user's: no name is worth a job
            return _UNNAMED
