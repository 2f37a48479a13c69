"""The agent of a link: whoever leads sets the signals of all queues every interval, by the policy.

Every process that has a queue on the link runs one agent in a thread. One of them leads. The leader names an heir, whose
agent looks every one and a half intervals whether the leader still holds its lock, and leads if not. The others sleep,
and look when their queues have waited too long. Terms are numbered: a leader that was stuck and has been replaced finds a
higher term when it wakes up, and stands down.
"""

from __future__ import annotations

import os
import threading
import time

from evenly.emission.link.leader import Leader
from evenly.emission.link.segment import DUE_NS, HEIR, LEADER, TERM, Segment
from evenly.emission.policies.base import Emission

STUCK_AFTER = 2
"""Intervals that the sign of a leader which is alive may be late; then it is replaced."""
_SHORTEST = 0.25
"""The part of an interval that passes between two decisions at least, however often queues run empty."""
_HEIR_LOOKS = 1.5
"""Intervals between two looks of the heir: a dead leader is replaced within 3, and half of that is left for a busy machine."""
_OTHERS_LOOK = 100
"""Intervals between two looks of an agent that is neither leader nor heir."""
_LONGEST_S = 1.0


class Agent:
    """The thread of one process on one link; `start` makes it lead at once if nobody does."""

    def __init__(self, segment: Segment, policy: Emission, interval_ns: int) -> None:
        self.segment = segment
        self.policy = policy
        self.interval_ns = interval_ns
        self.error: BaseException | None = None
        self._term: int | None = None
        self._stopped = False
        self._anxious = False
        self._leader = Leader(segment, policy)
        self._thread = threading.Thread(target=self._run, name=f"evenly agent of {segment.path.name}", daemon=True)

    @property
    def leads(self) -> bool:
        return self._term is not None

    def start(self) -> None:
        self._contest()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; if it led, the heir is told."""
        self._stopped = True
        self.segment.kick.change()
        self.segment.vacant.change()
        self._thread.join(5.0)

    def nudge(self) -> None:
        """Look now whether the link still has a leader: a queue of this process has waited too long."""
        self._anxious = True
        if not self.leads:
            self.segment.vacant.change()

    def _run(self) -> None:
        try:
            while not self._stopped:
                if self.leads:
                    self._lead()
                else:
                    self._follow()
        except BaseException as error:  # noqa: BLE001 - a policy of the user's; the queues of this process report it
            self.error = error
        finally:
            self._resign()

    def _lead(self) -> None:
        segment, started_ns = self.segment, time.monotonic_ns()
        kicked = segment.kick.value
        if segment.header[TERM] != self._term:
            self._resign()
            return
        intervals = self._leader.decide(started_ns, self.interval_ns)
        segment.kick.wait(kicked, (started_ns + intervals * self.interval_ns - time.monotonic_ns()) / 1e9)
        early_s = (started_ns + int(_SHORTEST * self.interval_ns) - time.monotonic_ns()) / 1e9
        if early_s > 0.0 and not self._stopped:
            time.sleep(early_s)

    def _follow(self) -> None:
        segment = self.segment
        seen = segment.vacant.value
        if self._contest():
            return
        near = self._anxious or segment.header[HEIR] in segment.own
        self._anxious = False
        intervals = _HEIR_LOOKS if near else _OTHERS_LOOK
        segment.vacant.wait(seen, max(self.interval_ns / 1e9, min(intervals * self.interval_ns / 1e9, _LONGEST_S)))

    def _contest(self) -> bool:
        """Lead the next term if the leader of this one is dead, or alive and stuck."""
        segment, header = self.segment, self.segment.header
        term = header[TERM]
        if segment.take_term(term):
            segment.release_term(term)
        elif time.monotonic_ns() - header[DUE_NS] < STUCK_AFTER * self.interval_ns:
            return False
        if not segment.take_term(term + 1):
            return False
        if header[TERM] != term:
            # Somebody has led that term already, and ended: look again.
            segment.release_term(term + 1)
            return False
        header[DUE_NS] = time.monotonic_ns() + self.interval_ns
        header[LEADER] = os.getpid()
        header[TERM] = term + 1
        self._leader = Leader(segment, self.policy)
        self._term = term + 1
        return True

    def _resign(self) -> None:
        if self._term is None:
            return
        term, self._term = self._term, None
        if self.segment.header[TERM] == term:
            self.segment.header[LEADER] = 0
        self.segment.release_term(term)
        self.segment.vacant.change()
