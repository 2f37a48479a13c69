"""The decisions of whoever leads a link: which queue has the signal until the next one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from evenly.emission.link.segment import (
    BYTES,
    DUE_NS,
    HEAD_NS,
    HEIR,
    IDLE,
    MEMBERS,
    OTHERS,
    PID,
    SENT,
    SPEED,
    TICKS,
    TUPLES,
    Segment,
)
from evenly.emission.link.signals import Word
from evenly.emission.policies.base import Backlogs, Emission, Numbers, Ranked

STALLED_AFTER = 10
"""Decisions for a queue that sends nothing, after which others may send beside it."""
IDLE_INTERVALS = 10
"""How long the leader sleeps if nothing waits anywhere and nobody wakes it."""
_LOOKED_AROUND = 8
"""Decisions between two looks whether the heir and one other queue are alive; the chosen one is looked at always."""
_COUNTED_ANEW = 16
"""Decisions between two counts of the queues, should a change of their number go unnoticed."""


class Leader:
    """Gives the signal to the queue that the policy chooses, and to all queues if nothing waits anywhere.

    A queue of a dead process is dropped before it can be chosen. One that has the signal and tuples and sends none for
    `STALLED_AFTER` decisions, because its process or its destination hangs, is passed over until it sends again; it keeps
    its signal. What is known of the queues is kept from decision to decision, because this runs a hundred times per second.
    """

    def __init__(self, segment: Segment, policy: Emission) -> None:
        self._segment = segment
        self._policy = policy
        self._rank = _rank_of(policy)
        self._turn = 0
        self._members = -1
        self._rows: dict[int, memoryview[int]] = {}
        self._words: dict[int, Word] = {}
        self._given: frozenset[int] = frozenset()
        self._last = (-1, -1, 0)
        self._stalled: dict[int, int] = {}

    def decide(self, now_ns: int, interval_ns: int) -> int:
        """Set the signals by what waits now; for how many intervals that will do."""
        header = self._segment.header
        header[DUE_NS] = now_ns + interval_ns
        header[TICKS] += 1
        self._look_around()
        header[IDLE] = 0
        while waiting := [place for place, row in self._rows.items() if row[TUPLES] > 0]:
            chosen = self._choose(waiting)
            if self._dropped(chosen):
                continue
            header[OTHERS] = len(waiting) - 1
            self._watch(chosen)
            self._give(frozenset((chosen, *self._stalled)))
            return 1
        self._give(frozenset(self._rows))
        header[OTHERS] = 0
        header[DUE_NS] = now_ns + IDLE_INTERVALS * interval_ns
        header[IDLE] = 1
        return IDLE_INTERVALS

    def _choose(self, waiting: list[int]) -> int:
        """The place of the queue that may send: the policy's choice of those that are not stalled, if any of them waits."""
        rows = self._rows
        if self._stalled:
            self._stalled = {place: sent for place, sent in self._stalled.items() if rows[place][SENT] == sent}
            moving = {place: row for place, row in rows.items() if place not in self._stalled}
            if still := [place for place in waiting if place in moving]:
                rows, waiting = moving, still
        if len(waiting) == 1 and self._policy.work_conserving:
            return waiting[0]  # there is no other choice, and no need to wake the policy
        rank = self._rank
        if rank is None:
            return list(rows)[self._policy.choose(_backlogs(list(rows.values())))]
        return max(waiting, key=lambda place: rank(rows[place]))

    def _look_around(self) -> None:
        """Notice queues that came or went, and those whose process died."""
        self._turn += 1
        header = self._segment.header
        if header[MEMBERS] != self._members or self._turn % _COUNTED_ANEW == 0:
            self._count()
        if self._rows and (self._turn % _LOOKED_AROUND == 0 or header[IDLE]):
            places = list(self._rows)
            self._dropped(header[HEIR])
            self._dropped(places[self._turn // _LOOKED_AROUND % len(places)])

    def _count(self) -> None:
        segment = self._segment
        self._members = segment.header[MEMBERS]
        self._rows = {place: segment.rows[place] for place in segment.live()}
        self._words = {place: self._words.get(place) or segment.signal(place) for place in self._rows}
        self._given = frozenset(place for place, word in self._words.items() if word.value)
        self._stalled = {place: sent for place, sent in self._stalled.items() if place in self._rows}
        heir = next((place for place, row in self._rows.items() if row[PID] != os.getpid()), -1)
        if segment.header[HEIR] != heir:
            segment.header[HEIR] = heir
            segment.vacant.change()  # the heir must know, because it sleeps less deeply than the others

    def _dropped(self, place: int) -> bool:
        """Whether the process of a queue was found dead."""
        if place not in self._rows or not self._segment.drop_if_dead(place):
            return False
        self._count()
        return True

    def _give(self, chosen: frozenset[int]) -> None:
        """Take the signal from all others first."""
        if chosen == self._given:
            return
        for place in self._given - chosen:
            self._words[place].clear()
        for place in chosen - self._given:
            self._words[place].set(1)
        self._given = chosen

    def _watch(self, chosen: int) -> None:
        """Notice a queue that may send, has something to send, and does not."""
        row = self._rows[chosen]
        sent = row[SENT]
        place, then, times = self._last
        times = times + 1 if (place, then) == (chosen, sent) and row[TUPLES] > 0 else 0
        self._last = (chosen, sent, times)
        if times >= STALLED_AFTER:
            self._stalled[chosen] = sent


def _rank_of(policy: Emission) -> Callable[[memoryview[int]], Numbers] | None:
    """What a ranked policy gives a queue; None for one that must see all, and so for one with a choice of its own."""
    if not isinstance(policy, Ranked) or getattr(type(policy), "choose", None) is not Ranked.choose:
        return None
    rank = policy.rank
    return lambda row: rank(row[TUPLES], row[BYTES], row[HEAD_NS], row[SPEED] or 1)


def _backlogs(rows: Sequence[memoryview[int]]) -> Backlogs:
    """What the policy sees; made directly, because what queues report needs no checks but against damage."""
    seen = [
        (row[TUPLES], row[BYTES], row[HEAD_NS], max(row[SPEED], 1)) if row[TUPLES] > 0 else (0, 0, np.inf, max(row[SPEED], 1))
        for row in rows
    ]
    return Backlogs(*np.array(seen, np.float64).T)
