"""A slotted link that several queues share: one queue is chosen in each slot in which the link is free.

The rules are those of `evenly.emission`, whose objects say the same queue by queue; `tests/unit/test_emission_runs.py`
holds a plain loop over those objects against this.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.types import F64, I64

LBF, WEIGHTED_LBF, RRB, SKIPPING_RR, FCFS, LONGEST_WAITING = range(6)


class Traffic(NamedTuple):
    """What arrives where and when.

    `queues` and `slots` have the tuples in the order of their arrival. By queue, the tuples of queue i are `starts[i]` to
    `starts[i + 1]`, oldest first: `queue_slots` is when they arrive, and `sizes` what they weigh. A tuple occupies the link
    for its size over the speed of its queue, in whole slots.
    """

    queues: I64
    slots: I64
    starts: I64
    queue_slots: I64
    sizes: I64


@compiled
def expanded(counts: I64) -> tuple[I64, I64]:
    """Queue and slot of the tuples that `counts[slot, queue]` counts, in the order of their arrival."""
    length, width = counts.shape
    queues = np.empty(counts.sum(), np.int64)
    slots = np.empty(queues.size, np.int64)
    j = 0
    for t in range(length):
        for i in range(width):
            for _ in range(counts[t, i]):
                queues[j], slots[j] = i, t
                j += 1
    return queues, slots


class Rule(NamedTuple):
    """How a queue is chosen: by which rule, with or without the tuples of the slot itself, and how fast queues send."""

    rule: int
    count_arrivals: bool
    speeds: F64


class Queues(NamedTuple):
    """What waits: tuples, their sizes, the slot of the head; `first` and `last` are places among the tuples by queue."""

    waiting: I64
    sizes: I64
    heads: I64
    first: I64
    last: I64


@inlined
def _longest(queues: Queues) -> int:
    best, most = -1, 0
    for i in range(queues.waiting.size):
        if queues.waiting[i] > most:
            best, most = i, queues.waiting[i]
    return best


@inlined
def _slowest(queues: Queues, speeds: F64) -> int:
    best, most = -1, 0.0
    for i in range(queues.waiting.size):
        if queues.waiting[i] > 0 and queues.sizes[i] / speeds[i] > most:
            best, most = i, queues.sizes[i] / speeds[i]
    return best


@inlined
def _oldest(queues: Queues, longer_of_equals: bool) -> int:  # noqa: FBT001 - a kernel takes all by position
    best = -1
    for i in range(queues.waiting.size):
        if queues.waiting[i] == 0:
            continue
        older = best < 0 or queues.heads[i] < queues.heads[best]
        if older or (longer_of_equals and queues.heads[i] == queues.heads[best] and queues.waiting[i] > queues.waiting[best]):
            best = i
    return best


@inlined
def _next(queues: Queues, turn: int) -> int:
    for i in range(turn, queues.waiting.size):
        if queues.waiting[i] > 0:
            return i
    for i in range(turn):
        if queues.waiting[i] > 0:
            return i
    return -1


@inlined
def _choose(rule: Rule, queues: Queues, turn: int) -> int:
    """The queue that may send, given the next turn of a round-robin; -1 if nothing waits and so nobody's turn is used up."""
    if rule.rule == LBF:
        return _longest(queues)
    if rule.rule == WEIGHTED_LBF:
        return _slowest(queues, rule.speeds)
    if rule.rule == RRB:
        return turn
    if rule.rule == SKIPPING_RR:
        return _next(queues, turn)
    return _oldest(queues, rule.rule == LONGEST_WAITING)


@inlined
def _arrive(traffic: Traffic, queues: Queues, came: int, t: int) -> int:
    """Take in what arrives in a slot; how many tuples have come then."""
    while came < traffic.slots.size and traffic.slots[came] == t:
        i = traffic.queues[came]
        if queues.waiting[i] == 0:
            queues.heads[i] = t
        queues.waiting[i] += 1
        queues.sizes[i] += traffic.sizes[queues.last[i]]
        queues.last[i] += 1
        came += 1
    return came


@inlined
def _leave(traffic: Traffic, queues: Queues, i: int) -> int:
    """Take the oldest tuple out of a queue that has one, and say which it is."""
    j = queues.first[i]
    queues.first[i] += 1
    queues.waiting[i] -= 1
    queues.sizes[i] -= traffic.sizes[j]
    if queues.waiting[i] > 0:
        queues.heads[i] = traffic.queue_slots[j + 1]
    return int(j)


@compiled
def run(traffic: Traffic, length: int, rule: Rule, sampled: I64) -> tuple[I64, I64, I64, int]:
    """`length` slots under a rule: delays in slots, largest backlogs, sampled backlogs, and slots in which nothing was sent.

    A tuple's delay is the number of slots from its arrival until it is sent, and until the end if it never is. The
    largest backlogs (tuples, sizes) and the samples are taken after a slot, as B(t + 1) of the paper. With
    `count_arrivals` the rule sees the tuples of the slot too; without, only what was there before, and a queue chosen so
    sends a new tuple if it has no older one.
    """
    count = traffic.starts.size - 1
    none = np.zeros(count, np.int64)
    queues = Queues(none, none.copy(), none.copy(), traffic.starts[:-1].copy(), traffic.starts[:-1].copy())
    # A tuple that is never sent has waited until the end; the others are written over.
    delays = length - traffic.queue_slots
    largest = np.zeros(2, np.int64)
    samples = np.zeros((sampled.size, count), np.int64)
    turn, free_at, idle, next_sample, came = 0, 0, 0, 0, 0
    for t in range(length):
        before = came
        chosen = -1 if rule.count_arrivals else _choose(rule, queues, turn)
        came = _arrive(traffic, queues, came, t)
        if t >= free_at:
            if rule.count_arrivals:
                chosen = _choose(rule, queues, turn)
            if chosen < 0:
                chosen = turn
            elif rule.rule in (RRB, SKIPPING_RR):
                turn = (chosen + 1) % count
            if queues.waiting[chosen] > 0:
                j = _leave(traffic, queues, chosen)
                delays[j] = t - traffic.queue_slots[j]
                free_at = t + max(1, int(np.ceil(traffic.sizes[j] / rule.speeds[chosen])))
            else:
                idle += 1
        # A backlog can be the largest yet only where something came.
        for j in range(before, came):
            largest[0] = max(largest[0], queues.waiting[traffic.queues[j]])
            largest[1] = max(largest[1], queues.sizes[traffic.queues[j]])
        if next_sample < sampled.size and sampled[next_sample] == t + 1:
            samples[next_sample] = queues.waiting
            next_sample += 1
    return delays, largest, samples, idle
