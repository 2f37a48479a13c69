"""Executors as they come and go: how many tasks could run at once, and which executors were slow in stage after stage."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from evenly.diagnosis.stages import Tasks

_SLOWER = 1.5
_LEAST_STAGES = 2
_LEAST_MS = 50.0
"""Stages whose tasks are shorter say nothing about a machine."""


@dataclass
class Executor:
    """One executor: where, for how many tasks at once, and from when to when."""

    host: str
    slots: int
    added_ms: float
    removed_ms: float = math.inf
    ended_first_ms: float = math.inf
    began_ms: float = math.inf
    judged: int = 0
    slow: int = 0


@dataclass
class Executors:
    """All executors that an application had."""

    by_id: dict[str, Executor] = field(default_factory=dict)
    most_so_far: int = 0
    _now: int = 0

    def add(self, identity: str, host: str, slots: int, at_ms: int) -> None:
        """An executor that came."""
        self.remove(identity, at_ms)  # else the log has it twice
        self.by_id[identity] = Executor(host, slots, at_ms)
        self._now += slots
        self.most_so_far = max(self.most_so_far, self._now)

    def remove(self, identity: str, at_ms: int) -> None:
        """An executor that went."""
        executor = self.by_id.get(identity)
        if executor is not None:
            self._now -= executor.slots if executor.removed_ms == math.inf else 0
            executor.removed_ms = at_ms

    def ended(self, identity: str, finish_ms: int) -> None:
        """A task of it ended."""
        executor = self.by_id.setdefault(identity, Executor("", 0, -math.inf))
        executor.ended_first_ms = min(executor.ended_first_ms, finish_ms)

    def age_ms(self, identity: str, launch_ms: int) -> int:
        """For how long it had had tasks at a launch; this may be the first."""
        executor = self.by_id.setdefault(identity, Executor("", 0, -math.inf))
        executor.began_ms = min(executor.began_ms, launch_ms)
        return launch_ms - int(executor.began_ms)

    def first(self, identity: str, launch_ms: int) -> bool:
        """Whether a task was launched before any task had ended there."""
        executor = self.by_id.get(identity)
        return executor is None or launch_ms < executor.ended_first_ms

    def slots_during(self, begin_ms: float, end_ms: float) -> int:
        """How many tasks those could run at once that were there all the time."""
        return sum(one.slots for one in self.by_id.values() if one.added_ms <= begin_ms and one.removed_ms >= end_ms)

    def slots_within(self, begin_ms: float, end_ms: float) -> int:
        """How many tasks those could run at once that were there at any moment of that time."""
        return sum(one.slots for one in self.by_id.values() if one.added_ms <= end_ms and one.removed_ms >= begin_ms)

    @property
    def most_slots(self) -> int:
        """The most tasks that could run at once at any time."""
        change = [(one.added_ms, one.slots) for one in self.by_id.values()]
        change += [(one.removed_ms, -one.slots) for one in self.by_id.values() if one.removed_ms < math.inf]
        total = most = 0
        for _, slots in sorted(change):
            total += slots
            most = max(most, total)
        return most

    @property
    def hosts(self) -> dict[str, str]:
        """Where each executor is."""
        return {identity: one.host for identity, one in self.by_id.items() if one.host}

    def judge(self, tasks: Tasks) -> None:
        """Count for each executor whether it was slow in this stage: by its time a row, without its first tasks."""
        settled = ~tasks.first
        if float(tasks.work_ms.mean()) < _LEAST_MS or np.unique(tasks.executor[settled]).size < 2:
            return
        pace = tasks.pace_ms
        for identity in np.unique(tasks.executor[settled]).tolist():
            its, others = pace[settled & (tasks.executor == identity)], pace[settled & (tasks.executor != identity)]
            executor = self.by_id.get(identity)
            if executor is not None and others.size:
                executor.judged += 1
                executor.slow += bool(np.median(its) >= _SLOWER * np.median(others))

    @property
    def slow(self) -> frozenset[str]:
        """Those that were slow in at least two stages, and in more than half of all in which they could be compared."""
        return frozenset(
            identity for identity, one in self.by_id.items() if one.slow >= _LEAST_STAGES and 2 * one.slow > one.judged
        )
