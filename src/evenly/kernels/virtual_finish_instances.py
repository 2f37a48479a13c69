"""Kernels of the instances' side of the default shuffle scheduler: heavy-hitter tables, and corrections by event.

An instance keeps what its most frequent keys cost in a table of `sets` x `ways` entries. A key belongs to one set; in
its set the rule is Space Saving's: a newcomer takes the place, and the count, of the least frequent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.posg import add
from evenly.kernels.types import F64, I32, U64

COUNT, SEEN, COST = 0, 1, 2
"""Of a table's entry: the count it competes with, the tuples of its key seen, their cost."""

EXECUTED, NEXT_REPORT, TUPLES, TOTAL, MAY_SAY, SEQUENCE, ENDED = range(7)
"""Of an instance's sums: tuples executed, at how many it reports, tuples and cost it remembers, messages it may send now,
messages sent, the last end."""

END, APPLIED, KNOWN = 0, 1, 2
"""Of a ticket, which a tuple carries: its predicted end, the corrections in it, and the last message that was known."""

NOTHING, CORRECTION, REPORT = 0, 1, 2

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_32 = np.uint64(32)


class FinishOptions(NamedTuple):
    """The switches: see `evenly.lab.rivals.shuffle.virtual_finish`.

    An instance may send `at_once` messages one after the other, and that many again as each tuple allows `each_tuple` more.
    """

    theta: float
    window: int
    first_report: int
    ways: int
    sets: int
    matrices: bool
    pooled: bool
    speeds: bool
    floored: bool
    schedulers: int
    far: bool
    at_once: float
    each_tuple: float


class Instances(NamedTuple):
    """What instances hold, one row each. `pairs` is used if `matrices` is on, `keys` and `table` if not.

    `corrected[i, q]` is what instance i last told scheduler q to correct in all, and `told[i, q]` the number of that message.
    """

    keys: U64
    table: F64
    pairs: F64
    sums: F64
    corrected: F64
    told: F64


@compiled
def new_instances(count: int, entries: int, rows: int, columns: int, options: FinishOptions) -> Instances:
    """Instances that have executed nothing."""
    sums = np.zeros((count, 7))
    sums[:, NEXT_REPORT] = options.first_report
    sums[:, MAY_SAY] = options.at_once
    return Instances(
        np.zeros((count, entries), np.uint64),
        np.zeros((count, entries, 3)),
        np.zeros((count, rows, columns, 2)),
        sums,
        np.zeros((count, options.schedulers)),
        np.zeros((count, options.schedulers)),
    )


@inlined
def mixed(key: np.uint64) -> np.uint64:
    return ((key ^ (key >> _32)) * _GOLDEN) >> _32


@inlined
def first_place(key: np.uint64, options: FinishOptions) -> np.uint64:
    """The first of the places in a table where a key may be."""
    return np.uint64(options.ways) * ((mixed(key) * np.uint64(options.sets)) >> _32)


@inlined
def allowed_error(options: FinishOptions) -> float:
    """By how many mean execution times an end may be off: of s schedulers each knows a part of what is sent, so more is.

    It is more, by a root, the fewer messages may still be sent: what is left is kept for those that are off the most.
    """
    return float(options.theta * np.sqrt(options.schedulers))


@compiled
def execute(  # noqa: C901, PLR0912, PLR0915 - one loop, because a call that takes arrays costs more than what it does here
    instances: Instances,
    i: int,
    keys: U64,
    places: I32 | None,
    costs_ms: F64,
    ends_ms: F64,
    tickets: F64,
    sources: I32,
    start: int,
    options: FinishOptions,
) -> tuple[int, int]:
    """Learn from tuples and judge their ends, from `start` on: the first that leads to a message, and its kind.

    The kind is a CORRECTION, or a REPORT (which corrects as well); if there is NOTHING to say, the first is their number.
    `tickets[j, END]` is NaN for a tuple sent before anything was known; `sources[j]` is the scheduler that sent it.
    `evenly.kernels.virtual_finish_runs` does the same for all instances at once.
    """
    table_keys, table, pairs, sums, corrected, told = instances
    own_keys, own_table, own = table_keys[i], table[i], sums[i]
    allowed = allowed_error(options)
    executed, tuples, total, may_say = own[EXECUTED], own[TUPLES], own[TOTAL], own[MAY_SAY]
    at, kind = keys.size, NOTHING
    for j in range(start, keys.size):
        cost_ms = costs_ms[j]
        if places is None:
            key = keys[j]
            first = first_place(key, options)
            least, fewest = first, np.inf
            for way in range(options.ways):
                place = first + np.uint64(way)
                if own_keys[place] == key:
                    least = place
                    break
                if own_table[place, COUNT] < fewest:
                    least, fewest = place, own_table[place, COUNT]
            if own_keys[least] != key:
                own_keys[least] = key
                own_table[least, SEEN] = 0.0
                own_table[least, COST] = 0.0
            own_table[least, COUNT] += 1.0
            own_table[least, SEEN] += 1.0
            own_table[least, COST] += cost_ms
        else:
            add(pairs, i, places, j, cost_ms)
        executed += 1.0
        tuples += 1.0
        total += cost_ms
        may_say = min(may_say + options.each_tuple, options.at_once)
        if may_say < 1.0:
            continue
        error_ms = 0.0
        if not np.isnan(tickets[j, END]):
            error_ms = ends_ms[j] - tickets[j, END]
            if tickets[j, KNOWN] < told[i, sources[j]]:
                error_ms += tickets[j, APPLIED] - corrected[i, sources[j]]
        report = executed >= own[NEXT_REPORT]
        if report or (error_ms * tuples) ** 2 * may_say > (allowed * total) ** 2 * options.at_once:
            if options.theta < np.inf and not np.isnan(tickets[j, END]):
                corrected[i, sources[j]] = tickets[j, APPLIED] + (ends_ms[j] - tickets[j, END])
            at, kind = j, REPORT if report else CORRECTION
            break
    if start < keys.size:
        own[ENDED] = ends_ms[min(at, keys.size - 1)]
    if kind != NOTHING:
        may_say -= 1.0
        own[SEQUENCE] += 1.0
        told[i, sources[at]] = own[SEQUENCE]
    own[EXECUTED], own[TUPLES], own[TOTAL], own[MAY_SAY] = executed, tuples, total, may_say
    if kind == REPORT:
        told[i] = own[SEQUENCE]
        own[NEXT_REPORT] += min(own[NEXT_REPORT], options.window)
    return at, kind


@compiled
def forget_half(instances: Instances, i: int, options: FinishOptions) -> None:
    """After a report of a full window the past weighs half as much."""
    if instances.sums[i, TUPLES] >= options.window:
        instances.table[i] *= 0.5
        instances.pairs[i] *= 0.5
        for at in (TUPLES, TOTAL):
            instances.sums[i, at] *= 0.5
