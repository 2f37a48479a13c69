"""The links that this process has joined: one segment and one agent each, however many queues."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from evenly.emission.link.agent import Agent
from evenly.emission.link.segment import (
    DUE_NS,
    FULL,
    IDLE,
    LEADER,
    MOST_QUEUES,
    PID,
    SENT,
    TERM,
    TICKS,
    TUPLES,
    Segment,
    own_path,
    prefix,
    segment_path,
)
from evenly.emission.policies.base import Emission
from evenly.emission.policies.catalogue import POLICIES, new_policy
from evenly.errors import EvenlyError, LinkUnavailable

_LOG = logging.getLogger(__name__)
_mutex = threading.RLock()
_segments: dict[Path, Segment] = {}
_agents: dict[Segment, Agent] = {}
_kept: list[object] = []
"""What is never closed: a forked child's copies of what its parent had, for that would drop the child's own locks."""
_TRIES = 100


def attach(path: Path, interval_ns: int, policy: Emission) -> tuple[Agent, int] | None:
    """Register a queue on a link, and see to it that the link has a leader; None if the link has no place left.

    Whoever came first has chosen the policy and the interval, and they serve: no job fails because of another's settings.
    """
    with _mutex:
        for _ in range(_TRIES):
            segment = _opened(own_path(path))
            place = None if segment is None else segment.join(interval_ns, policy.name)
            if segment is not None and place is not None:
                break
        else:
            raise LinkUnavailable(f"{path} is made and removed again and again: another process must stop doing so")
        if place == FULL:
            _LOG.warning(
                "all %d places of the link %s are taken: this queue sends without waiting for its turn", MOST_QUEUES, path
            )
            return None
        if (segment.policy, segment.interval_ns) != (policy.name, interval_ns):
            _LOG.warning(
                "the link %s is led with policy %r and an interval of %g ms, which serve here too, not %r and %g ms",
                *(path, segment.policy, segment.interval_ns / 1e6, policy.name, interval_ns / 1e6),
            )
        agent = _agents.get(segment)
        if agent is None:
            agent = _agents[segment] = Agent(segment, _policy_of(segment, policy), segment.interval_ns)
            agent.start()
        return agent, place


def _policy_of(segment: Segment, policy: Emission) -> Emission:
    """The link's policy; a user's own that this process does not have is replaced by its own, should it ever lead."""
    return policy if segment.policy == policy.name or segment.policy not in POLICIES else new_policy(segment.policy)


def detach(agent: Agent, place: int) -> None:
    """Give a queue's place back; with the last one the process leaves the link."""
    with _mutex:
        segment = agent.segment
        if segment.pid != os.getpid() or place not in segment.own:
            return
        if segment.own == {place}:
            _agents.pop(segment, None)
            agent.stop()
        segment.leave(place)


class QueueState(NamedTuple):
    """A queue as others see it: its process, the tuples that wait and those sent, and whether it may send."""

    process: int
    waiting: int
    sent: int
    may_send: bool


@dataclass(frozen=True)
class LinkState:
    """What there is to see of a link from outside: the process that leads, its term, its decisions, when its next is due."""

    leader: int
    term: int
    ticks: int
    due_ns: int
    idle: bool
    policy: str
    queues: tuple[QueueState, ...]


def look(link: str, folder: str | os.PathLike[str] | None = None) -> LinkState | None:
    """The state of a link on this machine, None if nobody has it open."""
    path = own_path(segment_path(link, folder))
    with _mutex:
        segment = _opened(path, create=False)
        if segment is None:
            return None
        leader, term, ticks, due_ns = (segment.header[at] for at in (LEADER, TERM, TICKS, DUE_NS))
        found = [(segment.rows[place], segment.signal(place)) for place in segment.live()]
        queues = tuple(QueueState(row[PID], row[TUPLES], row[SENT], bool(signal.value)) for row, signal in found)
        return LinkState(leader, term, ticks, due_ns, bool(segment.header[IDLE]), segment.policy, queues)


def _opened(path: Path, *, create: bool = True) -> Segment | None:
    """The one mapping of a link that this process has; a new one where the file is new."""
    segment = _segments.get(path)
    if segment is not None and segment.is_current():
        return segment
    fresh = Segment.open(path, create=create)
    if fresh is None:
        return None
    if segment is not None and segment.own:
        _kept.append(segment)  # somebody removed the file under our queues: they go on among themselves
    elif segment is not None:
        segment.dispose()
    _segments[path] = fresh
    if segment is None:
        sweep(path.parent)
    return fresh


def sweep(folder: Path) -> list[Path]:
    """Remove what crashed runs of this user left in a folder, and say what. Links in use are left alone."""
    removed = []
    with _mutex:
        for path in sorted(folder.glob(f"{prefix()}*.link")):
            if path in _segments:
                continue
            with suppress(EvenlyError, OSError):
                segment = Segment.open(path, create=False)
                if segment is not None:
                    if segment.abandoned():
                        removed.append(path)
                    segment.dispose()
    return removed


def _leave_all() -> None:
    """At the end of a process that did not close its queues."""
    with suppress(EvenlyError, OSError):
        for agent in list(_agents.values()):
            for place in sorted(agent.segment.own):
                detach(agent, place)


def _forget() -> None:
    """In a forked child: the parent's links are the parent's."""
    global _mutex  # noqa: PLW0603 - another thread of the parent may have held it
    _mutex = threading.RLock()
    _kept.extend([*_segments.values(), *_agents.values()])
    _segments.clear()
    _agents.clear()


atexit.register(_leave_all)
os.register_at_fork(after_in_child=_forget)
