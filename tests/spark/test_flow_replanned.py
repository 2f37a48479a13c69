"""Threads, instances and rows of batches that change between batches, and while a batch is run again, change no row."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from pyspark import TaskContext

import evenly
from evenly.dataflow.tuning import Tuning
from evenly.planning.micro_batches import CurvePoint, EngineCosts, SlotCurve, SparkModels, plan_on_spark
from evenly.spark.flows.steering import Steering

NOW = {"availableNow": True}
ROWS = 60
WITH_TASK = "id long, k long, task int"
NAMES = ("spread", "batches", "keyed", "costed", "copied", "lone", "alone")
SINKS = ("met", "costs", "copies", "alone")


@pytest.fixture
def recorded(spark, tmp_path):
    path = str(tmp_path / "in")
    spark.range(ROWS, numPartitions=3).selectExpr("id", "if(id % 6 = 5, null, id % 6) as k").write.parquet(path)
    return path


def task():
    return TaskContext.get().partitionId()


def spread(row):
    """None, one or two rows of each."""
    return [{"id": row.id, "k": row.k}] * (row.id % 3)


def keyed(row):
    return (row.id, row.k, task())


async def costed(row):
    return {"id": -row.id, "k": row.k, "task": task()}


def same(batch):
    return batch


def flow_of(recorded, folder, calls, fails=()):
    """A dataflow with an edge of every grouping, two of one key to the same operator, and one of what nobody else reads."""
    flow, failed = evenly.Flow("replanned"), []
    options = {"rate": "1000", "most_rows": "15", "numPartitions": "2"}
    read = flow.source("rows", format="replay", path=recorded, options=options)

    def counted(row):
        with calls.open("a") as file:
            file.write(".")
        return row

    first = read.row(spread, schema="id long, k long")
    batches = first.shuffle().batch(same, schema="id long, k long", name="batches")
    met = first.by_key("k", instances=2).and_also(batches.by_key("k", instances=2)).row(keyed, schema=WITH_TASK)
    costs = batches.by_cost("k", instances=2).row(costed, schema=WITH_TASK)
    copies = batches.where("id < 20").duplicate(3).row(keyed, schema=WITH_TASK, name="copied")
    lone = batches.shuffle().row(counted, schema="id long, k long", name="lone")
    alone = lone.by_key("k").row(keyed, schema=WITH_TASK, name="alone")
    for name, stream in zip(SINKS, (met, costs, copies, alone), strict=True):
        stream.sink(f"to {name}", format="parquet", path=str(folder / name))

    def last(_rows, number):
        if number in fails and number not in failed:
            failed.append(number)
            raise RuntimeError("not now")

    met.sink("last", function=last)
    return flow


def sunk(spark, folder):
    return {
        name: Counter(tuple(row) for row in spark.read.parquet(str(folder / name)).select("id", "k").collect())
        for name in SINKS
    }


def naive():
    rows = [(number, None if number % 6 == 5 else number % 6) for number in range(ROWS) for _ in range(number % 3)]
    return {
        "met": Counter(rows * 2),
        "costs": Counter((-number, key) for number, key in rows),
        "copies": Counter([row for row in rows if row[0] < 20] * 3),
        "alone": Counter(rows),
    }


@pytest.fixture
def drawn(monkeypatch):
    """Other numbers before every batch, those of edges that are never planned again among them."""
    used, draw = [], random.Random(7)

    def between_batches(self):
        flow = self._flow
        threads = {name: draw.randint(1, 4) for name in NAMES}
        instances = {(edge.start, edge.end): draw.randint(1, 5) for edge in flow.edges}
        self.tuning = Tuning(threads, instances, rows_per_batch=draw.choice([11, 17]))
        self._keep_pace()
        used.append(self.tuning)

    monkeypatch.setattr(Steering, "between_batches", between_batches)
    return used


def planned(flow):
    curves = {name: SlotCurve(name, (CurvePoint(1, 1e5),)) for name in NAMES}
    return plan_on_spark(flow, SparkModels(EngineCosts(2), curves), rate=1_000.0, slots=2, trigger_s=0.03)


def test_rows_are_those_of_an_undisturbed_run_whatever_changes_between_batches(spark, recorded, tmp_path, drawn):
    """Batch 1 fails once, and is run again with other numbers. Keys are learnt in each batch, of rows that are made once."""
    flow = flow_of(recorded, tmp_path / "out", tmp_path / "calls", fails={1})
    watch, plan = evenly.FlowWatch(), planned(flow.dataflow())

    def run():
        how = {"trigger": NOW, "watch": watch, "plan": plan, "replan": True}
        evenly.run(flow, spark=spark, checkpoint=tmp_path / "cp", **how).awaitTermination()

    with pytest.raises(Exception, match="not now"):
        run()
    run()
    assert sunk(spark, tmp_path / "out") == naive()
    entered = [it.operators["lone"].rows_in for it in watch.batches]
    assert len(drawn) == len(entered) + 1 > 4
    assert sum(entered) == ROWS
    assert len((tmp_path / "calls").read_text()) == ROWS + entered[1]
    placed = spark.read.parquet(str(tmp_path / "out" / "met")).select("batch", "k", "task").distinct().collect()
    assert max(Counter((row.batch, row.k) for row in placed).values()) == 1  # a key of a batch is on one instance
    assert {row.task for row in placed} >= {0, 1, 2}
    assert len({it.operators["spread"].threads for it in watch.batches}) > 1
