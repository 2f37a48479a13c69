"""How unevenly instances are loaded."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenly.errors import EmptyStream
from evenly.kernels.types import F64, I32, I64


def imbalance_pct(loads: ArrayLike, capacities: ArrayLike | None = None) -> float:
    """λ = (max load / mean load - 1) x 100 %. Instances that all have nothing to do are balanced: 0.

    With `capacities`, what counts is load over capacity, and the mean is that of the whole: total load over
    total capacity.
    """
    values = np.asarray(loads, np.float64)
    if values.size == 0:
        raise EmptyStream("there is no imbalance of no instances: give the load of at least one")
    room = np.ones(values.size) if capacities is None else np.asarray(capacities, np.float64)
    mean = float(values.sum() / room.sum())
    return 0.0 if mean == 0.0 else (float((values / room).max()) / mean - 1.0) * 100.0


def sigma(loads: ArrayLike) -> float:
    """The population standard deviation of the instances' loads."""
    values = np.asarray(loads, np.float64)
    if values.size == 0:
        raise EmptyStream("there is no deviation of no instances: give the load of at least one")
    return float(values.std())


def instance_loads(assigned: I32 | I64, instances: int, weights: ArrayLike | None = None) -> F64:
    """The load of every instance, given the instance of every tuple."""
    values = None if weights is None else np.asarray(weights, np.float64)
    return np.asarray(np.bincount(assigned, values, instances), np.float64)
