"""A whole run of POSG, compiled: instances, schedulers and queues in one pass over the arrivals.

It does what the state machines of `evenly.lab.rivals.shuffle.posg` do, message by message;
`tests/property/test_posg.py` holds one against the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.posg import add, expected, mean_cost, relative_change, snapshot
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
from evenly.kernels.types import F64, I32, I64

ROUND_ROBIN, SEND_ALL, WAIT_ALL, RUN = 0, 1, 2, 3
START, STABILIZING = 0, 1

STATE, TURN, EPOCH, ASKED, REPLIES, WAITED, REPORTED, MESSAGES, LEFT, FIRST_RUN = range(10)
"""Places in `Scheduler.marks`; the last two are the tuples read when round-robin ended and when RUN was first reached."""


class Options(NamedTuple):
    """The parameters of POSG and of its reading: see `evenly.lab.rivals.shuffle.posg`."""

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


@inlined
def _one(all_of_them: Scheduler, at: int) -> Scheduler:
    """Scheduler `at`, whose arrays are parts of those of all."""
    marks, known, has, pairs, unseen, sent_ms, replied, deltas_ms = all_of_them
    return Scheduler(marks[at], known[at], has[at], pairs[at], unseen[at], sent_ms[at], replied[at], deltas_ms[at])


@inlined
def _new_schedulers(count: int, k: int, rows: int, columns: int, kept: int) -> Scheduler:
    return Scheduler(
        np.zeros((count, 10), np.int64),
        np.zeros((count, k, rows, columns, 2)),
        np.zeros((count, k), np.int64),
        np.zeros((count, kept, rows, columns, 2)),
        np.zeros((count, kept)),
        np.zeros((count, k)),
        np.zeros((count, k), np.int64),
        np.zeros((count, k)),
    )


@compiled
def run(  # noqa: C901 - one pass, and calls in it cost more than most steps
    work: Workload, places: I32, sources: I32, schedulers: int, options: Options
) -> tuple[I32, F64, I64, I64]:
    """The instance and end of every tuple, the schedulers' marks at the end, and (instance, tuples read) of every pair.

    Tuple j arrives at scheduler `sources[j]`. An instance replies to the scheduler that asked, and sends its pair to all.
    """
    tuples, k, rows = work.arrivals_ms.size, work.multipliers.shape[1], places.shape[1]
    instances = Instances(
        np.zeros((k, rows, options.columns, 2)),
        np.zeros((k, rows, options.columns)),
        np.zeros(k, np.int64),
        np.zeros(k, np.int64),
        np.zeros(k),
    )
    every = _new_schedulers(schedulers, k, rows, options.columns, 1 if options.pooled else k)
    queues = new_queues(tuples, k)
    chosen = np.empty(tuples, np.int32)
    asked_epoch = np.zeros(tuples, np.int64)
    asked_ms = np.zeros(tuples)
    own_pairs, snapshots, stage, executed, work_ms = instances
    here = 0
    marks, _, _, pairs, unseen, sent_ms, _, _ = _one(every, here)
    came = np.empty((tuples // options.window + 1, 2), np.int64)
    period, sent_pairs = 0, 0
    at_once = heard_at_once(work)
    for j in range(tuples):
        while True:
            i = next_due(queues)
            if not queues.due_ms[i] <= work.arrivals_ms[j]:
                break
            if at_once:
                i = first_of_equals(work, queues, i)
            done = take(work, queues, i)
            cost_ms = cost_of(work, period_of(work, 0, done), done, i)
            work_ms[i] = queues.ends_ms[done] if options.clock else work_ms[i] + cost_ms
            add(own_pairs, i, places, done, cost_ms)
            executed[i] += 1
            if asked_epoch[done] > 0:
                asker = _one(every, sources[done])
                asker.marks[MESSAGES] += 1
                _take_reply(asker, i, asked_epoch[done], work_ms[i] - asked_ms[done], j)
            if executed[i] % options.window == 0 and _end_window(own_pairs[i], snapshots[i], stage, i, options):
                came[sent_pairs, 0], came[sent_pairs, 1] = i, j
                sent_pairs += 1
                _tell_all(every, options, i, own_pairs[i])
        period = period_of(work, period, j)
        if sources[j] != here:
            here = sources[j]
            marks, _, _, pairs, unseen, sent_ms, _, _ = _one(every, here)
        if _out_of_patience(marks, options.patience):
            _ask_all(_one(every, here))
        _note_leaving(marks, j)
        i = _submit(marks, sent_ms, pairs, unseen, places, j)
        if marks[STATE] == SEND_ALL:
            asked_epoch[j], asked_ms[j] = marks[EPOCH], sent_ms[i]
            if marks[ASKED] == k:
                marks[STATE] = WAIT_ALL
        chosen[j] = i
        send(work, queues, period, j, i)
    return chosen, queues.ends_ms, every.marks, came[:sent_pairs]


@inlined
def _end_window(pair: F64, before: F64, stage: I64, i: int, options: Options) -> bool:
    """True if the instance sends its pair now and starts anew."""
    if stage[i] == STABILIZING and (options.early or relative_change(pair, before) <= options.tolerance):
        stage[i] = START
        return True
    stage[i] = STABILIZING
    snapshot(pair, before)
    return False


@inlined
def _tell_all(every: Scheduler, options: Options, i: int, pair: F64) -> None:
    """Send a pair to all schedulers, and empty it."""
    for at in range(every.marks.shape[0]):
        hearer = _one(every, at)
        hearer.marks[MESSAGES] += 1
        _take_pair(hearer, options, i, pair)
    pair[:] = 0.0


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
def _out_of_patience(marks: I64, patience: int) -> bool:
    """Count a tuple sent while something is awaited; True if too many were."""
    if marks[STATE] == WAIT_ALL or (marks[STATE] == ROUND_ROBIN and marks[REPORTED] > 0):
        if marks[WAITED] == patience:
            return True
        marks[WAITED] += 1
    return False


@inlined
def _note_leaving(marks: I64, j: int) -> None:
    if marks[LEFT] == 0 and marks[STATE] != ROUND_ROBIN:
        marks[LEFT] = j


@inlined
def _submit(marks: I64, sent_ms: F64, pairs: F64, unseen: F64, places: I32, j: int) -> int:
    """The instance of tuple j."""
    if marks[STATE] == ROUND_ROBIN:
        i = int(marks[TURN])
        marks[TURN] = i + 1 if i + 1 < sent_ms.size else 0
        return i
    if marks[STATE] == SEND_ALL:
        i = int(marks[ASKED])
        marks[ASKED] += 1
    else:
        i = 0
        for other in range(1, sent_ms.size):
            if sent_ms[other] < sent_ms[i]:
                i = other
    pair = min(i, pairs.shape[0] - 1)
    sent_ms[i] += expected(pairs, pair, places, j, unseen[pair])
    return i
