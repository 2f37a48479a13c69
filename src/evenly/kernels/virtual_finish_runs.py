"""A whole run of the default shuffle scheduler, compiled: instances, scheduler and queues in one pass over the arrivals.

It takes the steps of `evenly.kernels.virtual_finish`, as the objects of `evenly.grouping.shuffle.virtual_finish` do;
`tests/property/test_posg.py` holds one against the other. Arrays are taken out of their bundles before the loop: a
bundle's array costs a reference count each time it is taken out.
"""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled
from evenly.kernels.queueing import Workload, cost_of, new_queues, next_due, period_of, send, take
from evenly.kernels.types import F64, I32, I64, U64
from evenly.kernels.virtual_finish import (
    CORRECTION,
    NOTHING,
    Options,
    correct,
    estimate,
    forget_half,
    in_turn,
    judge,
    learn,
    new_instances,
    new_scheduler,
    place_on,
    soonest,
    take_report,
)


@compiled
def run(
    work: Workload, keys: U64, places: I32 | None, shape: tuple[int, int, int], latency_ms: F64, options: Options
) -> tuple[I32, F64, I64]:
    """The instance and the end of every tuple, and how many corrections and reports there were.

    `shape` is a table's entries, and the rows and columns of the matrices.
    """
    entries, rows, columns = shape
    tuples, k = work.arrivals_ms.size, latency_ms.size
    instances = new_instances(k, entries, rows, columns, options.first_report)
    scheduler = new_scheduler(entries, rows, columns, latency_ms, options)
    table_keys, table, own_pairs, sums = instances
    _, _, index_keys, estimates, pairs, rest_ms, lanes, turn = scheduler
    queues = new_queues(tuples, k)
    chosen = np.empty(tuples, np.int32)
    tickets = np.empty((tuples, 3))
    said = np.zeros(3, np.int64)
    period = 0
    for j in range(tuples):
        now_ms = work.arrivals_ms[j]
        while True:
            i = next_due(queues)
            if not queues.due_ms[i] <= now_ms:
                break
            done = take(work, queues, i)
            cost_ms = cost_of(work, period_of(work, 0, done), done, i)
            learn(table_keys, table, own_pairs, i, keys[done], places, done, cost_ms, options)
            kind = judge(sums, i, cost_ms, queues.ends_ms[done], tickets, done, options)
            if kind == NOTHING:
                continue
            said[kind] += 1
            if kind == CORRECTION:
                correct(scheduler, i, sums[i])
            else:
                take_report(scheduler, i, table_keys[i], table[i], own_pairs[i], sums[i], options)
                forget_half(instances, i, options)
        period = period_of(work, period, j)
        if turn[0] >= 0:
            i = in_turn(lanes, turn, tickets, j)
        else:
            base_ms = 0.0
            if options.pooled:
                base_ms = estimate(index_keys, estimates, pairs, rest_ms, 0, keys[j], places, j)
            i = soonest(lanes, base_ms, now_ms, options)
            if not options.pooled:
                base_ms = estimate(index_keys, estimates, pairs, rest_ms, i, keys[j], places, j)
            place_on(lanes, i, base_ms, now_ms, tickets, j, options)
        chosen[j] = i
        send(work, queues, period, j, i)
    return chosen, queues.ends_ms, said
