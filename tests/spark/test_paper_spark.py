"""The prototypes' figures on Spark, at a scale that shows that they run, not what they show."""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from known_costs import model_of

from command import run
from evenly.cli import paper_shuffle
from evenly.lab.papers.applications.calls import Wait
from evenly.lab.papers.osg import on_spark as osg_spark
from evenly.lab.papers.posg import on_spark as posg_spark
from evenly.lab.papers.posg import spark_bench
from evenly.lab.papers.posg.spark_bench import Scale, SparkBench
from evenly.lab.trials.rows import Stamped, TimedBatch, Trial

pytestmark = pytest.mark.spark
TINY = Scale(batch_s=0.2, learning_s=0.4, shift_batches=2, shift_rows=40, shift_scale=1.0 / 64.0)


@pytest.fixture
def small(monkeypatch):
    """Two slots, three numbers of instances."""
    monkeypatch.setattr(spark_bench, "SLOTS", 2)
    monkeypatch.setattr(posg_spark, "INSTANCES", (1, 2, 3))
    monkeypatch.setattr(osg_spark, "INSTANCES", (1, 2, 3))


@pytest.fixture
def trial(spark):
    return Trial(spark, Wait(), "waited_ms double", "key")


def waits(rows, times=1.0):
    keys = np.arange(rows) % 4
    return pa.table({"key": keys, "cost_ms": times * np.array([0.0, 0.1, 0.2, 4.0])[keys], "number": np.arange(rows)})


def test_every_way_runs_every_row_once(trial):
    df = trial.frame(waits(60), partitions=2)
    for batch in (trial.round_robin(df, 3), trial.round_robin(df, 6), trial.at_random(df, 3)):
        assert batch.rows == 60
        assert (batch.ended_s >= batch.started_s).all()
        assert (batch.started_s > 0.0).all(), "counted from the batch's submission"
        assert batch.seconds >= batch.ended_s.max() - 1e-3
    assert np.bincount(trial.round_robin(df, 3).instance).tolist() == [20, 20, 20]
    df.unpersist()


def test_evenly_learns_and_then_gives_the_dear_rows_to_all(spark, trial):
    df = trial.frame(waits(400, times=5.0), partitions=2)
    first, model = trial.by_evenly(df, 2, costs=None)
    assert first.rows == 400
    assert model.rows == 400, "all rows were measured"
    known = model_of(spark, {0: 0.001, 1: 0.001, 2: 0.002, 3: 5.0}, "key", "long")  # so costly that dealing by cost pays
    batch, more = trial.by_evenly(df, 2, costs=known)
    assert batch.rows == 400
    assert more.rows == known.rows + 400, "what was known and what was measured now"
    dear = batch.instance[batch.costs_s >= 0.02]
    assert abs(int((dear == 0).sum()) - int((dear == 1).sum())) <= 0.1 * dear.size
    df.unpersist()


def test_the_bound_is_the_mean_of_the_instances_or_the_largest_row():
    batch = TimedBatch(np.array([0, 0, 1]), np.array([0.0, 1.0, 0.5]), np.array([1.0, 2.0, 3.5]), 4.0)
    assert batch.bound_s(2) == pytest.approx(3.0)
    assert batch.bound_s(1) == pytest.approx(5.0)
    assert batch.stage_s == pytest.approx(3.5)
    assert batch.completion_ms_mean == pytest.approx(1e3 * 6.5 / 3)


def test_a_slow_instance_takes_its_factor_longer():
    row = type("Row", (), {"cost_ms": 20.0})()
    waited_ms, instance, started_s, ended_s = Stamped(Wait(), [3.0])(row)
    assert (waited_ms, instance) == (20.0, -1), "no task here"
    assert ended_s - started_s >= 0.06


@pytest.mark.usefixtures("small")
def test_posg_on_spark_prints_one_json_object_and_writes_a_page(spark, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(paper_shuffle, "SparkBench", partial(SparkBench, scale=TINY, spark=spark))
    assert run(monkeypatch, "paper", "posg", "--spark", "--runs", "1", "--json", "--out", str(tmp_path)) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["parameters"] == {"paper": "posg", "figures": ["11", "12"], "runs": 1, "seed": 0, "spark": True}
    points = [row for row in printed["results"] if row["verdict"] is None]
    assert {(row["figure"], row["series"], row["instances"]) for row in points if row["figure"] == "12"} == {
        ("12", way, k) for way in ("round-robin", "evenly") for k in (1, 2, 3)
    }
    assert [row["x"] for row in points if row["figure"] == "11" and row["series"] == "evenly"] == [40.0, 80.0]
    assert not any(isinstance(value, float) and math.isnan(value) for row in printed["results"] for value in row.values())
    for row in points:
        assert row["completion_ms_mean"] > 0.0
        assert row["speedup_mean"] == 1.0 or row["series"] == "evenly"
    said = {row["published"] for row in printed["results"] if row["verdict"] is not None}
    assert {1.37, 1.16} <= said
    assert {path.name for path in tmp_path.iterdir()} == {
        "posg-spark.html",
        "posg-spark-figure-11.png",
        "posg-spark-figure-12.png",
    }
    assert "repartition(k)" in (tmp_path / "posg-spark.html").read_text()
    assert spark.range(1).count() == 1, "the caller's session goes on"


@pytest.mark.usefixtures("small")
def test_osg_on_spark_searches_for_real(spark, monkeypatch, tmp_path):
    monkeypatch.setenv("EVENLY_DATA", str(tmp_path))
    seen = []
    with SparkBench(2, progress=seen.append, scale=TINY, spark=spark) as bench:
        names = osg_spark.PAPER.chosen([])
        (two,) = [osg_spark.PAPER.figures[name].make(bench) for name in names]
        assert sum(seen) == osg_spark.PAPER.work(names, bench) == 7
    assert {row["runs"] for row in two.points} == {2}
    assert all(row["completion_ms_min"] <= row["completion_ms_mean"] <= row["completion_ms_max"] for row in two.points)
    assert len(two.verdicts) == 5
    assert len(two.panels) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--runs", "0"], "--runs must be from 1 to 100 with --spark, got 0"),
        (["--figure", "4"], "there is no figure '4' to run on Spark: choose from 11, 12"),
    ],
)
def test_a_bad_option_gives_one_sentence(monkeypatch, capsys, options, said):
    assert run(monkeypatch, "paper", "posg", "--spark", *options) == 2
    printed = capsys.readouterr()
    assert said in printed.err.replace("\n", " ")
    assert printed.out == ""
