"""The papers' applications as plain functions of a row."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenly.errors import InvalidParameter
from evenly.lab.papers.applications import catalogue, graph
from evenly.lab.papers.applications.calls import CountUp, CountWords, LookUp, ReachSearch, Wait
from evenly.lab.papers.posg import recorded as posg_recorded
from evenly.lab.papers.recorded_data import find_recorded
from evenly.lab.papers.verdicts import at_least

PACKAGES = find_recorded(posg_recorded.REACH_FILE)
CACHES = (
    posg_recorded._tweets,
    posg_recorded._reach,
    graph._dependents,
    catalogue._scanned,
    catalogue._most_edges,
    catalogue._lengths,
)


@pytest.fixture
def data(monkeypatch, tmp_path):
    """A folder for recorded streams, empty at first; generated ones are short."""
    monkeypatch.setenv("EVENLY_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(posg_recorded, "TWEETS", 5_000)
    monkeypatch.setattr(posg_recorded, "REACH", 5_000)
    _forget()
    yield tmp_path
    _forget()


def _forget():
    for cached in CACHES:
        cached.cache_clear()


def row(application, place):
    return SimpleNamespace(**application.table.slice(place, 1).to_pylist()[0])


def searched(edges, node, depth):
    """Breadth-first search as in a textbook: nodes met, edges scanned."""
    seen, reached_now, scanned = {node}, [node], 0
    for _ in range(depth):
        following = []
        for at in reached_now:
            for neighbour in sorted(edges.get(at, ())):
                scanned += 1
                if neighbour not in seen:
                    seen.add(neighbour)
                    following.append(neighbour)
        reached_now = following
    return len(seen) - 1, scanned


@pytest.mark.parametrize("depth", [1, 2, 3, 10])
def test_reach_is_a_breadth_first_search(depth):
    rng = np.random.default_rng(depth)
    sources, targets = rng.integers(0, 60, 150), rng.integers(0, 60, 150)
    edges: dict[int, set[int]] = {}
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        edges.setdefault(source, set()).add(target)
    first, neighbours = graph.packed_graph(sources, targets, 60)
    search = ReachSearch(first, neighbours, depth=depth)
    for node in range(60):
        assert search(SimpleNamespace(node=node)) == searched(edges, node, depth)


def test_reach_takes_the_stated_time_for_an_edge():
    first, neighbours = graph.packed_graph(np.zeros(20, np.int64), np.arange(20), 20)
    search = ReachSearch(first, neighbours, edge_us=2_000.0)
    started = time.perf_counter()
    assert search(SimpleNamespace(node=0)) == (19, 20), "node 0 is its own neighbour: no second search from it"
    assert time.perf_counter() - started >= 0.04


def test_words_are_counted_and_take_the_stated_time():
    text = "To be, or not to be: that is the question. 42 be"
    assert CountWords()(SimpleNamespace(text=text)) == (11, 8, "be")
    assert CountWords()(SimpleNamespace(text="")) == (0, 0, "")
    started = time.perf_counter()
    CountWords(word_us=5_000.0)(SimpleNamespace(text=text))
    assert time.perf_counter() - started >= 0.055


@pytest.mark.usefixtures("data")
def test_generated_tweets_wait_by_the_kind_of_who_they_mention():
    tweets = catalogue.tweet_application(3_000)
    assert tweets.stream == "generated tweets"
    kinds = dict(zip(tweets.table["kind"].to_pylist(), tweets.costs_ms.tolist(), strict=True))
    assert kinds == {"media": 25.0, "politicians": 5.0, "others": 1.0}
    by_entity: dict[int, set[str]] = {}
    for entity, kind in zip(tweets.table["entity"].to_pylist(), tweets.table["kind"].to_pylist(), strict=True):
        by_entity.setdefault(entity, set()).add(kind)
    assert {len(one) for one in by_entity.values()} == {1}, "so the entity predicts the cost"
    place = int(np.argmax(tweets.costs_ms))
    started = time.perf_counter()
    assert LookUp()(row(tweets, place)) == ("history of media",)
    assert time.perf_counter() - started >= 0.025


def test_recorded_tweets_are_read(data):
    entities = pa.array(["a", "", "b", "c", "a"]).dictionary_encode()
    pq.write_table(pa.table({"entity": entities, "cls": pa.array([3, 0, 1, 2, 3], pa.int8())}), data / "congress_cost.parquet")
    tweets = catalogue.tweet_application(6)
    assert tweets.stream == "congress_cost"
    assert Counter(tweets.table["kind"].to_pylist())["media"] >= 2, "the four tweets that mention somebody, round the end"
    assert set(tweets.table["kind"].to_pylist()) == {"media", "others", "politicians"}


@pytest.mark.usefixtures("data")
def test_the_generated_graph_is_as_large_as_the_papers_and_its_searches_differ():
    made = graph.dependents()
    assert made.name == "generated graph"
    assert made.degrees.size == graph.NODES
    assert made.degrees.sum() == pytest.approx(graph.EDGES, rel=0.05)
    assert made.degrees.max() == pytest.approx(graph.MOST_DEGREE, rel=0.05)
    reach = catalogue.reach_application(2_000, most_ms=7.0)
    assert reach.costs_ms.max() == pytest.approx(7.0, rel=0.2)
    assert reach.costs_ms.std() > reach.costs_ms.mean(), "heavy-tailed"
    scanned = reach.function(row(reach, 5))[1]
    assert reach.costs_ms[5] == pytest.approx(scanned * reach.function.edge_us * 1e-3)
    assert catalogue.reach_application(10, most_ms=0.0).function.edge_us == 0.0


def test_a_recorded_graph_is_who_depends_on_whom(data):
    pq.write_table(pa.table({"key": ["app", "lib", "base"], "cost": [0, 1, 3]}), data / "debian_reach.parquet")
    references = pa.table({"key": pa.array(["lib", "base", "base", "base"]).dictionary_encode(), "src": pa.array([0, 1, 0, 1])})
    pq.write_table(references, data / "debian_dep_refs.parquet")
    reach = catalogue.reach_application(4)
    assert reach.stream == "debian_reach"
    assert Counter(reach.table["node"].to_pylist()) == {1: 1, 2: 3}
    # base is needed by lib and app (an edge counts once), lib by app.
    assert reach.function.search(2) == (2, 3)
    assert reach.function.search(1) == (1, 1)
    assert sorted(reach.costs_ms) == pytest.approx([70.0 / 3.0, 70.0, 70.0, 70.0])


@pytest.mark.skipif(PACKAGES is None, reason="no recorded streams: EVENLY_DATA names their folder")
def test_searches_of_recorded_packages_scan_what_was_recorded():
    _forget()
    made = graph.dependents()
    recorded = pq.read_table(PACKAGES)
    cost, nodes = recorded["cost"].to_numpy(), recorded["reach3_nodes"].to_numpy()
    search = ReachSearch(made.first, made.neighbours).search
    chosen = [*np.argsort(-cost)[:10], *np.random.default_rng(0).integers(0, cost.size, 300)]
    assert all(search(int(node)) == (nodes[node], cost[node]) for node in chosen)
    assert catalogue._most_edges() == cost.max()
    _forget()


@pytest.mark.usefixtures("data")
def test_documents_have_the_words_that_their_cost_says():
    documents = catalogue.document_application(400, word_us=10.0)
    assert documents.stream == "generated documents"
    for place in (0, int(np.argmax(documents.costs_ms))):
        words, distinct, top = CountWords()(row(documents, place))
        assert documents.costs_ms[place] == pytest.approx(words * 0.01)
        assert 0 < distinct <= words
        assert top in documents.table["text"][place].as_py().split()
    assert documents.costs_ms.std() > documents.costs_ms.mean(), "heavy-tailed"


def test_recorded_documents_give_the_lengths(data):
    pq.write_table(pa.table({"key": ["a", "b"], "cost": pa.array([30, 40], pa.int32())}), data / "mdn_doc_cost.parquet")
    documents = catalogue.document_application(6)
    assert documents.stream == "mdn_doc_cost"
    assert Counter(len(text.split()) for text in documents.table["text"].to_pylist()) == {30: 3, 40: 3}


@pytest.mark.usefixtures("data")
def test_the_synthetic_stream_has_the_papers_costs_on_another_scale():
    synthetic = catalogue.synthetic_application(4_000, most_ms=2.0)
    assert synthetic.costs_ms.max() == 2.0
    assert set(np.round(np.unique(synthetic.costs_ms) * 32.0, 9)) <= set(range(1, 65))
    assert Wait()(SimpleNamespace(cost_ms=0.5)) == (0.5,)
    assert CountUp()(SimpleNamespace(turns=5)) == (5, 10)


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    "make",
    [
        catalogue.tweet_application,
        catalogue.reach_application,
        catalogue.document_application,
        catalogue.synthetic_application,
    ],
)
def test_rows_depend_on_the_seed_alone_and_parts_go_round(make):
    one, same, other = make(50, seed=1), make(50, seed=1), make(50, seed=2)
    assert one.table.equals(same.table)
    assert not one.table.equals(other.table)
    part = one.part(45, 10)
    assert part.table["number"].to_pylist() == [*range(45, 50), *range(5)]
    assert part.costs_ms.tolist() == [*one.costs_ms[45:], *one.costs_ms[:5]]
    assert len(one.schema.split(",")) == len(one.function(row(one, 0)))
    with pytest.raises(InvalidParameter, match="rows must be at least 1, got 0"):
        make(0)


def test_a_bad_time_is_named():
    with pytest.raises(InvalidParameter, match=r"most_ms, .* must be at least 0, got -1"):
        catalogue.reach_application(10, most_ms=-1.0)
    with pytest.raises(InvalidParameter, match=r"word_us, .* must be at least 0, got nan"):
        catalogue.document_application(10, word_us=math.nan)


def test_workers_need_little_to_run_the_functions():
    """A Spark worker unpickles the function: no compiler of kernels is to be loaded for that."""
    pickled = pickle.dumps([LookUp(), CountWords(), CountUp(), Wait(), ReachSearch(np.array([0, 0]), np.array([], np.int32))])
    program = (
        f"import pickle, sys; made = pickle.loads({pickled!r}); "
        "assert not {'numba', 'pyspark', 'matplotlib', 'pyarrow'} & sys.modules.keys(), sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr


def test_a_published_gain_is_reproduced_when_it_is_reached():
    assert at_least("s", 1, published=1.5, measured=2.0, within_pct=5.0).verdict == "reproduced"
    assert at_least("s", 1, published=1.5, measured=1.44, within_pct=5.0).verdict == "reproduced"
    assert at_least("s", 1, published=1.5, measured=1.42, within_pct=5.0).verdict == "not reproduced"
