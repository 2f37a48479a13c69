"""Kernels of the default shuffle scheduler: heavy-hitter tables, virtual finish times, corrections by event.

An instance keeps what its most frequent keys cost in a table of `sets` x `ways` entries. A key belongs to one set; in
its set the rule is Space Saving's: a newcomer takes the place, and the count, of the least frequent. The scheduler
pools the tables that it was sent in one hash index, made anew with each report.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.posg import add, expected, mean_cost
from evenly.kernels.types import F64, I32, I64, U64

COUNT, SEEN, COST = 0, 1, 2
"""Of a table's entry: the count it competes with, the tuples of its key seen, their cost."""

EXECUTED, NEXT_REPORT, TUPLES, TOTAL, ACTUAL, PREDICTED, SPREAD, CORRECTED, SEQUENCE, ENDED = range(10)
"""Of an instance's sums: tuples executed, at how many it reports, tuples and cost it remembers, cost and predicted cost
of those with a ticket and the squares of their differences, the corrections sent, messages sent, the last end."""

END, APPLIED, BASE = 0, 1, 2
"""Of a ticket, which a tuple carries: its predicted end, the corrections in it, its predicted cost at speed 1."""

NOTHING, CORRECTION, REPORT = 0, 1, 2

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_32 = np.uint64(32)
_ONE = np.uint64(1)
_SURE = 3.0


class Options(NamedTuple):
    """The switches: see `evenly.grouping.shuffle.virtual_finish`."""

    theta: float
    window: int
    first_report: int
    ways: int
    matrices: bool
    pooled: bool
    speeds: bool
    floored: bool


class Instances(NamedTuple):
    """What instances hold, one row each. `pairs` is used if `matrices` is on, `keys` and `table` if not."""

    keys: U64
    table: F64
    pairs: F64
    sums: F64


class Scheduler(NamedTuple):
    """What the scheduler holds: the last report of each instance, the pooled index, and one place an instance of each

    virtual finish time, corrections applied, speed, tuples sent, latency and last message. `index_cost` and `rest` have
    one row for all instances if estimates are pooled; an index place is free where its tuples are 0.
    """

    known: Instances
    reported: I64
    index_keys: U64
    index_tuples: F64
    index_cost: F64
    index_pairs: F64
    rest: F64
    finish_ms: F64
    applied_ms: F64
    speed: F64
    sent: I64
    latency_ms: F64
    sequence: I64
    turn: I64


@compiled
def new_instances(count: int, entries: int, rows: int, columns: int, first_report: int) -> Instances:
    """Instances that have executed nothing."""
    sums = np.zeros((count, 10))
    sums[:, NEXT_REPORT] = first_report
    return Instances(
        np.zeros((count, entries), np.uint64), np.zeros((count, entries, 3)), np.zeros((count, rows, columns, 2)), sums
    )


@compiled
def new_scheduler(entries: int, rows: int, columns: int, latency_ms: F64, options: Options) -> Scheduler:
    """A scheduler that has sent and heard nothing."""
    k = latency_ms.size
    kept = 1 if options.pooled else k
    size = 4
    while size < 2 * entries * (k if options.pooled else 1):
        size *= 2
    if options.matrices:
        size = 1
    return Scheduler(
        new_instances(k, entries, rows, columns, options.first_report),
        np.zeros(k, np.int64),
        np.zeros((kept, size), np.uint64),
        np.zeros((kept, size)),
        np.zeros((kept, size)),
        np.zeros((kept, rows, columns, 2)),
        np.zeros(kept),
        np.zeros(k),
        np.zeros(k),
        np.ones(k),
        np.zeros(k, np.int64),
        latency_ms,
        np.zeros(k, np.int64),
        np.zeros(1, np.int64),
    )


@inlined
def _mixed(key: np.uint64) -> np.uint64:
    return ((key ^ (key >> _32)) * _GOLDEN) >> _32


@inlined
def _count(instances: Instances, i: int, key: np.uint64, cost_ms: float, ways: int) -> None:
    """Show a tuple to the table of instance i."""
    sets = np.uint64(instances.keys.shape[1] // ways)
    first = np.int64((_mixed(key) * sets) >> _32) * ways
    least = first
    for place in range(first, first + ways):
        if instances.keys[i, place] == key and instances.table[i, place, SEEN] > 0.0:
            least = place
            break
        if instances.table[i, place, COUNT] < instances.table[i, least, COUNT]:
            least = place
    if instances.keys[i, least] != key:
        instances.keys[i, least] = key
        instances.table[i, least, SEEN] = 0.0
        instances.table[i, least, COST] = 0.0
    instances.table[i, least, COUNT] += 1.0
    instances.table[i, least, SEEN] += 1.0
    instances.table[i, least, COST] += cost_ms


@compiled
def execute(
    instances: Instances, i: int, key: np.uint64, place: I32, cost_ms: float, end_ms: float, ticket: F64, options: Options
) -> int:
    """Take in the end of a tuple at instance i: NOTHING to say, a CORRECTION, or a REPORT (which corrects as well).

    `ticket[END]` is NaN for a tuple sent before anything was known.
    """
    sums = instances.sums
    if options.matrices:
        add(instances.pairs[i], place, cost_ms)
    else:
        _count(instances, i, key, cost_ms, options.ways)
    sums[i, EXECUTED] += 1.0
    sums[i, TUPLES] += 1.0
    sums[i, TOTAL] += cost_ms
    sums[i, ENDED] = end_ms
    error_ms = 0.0
    if not np.isnan(ticket[END]):
        sums[i, ACTUAL] += cost_ms
        sums[i, PREDICTED] += ticket[BASE]
        sums[i, SPREAD] += (cost_ms - ticket[BASE]) ** 2
        error_ms = end_ms - (ticket[END] + sums[i, CORRECTED] - ticket[APPLIED])
    report = sums[i, EXECUTED] >= sums[i, NEXT_REPORT]
    if not report and not abs(error_ms) > options.theta * sums[i, TOTAL] / sums[i, TUPLES]:
        return NOTHING
    if options.theta < np.inf:
        sums[i, CORRECTED] += error_ms
    sums[i, SEQUENCE] += 1.0
    if report:
        sums[i, NEXT_REPORT] += min(sums[i, NEXT_REPORT], options.window)
    return REPORT if report else CORRECTION


@compiled
def forget_half(instances: Instances, i: int, options: Options) -> None:
    """After a report of a full window the past weighs half as much."""
    if instances.sums[i, TUPLES] >= options.window:
        instances.table[i] *= 0.5
        instances.pairs[i] *= 0.5
        for at in (TUPLES, TOTAL, ACTUAL, PREDICTED, SPREAD):
            instances.sums[i, at] *= 0.5


@compiled
def correct(scheduler: Scheduler, i: int, sums: F64, options: Options) -> bool:
    """Take in a correction, unless a later message has come: sums are cumulated, so a lost one is made up for."""
    if sums[SEQUENCE] <= scheduler.sequence[i]:
        return False
    scheduler.sequence[i] = np.int64(sums[SEQUENCE])
    scheduler.finish_ms[i] += sums[CORRECTED] - scheduler.applied_ms[i]
    scheduler.applied_ms[i] = sums[CORRECTED]
    if options.speeds and abs(sums[ACTUAL] - sums[PREDICTED]) > _SURE * np.sqrt(sums[SPREAD]):
        scheduler.speed[i] = sums[ACTUAL] / sums[PREDICTED] if sums[PREDICTED] > 0.0 else 1.0
    return True


@compiled
def take_report(scheduler: Scheduler, i: int, keys: U64, table: F64, pair: F64, sums: F64, options: Options) -> None:
    """Take in what an instance has learnt, and correct; the first report of all ends round-robin."""
    first = scheduler.reported.sum() == 0
    if not correct(scheduler, i, sums, options):
        return
    scheduler.reported[i] = 1
    scheduler.known.keys[i] = keys
    scheduler.known.table[i] = table
    scheduler.known.pairs[i] = pair
    scheduler.known.sums[i] = sums
    if first:
        mean_ms = sums[TOTAL] / sums[TUPLES]
        for other in range(scheduler.sent.size):
            behind = max(scheduler.sent[other] - sums[EXECUTED], 0.0)
            scheduler.finish_ms[other] = sums[ENDED] + behind * mean_ms
    for group in range(scheduler.rest.size):
        if scheduler.rest.size == 1 or group == i or scheduler.reported[group] == 0:
            _pool(scheduler, group, options)


@inlined
def _pool(scheduler: Scheduler, group: int, options: Options) -> None:
    """Make the estimates of a group anew: of all instances, or of one if it has reported."""
    alone = scheduler.rest.size > 1 and scheduler.reported[group] == 1
    known = scheduler.known
    scheduler.index_tuples[group] = 0.0
    scheduler.index_cost[group] = 0.0
    scheduler.index_pairs[group] = 0.0
    tuples, cost_ms = 0.0, 0.0
    for i in range(scheduler.sent.size):
        if scheduler.reported[i] == 0 or (alone and i != group):
            continue
        if options.matrices:
            scheduler.index_pairs[group] += known.pairs[i]
            continue
        tuples += known.sums[i, TUPLES]
        cost_ms += known.sums[i, TOTAL]
        for entry in range(known.keys.shape[1]):
            seen = known.table[i, entry, SEEN]
            if seen > 0.0 and _note(scheduler, group, known.keys[i, entry], seen, known.table[i, entry, COST]):
                tuples -= seen
                cost_ms -= known.table[i, entry, COST]
    if options.matrices:
        scheduler.rest[group] = mean_cost(scheduler.index_pairs[group])
    elif tuples > 0.5:
        scheduler.rest[group] = max(cost_ms, 0.0) / tuples


@inlined
def _note(scheduler: Scheduler, group: int, key: np.uint64, seen: float, cost_ms: float) -> bool:
    """Add to a key's place in the index, if there is one."""
    mask = np.uint64(scheduler.index_keys.shape[1] - 1)
    at = _mixed(key) & mask
    for _ in range(scheduler.index_keys.shape[1]):
        if scheduler.index_tuples[group, at] == 0.0:
            scheduler.index_keys[group, at] = key
        if scheduler.index_keys[group, at] == key:
            scheduler.index_tuples[group, at] += seen
            scheduler.index_cost[group, at] += cost_ms
            return True
        at = (at + _ONE) & mask
    return False


@inlined
def _estimate(scheduler: Scheduler, group: int, key: np.uint64, place: I32, options: Options) -> float:
    if options.matrices:
        return expected(scheduler.index_pairs[group], place, scheduler.rest[group])
    mask = np.uint64(scheduler.index_keys.shape[1] - 1)
    at = _mixed(key) & mask
    while scheduler.index_tuples[group, at] != 0.0:
        if scheduler.index_keys[group, at] == key:
            return scheduler.index_cost[group, at] / scheduler.index_tuples[group, at]
        at = (at + _ONE) & mask
    return scheduler.rest[group]


@inlined
def choose(
    scheduler: Scheduler, key: np.uint64, place: I32, now_ms: float, options: Options
) -> tuple[int, float, float, float]:
    """The instance of a tuple and its ticket: in turn while nothing is known, then where it will end first.

    Equal ends: the earlier virtual finish time, then the lowest instance.
    """
    k = scheduler.sent.size
    if scheduler.turn[0] >= 0:
        if scheduler.reported.sum() == 0:
            i = scheduler.turn[0]
            scheduler.turn[0] = (i + 1) % k
            scheduler.sent[i] += 1
            return i, np.nan, 0.0, 0.0
        scheduler.turn[0] = -1
    base_ms = _estimate(scheduler, 0, key, place, options) if options.pooled else 0.0
    best, soonest, earliest = 0, np.inf, np.inf
    for i in range(k):
        finish = scheduler.finish_ms[i]
        start = max(finish, now_ms + scheduler.latency_ms[i]) if options.floored else finish
        end = start + base_ms * scheduler.speed[i]
        if end < soonest or (end == soonest and finish < earliest):
            best, soonest, earliest = i, end, finish
    if not options.pooled:
        base_ms = _estimate(scheduler, best, key, place, options)
        soonest += base_ms * scheduler.speed[best]
    scheduler.finish_ms[best] = soonest
    scheduler.sent[best] += 1
    return best, soonest, scheduler.applied_ms[best], base_ms


@compiled
def send_all(scheduler: Scheduler, keys: U64, places: I32, now_ms: float, options: Options) -> tuple[I32, F64]:
    """The instance and the ticket of every tuple; `places` has one row for all where there are no matrices."""
    chosen = np.empty(keys.size, np.int32)
    tickets = np.empty((keys.size, 3))
    for j in range(keys.size):
        i, end_ms, applied_ms, base_ms = choose(scheduler, keys[j], places[min(j, places.shape[0] - 1)], now_ms, options)
        chosen[j] = i
        tickets[j, END] = end_ms
        tickets[j, APPLIED] = applied_ms
        tickets[j, BASE] = base_ms
    return chosen, tickets
