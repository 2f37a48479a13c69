"""The applications: rows in the order of their arrival, the function, and the key that its cost depends on.

Rows are recorded where the folder of recorded streams is there (EVENLY_DATA names it), else generated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from evenly.errors import InvalidParameter
from evenly.kernels.types import F64
from evenly.lab.papers.applications.calls import LOOK_UP_MS, CountWords, LookUp, ReachSearch, Wait
from evenly.lab.papers.applications.graph import dependents
from evenly.lab.papers.posg.recorded import CLASS_MS, MOST_REACH_MS, tweets
from evenly.lab.papers.posg.settings import KEYS, stream_of
from evenly.lab.papers.recorded_data import find_recorded
from evenly.sketches.hashing import derive
from evenly.streams.costs import spread_costs
from evenly.streams.recorded import read_column

DOCUMENTS_FILE = "mdn_doc_cost.parquet"
MEDIAN_WORDS, SPREAD, LEAST_WORDS, MOST_WORDS, DOCUMENTS = 251.0, 1.15, 19, 10_296, 14_593
"""Of the recorded documents: a log-normal with this median and spread is as long-tailed as they are."""
VOCABULARY = 5_000
WORD_US = 10.0
"""With it a document takes 5 ms in the mean, and the longest 100 ms."""


@dataclass(frozen=True, eq=False)
class StreamApplication:
    """Rows and what is done for each.

    `function` takes a row (an object with the table's columns as attributes) and returns a tuple of `schema` (Spark's
    notation). `cost_key` is the expression that the cost depends on. `costs_ms` is how long a row waits at least, 0 for a row
    that only computes: the tests and the figures use it, no scheduler sees it.
    """

    name: str
    stream: str
    table: pa.Table
    function: Callable[[Any], tuple[Any, ...]]
    schema: str
    cost_key: str
    costs_ms: F64

    @property
    def rows(self) -> int:
        return len(self.table)

    def part(self, start: int, rows: int) -> StreamApplication:
        """Rows from `start` on, round the end if need be."""
        places = np.arange(start, start + rows) % self.rows
        table = self.table.take(pa.array(places))
        return StreamApplication(
            self.name, self.stream, table, self.function, self.schema, self.cost_key, self.costs_ms[places]
        )


def tweet_application(rows: int, *, seed: int = 0) -> StreamApplication:
    """(a) Tweets with entities, in order from a random place on: media 25 ms, politicians 5 ms, others 1 ms."""
    _check(rows)
    recorded = tweets()
    start = int(np.random.default_rng(seed).integers(0, max(1, recorded.keys.size - rows + 1)))
    places = np.arange(start, start + rows) % recorded.keys.size
    costs_ms = recorded.costs_ms[places]
    kinds = {ms: kind for kind, ms in LOOK_UP_MS.items()}
    by_cost = pa.array([kinds[float(ms)] for ms in np.unique(CLASS_MS)])
    table = pa.table(
        {
            "entity": recorded.keys[places].view(np.int64),
            "kind": by_cost.take(pa.array(np.searchsorted(np.unique(CLASS_MS), costs_ms))),
            "number": np.arange(rows),
        }
    )
    return StreamApplication("tweets", recorded.name, table, LookUp(), "told string", "entity", costs_ms)


def reach_application(rows: int, *, seed: int = 0, most_ms: float = MOST_REACH_MS) -> StreamApplication:
    """(b) Reach at depth 3 for each reference to a package, in random order: a real search.

    The search that scans most edges takes `most_ms` (70 in the OSG paper), and every other one its share by the edges it
    scans: what the search itself does not take is waited, so that few cores carry ten instances. 0: no wait, the search
    alone.
    """
    _check(rows)
    if not 0.0 <= most_ms < np.inf:
        raise InvalidParameter(f"most_ms, the time of the longest search, must be at least 0, got {most_ms}")
    graph = dependents()
    order = np.random.default_rng(seed).permutation(graph.references.size)
    nodes = graph.references[order[np.arange(rows) % order.size]]
    edge_us = most_ms * 1e3 / _most_edges()
    function = ReachSearch(graph.first, graph.neighbours, edge_us=edge_us)
    distinct, places = np.unique(nodes, return_inverse=True)
    scanned = np.array([_scanned(int(node)) for node in distinct], np.float64)
    table = pa.table({"node": nodes, "number": np.arange(rows)})
    costs_ms = scanned[places] * edge_us * 1e-3
    return StreamApplication("reach", graph.name, table, function, "met bigint, scanned bigint", "node", costs_ms)


def document_application(rows: int, *, seed: int = 0, word_us: float = WORD_US) -> StreamApplication:
    """(c) Documents of heavy-tailed length, in random order: their words counted.

    A document takes `word_us` for each word: what counting does not take is waited. 0: no wait, counting alone.
    Texts are generated: of the recorded documents only the lengths are known. The key is the length in steps of 19 %.
    """
    _check(rows)
    if not 0.0 <= word_us < np.inf:
        raise InvalidParameter(f"word_us, the time for a word, must be at least 0, got {word_us}")
    name, lengths = _lengths(find_recorded(DOCUMENTS_FILE))
    rng = np.random.default_rng(seed)
    order = rng.permutation(lengths.size)
    words = lengths[order[np.arange(rows) % order.size]]
    text = _words(int(words.max()) * 2)
    starts = rng.integers(0, len(text) - words + 1)
    texts = [" ".join(text[start : start + count]) for start, count in zip(starts.tolist(), words.tolist(), strict=True)]
    table = pa.table({"text": texts, "number": np.arange(rows)})
    schema = "words bigint, distinct bigint, top string"
    key = "floor(4 * log2(length(text)))"
    return StreamApplication("documents", name, table, CountWords(word_us), schema, key, words * word_us * 1e-3)


def synthetic_application(rows: int, *, seed: int = 0, most_ms: float = 64.0) -> StreamApplication:
    """The POSG paper's synthetic stream: Zipf-1.0 over 4,096 keys, 64 costs up to `most_ms` given to keys at random."""
    _check(rows)
    ranks = stream_of(1.0).draw_ranks(rows, np.random.default_rng(seed))
    costs = spread_costs(KEYS, least_ms=most_ms / 64.0, most_ms=most_ms, seed=derive(seed, "costs", 2**63))
    table = pa.table({"key": ranks.astype(np.int64), "cost_ms": costs[ranks], "number": np.arange(rows)})
    return StreamApplication("synthetic", stream_of(1.0).name, table, Wait(), "waited_ms double", "key", costs[ranks])


def _check(rows: int) -> None:
    if rows < 1:
        raise InvalidParameter(f"rows must be at least 1, got {rows}")


@cache
def _scanned(node: int) -> int:
    graph = dependents()
    return ReachSearch(graph.first, graph.neighbours).search(node)[1]


@cache
def _most_edges() -> int:
    """Of all searches: the node of most neighbours need not be the one, so the hundred with most are tried."""
    return max(_scanned(int(node)) for node in np.argsort(-dependents().degrees)[:100])


@cache
def _lengths(path: Path | None) -> tuple[str, np.ndarray]:
    if path is None:
        drawn = np.random.default_rng(0).lognormal(np.log(MEDIAN_WORDS), SPREAD, DOCUMENTS)
        return "generated documents", np.clip(drawn, LEAST_WORDS, MOST_WORDS).astype(np.int64)
    return path.stem, np.asarray(read_column(path, "cost"), np.int64)


@cache
def _words(count: int) -> list[str]:
    """Running text: words of 2 to 11 letters, the most frequent ones as frequent as in a language."""
    rng = np.random.default_rng(0)
    alphabet = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    vocabulary = ["".join(rng.choice(alphabet, size)) for size in rng.integers(2, 12, VOCABULARY)]
    shares = 1.0 / np.arange(1, VOCABULARY + 1)
    return [vocabulary[rank] for rank in rng.choice(VOCABULARY, count, p=shares / shares.sum()).tolist()]
