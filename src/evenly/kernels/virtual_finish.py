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
    APPLIED,
    COST,
    END,
    ENDED,
    EXECUTED,
    KNOWN,
    SEEN,
    SEQUENCE,
    TOTAL,
    TUPLES,
    FinishOptions,
    Instances,
    mixed,
)

FINISH, CORRECTIONS, SPEED, LATENCY, SENT, HEARD, FIRST, LAST, TOLD, OTHERS = range(10)
"""Of what the scheduler knows of an instance: its virtual finish time, the corrections in that, how slow it is beside
the others, how far away, the tuples sent to it, its last message, when it was sent its first and last tuple in turn, what
it last said must be corrected in all, and what others have corrected since."""

BUSY, MEAN, COMMON = 0, 1, 2
"""Of what is known of all instances: the share that had something to do lately, the mean execution time, and the share of
a correction that holds for the others as well."""

LATELY = 0.001
"""The weight of the newest tuple in the share of instances that are busy."""

UNSURE = 2.0
"""By how many mean execution times a virtual finish time may well be off, where a way is weighed against waiting."""

ADAPTED = 0.2
"""By how much at most a correction changes the share that corrections have in common."""

_ONE = np.uint64(1)
_SURE = 4.0
_LEAST_SLOWNESS = 0.01


class Scheduler(NamedTuple):
    """What the scheduler holds: the last report of each instance, what it estimates from them, a row of `lanes` each.

    `estimates` is a hash index of keys with their mean cost (NaN where a place is free) and `rest_ms` is for all others,
    each with one row for all instances if they are pooled. `turn` is the next in turn, or -1 once something is known.
    `overall` is `BUSY` (kept if some are far away), `MEAN` and `COMMON`.
    """

    known: Instances
    reported: I64
    index_keys: U64
    estimates: F64
    pairs: F64
    rest_ms: F64
    lanes: F64
    turn: I64
    overall: F64


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
    lanes = np.zeros((count, k, 10))
    lanes[:, :, SPEED] = 1.0
    lanes[:, :, LATENCY] = latency_ms
    overall = np.zeros((count, 3))
    overall[:, BUSY] = 1.0
    return Scheduler(
        Instances(
            np.zeros((count, k, entries), np.uint64),
            np.zeros((count, k, entries, 3)),
            np.zeros((count, k, rows, columns, 2)),
            np.zeros((count, k, 7)),
            np.zeros((count, k, 0)),
            np.zeros((count, k, 0)),
        ),
        np.zeros((count, k), np.int64),
        np.zeros((count, kept, size), np.uint64),
        np.full((count, kept, size), np.nan),
        np.zeros((count, kept, rows, columns, 2)),
        np.zeros((count, kept)),
        lanes,
        np.zeros((count, 1), np.int64),
        overall,
    )


@compiled
def one_of(schedulers: Scheduler, at: int) -> Scheduler:
    """Scheduler `at`, whose arrays are parts of those of all."""
    known, reported, index_keys, estimates, pairs, rest_ms, lanes, turn, overall = schedulers
    keys, table, cells, sums, corrected, told = known
    return Scheduler(
        Instances(keys[at], table[at], cells[at], sums[at], corrected[at], told[at]),
        reported[at],
        index_keys[at],
        estimates[at],
        pairs[at],
        rest_ms[at],
        lanes[at],
        turn[at],
        overall[at],
    )


@compiled
def correct(scheduler: Scheduler, i: int, sequence: float, corrected: float) -> bool:
    """Take in what must be corrected in all, unless a later message has come; so a lost one is made up for.

    Where a burst of costly tuples makes all instances late, to correct the first that says so and not the others would send
    them its tuples. So they are corrected by a share of it, which grows while what they say themselves has the sign of what
    others said before, and falls while it has not. What one then says itself takes the place of what was supposed.
    """
    lanes, overall = scheduler.lanes, scheduler.overall
    if sequence <= lanes[i, HEARD]:
        return False
    lanes[i, HEARD] = sequence
    if corrected == lanes[i, TOLD]:
        return True
    news, before = corrected - lanes[i, CORRECTIONS], lanes[i, OTHERS]
    if before != 0.0:
        agreeing = ADAPTED * news * before / (news * news + before * before)
        overall[COMMON] = min(max(overall[COMMON] + agreeing, 0.0), 1.0)
    for other in range(lanes.shape[0]):
        if other != i:
            lanes[other, FINISH] += overall[COMMON] * news
            lanes[other, CORRECTIONS] += overall[COMMON] * news
            lanes[other, OTHERS] += news
    lanes[i, FINISH] += news
    lanes[i, CORRECTIONS] = corrected
    lanes[i, TOLD] = corrected
    lanes[i, OTHERS] = 0.0
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
    tuples, cost_ms = 0.0, 0.0
    for other in range(scheduler.reported.size):
        tuples += scheduler.known.sums[other, TUPLES]
        cost_ms += scheduler.known.sums[other, TOTAL]
    scheduler.overall[MEAN] = cost_ms / tuples
    if scheduler.turn[0] >= 0:
        scheduler.turn[0] = -1
        _end_turns(scheduler.lanes, i, sums, sums[TOTAL] / sums[TUPLES])
    for group in range(scheduler.rest_ms.size):
        if scheduler.rest_ms.size == 1 or group == i or scheduler.reported[group] == 0:
            seen = _pool(scheduler, group, options)
            if options.speeds and scheduler.rest_ms.size == 1:
                for other in range(scheduler.reported.size):
                    scheduler.lanes[other, SPEED] = _slowness(scheduler, other, seen, options)


@inlined
def _end_turns(lanes: F64, reporter: int, sums: F64, mean_ms: float) -> None:
    """Finish times of instances that were served in turn, from what one of them says, if all tuples cost the mean.

    Each is as far behind the reporter as its first tuple was. So if all tuples do cost the same, the order of turns goes
    on: where there is no capacity to spare, a queue that arises by leaving it would never go away.
    """
    for i in range(lanes.shape[0]):
        behind = max(lanes[i, SENT] - sums[EXECUTED], 0.0)
        lanes[i, FINISH] = sums[ENDED] + behind * mean_ms
        if lanes[i, SENT] > 0.0 and lanes[reporter, SENT] > 0.0:
            reached = lanes[i, FIRST] + lanes[i, LATENCY] - lanes[reporter, FIRST] - lanes[reporter, LATENCY]
            lanes[i, FINISH] = max(lanes[i, FINISH] + reached, lanes[i, LAST] + lanes[i, LATENCY] + mean_ms)


@inlined
def _pool(scheduler: Scheduler, group: int, options: FinishOptions) -> F64:
    """Make the estimates of a group anew, of all instances or of one if it has reported; how many tuples each rests on."""
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
    elif scheduler.rest_ms[group] == 0.0:
        scheduler.rest_ms[group] = scheduler.overall[MEAN]
    return seen


@inlined
def _slowness(scheduler: Scheduler, i: int, seen: F64, options: FinishOptions) -> float:
    """How much longer tuples take on an instance than the same keys' on all of them, where that is no chance: else 1.

    The same keys, because instances that were sent other keys than expected are not slow. Sure is what holds whichever key
    is left out: tuples of a key come in bursts and have their errors in common, so only keys are independent of each
    other. For matrices a cell of the first row is a key.
    """
    known = scheduler.known
    index_keys, estimates = scheduler.index_keys[0], scheduler.estimates[0]
    parts = known.pairs.shape[2] if options.matrices else known.keys.shape[1]
    expected_ms, actual_ms = np.zeros(parts), np.zeros(parts)
    compared = 0
    for part in range(parts):
        if options.matrices:
            own, own_ms = known.pairs[i, 0, part, 0], known.pairs[i, 0, part, 1]
            of_all, mean_ms = scheduler.pairs[0, 0, part, 0], scheduler.pairs[0, 0, part, 1]
            mean_ms = mean_ms / of_all if of_all > 0.0 else 0.0
        else:
            own, own_ms = known.table[i, part, SEEN], known.table[i, part, COST]
            of_all, mean_ms = 0.0, 0.0
            if own > 0.0:
                at = _find(index_keys, estimates, known.keys[i, part])
                of_all, mean_ms = seen[at], estimates[at]
        if own > 0.0 and of_all > own and mean_ms > 0.0:
            expected_ms[part], actual_ms[part] = own * mean_ms, own_ms
            compared += 1
    expected_sum, actual_sum = expected_ms.sum(), actual_ms.sum()
    if compared < 2 or actual_sum <= 0.0:
        return 1.0
    slowness = actual_sum / expected_sum
    variance = 0.0
    for part in range(parts):
        if expected_ms[part] > 0.0:
            without = (actual_sum - actual_ms[part]) / (expected_sum - expected_ms[part])
            variance += (without - slowness) ** 2
    sure = abs(slowness - 1.0) > max(_SURE * np.sqrt(variance), _LEAST_SLOWNESS)
    return slowness if sure else 1.0


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
    counts by the square of the share of instances that are idle: while all are busy, what a tuple saves by not going
    there is lost by those that wait behind it. Waiting is then what must be expected where finish times are unsure.
    `evenly.kernels.virtual_finish_runs` does the same tuple by tuple.
    """
    _, _, index_keys, estimates, pairs, rest_ms, lanes, turn, overall = scheduler
    chosen = np.empty(keys.size, np.int32)
    tickets = np.empty((keys.size, 3))
    mask = np.uint64(index_keys.shape[1] - 1)
    k = lanes.shape[0]
    for j in range(keys.size):
        best, base_ms, start_ms = 0, 0.0, np.nan
        if turn[0] >= 0:
            best = int(turn[0])
            turn[0] = (best + 1) % k
            lanes[best, LAST] = now_ms
            if lanes[best, SENT] == 0.0:
                lanes[best, FIRST] = now_ms
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
                    weight, unsure_ms = (1.0 - overall[BUSY]) ** 2, UNSURE * overall[MEAN]
                    for i in range(k):
                        finish = lanes[i, FINISH]
                        start = max(finish, now_ms + lanes[i, LATENCY]) if options.floored else finish
                        end = start + base_ms * lanes[i, SPEED]
                        if options.far:
                            waiting = finish - (now_ms + lanes[i, LATENCY])
                            working += 1.0 if waiting > 0.0 else 0.0
                            end += (weight - 1.0) * lanes[i, LATENCY]
                            if options.floored and abs(waiting) < unsure_ms:
                                end += (waiting + unsure_ms) ** 2 / (4.0 * unsure_ms) - max(waiting, 0.0)
                        if end < first or (end == first and finish < earliest):
                            best, first, earliest, start_ms = i, end, finish, start
                    overall[BUSY] += (working / k - overall[BUSY]) * LATELY if options.far else 0.0
            lanes[best, FINISH] = start_ms + base_ms * lanes[best, SPEED] * options.schedulers
        lanes[best, SENT] += 1.0
        tickets[j, END] = start_ms + base_ms * lanes[best, SPEED]
        tickets[j, APPLIED] = lanes[best, CORRECTIONS]
        tickets[j, KNOWN] = lanes[best, HEARD]
        chosen[j] = best
    return chosen, tickets
