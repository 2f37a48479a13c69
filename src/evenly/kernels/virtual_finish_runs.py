"""A whole run of the default shuffle scheduler, compiled: instances, schedulers and queues in one pass over the arrivals.

It takes the steps of `evenly.kernels.virtual_finish` and `virtual_finish_instances`, as the objects of
`evenly.lab.rivals.shuffle.virtual_finish` do; `tests/property/test_posg.py` holds one against the other. Arrays are taken
out of their bundles before the loop, and what is done for every tuple is written out in it: an array costs a reference
count each time it is taken out of a bundle or given to a function, more than most steps.
"""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled
from evenly.kernels.posg import add, expected
from evenly.kernels.queueing import (
    Workload,
    cost_of,
    first_of_equals,
    heard_at_once,
    new_queues,
    next_due,
    period_of,
    send,
    take,
)
from evenly.kernels.types import F64, I32, I64, U64
from evenly.kernels.virtual_finish import (
    BUSY,
    CORRECTIONS,
    FINISH,
    FIRST,
    HEARD,
    LAST,
    LATELY,
    LATENCY,
    MEAN,
    SENT,
    SPEED,
    UNSURE,
    correct,
    new_schedulers,
    one_of,
    take_report,
)
from evenly.kernels.virtual_finish_instances import (
    APPLIED,
    CORRECTION,
    COST,
    COUNT,
    END,
    ENDED,
    EXECUTED,
    KNOWN,
    MAY_SAY,
    NEXT_REPORT,
    REPORT,
    SEEN,
    SEQUENCE,
    TOTAL,
    TUPLES,
    FinishOptions,
    allowed_error,
    first_place,
    forget_half,
    mixed,
    new_instances,
)

_ONE = np.uint64(1)


@compiled
def run(  # noqa: C901, PLR0912, PLR0915 - see above
    work: Workload,
    keys: U64,
    places: I32 | None,
    sources: I32,
    shape: tuple[int, int, int],
    latency_ms: F64,
    options: FinishOptions,
) -> tuple[I32, F64, I64]:
    """The instance and the end of every tuple, and how many corrections and reports there were.

    Tuple j arrives at scheduler `sources[j]`; corrections go to the scheduler of the tuple, reports to all. `shape` is a
    table's entries, and the rows and columns of the matrices.
    """
    entries, rows, columns = shape
    tuples, k = work.arrivals_ms.size, latency_ms.size
    instances = new_instances(k, entries, rows, columns, options)
    every = new_schedulers(options.schedulers, entries, rows, columns, latency_ms, options)
    table_keys, table, own_pairs, sums, corrected, told = instances
    arrivals_ms = work.arrivals_ms
    here = 0
    _, _, index_keys, estimates, pairs, rest_ms, lanes, turn, overall = one_of(every, here)
    mask = np.uint64(index_keys.shape[1] - 1)
    queues = new_queues(tuples, k)
    due_ms, ends_ms = queues.due_ms, queues.ends_ms
    chosen = np.empty(tuples, np.int32)
    tickets = np.empty((tuples, 3))
    said = np.zeros(3, np.int64)
    allowed = allowed_error(options)
    period = 0
    at_once = heard_at_once(work)
    for j in range(tuples):
        now_ms = arrivals_ms[j]
        while True:
            i = next_due(queues)
            if not due_ms[i] <= now_ms:
                break
            if at_once:
                i = first_of_equals(work, queues, i)
            done = take(work, queues, i)
            cost_ms = cost_of(work, period_of(work, 0, done), done, i)
            if places is None:
                key = keys[done]
                first = first_place(key, options)
                least, fewest = first, np.inf
                for way in range(options.ways):
                    place = first + np.uint64(way)
                    if table_keys[i, place] == key:
                        least = place
                        break
                    if table[i, place, COUNT] < fewest:
                        least, fewest = place, table[i, place, COUNT]
                if table_keys[i, least] != key:
                    table_keys[i, least] = key
                    table[i, least, SEEN] = 0.0
                    table[i, least, COST] = 0.0
                table[i, least, COUNT] += 1.0
                table[i, least, SEEN] += 1.0
                table[i, least, COST] += cost_ms
            else:
                add(own_pairs, i, places, done, cost_ms)
            sums[i, EXECUTED] += 1.0
            sums[i, TUPLES] += 1.0
            sums[i, TOTAL] += cost_ms
            sums[i, ENDED] = ends_ms[done]
            may_say = min(sums[i, MAY_SAY] + options.each_tuple, options.at_once)
            sums[i, MAY_SAY] = may_say
            if may_say < 1.0:
                continue
            error_ms = 0.0
            if not np.isnan(tickets[done, END]):
                error_ms = ends_ms[done] - tickets[done, END]
                if tickets[done, KNOWN] < told[i, sources[done]]:
                    error_ms += tickets[done, APPLIED] - corrected[i, sources[done]]
            report = sums[i, EXECUTED] >= sums[i, NEXT_REPORT]
            off = (error_ms * sums[i, TUPLES]) ** 2 * may_say > (allowed * sums[i, TOTAL]) ** 2 * options.at_once
            if not report and not off:
                continue
            sums[i, MAY_SAY] -= 1.0
            if options.theta < np.inf and not np.isnan(tickets[done, END]):
                corrected[i, sources[done]] = tickets[done, APPLIED] + (ends_ms[done] - tickets[done, END])
            sums[i, SEQUENCE] += 1.0
            told[i, sources[done]] = sums[i, SEQUENCE]
            if not report:
                said[CORRECTION] += 1
                correct(one_of(every, sources[done]), i, sums[i, SEQUENCE], corrected[i, sources[done]])
                continue
            told[i] = sums[i, SEQUENCE]
            sums[i, NEXT_REPORT] += min(sums[i, NEXT_REPORT], options.window)
            for at_scheduler in range(options.schedulers):
                said[REPORT] += 1
                hearer = one_of(every, at_scheduler)
                take_report(hearer, i, table_keys[i], table[i], own_pairs[i], sums[i], corrected[i, at_scheduler], options)
            forget_half(instances, i, options)
        period = period_of(work, period, j)
        if sources[j] != here:
            here = sources[j]
            _, _, index_keys, estimates, pairs, rest_ms, lanes, turn, overall = one_of(every, here)
        # To the letter what `send_all` does: a call that takes arrays would cost more than what it does for one tuple.
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
                    soonest, earliest, working = np.inf, np.inf, 0.0
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
                        if end < soonest or (end == soonest and finish < earliest):
                            best, soonest, earliest, start_ms = i, end, finish, start
                    overall[BUSY] += (working / k - overall[BUSY]) * LATELY if options.far else 0.0
            lanes[best, FINISH] = start_ms + base_ms * lanes[best, SPEED] * options.schedulers
        lanes[best, SENT] += 1.0
        tickets[j, END] = start_ms + base_ms * lanes[best, SPEED]
        tickets[j, APPLIED] = lanes[best, CORRECTIONS]
        tickets[j, KNOWN] = lanes[best, HEARD]
        chosen[j] = best
        send(work, queues, period, j, best)
    return chosen, ends_ms, said
