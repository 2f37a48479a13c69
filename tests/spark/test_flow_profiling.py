"""Operators of a dataflow measured in Spark's workers, and batches that are timed."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import documented_json
import evenly
from command import told
from evenly.errors import InvalidModel
from evenly.planning.micro_batches import EngineCosts, MeasuredEdge, plan_on_spark
from evenly.planning.model_files import models_yaml, read_models, read_spark_models
from evenly.spark.flows import state_profile
from evenly.spark.flows.profiling import ProfileOptions, profile_flow
from evenly.spark.flows.timing import SCHEMA, batch_seconds, prepare, scratch


def persisted(spark):
    return spark.sparkContext._jsc.getPersistentRDDs().size()


LITTLE = ProfileOptions(sample=20, seconds=0.1, most_threads=1)


class Twice:
    """Gives every row twice, and takes even ones only."""

    def __call__(self, row):
        time.sleep(0.002)
        if row["a.b"] % 2:
            raise ValueError("this row does not reach it")
        return [(row["a.b"],), (None,)]


def same(batch):
    return pa.table({"id": batch["id"]})


def test_operators_are_measured_with_rows_that_reach_them_and_the_plan_uses_that(spark):
    flow = evenly.Flow("measured")
    rows = flow.source("rows", function=lambda session: session.range(50).withColumnRenamed("id", "a.b"))
    twice = rows.where("`a.b` % 2 = 0").row(Twice, schema="id long", name="twice")
    twice.shuffle(instances=3).frame(lambda frame: frame, name="same").sink("kept", format="noop")
    points = []
    two = replace(LITTLE, most_threads=2)
    found = profile_flow(
        spark, flow.dataflow(), options=two, told=lambda name, it: points.append((name, getattr(it, "threads", it)))
    )
    assert points[:2] == [("twice", 1), ("twice", 2)]
    assert points[2:] == [("same", found.frames["same"])]
    assert (found.frames["same"].shuffles, found.frames["same"].left, found.frames["same"].sample) == (0, 20, 20)
    some, twice_as_many, all_of_them = MeasuredEdge(0.5, "`a.b` % 2 = 0"), MeasuredEdge(2.0, ""), MeasuredEdge(1.0, "")
    ways = {("rows", "twice"): some, ("twice", "same"): twice_as_many, ("same", "kept"): all_of_them}
    assert found.edges == {"measured": ways}
    curve = found.curves["twice"]
    assert (curve.name, curve.slots, [point.threads for point in curve.points]) == ("twice", 2, [1, 2])
    assert curve.points[0].cpu_row_s > 0.0
    assert curve.longest_row_s >= 0.002
    assert curve.memory_mib > 10.0
    plan = plan_on_spark(flow.dataflow(), replace(found, engine=EngineCosts(2)), slots=2)
    assert plan.unmeasured == ()
    assert plan.stages[-1].rows_in == {"same": 1.0, "kept": 1.0}
    assert plan.peak_rate > 0.0


def test_an_operator_of_spark_itself_is_measured_as_a_stream_runs_it_and_the_session_is_as_before(spark, tmp_path):
    adaptive = []

    def counted(frame):
        adaptive.append(frame.sparkSession.conf.get("spark.sql.adaptive.enabled"))
        return frame.groupBy(F.expr("id % 7 as k")).count().repartition(3)

    flow = evenly.Flow("own")
    rows = flow.source("rows", function=lambda session: session.range(40))
    rows.frame(counted, name="counted").sink("kept", format="noop")
    names = ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions")
    before = [spark.conf.get(name) for name in names], persisted(spark)
    found = profile_flow(spark, flow.dataflow(), options=LITTLE).frames["counted"]
    assert ([spark.conf.get(name) for name in names], persisted(spark)) == before
    measured = max(set(adaptive), key=adaptive.count)
    spark.range(4).write.parquet(str(tmp_path / "in"))
    streamed = evenly.Flow("streamed")
    read = streamed.source("rows", format="parquet", path=str(tmp_path / "in"))
    read.frame(counted, name="counted").sink("kept", format="noop")
    evenly.run(streamed, spark=spark, checkpoint=tmp_path / "checkpoint", trigger={"availableNow": True}).awaitTermination()
    assert adaptive[-1] == measured
    assert (found.shuffles, found.tasks, found.sample, found.left, found.left_of_half) == (2, 3, 20, 7, 7)
    assert not found.merges
    assert found.fixed_s > 0.0
    assert "not in proportion" in found.doubts(2)[1]


def test_an_operator_that_no_row_reaches_cannot_be_measured(spark):
    flow = evenly.Flow("none")
    flow.source("rows", function=lambda session: session.range(50)).where("id < 0").batch(
        same, schema="id long", name="same"
    ).sink("kept", format="noop")
    with pytest.raises(InvalidModel, match=r"no row of a sample of 20 reaches 'same'.*\(--rows\)"):
        profile_flow(spark, flow.dataflow(), options=LITTLE)
    state = evenly.Flow("state")
    stream = state.source("rows", function=lambda session: session.range(5))
    stream.by_key("id").state(lambda placed: placed, name="held").sink("kept", format="noop")
    with pytest.raises(InvalidModel, match=r"5 rows of the sample reach 'held'.*take more \(--rows\)"):
        profile_flow(spark, state.dataflow(), options=LITTLE)


def test_state_is_measured_as_a_stream_keeps_it_and_what_is_behind_it_with_rows_that_left_it(spark, monkeypatch, tmp_path):
    """Rows come late for a watermark that stands before the state, and a column has a dot in its name."""
    for name, number in {"_MOST_ROWS": 1_000, "_BATCHES": 3, "_WARMING": 1}.items():
        monkeypatch.setattr(state_profile, name, number)

    def begins(row):
        return (row.id, row.id % 4, datetime.fromtimestamp(1e9 - (1e6 if row.id >= 45 else 0), UTC))

    def first(placed):
        return placed.dropDuplicatesWithinWatermark(["a.k", "slot"]).select("`a.k`", "slot")

    flow = evenly.Flow("stateful")
    rows = flow.source("rows", function=lambda session: session.range(50).coalesce(1))
    timed = rows.row(begins, schema="id long, `a.k` long, at timestamp")
    timed = timed.frame(lambda it: it.withWatermark("at", "1 day"), name="late")
    counts = timed.where("id >= 0").by_key("a.k", instances=2).state(first, name="held")
    counts.batch(lambda batch: batch, schema="`a.k` long, slot int", name="after").sink("kept", format="noop")
    before = persisted(spark)
    found = profile_flow(spark, flow.dataflow(), options=replace(LITTLE, sample=50))
    assert persisted(spark) == before
    held = found.frames["held"]
    assert (held.sample, held.left, held.keys, held.late, held.shuffles, held.slots) == (50, 4, 4, 5, 0, 2)
    assert held.fixed_s >= 0.0
    assert list(found.curves) == ["begins", "after"]
    assert found.edges["stateful"]["held", "after"] == MeasuredEdge(0.08, "")
    (tmp_path / "models.yaml").write_text(models_yaml([], found))
    assert read_spark_models(tmp_path / "models.yaml").frames["held"].keys == 4
    plan = plan_on_spark(flow.dataflow(), replace(found, engine=EngineCosts(2)), slots=2)
    assert plan.unmeasured == ()
    assert plan.stages[-1].fixed_s == held.fixed_s
    for said in ("while it kept 4 keys", "it was 4 for 50", "5 rows came too late"):
        assert any(said in doubt for doubt in plan.doubts)


def test_batches_of_a_known_size_are_timed(spark):
    with scratch(spark, None) as base:
        options = prepare(spark, f"{base}/in", rows=10, batches=2, slots=2)
        flow = evenly.Flow("timed")
        source = flow.source("rows", format="parquet", path=f"{base}/in", schema=SCHEMA, options=options)
        source.batch(same, schema="id long", name="same").sink("kept", format="noop", options={"mode": "append"})
        watch = evenly.FlowWatch()
        seconds = batch_seconds(spark, flow.dataflow(), f"{base}/checkpoint", watch)
        assert [batch.operators["same"].rows_in for batch in watch.batches] == [10, 10]
        assert len(seconds) == 2
        assert all(batch.seconds <= took_s for batch, took_s in zip(watch.batches, seconds, strict=True))
        folder = base.removeprefix("file://")
        assert spark.read.parquet(f"{base}/in").count() == 20
    assert not spark._jvm.java.io.File(folder).exists()


def test_the_command_measures_a_dataflow_and_keeps_what_is_in_the_file(spark, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(type(spark), "stop", lambda _: None)  # the command ends its session; this one is of all tests
    monkeypatch.setattr("evenly.spark.session.local_session", lambda *_, **__: spark)
    out, flow = tmp_path / "models.yaml", tmp_path / "flow.yaml"
    out.write_text("models: {source: {static: {cpu_pct: 10, mem_pct: 1}}}\nspark: {engine: {slots: 2, batch_s: 0.25}}")
    flow.write_text(
        """
dataflow: told
operators:
  rows: {kind: source, format: rate}
  same: {kind: batch, function: "evenly.worker.clocking:same", schema: "id long"}
  kept: {kind: sink, format: noop}
edges:
  - [rows, same]
  - [same, kept]
"""
    )
    spark.range(30).write.parquet(str(tmp_path / "rows"))
    options = (
        "--on",
        "spark",
        "--source",
        tmp_path / "rows",
        "--rows",
        "20",
        "--seconds",
        "0.1",
        "--most-threads",
        "1",
        "--json",
    )
    code, printed, _ = told(monkeypatch, capsys, "profile", flow, "--out", out, *options)
    assert code == 0
    [point] = documented_json.check(printed)["results"]
    assert (point["operator"], point["threads"], point["slots"], point["best"]) == ("same", 1, 2, True)
    assert list(read_models(out)) == ["source"]
    found = read_spark_models(out)
    assert (found.engine.batch_s, found.curves["same"].points[0].rows_per_s) == (0.25, pytest.approx(point["rate"], rel=1e-5))
    assert found.edges["told"]["rows", "same"] == MeasuredEdge(1.0, "")
