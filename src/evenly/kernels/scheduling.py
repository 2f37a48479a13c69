"""Greedy multiprocessor scheduling: each item to the instance with the least load so far."""

from __future__ import annotations

import numpy as np

from evenly.kernels.compile import compiled, inlined
from evenly.kernels.types import F64, I32, I64


@inlined
def _sift_down(loads: F64, heap: I32) -> None:
    """Restore the heap after the load of its first instance grew. Order: least load, then lowest instance."""
    size = heap.size
    moving = heap[0]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            loads[heap[right]] < loads[heap[child]] or (loads[heap[right]] == loads[heap[child]] and heap[right] < heap[child])
        ):
            child = right
        lower = heap[child]
        if loads[lower] < loads[moving] or (loads[lower] == loads[moving] and lower < moving):
            heap[at] = lower
            at = child
        else:
            break
    heap[at] = moving


@compiled
def greedy_unequal(weights: F64, order: I64, loads: F64, capacities: F64) -> I32:
    """Place each item where load over capacity is least after it came, ties to the lowest instance."""
    placed = np.empty(weights.size, np.int32)
    for item in order:
        best = 0
        least = np.inf
        for instance in range(loads.size):
            after = (loads[instance] + weights[item]) / capacities[instance]
            if after < least:
                best, least = instance, after
        placed[item] = best
        loads[best] += weights[item]
    return placed


@compiled
def greedy(weights: F64, order: I64, loads: F64) -> I32:
    """Place the items in the given order; `loads` (all equal at the start) is updated in place."""
    heap = np.arange(loads.size).astype(np.int32)
    placed = np.empty(weights.size, np.int32)
    for item in order:
        instance = heap[0]
        placed[item] = instance
        loads[instance] += weights[item]
        _sift_down(loads, heap)
    return placed


@compiled
def least_full(parts: F64, order: I64, loads: F64, room: F64) -> I32:
    """Place each item (a row of `parts`, by several guesses) where the fullest of the guesses, over the instance's room, is
    least; ties to the lowest."""
    placed = np.empty(parts.shape[0], np.int32)
    for item in order:
        best = 0
        least = np.inf
        for instance in range(loads.shape[0]):
            fullest = 0.0
            for guess in range(loads.shape[1]):
                fullest = max(fullest, loads[instance, guess] + parts[item, guess])
            fullest /= room[instance]
            if fullest < least:
                best, least = instance, fullest
        placed[item] = best
        for guess in range(loads.shape[1]):
            loads[best, guess] += parts[item, guess]
    return placed


@compiled
def assumed(weights: F64) -> F64:
    """The weights, with half of the lightest positive one in place of 0 (1 for all where none is positive)."""
    lightest = np.inf
    for weight in weights:
        if 0.0 < weight < lightest:
            lightest = weight
    guess = 1.0 if lightest == np.inf else lightest / 2.0
    return np.where(weights > 0.0, weights, guess)


@compiled
def largest_first(weights: F64, instances: int) -> I32:
    """Each item, heaviest first and equal ones in the order given, to the instance with the least load so far."""
    guessed = assumed(weights)
    return greedy(guessed, np.argsort(-guessed, kind="mergesort"), np.zeros(instances))
