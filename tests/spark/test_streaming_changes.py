"""What a user of `stream_by_key` sees, hears and waits for while mappings change; and pipelines that forget their slot."""

import logging
import threading
from pathlib import Path

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from visiting import INSTANCES, ROCKSDB, Visits, by_hash, turned

import evenly
from evenly.errors import InvalidParameter
from evenly.keys.placed import judge_pipeline
from evenly.spark.jvm.plan_roles import keyed_operators
from evenly.spark.placing.slot_mark import marked
from evenly.spark.streaming import keyed_query, mapping_store
from evenly.spark.streaming.mapping_store import MappingStore

PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture
def visits(spark, tmp_path):
    return Visits(spark, tmp_path)


@pytest.fixture
def rocksdb(spark):
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    yield
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


@pytest.mark.parametrize("keys", [("user",), ("slot", "user"), ("user", "slot", "ts"), ("slot",), ("ts",)])
def test_a_pipeline_with_state_that_forgets_the_slot_is_refused_before_it_starts(spark, visits, keys):
    visits.add(100)
    with pytest.raises(InvalidParameter, match=r"[gG]roup by \(user, slot\)"):
        visits.run(lambda placed: placed.dropDuplicates([*keys]).writeStream.format("noop"), mapping=by_hash())
    assert spark.streams.active == []
    assert not (Path(visits.checkpoint) / "offsets").exists()


def test_a_pipeline_without_state_is_not_judged(visits):
    visits.add(100)
    query = visits.run(lambda placed: placed.select("user").writeStream.format("noop"), mapping=by_hash())
    assert sum(query.batches[0].mapped_rows) == 100
    assert query.batches[0].imbalance_pct is None


def pandas_state(grouped):
    return grouped.applyInPandasWithState(lambda _, rows, __: rows, "user string", "user string", "append", "NoTimeout")


def same_rows(placed):
    return placed.mapInPandas(lambda rows: rows, placed.schema)


USED = {
    "renamed": lambda p: p.withColumnsRenamed({"user": "u", "slot": "s"}).groupBy("u", "s").count(),
    "cast to its own type": lambda p: p.groupBy(F.col("user").cast("string").alias("u"), "slot").count(),
    "in a struct": lambda p: p.groupBy(F.struct("user", "slot")).count(),
    "within watermark": lambda p: p.dropDuplicatesWithinWatermark(["user", "slot"]),
    "pandas with state": lambda p: pandas_state(p.groupBy("user", "slot")),
    "after a function of rows": lambda p: same_rows(p).groupBy("user", "slot").count(),
    "union": lambda p: p.union(p).groupBy("user", "slot").count(),
    "with itself, outer, then counted": lambda p: p.join(
        p.withColumnRenamed("ts", "then"), ["user", "slot"], "full_outer"
    ).groupBy("user", "slot").count(),
    "session": lambda p: p.groupBy(F.session_window("ts", "5 minutes"), "user", "slot").count(),
    "after another operator": lambda p: p.dropDuplicates(["ts"]).groupBy("user", "slot").count(),
    "before another operator": lambda p: p.dropDuplicates(["user", "slot"]).groupBy("ts").count(),
    "joined with a table": lambda p: p.join(p.sparkSession.range(3).selectExpr("string(id) as user"), "user")
    .groupBy("user", "slot").count(),
    "sql with a common table": lambda p: p.sparkSession.sql(
        "with a as (select * from {p}), b as (select user as u, slot from a) select count(*) from b group by u, slot", p=p
    ),
}  # fmt: skip
FORGOTTEN = {
    "cast to another type": lambda p: p.groupBy(F.col("user").cast("binary"), "slot").count(),
    "slot cast": lambda p: p.groupBy("user", F.col("slot").cast("bigint")).count(),
    "another value under the key's name": lambda p: p.withColumn("user", F.upper("user")).groupBy("user", "slot").count(),
    "within watermark": lambda p: p.dropDuplicatesWithinWatermark(["user"]),
    "pandas with state": lambda p: pandas_state(p.groupBy("user")),
    "after a function of rows": lambda p: same_rows(p).groupBy("user").count(),
    "join": lambda p: p.join(p.withColumnRenamed("ts", "then"), "user"),
    "second operator": lambda p: p.dropDuplicates(["user", "slot"]).groupBy("user").count(),
    "sql": lambda p: p.sparkSession.sql("select count(*) from {p} group by user", p=p),
    "sql with a common table": lambda p: p.sparkSession.sql(
        "with one as (select * from {p}) select count(*) from one group by user", p=p
    ),
}


def test_columns_are_followed_through_plans(spark):
    rows = spark.readStream.format("rate").load().selectExpr("string(value) as user", "timestamp as ts")
    placed = marked(rows.withWatermark("ts", "1 minute").withColumn("slot", F.hash("user")), "slot", ("user",))

    def refused(pipeline):
        return judge_pipeline(keyed_operators(pipeline(placed)), key=("user",), slot="slot", window=None).refusal is not None

    assert [name for name, pipeline in USED.items() if refused(pipeline)] == []
    assert [name for name, pipeline in USED.items() if not any(it.stateful for it in keyed_operators(pipeline(placed)))] == []
    assert [name for name, pipeline in FORGOTTEN.items() if not refused(pipeline)] == []


def test_a_key_that_is_a_field_is_followed(spark):
    rows = spark.readStream.format("rate").load().selectExpr("named_struct('id', value) as who", "value as `a.b`")
    nested = marked(rows.withColumn("slot", F.hash("who.id")), "slot", ("who.id",))
    dotted = marked(rows.withColumn("slot", F.hash("`a.b`")), "slot", ("`a.b`",))
    for placed, key in ((nested, "who.id"), (dotted, "`a.b`")):
        for columns, refused in (((key, "slot"), False), ((key,), True)):
            found = keyed_operators(placed.groupBy(*columns).count())
            assert (judge_pipeline(found, key=(key,), slot="slot", window=None).refusal is not None) == refused
        text = f"with one as (select * from {{p}}) select count(*) from one group by {key}, slot"
        found = keyed_operators(spark.sql(text, p=placed))
        assert judge_pipeline(found, key=(key,), slot="slot", window=None).refusal is None
        assert [it.stateful for it in found] == [True]
    placed = marked(rows.withColumn("my.slot", F.hash("`a.b`")), "my.slot", ("`a.b`",))
    assert keyed_operators(placed.groupBy("`a.b`", "`my.slot`").count())[0].roles == ("key 0", "slot")


def test_λ_is_of_what_partitions_have_read_where_an_earlier_stage_has_as_many(visits):  # noqa: PLC2401 - the measure's name
    visits.add(users=lambda ids: np.where(ids % 2 == 0, 7, ids % 100))
    query = visits.run(
        lambda placed: placed.dropDuplicates(["ts"]).dropDuplicates(["user", "slot"]).writeStream.format("noop"),
        mapping=by_hash(),
    )
    batch = query.batches[0]
    assert batch.read_rows == batch.mapped_rows
    assert sum(batch.read_rows) == visits.rows
    assert batch.imbalance_pct == batch.mapped_imbalance_pct > 50.0


def test_a_change_blocks_nobody_is_logged_and_leaves_the_session_as_it_is(spark, visits, rocksdb, monkeypatch, caplog):  # noqa: ARG001
    visits.add()
    seen, moving, go_on = set(), threading.Event(), threading.Event()
    build = visits.counts("user")

    def watched(placed):
        seen.add(placed.sparkSession.conf.get(PARTITIONS))
        return build(placed)

    caplog.set_level(logging.INFO, logger="evenly")
    query = evenly.stream_by_key(
        visits.stream(),
        watched,
        key="user",
        instances=INSTANCES,
        checkpoint=visits.checkpoint,
        query_name="counts of users",
        controller=False,
    )
    assert spark.streams.awaitAnyTermination(0.01) is False  # the look at the stream has ended, and is forgotten
    query.processAllAvailable()
    assert [it.id for it in spark.streams.active] == [query.query.id]
    first = (query.name, query.id, query.runId)

    def slowly(step):
        if step == "stopped":
            moving.set()
            assert go_on.wait(60)

    monkeypatch.setattr(mapping_store, "reached", slowly)
    change = threading.Thread(target=query.change_mapping, args=(turned(query.mapping),), kwargs={"reason": "a test"})
    waiting: list[bool] = []
    waiter = threading.Thread(target=lambda: waiting.append(evenly.await_any_termination(spark)))
    waiter.start()
    change.start()
    assert moving.wait(60)
    # The query is stopped, and its state is about to be moved.
    assert not query.query.isActive
    assert query.isActive
    assert query.exception() is None
    assert query.mapping.version == 1
    assert not query.awaitTermination(0.1)
    assert spark.streams.awaitAnyTermination(0.1) is False
    go_on.set()
    change.join(120)
    assert query.mapping.version == 2
    assert query.isActive
    assert (query.name, query.id) == first[:2] == ("counts of users", str(query.query.id))
    assert query.runId != first[2]
    assert waiting == []
    visits.add()
    query.processAllAvailable()
    query.stop()
    waiter.join(60)
    assert waiting == [True]
    assert visits.written("user") == visits.expected("user")
    assert seen == {spark.conf.get(PARTITIONS)} == {"8"}
    said = [
        (record.levelname, record.getMessage()) for record in caplog.records if record.name.startswith("evenly.spark.streaming")
    ]
    assert [level for level, _ in said] == ["INFO"] * 3
    for (_, message), words in zip(
        said,
        (("version 1", "learnt from", "4 instances"), ("version 2", "a test", "moved_state_rows"), ("version 2", "started")),
        strict=True,
    ):
        assert all(word in message for word in words)
        assert "\n" not in message


def test_state_that_can_never_be_moved_is_said_once_at_the_start(visits, monkeypatch, caplog):
    visits.add(files=4)
    monkeypatch.setattr(keyed_query.DriftController, "observe", None)  # nothing is decided in vain
    query = visits.run(visits.counts("user"), look=False)
    assert len(query.refusals) == 1
    warnings = [it.getMessage() for it in caplog.records if it.levelname == "WARNING" and it.name.startswith("evenly")]
    assert len(warnings) == 1
    assert ROCKSDB in warnings[0]
    assert "window=" in warnings[0]
    assert len(query.batches) == 4
    again = visits.run(visits.counts("user"))
    assert ROCKSDB in again.refusals[0]


@pytest.mark.usefixtures("rocksdb")
def test_a_figure_that_cannot_be_written_does_not_end_the_query(visits, monkeypatch, caplog):
    visits.add(files=6)
    note, fails = MappingStore.note, [2]

    def full(store, number, figures):
        if fails[0]:
            fails[0] -= 1
            raise OSError("no space left on device")
        note(store, number, figures)

    monkeypatch.setattr(MappingStore, "note", full)
    query = evenly.stream_by_key(
        visits.stream(), visits.counts("user"), key="user", instances=INSTANCES, checkpoint=visits.checkpoint, look=False
    )
    # The controller follows the batches at a pace of its own: each is waited for before the next is there.
    for _ in range(16):
        visits.add()
        query.processAllAvailable()
        if query.changes and "after_pct" in query.changes[0].figures:
            break
    query.stop()
    assert fails == [0]
    assert "after_pct" in query.changes[0].figures
    assert query.exception() is None
    assert visits.written("user") == visits.expected("user")
    assert ["no space left" in it.getMessage() for it in caplog.records if it.levelname == "WARNING"] == [True]


def test_waiting_for_any_query_raises_what_ended_one(spark, visits):
    visits.add(100)
    assert not evenly.await_any_termination(spark, 0.1)

    def fail(batch, number):  # noqa: ARG001
        raise ValueError("no such sink")

    query = evenly.stream_by_key(
        visits.stream(),
        lambda placed: placed.writeStream.foreachBatch(fail),
        key="user",
        instances=INSTANCES,
        checkpoint=visits.checkpoint,
        mapping=by_hash(),
    )
    with pytest.raises(StreamingQueryException, match="no such sink"):
        evenly.await_any_termination(spark, 60)
    query.stop()


def test_a_batch_that_forgets_the_slot_can_be_told(spark, caplog):
    rows = spark.range(1_000).selectExpr("id % 10 as user", "id % 7 as day", "id as v")
    placed = rows.transform(evenly.by_key, key="user", instances=4)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        for right in (
            placed.groupBy("user", "slot").agg(F.collect_list("v")),
            placed.groupBy("slot", "user", "day").agg(F.collect_list("v")),
            placed.groupBy("day").count(),
            placed.select("v"),
            rows.groupBy("user").count(),
        ):
            assert evenly.check_placement(right) == ()
        assert caplog.records == []
        for wrong in (placed.groupBy("user").agg(F.collect_list("v")), placed.join(rows.select("user"), "user")):
            (found,) = evenly.check_placement(wrong)
            assert (found.by, found.placed_by) == (("user",), ("user", "slot"))
        assert "group, join or partition by (user, slot)" in caplog.records[-1].getMessage()
        stream = spark.readStream.format("rate").load().selectExpr("value as user")
        learnt = evenly.learn_mapping(rows, key="user", instances=8)
        placed = stream.transform(evenly.by_key, key="user", instances=8, mapping=learnt)
        assert evenly.check_placement(placed.groupBy("user", "slot").count()) == ()
        assert [it.by for it in evenly.check_placement(placed.groupBy("user").count())] == [("user",)]
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
