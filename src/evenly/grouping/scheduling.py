"""Items with known loads to instances: the greedy schedule that key groupings share."""

from __future__ import annotations

import numpy as np

from evenly.kernels import scheduling as kernels
from evenly.kernels.types import F64, I32


def largest_first(weights: F64, instances: int) -> I32:
    """Each item, from the heaviest down, to the instance with the least load so far.

    At most 4/3 - 1/(3 instances) times the least possible maximum load (Graham, 1969). Equal weights go
    in the order given, equal loads to the lowest instance. Items of weight 0 say nothing about where
    they should be, so they are dealt out in turn, from the emptiest instance on.
    """
    order = np.argsort(-weights, kind="stable")
    loads = np.zeros(instances)
    known = order[: int(np.count_nonzero(weights))]
    placed = kernels.greedy(weights, known, loads)
    empty = order[known.size :]
    placed[empty] = np.argsort(loads, kind="stable")[np.arange(empty.size) % instances]
    return placed
