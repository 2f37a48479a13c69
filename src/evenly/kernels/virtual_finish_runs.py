"""A whole run of the default shuffle scheduler, compiled: instances, scheduler and queues in one pass over the arrivals."""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled
from evenly.kernels.queueing import Workload, cost_of, new_queues, next_due, period_of, send, take
from evenly.kernels.types import F64, I32, I64, U64
from evenly.kernels.virtual_finish import (
    APPLIED,
    BASE,
    CORRECTION,
    END,
    REPORT,
    Options,
    choose,
    correct,
    execute,
    forget_half,
    new_instances,
    new_scheduler,
    take_report,
)


@compiled
def run(
    work: Workload, keys: U64, places: I32, entries: int, columns: int, latency_ms: F64, options: Options
) -> tuple[I32, F64, I64]:
    """The instance and the end of every tuple, and how many corrections and reports there were."""
    tuples, k = work.arrivals_ms.size, latency_ms.size
    instances = new_instances(k, entries, places.shape[1], columns, options.first_report)
    scheduler = new_scheduler(entries, places.shape[1], columns, latency_ms, options)
    queues = new_queues(tuples, k)
    chosen = np.empty(tuples, np.int32)
    tickets = np.empty((tuples, 3))
    said = np.zeros(3, np.int64)
    period, shared = 0, places.shape[0] - 1
    for j in range(tuples):
        while True:
            i = next_due(queues)
            if not queues.due_ms[i] <= work.arrivals_ms[j]:
                break
            done = take(work, queues, i)
            cost_ms = cost_of(work, period_of(work, 0, done), done, i)
            end_ms = queues.ends_ms[done]
            kind = execute(instances, i, keys[done], places[min(done, shared)], cost_ms, end_ms, tickets[done], options)
            said[kind] += 1
            if kind == CORRECTION:
                correct(scheduler, i, instances.sums[i], options)
            elif kind == REPORT:
                take_report(
                    scheduler, i, instances.keys[i], instances.table[i], instances.pairs[i], instances.sums[i], options
                )
                forget_half(instances, i, options)
        period = period_of(work, period, j)
        i, predicted_ms, applied_ms, base_ms = choose(
            scheduler, keys[j], places[min(j, shared)], work.arrivals_ms[j], options
        )
        tickets[j, END] = predicted_ms
        tickets[j, APPLIED] = applied_ms
        tickets[j, BASE] = base_ms
        chosen[j] = i
        send(work, queues, period, j, i)
    return chosen, queues.ends_ms, said
