"""Kernels of the event core: k instances with first-in-first-out queues, fed by one or several schedulers.

Nothing that an instance does depends on a message: what it has to know travels with its tuples. So the end of a tuple
is known when it is sent, and what its instance then tells the scheduler need be worked out only when that message
arrives. An event loop is thus one pass over the arrivals; before each, the messages that are due by then are taken in
the order of (time, instance). Of what happens at one time, ends come first, then messages, then tuples that reach their
instance with all that follows at once, then arrivals.
`evenly.lab.simulation.event_loop` is the event loop in full, and `tests/unit/test_queueing.py` holds one against the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.types import F64, I32, I64


class Workload(NamedTuple):
    """What arrives when, and how long it takes where.

    `arrivals_ms` (not descending) has one place per tuple; `costs_ms` is tuples x 1, or tuples x instances where they
    differ; from tuple `period_starts[p]` on, costs on instance i are multiplied by `multipliers[p, i]`. A tuple needs
    `tuple_latency_ms[i]` to reach instance i, and a message `control_latency_ms[i]` to come back.
    """

    arrivals_ms: F64
    costs_ms: F64
    multipliers: F64
    period_starts: I64
    tuple_latency_ms: F64
    control_latency_ms: F64


class Queues(NamedTuple):
    """The tuples of every instance that the scheduler has not heard of, as linked lists in the order they were sent.

    `free_ms[i]` is when instance i will have done all it was sent; `due_ms[i]` when its next message may arrive.
    """

    free_ms: F64
    due_ms: F64
    first: I64
    last: I64
    following: I64
    ends_ms: F64


@inlined
def new_queues(tuples: int, instances: int) -> Queues:
    """Empty queues."""
    return Queues(
        np.zeros(instances),
        np.full(instances, np.inf),
        np.full(instances, -1),
        np.full(instances, -1),
        np.full(tuples, -1),
        np.zeros(tuples),
    )


@inlined
def period_of(work: Workload, period: int, j: int) -> int:
    """The period of tuple j, searched for from an earlier one on."""
    while period + 1 < work.period_starts.size and work.period_starts[period + 1] <= j:
        period += 1
    return period


@inlined
def cost_of(work: Workload, period: int, j: int, instance: int) -> float:
    """How long tuple j takes on an instance."""
    return float(work.costs_ms[j, min(instance, work.costs_ms.shape[1] - 1)] * work.multipliers[period, instance])


@inlined
def serve(work: Workload, period: int, j: int, instance: int, free_ms: F64) -> float:
    """When tuple j ends if it is sent to an instance now."""
    start = max(free_ms[instance], work.arrivals_ms[j] + work.tuple_latency_ms[instance])
    end = float(start + cost_of(work, period, j, instance))
    free_ms[instance] = end
    return end


@inlined
def send(work: Workload, queues: Queues, period: int, j: int, instance: int) -> None:
    """Put tuple j in the queue of an instance."""
    queues.ends_ms[j] = serve(work, period, j, instance, queues.free_ms)
    if queues.first[instance] < 0:
        queues.first[instance] = j
        queues.due_ms[instance] = queues.ends_ms[j] + work.control_latency_ms[instance]
    else:
        queues.following[queues.last[instance]] = j
    queues.last[instance] = j


@inlined
def next_due(queues: Queues) -> int:
    """The instance whose message arrives first, the lowest of equals."""
    best = 0
    for i in range(1, queues.due_ms.size):
        if queues.due_ms[i] < queues.due_ms[best]:
            best = i
    return best


@inlined
def heard_at_once(work: Workload) -> bool:
    """True if a tuple may be heard of at the time at which it reaches its instance, having been sent before."""
    return bool(work.tuple_latency_ms.max() > 0.0 and work.control_latency_ms.min() == 0.0)


@compiled
def first_of_equals(work: Workload, queues: Queues, instance: int) -> int:
    """Whose message is taken first of those that are due when that of `instance` is, the lowest with one.

    A tuple that costs nothing ends when it reaches its instance, so behind the messages of that time. If its own takes
    no time, it comes after them. Only where `heard_at_once` can that be; this is not in `next_due` because that would
    then be too large to be inlined, and a run 4 times slower.
    """
    for i in range(instance, queues.due_ms.size):
        j = queues.first[i]
        if j < 0 or queues.due_ms[i] != queues.due_ms[instance]:
            continue
        if queues.due_ms[i] != work.arrivals_ms[j] + work.tuple_latency_ms[i]:
            return i
    return instance


@inlined
def take(work: Workload, queues: Queues, instance: int) -> int:
    """Remove the oldest tuple of an instance and return it."""
    j = int(queues.first[instance])
    following = queues.following[j]
    queues.first[instance] = following
    if following < 0:
        queues.due_ms[instance] = np.inf
    else:
        queues.due_ms[instance] = queues.ends_ms[following] + work.control_latency_ms[instance]
    return j


@compiled
def assigned(work: Workload, instances: I32) -> F64:
    """The end of every tuple, where its instance is decided already."""
    ends_ms = np.empty(instances.size)
    assigned_part(work, instances, 0, instances.size, np.zeros(work.multipliers.shape[1]), ends_ms)
    return ends_ms


@compiled
def assigned_part(work: Workload, instances: I32, start: int, stop: int, free_ms: F64, ends_ms: F64) -> None:
    """The ends of tuples `start` to `stop`, on instances that are free from `free_ms` on."""
    period = 0
    for j in range(start, stop):
        period = period_of(work, period, j)
        ends_ms[j] = serve(work, period, j, instances[j], free_ms)


@compiled
def least_work(work: Workload, in_turn: int) -> tuple[I32, F64]:
    """Each tuple to the instance with the least work left, the lowest of equals; the first `in_turn` round-robin."""
    tuples, k = work.arrivals_ms.size, work.multipliers.shape[1]
    free_ms = np.zeros(k)
    chosen = np.empty(tuples, np.int32)
    ends_ms = np.empty(tuples)
    period = 0
    for j in range(tuples):
        period = period_of(work, period, j)
        best, least = 0, np.inf
        for i in range(k):
            done = max(free_ms[i], work.arrivals_ms[j])
            if done < least:
                best, least = i, done
        if j < in_turn:
            best = j % k
        chosen[j] = best
        ends_ms[j] = serve(work, period, j, best, free_ms)
    return chosen, ends_ms


@compiled
def full_knowledge(work: Workload, in_turn: int) -> tuple[I32, F64]:
    """Each tuple to the instance with the least exact work sent so far, the lowest of equals; the first round-robin."""
    tuples, k = work.arrivals_ms.size, work.multipliers.shape[1]
    free_ms = np.zeros(k)
    sent_ms = np.zeros(k)
    chosen = np.empty(tuples, np.int32)
    ends_ms = np.empty(tuples)
    period = 0
    for j in range(tuples):
        period = period_of(work, period, j)
        best = j % k if j < in_turn else int(np.argmin(sent_ms))
        chosen[j] = best
        sent_ms[best] += cost_of(work, period, j, best)
        ends_ms[j] = serve(work, period, j, best, free_ms)
    return chosen, ends_ms


@compiled
def shortest_queue(work: Workload, candidates: I32, sources: I32, schedulers: int) -> tuple[I32, F64, int]:
    """Each tuple to the candidate with the fewest tuples that are not acknowledged yet, the first of equals.

    `candidates` is tuples x d, or 1 x d where they are the same for all. Each end is acknowledged by a message to the
    scheduler of the tuple, which knows of its own tuples only; those that had arrived before the last tuple are counted.
    """
    tuples, k = work.arrivals_ms.size, work.multipliers.shape[1]
    queues = new_queues(tuples, k)
    waiting = np.zeros((schedulers, k), np.int64)
    chosen = np.empty(tuples, np.int32)
    messages, period = 0, 0
    for j in range(tuples):
        messages += _acknowledge(work, queues, sources, j, waiting)
        period = period_of(work, period, j)
        source, row = sources[j], min(j, candidates.shape[0] - 1)
        best = candidates[row, 0]
        for d in range(1, candidates.shape[1]):
            if waiting[source, candidates[row, d]] < waiting[source, best]:
                best = candidates[row, d]
        chosen[j] = best
        waiting[source, best] += 1
        send(work, queues, period, j, best)
    return chosen, queues.ends_ms, messages


@compiled
def next_channels(work: Workload, look: int, sources: I32, schedulers: int) -> tuple[I32, F64, int]:
    """Of the next `look` instances the first with nothing unacknowledged, else the one with the fewest, the nearest of them."""
    tuples, k = work.arrivals_ms.size, work.multipliers.shape[1]
    queues = new_queues(tuples, k)
    waiting = np.zeros((schedulers, k), np.int64)
    current = np.full(schedulers, -1)
    chosen = np.empty(tuples, np.int32)
    messages, period = 0, 0
    for j in range(tuples):
        messages += _acknowledge(work, queues, sources, j, waiting)
        period = period_of(work, period, j)
        source = sources[j]
        best = (current[source] + 1) % k
        for step in range(2, look + 1):
            at = (current[source] + step) % k
            if waiting[source, best] == 0:
                break
            if waiting[source, at] < waiting[source, best]:
                best = at
        chosen[j] = best
        current[source] = best
        waiting[source, best] += 1
        send(work, queues, period, j, best)
    return chosen, queues.ends_ms, messages


@inlined
def _acknowledge(work: Workload, queues: Queues, sources: I32, j: int, waiting: I64) -> int:
    """Take in the acknowledgements that have come before tuple j; how many they were."""
    came = 0
    for i in range(queues.due_ms.size):
        while queues.due_ms[i] <= work.arrivals_ms[j]:
            waiting[sources[take(work, queues, i)], i] -= 1
            came += 1
    return came


@compiled
def to_fewest_waiting(candidates: I32, waiting: F64) -> I32:
    """Each tuple to its candidate with the fewest tuples waiting, the first of equals; it waits there from then on."""
    chosen = np.empty(candidates.shape[0], np.int32)
    for j in range(candidates.shape[0]):
        best = candidates[j, 0]
        for d in range(1, candidates.shape[1]):
            if waiting[candidates[j, d]] < waiting[best]:
                best = candidates[j, d]
        chosen[j] = best
        waiting[best] += 1.0
    return chosen


@compiled
def to_least_work(costs_ms: F64, now_ms: float, latency_ms: F64, done_ms: F64, sent: int, in_turn: int) -> I32:
    """Each tuple to the instance that has done its work first, the lowest of equals and of those that are idle.

    `costs_ms` is tuples x 1 or tuples x instances; a tuple reaches an instance `latency_ms` from now. With `now_ms` of
    minus infinity idle time does not count: then
    `done_ms` is the work sent. Of all tuples (`sent` came before these) the first `in_turn` go round-robin.
    """
    chosen = np.empty(costs_ms.shape[0], np.int32)
    for j in range(costs_ms.shape[0]):
        best = 0
        for i in range(1, done_ms.size):
            if max(done_ms[i], now_ms) < max(done_ms[best], now_ms):
                best = i
        if sent + j < in_turn:
            best = (sent + j) % done_ms.size
        done_ms[best] = max(done_ms[best], now_ms + latency_ms[best]) + costs_ms[j, min(best, costs_ms.shape[1] - 1)]
        chosen[j] = best
    return chosen
