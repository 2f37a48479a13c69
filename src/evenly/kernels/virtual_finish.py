"""Kernels of the default shuffle scheduler: virtual finish times, from what instances report and correct.

The scheduler pools the tables that it was sent in one hash index, made anew with each report. Where POSG's matrices are
used instead, `places` has the column of every tuple in every row; else it is None, and the compiler leaves that
branch out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.posg import expected, mean_cost
from evenly.kernels.types import F64, I32, I64, U64
from evenly.kernels.virtual_finish_instances import (
    ACTUAL,
    APPLIED,
    BASE,
    COST,
    END,
    ENDED,
    EXECUTED,
    PREDICTED,
    SEEN,
    SEQUENCE,
    SPREAD,
    TOTAL,
    TUPLES,
    FinishOptions,
    Instances,
    mixed,
)

FINISH, CORRECTIONS, SPEED, LATENCY, SENT, HEARD = range(6)
"""Of what the scheduler knows of an instance: its virtual finish time, the corrections in that, how slow it is beside
the others, how far away, the tuples sent to it, and its last message."""

LATELY = 0.001
"""The weight of the newest tuple in the share of instances that are busy."""

_ONE = np.uint64(1)
_SURE = 3.0


class Scheduler(NamedTuple):
    """What the scheduler holds: the last report of each instance, what it estimates from them, a row of `lanes` each.

    `estimates` is a hash index of keys with their mean cost (NaN where a place is free) and `rest_ms` is for all others,
    each with one row for all instances if they are pooled. `turn` is the next in turn, or -1 once something is known.
    `busy` is the share of instances that had something to do lately, kept if some are far away.
    """

    known: Instances
    reported: I64
    index_keys: U64
    estimates: F64
    pairs: F64
    rest_ms: F64
    lanes: F64
    turn: I64
    busy: F64


@compiled
def new_schedulers(count: int, entries: int, rows: int, columns: int, latency_ms: F64, options: FinishOptions) -> Scheduler:
    """Schedulers that have sent and heard nothing: arrays with one more axis, the first. `one_of` takes one out."""
    k = latency_ms.size
    kept = 1 if options.pooled else k
    size = 4
    # An instance that has not reported is estimated by all that have, so even its own index may hold the keys of all.
    while size < 2 * entries * k:
        size *= 2
    if options.matrices:
        size = 1
    lanes = np.zeros((count, k, 6))
    lanes[:, :, SPEED] = 1.0
    lanes[:, :, LATENCY] = latency_ms
    return Scheduler(
        Instances(
            np.zeros((count, k, entries), np.uint64),
            np.zeros((count, k, entries, 3)),
            np.zeros((count, k, rows, columns, 2)),
            np.zeros((count, k, 9)),
            np.zeros((count, k, 0)),
        ),
        np.zeros((count, k), np.int64),
        np.zeros((count, kept, size), np.uint64),
        np.full((count, kept, size), np.nan),
        np.zeros((count, kept, rows, columns, 2)),
        np.zeros((count, kept)),
        lanes,
        np.zeros((count, 1), np.int64),
        np.ones((count, 1)),
    )


@compiled
def one_of(schedulers: Scheduler, at: int) -> Scheduler:
    """Scheduler `at`, whose arrays are parts of those of all."""
    known, reported, index_keys, estimates, pairs, rest_ms, lanes, turn, busy = schedulers
    keys, table, cells, sums, corrected = known
    return Scheduler(
        Instances(keys[at], table[at], cells[at], sums[at], corrected[at]),
        reported[at],
        index_keys[at],
        estimates[at],
        pairs[at],
        rest_ms[at],
        lanes[at],
        turn[at],
        busy[at],
    )


@compiled
def correct(scheduler: Scheduler, i: int, sequence: float, corrected: float) -> bool:
    """Take in a correction, unless a later message has come: corrections are cumulated, so a lost one is made up for."""
    lanes = scheduler.lanes
    if sequence <= lanes[i, HEARD]:
        return False
    lanes[i, HEARD] = sequence
    lanes[i, FINISH] += corrected - lanes[i, CORRECTIONS]
    lanes[i, CORRECTIONS] = corrected
    return True


@compiled
def take_report(
    scheduler: Scheduler, i: int, keys: U64, table: F64, pair: F64, sums: F64, corrected: float, options: FinishOptions
) -> None:
    """Take in what an instance has learnt, and correct; the first report of all ends round-robin."""
    if not correct(scheduler, i, sums[SEQUENCE], corrected):
        return
    scheduler.reported[i] = 1
    scheduler.known.keys[i] = keys
    scheduler.known.table[i] = table
    scheduler.known.pairs[i] = pair
    scheduler.known.sums[i] = sums
    if scheduler.turn[0] >= 0:
        scheduler.turn[0] = -1
        mean_ms = sums[TOTAL] / sums[TUPLES]
        for other in range(scheduler.reported.size):
            behind = max(scheduler.lanes[other, SENT] - sums[EXECUTED], 0.0)
            scheduler.lanes[other, FINISH] = sums[ENDED] + behind * mean_ms
    if options.speeds:
        _compare_speeds(scheduler.known.sums, scheduler.lanes)
    for group in range(scheduler.rest_ms.size):
        if scheduler.rest_ms.size == 1 or group == i or scheduler.reported[group] == 0:
            _pool(scheduler, group, options)


@inlined
def _compare_speeds(sums: F64, lanes: F64) -> None:
    """How slow each instance is beside all of them, where the difference is no chance: else 1."""
    predicted = sums[:, PREDICTED].sum()
    common = sums[:, ACTUAL].sum() / predicted if predicted > 0.0 else 0.0
    for i in range(lanes.shape[0]):
        usual = common * sums[i, PREDICTED]
        sure = abs(sums[i, ACTUAL] - usual) > _SURE * np.sqrt(sums[i, SPREAD])
        lanes[i, SPEED] = sums[i, ACTUAL] / usual if sure and usual > 0.0 and sums[i, ACTUAL] > 0.0 else 1.0


@inlined
def _pool(scheduler: Scheduler, group: int, options: FinishOptions) -> None:
    """Make the estimates of a group anew: of all instances, or of one if it has reported."""
    alone = scheduler.rest_ms.size > 1 and scheduler.reported[group] == 1
    known = scheduler.known
    index_keys, estimates = scheduler.index_keys[group], scheduler.estimates[group]
    seen = np.zeros(estimates.size)
    estimates[:] = np.nan
    scheduler.pairs[group] = 0.0
    tuples, cost_ms = 0.0, 0.0
    for i in range(scheduler.reported.size):
        if scheduler.reported[i] == 0 or (alone and i != group):
            continue
        if options.matrices:
            scheduler.pairs[group] += known.pairs[i]
            continue
        tuples += known.sums[i, TUPLES]
        cost_ms += known.sums[i, TOTAL]
        for entry in range(known.keys.shape[1]):
            entry_seen, entry_ms = known.table[i, entry, SEEN], known.table[i, entry, COST]
            if entry_seen > 0.0:
                at = _find(index_keys, estimates, known.keys[i, entry])
                index_keys[at] = known.keys[i, entry]
                before = 0.0 if np.isnan(estimates[at]) else estimates[at] * seen[at]
                seen[at] += entry_seen
                estimates[at] = (before + entry_ms) / seen[at]
                tuples -= entry_seen
                cost_ms -= entry_ms
    if options.matrices:
        scheduler.rest_ms[group] = mean_cost(scheduler.pairs[group])
    elif tuples > 0.5:
        scheduler.rest_ms[group] = max(cost_ms, 0.0) / tuples


@inlined
def _find(index_keys: U64, estimates: F64, key: np.uint64) -> np.uint64:
    """The place of a key in an index that is at most half full, or the free place where it belongs."""
    mask = np.uint64(index_keys.size - 1)
    at = mixed(key) & mask
    while not np.isnan(estimates[at]) and index_keys[at] != key:
        at = (at + _ONE) & mask
    return at


@compiled
def send_all(  # noqa: C901, PLR0912 - one loop, because a call that takes arrays costs more than what it does here
    scheduler: Scheduler, keys: U64, places: I32 | None, now_ms: float, options: FinishOptions
) -> tuple[I32, F64]:
    """The instance and the ticket of every tuple: where it will end first.

    Equal ends: the earlier virtual finish time, then the lowest instance. While nothing is known instances are taken in
    turn, and tickets predict nothing. Of several schedulers each expects the others, which hear the same, to do as it
    does: else all of them would fill the same gap, and it would be filled as many times over. The way to a far instance
    counts by the share of instances that are idle: while all are busy, what a tuple saves by not going there is lost by
    those that wait behind it.
    `evenly.kernels.virtual_finish_runs` does the same tuple by tuple.
    """
    _, _, index_keys, estimates, pairs, rest_ms, lanes, turn, busy = scheduler
    chosen = np.empty(keys.size, np.int32)
    tickets = np.empty((keys.size, 3))
    mask = np.uint64(index_keys.shape[1] - 1)
    k = lanes.shape[0]
    for j in range(keys.size):
        best, base_ms, start_ms = 0, 0.0, np.nan
        if turn[0] >= 0:
            best = int(turn[0])
            turn[0] = (best + 1) % k
        else:
            for step in range(2):
                if options.pooled == (step == 0):
                    group = 0 if options.pooled else best
                    if places is None:
                        base_ms = rest_ms[group]
                        at = mixed(keys[j]) & mask
                        while not np.isnan(estimates[group, at]):
                            if index_keys[group, at] == keys[j]:
                                base_ms = estimates[group, at]
                                break
                            at = (at + _ONE) & mask
                    else:
                        base_ms = expected(pairs, group, places, j, rest_ms[group])
                if step == 0:
                    first, earliest, working = np.inf, np.inf, 0.0
                    for i in range(k):
                        finish = lanes[i, FINISH]
                        start = max(finish, now_ms + lanes[i, LATENCY]) if options.floored else finish
                        end = start + base_ms * lanes[i, SPEED]
                        if options.far:
                            working += 1.0 if finish > now_ms + lanes[i, LATENCY] else 0.0
                            end -= busy[0] * lanes[i, LATENCY]
                        if end < first or (end == first and finish < earliest):
                            best, first, earliest, start_ms = i, end, finish, start
                    busy[0] += (working / k - busy[0]) * LATELY if options.far else 0.0
            lanes[best, FINISH] = start_ms + base_ms * lanes[best, SPEED] * options.schedulers
        lanes[best, SENT] += 1.0
        tickets[j, END] = start_ms + base_ms * lanes[best, SPEED]
        tickets[j, APPLIED] = lanes[best, CORRECTIONS]
        tickets[j, BASE] = base_ms
        chosen[j] = best
    return chosen, tickets
