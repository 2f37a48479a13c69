"""Whether the batches of a stream keep up with what arrives."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from evenly.dataflow.reports import FlowBatch
from evenly.numbers import plain

WARM_UP = 2
"""The first batches start Python workers and compile code: they say little of those that follow."""
LEAST = 3
_LATE, _GROWTH, _GROWN_PART = 1.02, 1.25, 0.25


@dataclass(frozen=True)
class KeepingUp:
    """`held`: None while too little is known. `why` says so in words."""

    held: bool | None
    why: str


def settled(batches: Sequence[FlowBatch], warm_up: int = WARM_UP) -> list[FlowBatch]:
    """The batches that count: with rows, and behind the first `warm_up`, as far as there are more."""
    found = [one for one in batches if _rows(one) > 0]
    late = [one for one in batches[warm_up:] if _rows(one) > 0]
    return late or found[-1:]


def keeping_up(batches: Sequence[FlowBatch], trigger_s: float | None, *, warm_up: int = WARM_UP) -> KeepingUp:
    """Batches keep up if most of them (the median) take no longer than the trigger, and rows do not wait longer and longer.

    Without a trigger batches follow each other, and keep up if neither they nor the waiting of rows grow. A batch without
    rows says nothing.
    """
    found = settled(batches, warm_up)
    if len(found) < LEAST:
        return KeepingUp(held=None, why=f"{len(found)} of {LEAST} batches that are needed to tell")
    median_s = statistics.median(one.took_s for one in found)
    if trigger_s is not None and median_s > _LATE * trigger_s:
        return KeepingUp(held=False, why=f"batches take {plain(median_s)} s, and one is due every {trigger_s:g} s")
    half = len(found) // 2
    before_s, after_s = (statistics.fmean(map(_delay_s, part)) for part in (found[:half], found[-half:]))
    grown_s, room_s = after_s - before_s, _GROWN_PART * (trigger_s or median_s)
    if after_s > _GROWTH * before_s and grown_s > room_s:
        what = "rows are complete" if found[-1].completion is not None else "batches end"
        return KeepingUp(
            held=False, why=f"{what} later and later: {plain(before_s)} s after they began, then {plain(after_s)} s"
        )
    due = f" of {trigger_s:g} s" if trigger_s is not None else ""
    return KeepingUp(held=True, why=f"batches take {plain(median_s)} s{due}")


def _rows(batch: FlowBatch) -> int:
    """Rows of a batch, as far as somebody has counted them."""
    if batch.rows is not None:
        return batch.rows
    return max((one.rows_in for one in batch.operators.values()), default=0)


def _delay_s(batch: FlowBatch) -> float:
    return batch.took_s if batch.completion is None else batch.completion.mean_s
