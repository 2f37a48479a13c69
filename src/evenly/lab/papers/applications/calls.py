"""What the applications do for a row: functions of one row, as a user of `evenly.apply_by_cost` writes them.

Two of them compute. A machine with two cores cannot show ten instances that compute, so these two can be told to take a
stated time for each unit of their work (`edge_us`, `word_us`): they do the work, then wait for what is left of that time.
With 0, the default, they only compute.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LOOK_UP_MS = {"media": 25.0, "politicians": 5.0, "others": 1.0}
"""How long the POSG paper's prototype works on a tweet, by the kind of who it mentions."""
_WORD = re.compile(r"[^\W\d_]+")


def wait_until(end_s: float) -> None:
    """Sleep until `time.perf_counter()` says so; at once if it does already."""
    left_s = end_s - time.perf_counter()
    if left_s > 0.0:
        time.sleep(left_s)


@dataclass(frozen=True)
class LookUp:
    """Decorate a tweet with what is known of who it mentions: a call to a service, so a wait (`row.kind` decides)."""

    def __call__(self, row: Any) -> tuple[str]:
        kind: str = row.kind
        time.sleep(LOOK_UP_MS[kind] * 1e-3)
        return (f"history of {kind}",)


@dataclass(frozen=True, eq=False)
class ReachSearch:
    """How many nodes a breadth-first search from `row.node` meets within `depth` steps, and the edges it scans.

    The graph is two arrays: the neighbours of node v are `neighbours[first[v]:first[v + 1]]`. They travel with the function:
    Spark broadcasts a function of more than 1 MB to each executor once.
    """

    first: npt.NDArray[np.int64]
    neighbours: npt.NDArray[np.int32]
    depth: int = 3
    edge_us: float = 0.0

    def __call__(self, row: Any) -> tuple[int, int]:
        started_s = time.perf_counter()
        met, scanned = self.search(row.node)
        wait_until(started_s + scanned * self.edge_us * 1e-6)
        return met, scanned

    def search(self, node: int) -> tuple[int, int]:
        """Nodes met (without the first) and edges scanned."""
        seen = np.zeros(self.first.size - 1, np.bool_)
        seen[node] = True
        reached = np.array([node])
        met = scanned = 0
        for _ in range(self.depth):
            starts = self.first[reached]
            degrees = self.first[reached + 1] - starts
            edges = int(degrees.sum())
            if not edges:
                break
            scanned += edges
            # The places of all their neighbours: a run of consecutive numbers for each node that was reached.
            places = np.arange(edges) + np.repeat(starts - (np.cumsum(degrees) - degrees), degrees)
            found = self.neighbours[places]
            new = np.zeros_like(seen)
            new[found] = True
            new &= ~seen
            seen |= new
            reached = np.flatnonzero(new)
            met += reached.size
        return met, scanned


@dataclass(frozen=True)
class CountWords:
    """Words of `row.text`, how many differ, and which is the most frequent."""

    word_us: float = 0.0

    def __call__(self, row: Any) -> tuple[int, int, str]:
        started_s = time.perf_counter()
        counts = Counter(_WORD.findall(row.text.lower()))
        words = counts.total()
        top = max(counts, key=lambda word: (counts[word], word), default="")
        wait_until(started_s + words * self.word_us * 1e-6)
        return words, len(counts), top


@dataclass(frozen=True)
class Wait:
    """As long as the row says (`row.cost_ms`): the synthetic operator of the POSG paper."""

    def __call__(self, row: Any) -> tuple[float]:
        cost_ms: float = row.cost_ms
        time.sleep(cost_ms * 1e-3)
        return (cost_ms,)


@dataclass(frozen=True)
class CountUp:
    """Counts to `row.turns`: no wait, some 30 ns of computing a turn."""

    def __call__(self, row: Any) -> tuple[int, int]:
        turns: int = row.turns
        total = 0
        for turn in range(turns):
            total += turn
        return turns, total
