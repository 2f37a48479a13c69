"""A live page of what runs in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from evenly.facts.emitting import emit_to
from evenly.facts.records import Fact
from evenly.watching.live import LiveWatch


def watch_here(
    recent: Callable[[], Sequence[Fact]],
    *,
    runs: Callable[[], frozenset[str]],
    title: str,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    names: bool = False,
) -> LiveWatch:
    """A page of the records of `runs`: those that are `recent`, and then all that come, each of them once."""
    live = LiveWatch(title=title, host=host, port=port, token=token)
    known: set[tuple[float, str, str, int | None]] = set()
    lock = threading.Lock()

    def take(fact: Fact) -> None:
        with lock:
            if fact.run in runs() and _mark(fact) not in known:
                live.add(fact)

    with lock:  # what is told meanwhile waits, and so comes after what was told before
        emitting = emit_to(take, names=names)
        for fact in recent():
            known.add(_mark(fact))
            live.add(fact)
    live.when_closed(emitting.close)
    return live


def _mark(fact: Fact) -> tuple[float, str, str, int | None]:
    """What is the same of a record with and without names of keys."""
    return fact.time, fact.kind, fact.event, None if fact.batch is None else fact.batch.number
