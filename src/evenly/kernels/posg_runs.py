"""A whole run of POSG, compiled: instances, scheduler and queues in one pass over the arrivals.

It does what the state machines of `evenly.grouping.shuffle.posg` do, message by message;
`tests/property/test_posg.py` holds one against the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.posg import add, expected, mean_cost, relative_change, snapshot
from evenly.kernels.queueing import Workload, new_queues, next_due, period_of, send, take
from evenly.kernels.types import F64, I32, I64

ROUND_ROBIN, SEND_ALL, WAIT_ALL, RUN = 0, 1, 2, 3
START, STABILIZING = 0, 1

STATE, TURN, EPOCH, ASKED, REPLIES, WAITED, REPORTED, MESSAGES, FIRST_RUN, LAST_PAIR = range(10)
"""Places in `Scheduler.marks`; the last two are the tuples read when RUN was first reached and when a pair last came."""


class Options(NamedTuple):
    """The parameters of POSG and of its reading: see `evenly.grouping.shuffle.posg`."""

    columns: int
    window: int
    tolerance: float
    patience: int
    clock: bool
    early: bool
    pooled: bool


class Instances(NamedTuple):
    """What the k instances hold."""

    pairs: F64
    snapshots: F64
    stage: I64
    executed: I64
    work_ms: F64


class Scheduler(NamedTuple):
    """What the scheduler holds; `pairs` and `unseen` have one place for all instances if estimates are pooled."""

    marks: I64
    known: F64
    has: I64
    pairs: F64
    unseen: F64
    sent_ms: F64
    replied: I64
    deltas_ms: F64


@compiled
def run(work: Workload, places: I32, options: Options) -> tuple[I32, F64, I64]:
    """The instance and the end of every tuple, and the scheduler's marks at the end."""
    tuples, k, rows = work.arrivals_ms.size, work.multipliers.shape[1], places.shape[1]
    shape = (k, rows, options.columns, 2)
    instances = Instances(
        np.zeros(shape), np.zeros((k, rows, options.columns)), np.zeros(k, np.int64), np.zeros(k, np.int64), np.zeros(k)
    )
    kept = 1 if options.pooled else k
    scheduler = Scheduler(
        np.zeros(10, np.int64),
        np.zeros(shape),
        np.zeros(k, np.int64),
        np.zeros((kept, rows, options.columns, 2)),
        np.zeros(kept),
        np.zeros(k),
        np.zeros(k, np.int64),
        np.zeros(k),
    )
    queues = new_queues(tuples, k)
    chosen = np.empty(tuples, np.int32)
    asked_epoch = np.zeros(tuples, np.int64)
    asked_ms = np.zeros(tuples)
    marks = scheduler.marks
    period = 0
    for j in range(tuples):
        while True:
            i = next_due(queues)
            if not queues.due_ms[i] <= work.arrivals_ms[j]:
                break
            done = take(work, queues, i)
            end_ms = queues.ends_ms[done]
            cost_ms = _cost_at(work, done, i)
            instances.work_ms[i] = end_ms if options.clock else instances.work_ms[i] + cost_ms
            stable = _execute(instances, options, i, places[done], cost_ms)
            if asked_epoch[done] > 0:
                marks[MESSAGES] += 1
                _take_reply(scheduler, i, asked_epoch[done], instances.work_ms[i] - asked_ms[done], j)
            if stable:
                marks[MESSAGES] += 1
                marks[LAST_PAIR] = j
                _take_pair(scheduler, options, i, instances.pairs[i])
                instances.pairs[i] = 0.0
        period = period_of(work, period, j)
        i = _submit(scheduler, options, places[j])
        if marks[STATE] == SEND_ALL and marks[ASKED] > 0:
            asked_epoch[j], asked_ms[j] = marks[EPOCH], scheduler.sent_ms[i]
            if marks[ASKED] == k:
                marks[STATE] = WAIT_ALL
        chosen[j] = i
        send(work, queues, period, j, i)
    return chosen, queues.ends_ms, marks


@inlined
def _cost_at(work: Workload, j: int, instance: int) -> float:
    period = period_of(work, 0, j)
    return work.costs_ms[j, min(instance, work.costs_ms.shape[1] - 1)] * work.multipliers[period, instance]


@inlined
def _execute(instances: Instances, options: Options, i: int, place: I32, cost_ms: float) -> bool:
    """Count a tuple at its instance; True if the instance sends its pair now and starts anew."""
    add(instances.pairs[i], place, cost_ms)
    instances.executed[i] += 1
    if instances.executed[i] % options.window != 0:
        return False
    if instances.stage[i] == STABILIZING and (
        options.early or relative_change(instances.pairs[i], instances.snapshots[i]) <= options.tolerance
    ):
        instances.stage[i] = START
        return True
    instances.stage[i] = STABILIZING
    snapshot(instances.pairs[i], instances.snapshots[i])
    return False


@inlined
def _take_pair(scheduler: Scheduler, options: Options, i: int, pair: F64) -> None:
    marks = scheduler.marks
    k = scheduler.has.size
    scheduler.known[i] = pair
    if scheduler.has[i] == 0:
        scheduler.has[i] = 1
        marks[REPORTED] += 1
    _estimate_from(scheduler, options)
    if marks[STATE] != ROUND_ROBIN or marks[REPORTED] == k:
        _ask_all(scheduler)


@inlined
def _estimate_from(scheduler: Scheduler, options: Options) -> None:
    """Make anew what estimates come from; an instance that has not reported is taken for the sum of the others."""
    total = np.zeros_like(scheduler.known[0])
    for i in range(scheduler.known.shape[0]):
        total += scheduler.known[i]
    for i in range(scheduler.pairs.shape[0]):
        scheduler.pairs[i] = total if options.pooled or scheduler.has[i] == 0 else scheduler.known[i]
        scheduler.unseen[i] = mean_cost(scheduler.pairs[i])


@inlined
def _ask_all(scheduler: Scheduler) -> None:
    marks = scheduler.marks
    marks[STATE] = SEND_ALL
    marks[EPOCH] += 1
    marks[ASKED] = 0
    marks[REPLIES] = 0
    marks[WAITED] = 0
    scheduler.replied[:] = 0


@inlined
def _take_reply(scheduler: Scheduler, i: int, epoch: int, delta_ms: float, j: int) -> None:
    marks = scheduler.marks
    if epoch != marks[EPOCH] or scheduler.replied[i] != 0 or marks[STATE] == RUN:
        return
    scheduler.replied[i] = 1
    scheduler.deltas_ms[i] = delta_ms
    marks[REPLIES] += 1
    if marks[STATE] == WAIT_ALL and marks[REPLIES] == scheduler.has.size:
        scheduler.sent_ms[:] += scheduler.deltas_ms
        marks[STATE] = RUN
        if marks[FIRST_RUN] == 0:
            marks[FIRST_RUN] = j


@inlined
def _submit(scheduler: Scheduler, options: Options, place: I32) -> int:
    """The instance of the next tuple."""
    marks = scheduler.marks
    k = scheduler.sent_ms.size
    if marks[STATE] in {ROUND_ROBIN, WAIT_ALL} and (marks[STATE] == WAIT_ALL or marks[REPORTED] > 0):
        if marks[WAITED] == options.patience:
            _ask_all(scheduler)
        else:
            marks[WAITED] += 1
    if marks[STATE] == ROUND_ROBIN:
        i = marks[TURN]
        marks[TURN] = (i + 1) % k
        return i
    if marks[STATE] == SEND_ALL:
        i = marks[ASKED]
        marks[ASKED] += 1
    else:
        i = 0
        for other in range(1, k):
            if scheduler.sent_ms[other] < scheduler.sent_ms[i]:
                i = other
    pair = min(i, scheduler.pairs.shape[0] - 1)
    scheduler.sent_ms[i] += expected(scheduler.pairs[pair], place, scheduler.unseen[pair])
    return i
