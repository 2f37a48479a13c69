"""Kernels for many runs of one experiment: loads of the instances from what each key weighs, without its tuples.

A run is described by arrays with one place per key: the residue of its hash (`residues`), what it weighed while
learning (`learnt`) and what it weighs when evaluated (`evaluated`). A key's bucket is its residue scaled to the
number of buckets, so one residue serves any number of buckets and of instances.
"""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.hashing import affine61, fold61, scale61
from evenly.kernels.scheduling import greedy, largest_first
from evenly.kernels.types import F64, I32, I64, U64


@compiled
def residues(keys: U64, a: np.uint64, b: np.uint64) -> U64:
    """Carter-Wegman's residue of every key."""
    out = np.empty(keys.size, np.uint64)
    for i in range(keys.size):
        out[i] = affine61(a, b, fold61(keys[i]))
    return out


@compiled
def hashed_loads(residue: U64, evaluated: F64, instances: int) -> F64:
    """Loads when every key goes to the instance that its hash names."""
    count = np.uint64(instances)
    loads = np.zeros(instances)
    for i in range(residue.size):
        loads[scale61(residue[i], count)] += evaluated[i]
    return loads


@compiled
def greedy_loads(heaviest_first: F64, instances: int) -> F64:
    """Loads when every key goes, heaviest first, to the least loaded instance."""
    loads = np.zeros(instances)
    greedy(heaviest_first, np.arange(heaviest_first.size), loads)
    return loads


@compiled
def dkg_loads(
    residue: U64, learnt: F64, evaluated: F64, heavy: I64, weights: F64, buckets: int, instances: int, power: float
) -> F64:
    """Loads under DKG's mapping; `heavy` are the places of the heavy keys by id, `weights` what is sure of each.

    The schedule weighs a heavy key or a bucket by what it was seen to weigh to the given power (the paper's linear
    cost: 1, quadratic: 2); `evaluated` must come in that power already.
    """
    count = np.uint64(buckets)
    items = np.zeros(heavy.size + buckets)
    sparse = items[heavy.size :]
    for i in range(residue.size):
        sparse[scale61(residue[i], count)] += learnt[i]
    total = sparse.sum()
    for i in range(heavy.size):
        items[i] = weights[i]
        sparse[scale61(residue[heavy[i]], count)] -= weights[i]
    for i in range(buckets):
        if sparse[i] <= 1e-9 * total:
            sparse[i] = 0.0
    if power != 1.0:
        items[:] = items**power
    placed = largest_first(items, instances)
    return _loads(residue, evaluated, heavy, placed[: heavy.size], placed[heavy.size :], instances)


@compiled
def unscheduled_loads(residue: U64, evaluated: F64, heavy: I64, weights: F64, instances: int) -> F64:
    """Loads when only the heavy keys are scheduled, and each other key goes to the instance that its hash names."""
    placed = largest_first(weights, instances)
    return _loads(residue, evaluated, heavy, placed, np.arange(instances).astype(np.int32), instances)


@inlined
def _loads(residue: U64, evaluated: F64, heavy: I64, heavy_instances: I32, buckets: I32, instances: int) -> F64:
    count = np.uint64(buckets.size)
    loads = np.zeros(instances)
    for i in range(residue.size):
        loads[buckets[scale61(residue[i], count)]] += evaluated[i]
    for i in range(heavy.size):
        key = heavy[i]
        loads[buckets[scale61(residue[key], count)]] -= evaluated[key]
        loads[heavy_instances[i]] += evaluated[key]
    return loads
