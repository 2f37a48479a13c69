"""What a batch has sent, as part of a record."""

from __future__ import annotations

from collections.abc import Sequence

from evenly.facts.loads import Loads
from evenly.facts.records import Batch, Queues


def sent_batch(
    number: int, rows: Sequence[int], *, unasked: Sequence[int], waiting: Sequence[int], policy: str, seconds: float
) -> Batch:
    """A batch by the rows that each task has sent. Its queues are empty by then: `waiting` is how many rows of each task waited
    at the most, `unasked` how many left without a signal, because there was no leader in time."""
    loads = Loads.of(rows)
    return Batch(
        number=number,
        rows=sum(rows),
        duration_ms=1e3 * seconds,
        instances=len(rows),
        rows_by_instance=loads,
        imbalance_pct=None if loads is None else loads.imbalance_pct,
        queues=Queues(policy=policy, backlogs=Loads.of(waiting), unasked=sum(unasked) if policy else None),
    )
