"""Operators of a dataflow measured in Spark's workers, and batches that are timed."""

from __future__ import annotations

import time
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import documented_json
import evenly
from command import told
from evenly.errors import InvalidDataflow, InvalidModel
from evenly.planning.micro_batches import EngineCosts, MeasuredEdge, plan_on_spark
from evenly.planning.model_files import read_models, read_spark_models
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


def test_an_operator_of_spark_itself_is_measured_as_a_stream_runs_it_and_the_session_is_as_before(spark):
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
    assert adaptive.count("false") > adaptive.count("true")
    assert (found.shuffles, found.tasks, found.sample, found.left, found.left_of_half) == (2, 3, 20, 7, 7)
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
    stream = state.source("rows", function=lambda session: session.range(50))
    stream.by_key("id").state(lambda placed: placed, name="held").sink("kept", format="noop")
    with pytest.raises(InvalidDataflow, match=r"'held' has state.*profile these"):
        profile_flow(spark, state.dataflow(), options=LITTLE)


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
