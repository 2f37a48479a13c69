"""What a live page can still show: the last records of the last runs, numbered, within a bound."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from evenly.facts.records import Fact

MOST_RUNS, MOST_BATCHES, MOST_EVENTS, MOST_NOTICES = 16, 600, 200, 8
MOST_BYTES = 32 * 2**20
_RECENT = 512


class Entry(NamedTuple):
    """What is sent of a record: its number, its kind and one line of JSON."""

    number: int
    event: str
    line: bytes


@dataclass
class _Run:
    start: Entry | None = None
    batches: deque[Entry] = field(default_factory=lambda: deque(maxlen=MOST_BATCHES))
    events: deque[Entry] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))

    def entries(self) -> Iterable[Entry]:
        return {entry.number: entry for entry in (*((self.start,) if self.start else ()), *self.batches, *self.events)}.values()

    @property
    def size(self) -> int:
        return sum(len(entry.line) for entry in self.entries())


class History:
    """The last 600 batches and 200 other records of each of the last 16 runs, 32 MiB at most; threads may share it.

    A run's first record stays as long as the run: it says what its operators are.
    """

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._runs: OrderedDict[tuple[str, str], _Run] = OrderedDict()
        self._notices: deque[Entry] = deque(maxlen=MOST_NOTICES)
        self._recent: deque[Entry] = deque(maxlen=_RECENT)
        self._lock = threading.Lock()
        self._bytes_since_check = 0
        self.last = 0

    def add(self, fact: Fact) -> None:
        """Take a record in; the oldest make room."""
        with self._lock:
            entry = self._entry("fact", fact.to_json())
            key = fact.run, fact.kind  # a dataflow and the query of its state have one identity
            run = self._runs.setdefault(key, _Run())
            self._runs.move_to_end(key)
            if fact.event == "batch":
                run.batches.append(entry)
            else:
                run.events.append(entry)
                run.start = entry if fact.event == "start" else run.start
            while len(self._runs) > MOST_RUNS:
                self._runs.popitem(last=False)
            self._bytes_since_check += len(entry.line)
            if self._bytes_since_check > self._most_bytes // 16:
                self._make_room()

    def notice(self, text: str) -> None:
        """Have the page say something that is no record."""
        with self._lock:
            self._notices.append(self._entry("notice", json.dumps({"text": text}).encode()))

    def since(self, number: int) -> list[Entry]:
        """All that is kept of what came after the entry `number`, in order; 0: all that is kept."""
        with self._lock:
            if number >= self.last:
                return []
            if self._recent and self._recent[0].number <= number + 1:
                return [entry for entry in self._recent if entry.number > number]
            found = [entry for run in self._runs.values() for entry in run.entries()]
            return sorted(entry for entry in (*found, *self._notices) if entry.number > number)

    @property
    def size_bytes(self) -> int:
        """How much is kept."""
        with self._lock:
            return sum(run.size for run in self._runs.values())

    def _entry(self, event: str, line: bytes) -> Entry:
        self.last += 1
        entry = Entry(self.last, event, line)
        self._recent.append(entry)
        return entry

    def _make_room(self) -> None:
        """Shorten the largest run until all of them take no more than they may."""
        self._bytes_since_check = 0
        sizes = {name: run.size for name, run in self._runs.items()}
        while sum(sizes.values()) > self._most_bytes * 15 // 16:
            largest = max(sizes, key=sizes.__getitem__)
            run = self._runs[largest]
            longer = run.batches if len(run.batches) >= len(run.events) else run.events
            if not longer:
                return
            for _ in range(max(1, len(longer) // 4)):
                longer.popleft()
            sizes[largest] = run.size
