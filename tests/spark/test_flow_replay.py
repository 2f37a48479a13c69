"""Dataflows whose source is a replay: every row once, measured, planned and planned again, on a real session."""

from __future__ import annotations

import time
from collections import Counter

import pytest

import evenly
from evenly.errors import CheckpointMismatch, InvalidDataflow, InvalidParameter
from evenly.planning.micro_batches import CurvePoint, EngineCosts, SlotCurve, SparkModels, plan_on_spark

NOW = {"availableNow": True}
ROWS = 240


@pytest.fixture
def recorded(spark, tmp_path):
    path = str(tmp_path / "in")
    spark.range(ROWS, numPartitions=3).selectExpr("id", "id % 5 as k").write.parquet(path)
    return path


def waits(row):
    time.sleep(0.005)
    return {"id": row.id, "k": row.k}


def same(row):
    return {"id": row.id, "k": row.k}


def written(spark, path):
    return Counter(row.id for row in spark.read.parquet(str(path)).select("id").collect())


def test_every_row_once_with_the_same_stamp_when_its_batch_is_run_again(spark, recorded, tmp_path):
    seen, flow, watch = [], evenly.Flow("replay"), evenly.FlowWatch()

    def second_time(found, number):
        seen.append((number, sorted(map(tuple, found.collect()))))
        if number == 1 and len(seen) == 2:
            raise RuntimeError("not now")

    read = flow.source("rows", format="replay", path=recorded, options={"rate": "1000", "most_rows": "100"})
    read.sink("all", format="parquet", path=str(tmp_path / "all"))
    read.sink("last", function=second_time)
    with pytest.raises(Exception, match="not now"):
        evenly.run(flow, spark=spark, checkpoint=tmp_path / "cp", trigger=NOW, watch=watch).awaitTermination()
    evenly.run(flow, spark=spark, checkpoint=tmp_path / "cp", trigger=NOW, watch=watch).awaitTermination()
    assert written(spark, tmp_path / "all") == Counter(range(ROWS))
    assert [(number, len(rows)) for number, rows in seen] == [(0, 100), (1, 100), (1, 100), (2, 40)]
    assert seen[1] == seen[2]
    assert spark.read.parquet(str(tmp_path / "all")).where("arrived is null").count() == 0
    assert [(it.number, it.rows, it.completion.rows > 0) for it in watch.batches][-2:] == [(1, 100, True), (2, 40, True)]
    assert all(0.0 < it.completion.p50_s <= it.completion.p99_s for it in watch.batches if it.completion)
    spark.range(5).selectExpr("id", "id as k").write.mode("append").parquet(recorded)
    with pytest.raises(CheckpointMismatch, match="are not those that were replayed before row 240"):
        evenly.run(flow, spark=spark, checkpoint=tmp_path / "cp", trigger=NOW).awaitTermination()


def planned(flow):
    """A plan that expects much of a function that waits."""
    curves = {name: SlotCurve(name, (CurvePoint(1, 1e5),)) for name in ("waits", "same")}
    return plan_on_spark(flow, SparkModels(EngineCosts(2), curves), rate=1_000.0, slots=2, trigger_s=0.03)


def test_a_plan_is_followed_and_changed_between_batches_and_rows_are_the_same(spark, recorded, tmp_path):
    flow, watch = evenly.Flow("planned"), evenly.FlowWatch()
    options = {"rate": "1000", "numPartitions": "1"}
    read = flow.source("rows", format="replay", path=recorded, options=options)
    slow = read.row(waits, schema="id long, k long")
    slow.by_cost("k", instances=2).row(same, schema="id long, k long", threads=1).sink(
        "all", format="parquet", path=str(tmp_path / "all")
    )
    plan = planned(flow.dataflow())
    assert plan.rows_per_batch == 30.0
    query = evenly.run(
        flow, spark=spark, checkpoint=tmp_path / "cp", trigger=NOW, watch=watch, plan=replaced(plan), replan=True
    )
    query.awaitTermination()
    assert written(spark, tmp_path / "all") == Counter(range(ROWS))
    assert [it.rows for it in watch.batches] == [30] * 8
    for it in watch.batches:
        assert {name: one.rows_in for name, one in it.operators.items()} == {"waits": 30, "same": 30}
    (change,) = watch.changes
    assert (change.kind, change.of, change.before, change.after) == ("threads", "waits", 1, 2)
    assert [it.operators["waits"].threads for it in watch.batches] == [1] * 5 + [2] * 3
    assert watch.instances["same"].rows_in.sum() == 30
    assert watch.batches[-1].operators["same"].peak_bytes > 2**20
    compared = {it.operator: it for it in watch.verdict(plan).operators}
    assert (compared["waits"].planned_threads, compared["same"].instances) == (1, 2)


def replaced(plan):
    """The same with a cap of 30 rows of a batch: its highest rate is the planned one."""
    object.__setattr__(plan, "__dict__", {**plan.__dict__, "peak_rate": 1_000.0})
    return plan


def test_arrivals_of_any_source_and_nulls_among_them(spark, tmp_path):
    at = "case when id = 0 then timestamp_seconds(1700000000) end as `a.``t`"
    spark.range(3, numPartitions=1).selectExpr("id", at).write.parquet(str(tmp_path / "in"))

    def flow(arrival):
        made = evenly.Flow("arrivals")
        made.source("rows", format="parquet", path=str(tmp_path / "in"), arrival=arrival).sink("out", format="console")
        return made

    watch = evenly.FlowWatch()
    evenly.run(flow("a.`t"), spark=spark, checkpoint=tmp_path / "cp", trigger=NOW, watch=watch).awaitTermination()
    (batch,) = watch.batches
    assert (batch.rows, batch.completion.rows) == (3, 1)
    assert batch.completion.mean_s == pytest.approx(time.time() - 1.7e9, abs=3_600.0)
    spark.range(2).selectExpr("id", "cast(null as timestamp) as `a.``t`").write.mode("append").parquet(str(tmp_path / "in"))
    evenly.run(flow("a.`t"), spark=spark, checkpoint=tmp_path / "cp", trigger=NOW, watch=watch).awaitTermination()
    assert [(it.rows, it.completion is None) for it in watch.batches] == [(3, False), (2, True)]
    for name, said in (("id", "'id' is bigint"), ("no", "'no' is not there")):
        with pytest.raises(InvalidDataflow, match=f"must be a column of timestamps, and {said}"):
            evenly.run(flow(name), spark=spark, checkpoint=tmp_path / "other", trigger=NOW)


def test_what_is_wrong_with_a_replay_or_a_plan_is_said_before_anything_runs(spark, recorded, tmp_path):
    def started(*, checkpoint="cp", arrival="", plan=None, replan=False, path=recorded, **options):
        flow = evenly.Flow("wrong")
        read = flow.source("rows", format="replay", path=path, options=options, arrival=arrival)
        read.sink("all", format="parquet", path=str(tmp_path / "all"))
        at = checkpoint and tmp_path / checkpoint
        return evenly.run(flow, spark=spark, checkpoint=at, plan=plan, replan=replan)

    for options, said in (
        ({}, "needs the option `rate`"),
        ({"rate": "fast"}, "must be rows per second, above 0 and at most .*, got 'fast'"),
        ({"rate": "0"}, "must be rows per second, above 0 and at most .*, got '0'"),
        ({"rate": "5", "loop": "maybe"}, "must be true or false, got 'maybe'"),
        ({"rate": "5", "most_rows": "0"}, "`most_rows` of a replay must be a whole number from 1 on"),
        ({"rate": "5", "speed": "9"}, "a replay has no option 'speed'"),
        ({"rate": "5", "arrival": "ID"}, "there is a column 'ID' in .* already"),
        ({"rate": "5", "path": ""}, "a replay needs the `path`"),
    ):
        with pytest.raises(InvalidDataflow, match=said):
            started(**options)
    with pytest.raises(InvalidParameter, match="replan needs the plan"):
        started(rate="5", replan=True)
    with pytest.raises(InvalidParameter, match="plan must be a plan for Spark"):
        started(rate="5", plan="fast")
    assert not (tmp_path / "cp").exists()
    started(checkpoint=None, rate="5")
    assert written(spark, tmp_path / "all") == Counter(range(ROWS))


def test_reports_of_operators_by_cost_are_taken_in_a_batch_too(spark, recorded, tmp_path):
    flow, watch = evenly.Flow("costs"), evenly.FlowWatch()
    read = flow.source("rows", format="parquet", path=recorded)
    dealt = read.by_cost("k", instances=2).row(same, schema="id long, k long")
    dealt.sink("one", format="parquet", path=str(tmp_path / "one"))
    dealt.where("id > 3").sink("two", format="noop")
    evenly.run(flow, spark=spark, watch=watch)
    assert written(spark, tmp_path / "one") == Counter(range(ROWS))
    (batch,) = watch.batches
    assert (batch.operators["same"].rows_in, batch.operators["same"].instances) == (ROWS, 2)


@pytest.mark.long
def test_the_peak_is_between_a_rate_that_held_and_one_that_did_not(spark, recorded, tmp_path):
    flow = evenly.Flow("peak")
    read = flow.source("rows", format="replay", path=recorded, options={"rate": "200", "numPartitions": "2"})
    read.row(waits, schema="id long, k long").sink("out", format="noop")
    found = evenly.find_peak(flow, spark=spark, checkpoint=tmp_path / "cp", trigger_s=1.0, precision=0.5)
    assert found.rate is None or found.breaks_at is None or found.rate < found.breaks_at <= 1.5 * found.rate * (1 + 1e-9)
    assert found.breaks_at <= 1_000.0  # two slots that wait 5 ms for a row
    assert found.broke == "waits"
    assert all(trial.verdict.held is not None for trial in found.trials)
    flow = evenly.Flow("none")
    flow.source("rows", format="parquet", path=recorded).sink("out", format="noop")
    with pytest.raises(InvalidParameter, match="`format: replay`, and 'rows' is 'parquet'"):
        evenly.find_peak(flow, spark=spark, checkpoint=tmp_path / "cp2", trigger_s=1.0)
