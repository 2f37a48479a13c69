"""Kernels that decide tuple by tuple, by what one sender has sent to each instance so far.

`loads` counts the tuples sent to each instance and is updated in place, so a stream may be cut into any
number of calls. `hashes[row]` holds a and b of one Carter-Wegman function. Equal loads: the first candidate,
or the lowest instance where all are candidates.
"""

from __future__ import annotations

import numpy as np

from evenly.kernels import space_saving
from evenly.kernels.compile import compiled, inlined
from evenly.kernels.hashing import affine61, bucket_of, fold61, scale61
from evenly.kernels.space_saving import ENTRIES, TOTAL, home
from evenly.kernels.types import F64, I32, I64, U64

SummaryArrays = tuple[U64, F64, F64, I32, F64, np.uint64]
"""A Space Saving's keys, counts, errors, index, state and shift."""

LOW, CURSOR = 0, 1
CHOICES, NEXT = 0, 1

_ONE = np.uint64(1)


@inlined
def _candidate(folded: np.uint64, hashes: U64, row: int, instances: np.uint64) -> np.int64:
    return np.int64(scale61(affine61(hashes[row, 0], hashes[row, 1], folded), instances))


@inlined
def _less_loaded(first: np.int64, second: np.int64, loads: I64) -> np.int64:
    return second if loads[second] < loads[first] else first


@compiled
def less_loaded_of_two(ids: U64, hashes: U64, distinct: bool, loads: I64) -> I32:  # noqa: FBT001 - kernels take all by position
    """The less loaded of two hashed candidates; `distinct` (for two instances or more) makes the second another one."""
    instances = np.uint64(loads.size)
    out = np.empty(ids.size, np.int32)
    for i in range(ids.size):
        folded = fold61(ids[i])
        first = _candidate(folded, hashes, 0, instances)
        if distinct:
            second = _candidate(folded, hashes, 1, instances - _ONE)
            second += np.int64(second >= first)
        else:
            second = _candidate(folded, hashes, 1, instances)
        chosen = _less_loaded(first, second, loads)
        loads[chosen] += 1
        out[i] = chosen
    return out


@inlined
def _least_loaded(loads: I64, level: I64) -> np.int64:
    """The lowest instance of the least load, in constant time on average.

    Loads only grow. So an instance found above the least load stays above it, and the search can go on from
    `level[CURSOR]` until every instance has passed `level[LOW]`, which takes as many tuples as there are instances.
    """
    low, at = level[LOW], level[CURSOR]
    while loads[at] > low:
        at += 1
        if at == loads.size:
            low, at = loads.min(), 0
    level[LOW], level[CURSOR] = low, at
    return np.int64(at)


@inlined
def _place_of(key: np.uint64, keys: U64, index: I32, shift: np.uint64) -> int:
    """Where the counter of a key is; -1 if it has none."""
    mask = np.uint64(index.size - 1)
    at = home(key, shift)
    while index[at] != 0:
        if keys[index[at] - 1] == key:
            return int(index[at] - 1)
        at = (at + _ONE) & mask
    return -1


@inlined
def _choices_needed(counts: F64, state: F64, threshold: float, epsilon: float, instances: int) -> int:
    """The fewest choices for head keys with which neither the heaviest key nor the whole head overloads its instances."""
    total = state[TOTAL]
    heads, head, heaviest = 0, 0.0, 0.0
    for i in range(int(state[ENTRIES])):
        if counts[i] > threshold * total:
            heads += 1
            head += counts[i]
            heaviest = max(heaviest, counts[i])
    head /= total
    heaviest /= total
    tail = 1.0 - head
    missed = (instances - 1) / instances
    choices = max(2, int(heaviest * instances + 0.5))
    while choices < instances:
        own = 1.0 - missed**choices
        all_heads = 1.0 - missed ** (heads * choices)
        one_fits = heaviest + (head - heaviest) * own**choices + tail * own * own <= own + epsilon
        if one_fits and head + tail * all_heads * all_heads <= all_heads + epsilon:
            break
        choices += 1
    return min(choices, instances)


@compiled
def head_choices(
    ids: U64,
    hashes: U64,
    summary: SummaryArrays,
    capacity: int,
    threshold: float,
    epsilon: float,
    head: I64,
    loads: I64,
    level: I64,
) -> I32:
    """Head keys to the least loaded of `head[CHOICES]` candidates (of all, if as many as instances), others of two.

    A key is in the head while its count in the summary exceeds `threshold` of all tuples, this one included. The
    number of choices is found anew when the total reaches `head[NEXT]`, then after each growth by a hundredth.
    """
    keys, counts, errors, index, state, shift = summary
    instances = np.uint64(loads.size)
    one = np.ones(1)
    out = np.empty(ids.size, np.int32)
    for i in range(ids.size):
        place = _place_of(ids[i], keys, index, shift)
        if place >= 0:
            counts[place] += 1.0
            state[TOTAL] += 1.0
        else:
            space_saving.update(ids[i : i + 1], one, capacity, keys, counts, errors, index, state, shift)
            place = int(state[ENTRIES]) - 1
        total = state[TOTAL]
        if total >= head[NEXT]:
            head[CHOICES] = _choices_needed(counts, state, threshold, epsilon, loads.size)
            head[NEXT] = int(total) + 1 + int(total) // 100
        folded = fold61(ids[i])
        if counts[place] <= threshold * total:
            first = _candidate(folded, hashes, 0, instances)
            chosen = _less_loaded(first, _candidate(folded, hashes, 1, instances), loads)
        elif head[CHOICES] >= loads.size:
            chosen = _least_loaded(loads, level)
        else:
            chosen = _candidate(folded, hashes, 0, instances)
            for row in range(1, head[CHOICES]):
                chosen = _less_loaded(chosen, _candidate(folded, hashes, row, instances), loads)
        loads[chosen] += 1
        out[i] = chosen
    return out


@compiled
def split_heavy(
    ids: U64, heavy: U64, pairs: I32, index: I32, shift: np.uint64, a: np.uint64, b: np.uint64, buckets: I32, loads: I64
) -> I32:
    """A heavy key to the less loaded of its pair of instances, any other key to the instance of its bucket."""
    mask = np.uint64(index.size - 1)
    count = np.uint64(buckets.size)
    out = np.empty(ids.size, np.int32)
    for i in range(ids.size):
        key = ids[i]
        chosen = np.int64(-1)
        at = home(key, shift)
        while index[at] != 0:
            place = index[at] - 1
            if heavy[place] == key:
                chosen = _less_loaded(np.int64(pairs[place, 0]), np.int64(pairs[place, 1]), loads)
                break
            at = (at + _ONE) & mask
        if chosen < 0:
            chosen = np.int64(buckets[bucket_of(key, a, b, count)])
        loads[chosen] += 1
        out[i] = chosen
    return out


@compiled
def where_seen(ids: U64, hashes: U64, keys: U64, instances_of: I32, index: I32, shift: np.uint64, used: I64, loads: I64) -> I32:
    """A remembered key to its instance; any other to the less loaded of two candidates, and remembered if there is room."""
    mask = np.uint64(index.size - 1)
    instances = np.uint64(loads.size)
    out = np.empty(ids.size, np.int32)
    for i in range(ids.size):
        key = ids[i]
        chosen = np.int64(-1)
        # Looked up as in `split_heavy`: a call that takes arrays would cost more than the look.
        at = home(key, shift)
        while index[at] != 0:
            if keys[index[at] - 1] == key:
                chosen = np.int64(instances_of[index[at] - 1])
                break
            at = (at + _ONE) & mask
        if chosen < 0:
            folded = fold61(key)
            first = _candidate(folded, hashes, 0, instances)
            chosen = _less_loaded(first, _candidate(folded, hashes, 1, instances), loads)
            if used[0] < keys.size:
                keys[used[0]], instances_of[used[0]] = key, chosen
                used[0] += 1
                index[at] = used[0]
        loads[chosen] += 1
        out[i] = chosen
    return out


@compiled
def next_channels(tuples: int, look: int, queued: F64, queued_bytes: F64, current: I64) -> I32:
    """Of the next `look` instances the first that is empty, else the one with the fewest tuples, then fewest bytes."""
    out = np.empty(tuples, np.int32)
    for i in range(tuples):
        best = (current[0] + 1) % queued.size
        for step in range(1, look + 1):
            at = (current[0] + step) % queued.size
            if queued[at] < queued[best] or (queued[at] == queued[best] and queued_bytes[at] < queued_bytes[best]):
                best = at
            if queued[at] == 0.0:
                best = at
                break
        queued[best] += 1.0
        current[0] = best
        out[i] = best
    return out
