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
    in the order given, equal loads to the lowest instance. An item of weight 0, a bucket of which nothing was
    seen yet, is taken to weigh half of the lightest other. With `capacities` an item goes where load over
    capacity is least once it is there.
    """
    if capacities is None:
        return kernels.largest_first(weights, instances)
    guessed = kernels.assumed(weights)
    return kernels.greedy_unequal(guessed, np.argsort(-guessed, kind="stable"), np.zeros(instances), capacities)


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
