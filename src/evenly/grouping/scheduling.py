"""Items with known loads to instances: the greedy schedule that key groupings share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenly.errors import InvalidParameter
from evenly.kernels import scheduling as kernels
from evenly.kernels.types import F64, I32


def largest_first(weights: F64, instances: int, capacities: F64 | None = None) -> I32:
    """Each item, from the heaviest down, to the instance with the least load so far.

    At most 4/3 - 1/(3 instances) times the least possible maximum load (Graham, 1969). Equal weights go
    in the order given, equal loads to the lowest instance. Items of weight 0 say nothing about where
    they should be, so they are dealt out in turn, from the emptiest instance on. With `capacities` an item
    goes where load over capacity is least once it is there.
    """
    order = np.argsort(-weights, kind="stable")
    loads = np.zeros(instances)
    known = order[: int(np.count_nonzero(weights))]
    if capacities is None:
        placed = kernels.greedy(weights, known, loads)
    else:
        placed = kernels.greedy_unequal(weights, known, loads, capacities)
        loads = loads / capacities
    empty = order[known.size :]
    placed[empty] = np.argsort(loads, kind="stable")[np.arange(empty.size) % instances]
    return placed


def checked_capacities(capacities: ArrayLike | None, instances: int) -> F64 | None:
    """`capacities` as an array with one positive number for each instance; None stays None."""
    if capacities is None:
        return None
    values = np.asarray(capacities, np.float64)
    if values.shape != (instances,):
        raise InvalidParameter(f"capacities must have one number for each of {instances} instances, got shape {values.shape}")
    bad = ~(np.isfinite(values) & (values > 0.0))
    if bad.any():
        at = int(np.argmax(bad))
        raise InvalidParameter(f"capacities[{at}] is {values[at]}: it must be finite and above 0")
    return values
