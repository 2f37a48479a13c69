"""The streams of the prototypes: tweets by the class of who they mention (POSG), reach at depth 3 (OSG).

The authors' data are not public. Where the folder of recorded streams is there, tweets of the US Congress and the
dependencies of Debian packages stand for them; else both are generated with the shares that the papers state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from evenly.kernels.types import F64, U64
from evenly.lab.papers.recorded_data import find_recorded
from evenly.lab.simulation.queueing import Stage, constant_arrivals, gap_for
from evenly.sketches.hashing import key_ids
from evenly.streams.recorded import read_column
from evenly.streams.synthetic import KeyStream, zipf

TWEETS, TWEETS_FILE = 500_000, "congress_cost.parquet"
REACH, REACH_FILE, REACH_ROWS = 279_769, "debian_reach.parquet", "debian_dep_refs.parquet"
CLASS_MS = np.array([1.0, 1.0, 5.0, 25.0])
"""Cost of a tweet that mentions nobody, others, a politician, media."""
MOST_REACH_MS, LEAST_REACH_MS = 70.0, 0.01
RUNS = 10
"""Recorded streams are few: more runs would repeat themselves. The OSG paper has 10 as well."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """Tuples with their keys and costs; `name` says where they come from."""

    name: str
    keys: U64
    costs_ms: F64


def tweets() -> Recorded:
    """All tweets that mention somebody, in order, or 500,000 generated ones."""
    return _tweets(find_recorded(TWEETS_FILE))


def reach() -> Recorded:
    """Every reference to a package, with the edges that its reach at depth 3 scans as cost, or generated ones."""
    return _reach(find_recorded(REACH_FILE), find_recorded(REACH_ROWS))


@cache
def _tweets(path: Path | None) -> Recorded:
    if path is None:
        stream = with_top_share(35_000, 0.065)
        rng = np.random.default_rng(0)
        classes = rng.choice(4, stream.n, p=[0.0, 0.33, 0.58, 0.09])
        ranks = stream.draw_ranks(TWEETS, rng)
        return Recorded("generated tweets", ranks.view(np.uint64), CLASS_MS[classes[ranks]])
    classes = np.asarray(read_column(path, "cls"))
    mentions = classes > 0
    keys = key_ids(read_column(path, "entity").combine_chunks())
    return Recorded(path.stem, keys[mentions], CLASS_MS[classes[mentions]])


@cache
def _reach(path: Path | None, rows: Path | None) -> Recorded:
    if path is None or rows is None:
        stream = with_top_share(9_960, 0.0038)
        rng = np.random.default_rng(0)
        costs = np.clip(rng.exponential(20.0, stream.n), LEAST_REACH_MS, MOST_REACH_MS)
        costs[0] = 65.0
        ranks = stream.draw_ranks(REACH, rng)
        return Recorded("generated reach", ranks.view(np.uint64), costs[ranks])
    edges = dict(zip(read_column(path, "key").to_pylist(), read_column(path, "cost").to_pylist(), strict=True))
    references = read_column(rows, "key").combine_chunks().dictionary_encode()
    names = references.dictionary.to_pylist()
    scanned = np.array([edges[name] for name in names], np.float64)
    costs = LEAST_REACH_MS + scanned / scanned.max() * (MOST_REACH_MS - LEAST_REACH_MS)
    places = np.asarray(references.indices)
    return Recorded(path.stem, places.astype(np.uint64), costs[places])


@cache
def with_top_share(n: int, share: float) -> KeyStream:
    """The Zipf stream of n keys whose most frequent one has that share."""
    low, high = 0.0, 4.0
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if zipf(middle, n).probabilities[0] < share else (low, middle)
    return zipf((low + high) / 2.0, n)


@dataclass(frozen=True)
class _RecordedSetting:
    """A recorded stream at a constant rate."""

    instances: int
    provisioned_pct: float = 100.0
    columns: int = 54
    most_runs: int = RUNS

    def _stage(self, keys: U64, costs_ms: F64) -> Stage:
        gap_ms = gap_for(costs_ms, self.instances, provisioned_pct=self.provisioned_pct)
        return Stage.of(keys, costs_ms, constant_arrivals(keys.size, gap_ms), instances=self.instances)


class Tweets(_RecordedSetting):
    """Figure 12 of the POSG paper: 500,000 tweets from a random place of the recorded ones on."""

    @property
    def stream(self) -> str:
        return tweets().name

    def stage(self, seed: int) -> Stage:
        """At a constant rate."""
        recorded = tweets()
        start = int(np.random.default_rng(seed).integers(0, max(1, recorded.keys.size - TWEETS + 1)))
        part = slice(start, start + TWEETS)
        return self._stage(recorded.keys[part], recorded.costs_ms[part])


class Reach(_RecordedSetting):
    """Figure 2 of the OSG paper. References are recorded in the order of an index, so each run draws another order."""

    @property
    def stream(self) -> str:
        return reach().name

    def stage(self, seed: int) -> Stage:
        """At a constant rate."""
        recorded = reach()
        order = np.random.default_rng(seed).permutation(recorded.keys.size)
        return self._stage(recorded.keys[order], recorded.costs_ms[order])
