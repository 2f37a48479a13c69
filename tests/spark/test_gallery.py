"""Every example of the gallery on a real session, with few rows, and what it shows."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

from evenly.planning.micro_batches import EngineCosts

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"


@pytest.fixture
def script(monkeypatch):
    """A script of the gallery as a module, whose functions go to workers by their code, as those of `__main__` do."""
    loaded: list[str] = []

    def load(name):
        monkeypatch.syspath_prepend(str(GALLERY))
        loaded.append(name)
        found = importlib.import_module(name)
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(found)
        return found

    yield load
    for name in loaded:
        del sys.modules[name]


@pytest.fixture
def notebook(spark, monkeypatch):
    """What a notebook's names mean after all of its cells have run, in this process and session, with few rows."""
    settings = {"spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions", "spark.sql.autoBroadcastJoinThreshold"}
    before = {name: spark.conf.get(name) for name in settings}
    monkeypatch.setenv("SLOTS", str(spark.sparkContext.defaultParallelism))

    def run(name, rows):
        monkeypatch.setenv("ROWS", str(rows))
        cells = json.loads((GALLERY / f"{name}.ipynb").read_text("utf-8"))["cells"]
        names = {"__name__": "__main__"}
        for cell in cells:
            if cell["cell_type"] == "code":
                assert cell["outputs"] == [], f"{name}.ipynb is kept without what it has shown"
                exec("".join(cell["source"]), names)
        return names

    yield run
    for name, value in before.items():
        spark.conf.set(name, value)


def test_skewed_group_by_is_even_and_gives_the_same(spark, script):
    found = script("skewed_group_by").main(spark, rows=4_000, instances=4)
    assert found["same"]
    assert found["evenly"] < found["hash"]


def test_skewed_join_is_split_and_gives_the_same(notebook):
    names = notebook("skewed_join", 3_000)
    assert sum(names["plain_rows"]) == sum(names["even_rows"]) == 3_000
    assert max(names["even_rows"]) < max(names["plain_rows"])


def test_models_of_stores_are_timed_and_stay_what_they_are(notebook):
    names = notebook("model_per_store", 1_500)
    assert names["second"].times is not None
    assert not names["after"].empty


def test_a_drifting_stream_is_counted_whole_and_watched(spark, script):
    query = script("drifting_stream").main(spark, batches=3, rows=300, instances=2)
    assert [batch.number for batch in query.batches] == [0, 1, 2]
    assert sum(sum(batch.mapped_rows) for batch in query.batches) == 900
    assert not query.isActive


def test_slow_rows_are_learnt(spark, script):
    first, second = script("slow_rows").main(spark, rows=60, instances=2, slow_s=0.01)
    assert "nothing is known" in first.decision.reason or first.decision.way == "evenly"
    assert second.decision is not None
    assert first.costs is not None


def test_every_row_of_the_paced_sink_arrives(spark, script):
    assert script("paced_sink").main(spark, rows=300, instances=2) == 300


def test_what_is_planned_is_run(spark, script):
    engine = EngineCosts(slots=2, batch_s=0.1)
    plan, watch = script("plan_and_run").main(spark, rows=40, seconds=0.1, most_threads=4, engine=engine)
    assert plan.first_to_break == "look_up"
    assert watch.batches[-1].operators["look_up"].threads == plan.threads["look_up"]
    assert watch.batches[-1].operators["look_up"].rows_in == 40


def test_every_example_is_in_the_list_once_and_none_else():
    listed = re.findall(r"\]\(gallery/([\w.]+)\)", (GALLERY.parent / "README.md").read_text("utf-8"))
    there = [path.name for path in GALLERY.iterdir() if path.suffix in {".py", ".ipynb"}]
    assert sorted(listed) == sorted(there)
