"""Kernels of the default shuffle scheduler: heavy-hitter tables, virtual finish times, corrections by event.

An instance keeps what its most frequent keys cost in a table of `sets` x `ways` entries. A key belongs to one set; in
its set the rule is Space Saving's: a newcomer takes the place, and the count, of the least frequent. The scheduler
pools the tables that it was sent in one hash index, made anew with each report. Where POSG's matrices are used instead,
`places` has the column of every tuple in every row; else it is None, and the compiler leaves that branch out.
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

FINISH, CORRECTIONS, SPEED, LATENCY, SENT, HEARD = range(6)
"""Of what the scheduler knows of an instance: its virtual finish time, the corrections in that, how slow it is beside
the others, how far away, the tuples sent to it, and its last message."""

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
    sets: int
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
    """What the scheduler holds: the last report of each instance, what it estimates from them, a row of `lanes` each.

    `estimates` is a hash index of keys with their mean cost (NaN where a place is free) and `rest_ms` is for all others,
    each with one row for all instances if they are pooled. `turn` is the next in turn, or -1 once something is known.
    """

    known: Instances
    reported: I64
    index_keys: U64
    estimates: F64
    pairs: F64
    rest_ms: F64
    lanes: F64
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
    lanes = np.zeros((k, 6))
    lanes[:, SPEED] = 1.0
    lanes[:, LATENCY] = latency_ms
    return Scheduler(
        new_instances(k, entries, rows, columns, options.first_report),
        np.zeros(k, np.int64),
        np.zeros((kept, size), np.uint64),
        np.full((kept, size), np.nan),
        np.zeros((kept, rows, columns, 2)),
        np.zeros(kept),
        lanes,
        np.zeros(1, np.int64),
    )


@inlined
def _mixed(key: np.uint64) -> np.uint64:
    return ((key ^ (key >> _32)) * _GOLDEN) >> _32


@inlined
def _count(keys: U64, table: F64, i: int, key: np.uint64, cost_ms: float, ways: int, sets: int) -> None:
    """Show a tuple to the table of instance i."""
    first = np.uint64(ways) * ((_mixed(key) * np.uint64(sets)) >> _32)
    least = first
    fewest = np.inf
    for way in range(ways):
        place = first + np.uint64(way)
        if keys[i, place] == key:
            least = place
            break
        if table[i, place, COUNT] < fewest:
            least, fewest = place, table[i, place, COUNT]
    if keys[i, least] != key:
        keys[i, least] = key
        table[i, least, SEEN] = 0.0
        table[i, least, COST] = 0.0
    table[i, least, COUNT] += 1.0
    table[i, least, SEEN] += 1.0
    table[i, least, COST] += cost_ms


@inlined
def learn(
    keys: U64, table: F64, pairs: F64, i: int, key: np.uint64, places: I32 | None, row: int, cost_ms: float, options: Options
) -> None:
    """Show a tuple to what instance i learns with."""
    if places is None:
        _count(keys, table, i, key, cost_ms, options.ways, options.sets)
    else:
        add(pairs, i, places, row, cost_ms)


@inlined
def judge(sums: F64, i: int, cost_ms: float, end_ms: float, tickets: F64, row: int, options: Options) -> int:
    """Take in the end of a tuple at instance i: NOTHING to say, a CORRECTION, or a REPORT (which corrects as well).

    `tickets[row, END]` is NaN for a tuple sent before anything was known.
    """
    sums[i, EXECUTED] += 1.0
    sums[i, TUPLES] += 1.0
    sums[i, TOTAL] += cost_ms
    sums[i, ENDED] = end_ms
    error_ms = 0.0
    if not np.isnan(tickets[row, END]):
        sums[i, ACTUAL] += cost_ms
        sums[i, PREDICTED] += tickets[row, BASE]
        sums[i, SPREAD] += (cost_ms - tickets[row, BASE]) ** 2
        error_ms = end_ms - (tickets[row, END] + sums[i, CORRECTED] - tickets[row, APPLIED])
    report = sums[i, EXECUTED] >= sums[i, NEXT_REPORT]
    if not report and not abs(error_ms) * sums[i, TUPLES] > options.theta * sums[i, TOTAL]:
        return NOTHING
    if options.theta < np.inf:
        sums[i, CORRECTED] += error_ms
    sums[i, SEQUENCE] += 1.0
    if report:
        sums[i, NEXT_REPORT] += min(sums[i, NEXT_REPORT], options.window)
    return REPORT if report else CORRECTION


@compiled
def execute(
    instances: Instances,
    i: int,
    key: np.uint64,
    places: I32 | None,
    cost_ms: float,
    end_ms: float,
    tickets: F64,
    options: Options,
) -> int:
    """Learn from one tuple and judge its end; `places`, if any, and `tickets` have one row."""
    learn(instances.keys, instances.table, instances.pairs, i, key, places, 0, cost_ms, options)
    return judge(instances.sums, i, cost_ms, end_ms, tickets, 0, options)


@compiled
def forget_half(instances: Instances, i: int, options: Options) -> None:
    """After a report of a full window the past weighs half as much."""
    if instances.sums[i, TUPLES] >= options.window:
        instances.table[i] *= 0.5
        instances.pairs[i] *= 0.5
        for at in (TUPLES, TOTAL, ACTUAL, PREDICTED, SPREAD):
            instances.sums[i, at] *= 0.5


@compiled
def correct(scheduler: Scheduler, i: int, sums: F64) -> bool:
    """Take in a correction, unless a later message has come: sums are cumulated, so a lost one is made up for."""
    lanes = scheduler.lanes
    if sums[SEQUENCE] <= lanes[i, HEARD]:
        return False
    lanes[i, HEARD] = sums[SEQUENCE]
    lanes[i, FINISH] += sums[CORRECTED] - lanes[i, CORRECTIONS]
    lanes[i, CORRECTIONS] = sums[CORRECTED]
    return True


@compiled
def take_report(scheduler: Scheduler, i: int, keys: U64, table: F64, pair: F64, sums: F64, options: Options) -> None:
    """Take in what an instance has learnt, and correct; the first report of all ends round-robin."""
    if not correct(scheduler, i, sums):
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
def _pool(scheduler: Scheduler, group: int, options: Options) -> None:
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
    at = _mixed(key) & mask
    while not np.isnan(estimates[at]) and index_keys[at] != key:
        at = (at + _ONE) & mask
    return at


@inlined
def estimate(
    index_keys: U64,
    estimates: F64,
    pairs: F64,
    rest_ms: F64,
    group: int,
    key: np.uint64,
    places: I32 | None,
    row: int,
) -> float:
    """What a tuple is expected to cost."""
    if places is not None:
        return expected(pairs, group, places, row, rest_ms[group])
    mask = np.uint64(index_keys.shape[1] - 1)
    at = _mixed(key) & mask
    while not np.isnan(estimates[group, at]):
        if index_keys[group, at] == key:
            return float(estimates[group, at])
        at = (at + _ONE) & mask
    return float(rest_ms[group])


@inlined
def soonest(lanes: F64, base_ms: float, now_ms: float, options: Options) -> int:
    """Where a tuple will end first. Equal ends: the earlier virtual finish time, then the lowest instance."""
    best, first, earliest = 0, np.inf, np.inf
    for i in range(lanes.shape[0]):
        finish = lanes[i, FINISH]
        start = max(finish, now_ms + lanes[i, LATENCY]) if options.floored else finish
        end = start + base_ms * lanes[i, SPEED]
        if end < first or (end == first and finish < earliest):
            best, first, earliest = i, end, finish
    return best


@inlined
def place_on(lanes: F64, i: int, base_ms: float, now_ms: float, tickets: F64, row: int, options: Options) -> None:
    """Send a tuple to instance i and write its ticket."""
    start = max(lanes[i, FINISH], now_ms + lanes[i, LATENCY]) if options.floored else lanes[i, FINISH]
    lanes[i, FINISH] = start + base_ms * lanes[i, SPEED]
    lanes[i, SENT] += 1.0
    tickets[row, END] = lanes[i, FINISH]
    tickets[row, APPLIED] = lanes[i, CORRECTIONS]
    tickets[row, BASE] = base_ms


@inlined
def in_turn(lanes: F64, turn: I64, tickets: F64, row: int) -> int:
    """The instance of a tuple while nothing is known; its ticket predicts nothing."""
    i = int(turn[0])
    turn[0] = (i + 1) % lanes.shape[0]
    lanes[i, SENT] += 1.0
    tickets[row, END] = np.nan
    tickets[row, APPLIED] = 0.0
    tickets[row, BASE] = 0.0
    return i


@compiled
def send_all(scheduler: Scheduler, keys: U64, places: I32 | None, now_ms: float, options: Options) -> tuple[I32, F64]:
    """The instance and the ticket of every tuple."""
    _, _, index_keys, estimates, pairs, rest_ms, lanes, turn = scheduler
    chosen = np.empty(keys.size, np.int32)
    tickets = np.empty((keys.size, 3))
    for j in range(keys.size):
        if turn[0] >= 0:
            chosen[j] = in_turn(lanes, turn, tickets, j)
            continue
        base_ms = 0.0
        if options.pooled:
            base_ms = estimate(index_keys, estimates, pairs, rest_ms, 0, keys[j], places, j)
        i = soonest(lanes, base_ms, now_ms, options)
        if not options.pooled:
            base_ms = estimate(index_keys, estimates, pairs, rest_ms, i, keys[j], places, j)
        place_on(lanes, i, base_ms, now_ms, tickets, j, options)
        chosen[j] = i
    return chosen, tickets
