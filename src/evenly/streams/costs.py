"""Costs for keys, as the POSG paper's experiments attach them."""

from __future__ import annotations

import numpy as np

from evenly.errors import InvalidParameter
from evenly.kernels.types import F64


def spread_costs(n: int, *, values: int = 64, least_ms: float = 1.0, most_ms: float = 64.0, seed: int) -> F64:
    """A cost in ms for each of n keys: `values` equidistant costs, each given to n / values keys at random.

    Where n is no multiple of `values`, some costs have one key more than others.
    """
    if n < 1:
        raise InvalidParameter(f"n, the number of distinct keys, must be at least 1, got {n}")
    if not 1 <= values <= n:
        raise InvalidParameter(f"values must be from 1 to the number of keys ({n}), got {values}")
    if not 0.0 <= least_ms <= most_ms < np.inf:
        raise InvalidParameter(f"costs must satisfy 0 <= least_ms <= most_ms, got {least_ms} and {most_ms}")
    costs = np.linspace(least_ms, most_ms, values)
    rng = np.random.default_rng(seed)
    return costs[rng.permutation(n) % values]
