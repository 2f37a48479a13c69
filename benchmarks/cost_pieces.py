"""Pieces against equal parts in simulation: what chance does to one job of a few seconds it does not do to the mean of many."""

from __future__ import annotations

from heapq import heapreplace

import numpy as np

from cost_jobs import COSTS, FILES, PARTITIONS, SIZES, K
from cost_parts import Rows, say
from evenly.costs.placing import RoutingCosts
from evenly.costs.rounds import ROUNDS, piece_of
from evenly.kernels.types import F64

DRAWS = {500: 200, 2_000: 200, 10_000: 60, 100_000: 20}
CORES = 2


def pieces(bound_s: float) -> Rows:
    """For each cost and size the mean time of a job by each way, over many deals and many rows, in seconds.

    What a task takes to start is what it takes here, of one of two cores, for which tasks that begin at once wait.
    """
    paid = RoutingCosts()
    rows: Rows = []
    for stream, make in COSTS.items():
        for size in SIZES:
            took = []
            for seed in range(DRAWS[size]):
                rng = np.random.default_rng(seed)
                costs = rng.permutation(make(size, seed)[1])
                costs = costs * bound_s / max(costs.sum() / K, costs.max())
                found = {way: _ended_s(_parts(costs, many), paid.task_s) for way, many in PARTITIONS.items()}
                found["in pieces"] = paid.pieces_fixed_s + _ended_s(_in_pieces(costs), paid.task_s)
                took.append(list(found.values()))
            means = dict(zip(found, np.mean(took, axis=0).tolist(), strict=True))
            ends = np.percentile([each[-1] for each in took], [10, 90]).tolist()
            say(f"pieces: {stream}, {size} rows: " + ", ".join(f"{way} {mean_s:.2f} s" for way, mean_s in means.items()))
            rows.append({"stream": stream, "rows": size, "instances": K, "seconds": means, "low_s": ends[0], "high_s": ends[1]})
    return rows


def _parts(costs: F64, many: int) -> F64:
    """As many rows to each of so many partitions."""
    return np.array([part.sum() for part in np.array_split(costs, many)])


def _in_pieces(costs: F64) -> F64:
    """As they are dealt where they are read."""
    works = np.zeros(ROUNDS * K)
    for part, here in enumerate(np.array_split(costs, FILES)):
        works += np.bincount(piece_of(np.arange(here.size), part, K), here, minlength=ROUNDS * K)
    return works


def _ended_s(works: F64, start_s: float) -> float:
    """When the last slot ends, where each takes the next task as it comes free."""
    ends, cores = [0.0] * K, [0.0] * CORES
    for work in works.tolist():
        begun_s = max(ends[0], cores[0]) + start_s
        heapreplace(cores, begun_s)
        heapreplace(ends, begun_s + work)
    return max(ends)
