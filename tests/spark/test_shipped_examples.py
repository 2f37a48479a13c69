"""Every example of the folder `examples` on a real session, with few rows, and checked against the obvious way."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import evenly
from command import told
from evenly.dataflow.files import parse_dataflow
from evenly.dataflow.graph import Dataflow

EXAMPLES = Path(__file__).parents[2] / "examples"
NOW = {"availableNow": True}


@pytest.fixture
def beside(monkeypatch, tmp_path):
    """An example's folder, copied, as the one where Python is, and a module of it with other numbers of rows."""
    loaded = set(sys.modules)

    def enter(folder, module, **numbers):
        shutil.copytree(EXAMPLES / folder, tmp_path / folder, ignore=shutil.ignore_patterns("data", "out", "__pycache__"))
        monkeypatch.chdir(tmp_path / folder)
        monkeypatch.syspath_prepend(str(tmp_path / folder))
        found = importlib.import_module(module)
        for name, number in numbers.items():
            monkeypatch.setattr(found, name, number)
        return found

    yield enter
    for name in set(sys.modules) - loaded:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def read(name) -> Dataflow:
    """A dataflow of the folder where Python is; Java is elsewhere, so its paths are made whole."""
    return parse_dataflow(Path(name).read_text().replace("path: out/", f"path: {Path.cwd()}/out/"), file=name)


def streamed(spark, name):
    query = evenly.run(read(name), spark=spark, checkpoint=Path("checkpoint").absolute(), trigger=NOW)
    query.awaitTermination()


def kept(spark, name):
    return spark.read.parquet(str(Path("out", name).absolute())).collect()


@pytest.mark.parametrize(("name", "copies"), [("linear", 1), ("diamond", 4), ("star", 4)])
def test_the_micro_dataflows_run_in_one_worker_and_lose_no_row(spark, beside, name, copies):
    beside("micro", "micro_rows", ROWS=24)
    watch = evenly.FlowWatch()
    evenly.run(read(f"{name}.yaml"), spark=spark, watch=watch)
    found = Counter(row.number for row in kept(spark, name))
    assert found == Counter(dict.fromkeys(range(24), copies))
    (batch,) = watch.batches
    assert len(batch.operators) == 5
    assert {it.instances for it in batch.operators.values()} == {spark.sparkContext.defaultParallelism}


def test_words_are_counted_by_the_collector(spark, beside):
    words = beside("words", "word_count", SENTENCES=40)
    with words.Collector() as collector:
        evenly.run(words.flow(collector.port), spark=spark)
        assert collector.words == Counter(word for text in words.texts() for word in text.split())


def test_tweets_are_enriched_and_costs_learnt(spark, beside):
    tweets = beside("tweets", "tweets", FILES=2, ROWS=30)
    streamed(spark, "tweets.yaml")
    found = {row.tweet: (row.entity, row.told) for row in kept(spark, "enriched")}
    recorded = pq.read_table("data/tweets").to_pylist()
    assert found == {row["tweet"]: (row["entity"], f"history of {tweets.kind_of(row['entity'])}") for row in recorded}
    assert any(Path("checkpoint/evenly/costs/enrich").iterdir())


def test_reach_is_what_a_walk_over_all_edges_finds(spark, beside, capfd):
    reach = beside("reach", "reach", FILES=1, ROWS=40)
    streamed(spark, "reach.yaml")
    needs = Counter()
    for package in range(reach.PACKAGES):
        for who in reach.NEEDING[reach.FIRST[package] : reach.FIRST[package + 1]].tolist():
            needs[package, who] += 1

    def walked(package):
        found = {package}
        for _ in range(reach.DEPTH):
            found |= {who for needed, who in needs if needed in found}
        return len(found) - 1

    recorded = Counter(pq.read_table("data/references")["package"].to_pylist())
    assert Counter((row.package, row.needed_by) for row in kept(spark, "reach")) == {
        (package, walked(package)): count for package, count in recorded.items()
    }
    assert "needed_by" in capfd.readouterr().out


def test_trips_of_each_zone_are_summed_over_all_batches(spark, beside):
    trips = beside("trips", "trips", FILES=2, ROWS=400)
    streamed(spark, "trips.yaml")
    last = {row.zone: (row.trips, row.fares) for row in sorted(kept(spark, "zones"), key=lambda row: row.batch)}
    expected = {}
    for row in pq.read_table("data/trips").to_pylist():
        zone = int(row["north"] * trips.ZONES) * trips.ZONES + int(row["east"] * trips.ZONES)
        count, fares = expected.get(zone, (0, 0.0))
        expected[zone] = count + 1, fares + row["fare"]
    assert last == expected


def test_every_example_is_in_the_list_with_a_command_that_is_understood(monkeypatch, capsys):
    listed = re.findall(r"^\| `(\w+)` \|.*\| `(.+)` \|$", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    files = {f"{folder}/{shlex.split(command)[-1 if command.startswith('python') else 2]}" for folder, command in listed}
    flows = {f"{path.parent.name}/{path.name}" for path in EXAMPLES.glob("*/*.yaml")}
    assert files == flows | {"words/word_count.py"}
    for folder, command in listed:
        monkeypatch.chdir(EXAMPLES / folder)
        if command.startswith("evenly "):
            code, printed, beside = told(monkeypatch, capsys, *shlex.split(command)[1:], "--show")
            assert (code, beside) == (0, "")
            assert "sink" in printed
