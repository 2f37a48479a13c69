"""`stream_by_key`: mappings that are learnt, kept beside the checkpoint, read back, and changed while the query runs."""

import json
from pathlib import Path

import pytest
from pyspark.sql import functions as F
from visiting import INSTANCES, by_hash, turned

import evenly
from evenly.errors import (
    CheckpointMismatch,
    InvalidParameter,
)
from evenly.keys.dkg import DKG
from evenly.keys.promises import Promises
from evenly.spark.state.lineage import current_checkpoint
from evenly.spark.streaming import changing
from evenly.spark.streaming.kept_rows import kept_promises


def test_a_mapping_is_learnt_from_the_stream_kept_and_read_back(spark, visits):
    visits.add(files=2)
    first = visits.run(visits.counts("user"))
    assert spark.conf.get("spark.sql.shuffle.partitions") == "8"
    assert [version.reason for version in first.versions] == ["learnt from the beginning of the stream"]
    assert (first.mapping.columns, first.mapping.types) == (("user",), ("string",))
    with pytest.raises(InvalidParameter, match=r"'user' is bigint, and the mapping is for string \(user\)"):
        evenly.by_key(spark.range(3).toDF("user"), key="user", instances=INSTANCES, mapping=first.mapping)
    assert [batch.number for batch in first.batches] == [0, 1]
    assert sum(sum(batch.mapped_rows) for batch in first.batches) == visits.rows
    assert all(batch.mapped_imbalance_pct < 10.0 for batch in first.batches)
    assert visits.written("user") == visits.expected("user")
    assert visits.misplaced(first.mapping) == (len(visits.expected("user")), 0)

    visits.add()
    second = visits.run(visits.counts("user"), mapping=by_hash(), controller=False)
    assert second.mapping == first.mapping
    assert second.batches == ()
    assert visits.written("user") == visits.expected("user")
    assert visits.misplaced(first.mapping) == (len(visits.expected("user")), 0)


def test_windows_that_have_begun_finish_where_they_are_and_new_ones_follow_the_new_mapping(spark, visits, monkeypatch):
    visits.add()
    keys = ("window", "user")
    query = evenly.stream_by_key(
        visits.windows("1 hour"),
        visits.counts(*keys),
        key="user",
        instances=INSTANCES,
        checkpoint=visits.checkpoint,
        window="window",
        controller=False,
    )
    first = query.mapping
    query.processAllAvailable()
    state = spark.read.format("statestore").load(current_checkpoint(spark, visits.checkpoint))
    latest = state.select(F.unix_micros(F.max("key.window.start"))).collect()[0][0]
    version = query.change_mapping(turned(first), reason="a test")
    assert version.number == 2
    assert version.spans == ((1, None), (2, latest + 1))
    visits.add()
    query.processAllAvailable()
    second = query.mapping
    assert second.version == 2
    begun = f"unix_micros(key.window.start) <= {latest}"
    for condition, mapping in ((begun, first), (f"not {begun}", second)):
        groups, wrong = visits.misplaced(mapping, condition)
        assert groups > 50
        assert wrong == 0

    with pytest.raises(InvalidParameter, match="8 instances, not for 4"):
        query.change_mapping(DKG.automatic(8, ids="xxhash64").mapping())
    with monkeypatch.context() as fewer:
        fewer.setattr(changing, "MOST_SPANS", 2)
        with pytest.raises(CheckpointMismatch, match=r"windows of 2 mappings still have state.*watermark"):
            query.change_mapping(first)
    assert query.isActive
    assert query.mapping == second

    visits.add(files=2)
    query.processAllAvailable()
    third = query.change_mapping(turned(first, 2), reason="another test")
    assert [number for number, _ in third.spans] == [2, 3]
    visits.add()
    query.processAllAvailable()
    query.stop()
    assert visits.written(*keys) == visits.expected(*keys)
    assert visits.misplaced(query.mapping, f"unix_micros(key.window.start) >= {third.spans[-1][1]}")[1] == 0


@pytest.mark.parametrize("names", [("WINDOW", "user", "SLOT"), ("w", "u", "s")])
def test_windows_that_have_begun_are_found_whatever_their_columns_are_called(visits, names):
    visits.add(600)

    def counts(placed):
        if names[0] == "w":
            placed = placed.withColumnsRenamed({"window": "w", "user": "u", "slot": "s"})
        counted = placed.groupBy(*names).count().toDF("window", "user", "slot", "count")

        def save(batch, number):
            batch.write.mode("overwrite").parquet(f"{visits.output}/batch={number}")

        return counted.writeStream.foreachBatch(save).outputMode("update")

    query = evenly.stream_by_key(
        visits.windows("1 hour"),
        counts,
        key="user",
        instances=INSTANCES,
        checkpoint=visits.checkpoint,
        window="window",
        controller=False,
        look=False,
    )
    query.processAllAvailable()
    version = query.change_mapping(turned(query.mapping))
    visits.rows = 300  # half of the new rows are of windows that have begun
    visits.add(600)
    query.processAllAvailable()
    query.stop()
    assert [number for number, _ in version.spans] == [1, 2]
    assert visits.written("window", "user") == visits.expected("window", "user")


@pytest.mark.usefixtures("rocksdb")
def test_state_without_windows_is_moved_to_the_new_mapping(visits):
    visits.add()
    query = evenly.stream_by_key(
        visits.stream(), visits.counts("user"), key="user", instances=INSTANCES, checkpoint=visits.checkpoint, controller=False
    )
    query.processAllAvailable()
    groups = len(visits.expected("user"))
    assert visits.misplaced(query.mapping) == (groups, 0)
    changed = query.change_mapping(turned(query.mapping), reason="a test")
    assert changed.figures["moved_state_rows"] == groups
    visits.add()
    query.processAllAvailable()
    query.stop()
    assert query.changes == (changed,)
    assert visits.written("user") == visits.expected("user")
    assert visits.misplaced(query.mapping) == (len(visits.expected("user")), 0)
    again = visits.run(visits.counts("user"))
    assert again.mapping == query.mapping


def test_state_that_cannot_be_moved_stays_and_the_query_goes_on(visits):
    visits.add(files=5)
    query = visits.run(visits.counts("user"), look=False)
    assert query.versions[-1].number == 1
    assert query.changes == ()
    assert "HDFSBackedStateStoreProvider" in query.refusals[0]
    assert [batch.number for batch in query.batches] == list(range(5))
    assert visits.written("user") == visits.expected("user")


@pytest.mark.usefixtures("rocksdb")
@pytest.mark.parametrize("window", [None, "window"])
def test_a_query_started_by_hash_is_balanced_by_the_controller(visits, window, caplog):
    visits.add(files=6)
    keys = ("user",) if window is None else ("window", "user")
    rows = visits.stream() if window is None else visits.windows()
    query = visits.run(visits.counts(*keys), rows=rows, window=window, look=False)
    assert query.refusals == ()
    assert query.versions[0].reason.startswith("by hash")
    assert len(query.changes) == 1
    figures = query.changes[0].figures
    assert figures["before_pct"] > 15.0
    assert figures["expected_pct"] < figures["before_pct"] - 10.0
    assert figures["moved_load_pct"] > 0.0
    if "after_pct" in figures:  # three batches under it
        assert figures["after_pct"] < figures["kept_pct"]
    last = query.batches[-1]
    assert last.version == 2
    assert last.mapped_imbalance_pct < figures["before_pct"] / 2.0
    assert [batch.number for batch in query.batches] == list(range(6))
    assert visits.written(*keys) == visits.expected(*keys)
    beside = Path(visits.checkpoint) / "evenly"
    stored = json.loads((beside / "versions.json").read_text())
    assert stored["versions"][-1]["figures"] == query.versions[-1].figures
    promises = Promises.from_json((beside / "promises.json").read_bytes(), source="promises.json")
    assert 0.0 < promises.move_s(0.0) < 300.0, "how long the change took is known at the next start"
    (beside / "promises.json").write_text("{}")
    assert kept_promises(visits.spark, visits.checkpoint).move_s(5.0) == 5.0
    assert "begins a new record of promises" in caplog.text


def test_a_stream_that_has_nothing_yet_starts_by_hash(spark, visits):
    query = evenly.stream_by_key(
        visits.stream(), visits.counts("user"), key="user", instances=INSTANCES, checkpoint=f"file://{visits.checkpoint}"
    )
    assert query.versions[0].reason.startswith("by hash")
    visits.add()
    query.processAllAvailable()
    query.stop()
    assert visits.written("user") == visits.expected("user")
    assert visits.run(visits.counts("user")).versions == query.versions
    numbered = spark.range(9).selectExpr("id as user")
    with pytest.raises(InvalidParameter, match=r"'user' is bigint, and the mapping is for string"):
        evenly.by_key(numbered, key="user", instances=INSTANCES, mapping=query.mapping)


def test_both_sides_of_a_join_of_streams_are_under_one_mapping(spark, visits):
    visits.add(600)

    def soon(left, right):
        other = right.withColumnRenamed("ts", "then")
        joined = left.join(other, ["user", "slot"]).where("then between ts and ts + interval 20 seconds")
        return joined.select("user", "ts", "then").writeStream.format("parquet").option("path", visits.output)

    rows = visits.stream().withWatermark("ts", "1 hour")
    query = visits.run(soon, rows=(rows, visits.stream().withWatermark("ts", "1 hour")))
    found = spark.read.parquet(visits.output)
    rows = spark.read.parquet(visits.input)
    other = rows.select(F.col("user").alias("who"), F.col("ts").alias("then"))
    expected = rows.join(other, F.expr("user = who and then between ts and ts + interval 20 seconds"))
    assert found.count() == expected.count() > 600
    assert sum(sum(batch.mapped_rows) for batch in query.batches) == 2 * visits.rows


def test_without_a_controller_nothing_is_observed(visits):
    visits.add(100)
    quiet = visits.run(visits.counts("user"), controller=False, mapping=by_hash())
    assert "CollectMetrics" not in quiet.query._jsq.explainInternal(True)  # noqa: FBT003
    assert quiet.batches == ()
    visits.add(100)
    watched = visits.run(visits.counts("user"))
    plan = watched.query._jsq.explainInternal(True)  # noqa: FBT003
    assert "CollectMetrics" in plan
    assert "Python" not in plan
    assert sum(watched.batches[0].mapped_rows) == 100
