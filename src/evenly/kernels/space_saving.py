"""Space Saving kernels: counters in dense arrays, found through a hash index, evicted many at a time.

A summary is `keys`, `counts` and `errors` (the first `state[ENTRIES]` places of each are in use), `index`
(open addressing; 0 is free, otherwise 1 + the place) and `state = [entries, floor, total]`. `floor` bounds
the true count of every key that has no counter. A new key enters at `floor + weight` with error `floor`.
When all places are in use the summary is compacted: the `capacity` largest counters stay, perhaps some
more, and the largest count let go becomes the new floor.

Why the bound holds: call a key's estimate its count, or the floor if it has none. The estimates of any
`capacity` keys sum to at most the total weight. Adding weight raises one estimate and the total alike;
letting counters go keeps the `capacity` largest and gives all others an estimate that is no larger than
the smallest of those. So `capacity` times the floor is at most the total.
"""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.types import F64, I32, U64

ENTRIES, FLOOR, TOTAL = 0, 1, 2

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_SAMPLE = 256


@inlined
def home(key: np.uint64, shift: np.uint64) -> np.uint64:
    """Where the search for a key begins, in an index of 2^(64 - shift) places."""
    return ((key ^ (key >> np.uint64(32))) * _GOLDEN) >> shift


@inlined
def _threshold(counts: F64, entries: int, capacity: int) -> float:
    """A count that at least `capacity` counters reach and, ties apart, few more exceed."""
    sample = counts[: entries : max(1, entries // _SAMPLE)].copy()
    wanted = min(sample.size - 1, capacity * 5 // 4 * sample.size // entries)
    threshold = np.partition(sample, sample.size - 1 - wanted)[sample.size - 1 - wanted]
    above = 0
    reached = 0
    for i in range(entries):
        above += counts[i] > threshold
        reached += counts[i] >= threshold
    if reached < capacity or above > 2 * capacity:
        return float(np.partition(counts[:entries], entries - capacity)[entries - capacity])
    return float(threshold)


@compiled
def compact(capacity: int, keys: U64, counts: F64, errors: F64, index: I32, state: F64, shift: np.uint64) -> None:
    """Keep at least the `capacity` largest counters; the largest count let go becomes the floor."""
    entries = int(state[ENTRIES])
    if entries <= capacity:
        return
    threshold = _threshold(counts, entries, capacity)
    above = 0
    for i in range(entries):
        above += counts[i] > threshold
    ties = max(0, capacity - above)
    floor = state[FLOOR]
    kept = 0
    for i in range(entries):
        count = counts[i]
        keep = count > threshold
        if count == threshold and ties > 0:
            ties -= 1
            keep = True
        if not keep:
            floor = max(floor, count)
        keys[kept], counts[kept], errors[kept] = keys[i], count, errors[i]
        kept += keep
    state[ENTRIES] = kept
    state[FLOOR] = floor
    rebuild(kept, keys, index, shift)


@compiled
def rebuild(entries: int, keys: U64, index: I32, shift: np.uint64) -> None:
    """Make the index of the first `entries` keys anew."""
    mask = np.uint64(index.size - 1)
    index[:] = 0
    for i in range(entries):
        at = home(keys[i], shift)
        while index[at] != 0:
            at = (at + _ONE) & mask
        index[at] = i + 1


@compiled
def update(
    new_keys: U64, weights: F64, capacity: int, keys: U64, counts: F64, errors: F64, index: I32, state: F64, shift: np.uint64
) -> None:
    """Add `weights[i]` (positive; one weight for all if there is just one) to `new_keys[i]`, in order."""
    mask = np.uint64(index.size - 1)
    one_weight = weights.size == 1
    weight = weights[0] if one_weight else 0.0
    entries = int(state[ENTRIES])
    total = state[TOTAL]
    for i in range(new_keys.size):
        key = new_keys[i]
        if not one_weight:
            weight = weights[i]
        total += weight
        at = home(key, shift)
        while True:
            place = index[at]
            if place == 0:
                if entries == keys.size:
                    state[ENTRIES] = entries
                    compact(capacity, keys, counts, errors, index, state, shift)
                    entries = int(state[ENTRIES])
                    at = home(key, shift)
                    while index[at] != 0:
                        at = (at + _ONE) & mask
                keys[entries] = key
                counts[entries] = state[FLOOR] + weight
                errors[entries] = state[FLOOR]
                entries += 1
                index[at] = entries
                break
            if keys[place - 1] == key:
                counts[place - 1] += weight
                break
            at = (at + _ONE) & mask
    state[ENTRIES] = entries
    state[TOTAL] = total


@compiled
def look_up(wanted: U64, keys: U64, counts: F64, errors: F64, index: I32, state: F64, shift: np.uint64) -> tuple[F64, F64]:
    """Count and error of each wanted key: the floor twice for a key that has no counter."""
    mask = np.uint64(index.size - 1)
    count = np.full(wanted.size, state[FLOOR])
    error = np.full(wanted.size, state[FLOOR])
    for i in range(wanted.size):
        at = home(wanted[i], shift)
        while index[at] != 0:
            place = index[at] - 1
            if keys[place] == wanted[i]:
                count[i], error[i] = counts[place], errors[place]
                break
            at = (at + _ONE) & mask
    return count, error
