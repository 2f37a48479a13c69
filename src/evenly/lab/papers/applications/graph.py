"""The graph of the reach application: who depends on a Debian package, or a generated graph of the OSG paper's size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from evenly.kernels.types import I64
from evenly.lab.papers.posg.recorded import REACH_FILE, REACH_ROWS, reach
from evenly.lab.papers.recorded_data import find_recorded
from evenly.streams.recorded import read_column

NODES, EDGES, MOST_DEGREE = 9_960, 183_005, 734
"""Of the followers graph in the OSG paper."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Neighbours of node v: `neighbours[first[v]:first[v + 1]]`; `references` are nodes as a stream names them."""

    name: str
    first: np.ndarray
    neighbours: np.ndarray
    references: I64

    @property
    def degrees(self) -> I64:
        """How many neighbours each node has."""
        return np.diff(self.first)


def dependents() -> Graph:
    """Recorded where the files are there (see `recorded_data.find_recorded`), else generated."""
    return _dependents(find_recorded(REACH_FILE), find_recorded(REACH_ROWS))


@cache
def _dependents(path: Path | None, rows: Path | None) -> Graph:
    if path is None or rows is None:
        return _generated()
    names = read_column(path, "key").to_pylist()
    node_of = {name: node for node, name in enumerate(names)}
    references = read_column(rows, "key").combine_chunks().dictionary_encode()
    nodes = np.array([node_of[name] for name in references.dictionary.to_pylist()], np.int64)
    needed = nodes[np.asarray(references.indices)]
    first, neighbours = packed_graph(needed, np.asarray(read_column(rows, "src"), np.int64), len(names))
    return Graph(path.stem, first, neighbours, needed)


def _generated() -> Graph:
    """Degrees fall as a power of the rank, so that the most and the sum are near the paper's.

    Neighbours are drawn among nodes of higher rank. So the search from a node of many neighbours scans hundreds of times
    what it scans from a node of few, as in a graph of packages or of followers.
    """
    ranks = np.arange(1, NODES + 1, dtype=np.float64)
    low, high = 0.0, 3.0
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (low, middle) if _degrees(ranks, middle).sum() < EDGES else (middle, high)
    sources = np.repeat(np.arange(NODES), _degrees(ranks, high))
    further = np.random.default_rng(0).random(sources.size) * (NODES - 1 - sources)
    first, neighbours = packed_graph(sources, np.minimum(sources + 1 + further.astype(np.int64), NODES - 1), NODES)
    return Graph("generated graph", first, neighbours, reach().keys.astype(np.int64))


def _degrees(ranks: np.ndarray, power: float) -> I64:
    return np.maximum(1, np.round(MOST_DEGREE * ranks**-power)).astype(np.int64)


def packed_graph(sources: np.ndarray, targets: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct edges in two arrays, ordered by source, then target."""
    distinct = np.unique(sources * nodes + targets)
    counts = np.bincount(distinct // nodes, minlength=nodes)
    return np.concatenate([[0], np.cumsum(counts)]), (distinct % nodes).astype(np.int32)
