"""`stream_by_key`: how a query ends, and who is told."""

import threading

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from visiting import INSTANCES, by_hash, turned

import evenly
from evenly.errors import (
    ImmovableState,
)
from evenly.spark.jvm.last_batch import end_with_batch
from evenly.spark.streaming import keyed_query
from waiting import PATIENT_S, until


def test_what_ends_the_query_is_raised(visits):
    visits.add(100)

    def fail(batch, number):  # noqa: ARG001
        raise ValueError("no such sink")

    query = evenly.stream_by_key(
        visits.stream(),
        lambda placed: placed.groupBy("user", "slot").count().writeStream.foreachBatch(fail).outputMode("update"),
        key="user",
        instances=INSTANCES,
        checkpoint=visits.checkpoint,
        mapping=by_hash(),
    )
    with pytest.raises(StreamingQueryException, match="no such sink"):
        query.awaitTermination(60)
    assert "no such sink" in str(query.exception())
    query.stop()


def test_waiting_ends_with_the_query_or_the_time(visits):
    visits.add(100)
    query = evenly.stream_by_key(
        visits.stream(),
        lambda placed: visits.counts("user")(placed).trigger(availableNow=True),
        key="user",
        instances=INSTANCES,
        checkpoint=visits.checkpoint,
        mapping=by_hash(),
    )
    assert query.awaitTermination()
    assert not query.isActive
    assert visits.written("user") == visits.expected("user")
    endless = evenly.stream_by_key(
        visits.stream(), visits.counts("user"), key="user", instances=INSTANCES, checkpoint=visits.checkpoint
    )
    assert not endless.awaitTermination(0.5)
    endless.stop()
    assert endless.awaitTermination(10)


@pytest.mark.usefixtures("rocksdb")
def test_a_query_that_could_not_start_again_is_not_stopped_for_a_change(visits, monkeypatch):
    visits.add(300)

    def remembered(placed):
        return placed.groupBy("user", "slot").count().writeStream.format("memory").queryName("remembered").outputMode("update")

    def start():
        options = {"key": "user", "instances": INSTANCES, "look": False}
        query = evenly.stream_by_key(visits.stream(), remembered, checkpoint=visits.checkpoint, **options)
        query.processAllAvailable()
        return query

    query = start()
    assert len(query.refusals) == 1
    with pytest.raises(ImmovableState, match="writes to memory in the output mode update"):
        query.change_mapping(turned(query.mapping))
    assert query.isActive
    # And where nobody could know: the end is told to whoever waits.
    monkeypatch.setattr(keyed_query, "why_not_again", lambda _: None)
    with pytest.raises(AnalysisException, match="does not support recovering"):
        query.change_mapping(turned(query.mapping))
    with pytest.raises(AnalysisException, match="does not support recovering"):
        query.awaitTermination(1)
    query.stop()


@pytest.mark.usefixtures("rocksdb")
def test_a_sink_may_stop_the_query_while_its_mapping_changes(visits):
    visits.add(300)
    entered = threading.Event()

    def stopping(placed):
        def write(batch, number):
            batch.write.mode("overwrite").parquet(f"{visits.output}/batch={number}")
            if number == 1 and not entered.is_set():
                entered.set()
                until(lambda: query._changing, "the change begins")
                query.stop()

        return placed.groupBy("user", "slot").count().writeStream.foreachBatch(write).outputMode("update")

    options = {"key": "user", "instances": INSTANCES, "checkpoint": visits.checkpoint, "controller": False, "look": False}
    query = evenly.stream_by_key(visits.stream(), stopping, **options)
    query.processAllAvailable()
    visits.add(300)
    assert entered.wait(60.0)
    change = threading.Thread(target=query.change_mapping, args=(turned(query.mapping),), daemon=True)
    change.start()
    change.join(120.0)
    assert not change.is_alive()
    assert not query.isActive
    visits.run(visits.counts("user"), controller=False)
    assert visits.written("user") == visits.expected("user")


@pytest.mark.usefixtures("rocksdb")
def test_a_change_of_the_mapping_lets_the_batch_end_that_runs(visits):
    """One that is broken off is run again: rows that its sink had added to others were there twice, and nothing had failed."""
    visits.add(100, files=2, users=lambda ids: ids)
    written, asked, begun = [], [], threading.Event()

    def add(batch, number):
        written.extend((number, row.user) for row in batch.collect())
        if number == 1 and not asked:  # not again where it is run again: each change would break it off anew
            begun.wait(PATIENT_S)
            change = threading.Thread(target=lambda: query.change_mapping(turned(by_hash())))
            change.start()
            asked.append(change)
            until(lambda: not query.query.isActive, "the change")  # from here on Spark begins no batch
        batch.count()  # a sink may have more to do

    query = evenly.stream_by_key(
        visits.stream(),
        lambda placed: placed.dropDuplicates(["user", "slot"]).writeStream.foreachBatch(add),
        key="user",
        instances=INSTANCES,
        checkpoint=visits.checkpoint,
        mapping=by_hash(),
        controller=False,
    )
    begun.set()
    try:
        until(lambda: asked, "the second batch")
        asked[0].join(PATIENT_S)
        assert not asked[0].is_alive()
        visits.add(100, users=lambda ids: ids)
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.mapping.version == 2
    assert {number for number, _ in written} == {0, 1, 2}
    assert sorted(user or "" for _, user in written) == sorted(user or "" for (user,) in visits.expected("user"))


def test_a_query_that_is_being_started_begins_no_batch_either(spark, tmp_path):
    """It was waited for as long as one batch followed another."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    for attempt in range(5):  # one of which comes before its first batch
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / str(attempt)))
        query = writer.start()
        waiter = threading.Thread(target=end_with_batch, args=(query,), daemon=True)
        waiter.start()
        try:
            waiter.join(60)
            assert not waiter.is_alive()
            assert not query.isActive
        finally:
            query.stop()


@pytest.mark.usefixtures("rocksdb")
def test_the_end_of_another_query_is_told_while_a_change_waits_for_its_batch(spark, visits, tmp_path):
    visits.add(50, files=2)
    inside, go_on = threading.Event(), threading.Event()

    def slow(batch, number):
        batch.collect()
        if number == 1:
            inside.set()
            go_on.wait(PATIENT_S)

    query = evenly.stream_by_key(
        visits.stream(),
        lambda placed: placed.dropDuplicates(["user", "slot"]).writeStream.foreachBatch(slow),
        key="user",
        instances=INSTANCES,
        checkpoint=visits.checkpoint,
        mapping=by_hash(),
        controller=False,
    )
    other = spark.readStream.format("rate").load().writeStream.format("noop")
    other = other.option("checkpointLocation", str(tmp_path / "other")).start()
    change = threading.Thread(target=lambda: query.change_mapping(turned(by_hash())), daemon=True)
    try:
        assert inside.wait(PATIENT_S)
        change.start()
        until(lambda: not query.query.isActive, "the change waits")
        assert not evenly.await_any_termination(spark, 0.1)
        other.stop()
        assert evenly.await_any_termination(spark, PATIENT_S)
        assert change.is_alive()
    finally:
        go_on.set()
        change.join(PATIENT_S)
        query.stop()
    assert query.mapping.version == 2


@pytest.mark.usefixtures("rocksdb")
def test_a_stop_of_spark_s_own_query_while_a_change_waits_for_its_batch_is_one(spark, visits):
    """It was taken for that of the change, and the query started again, though it had been stopped."""
    visits.add(50, files=2)
    inside, go_on = threading.Event(), threading.Event()

    def slow(batch, number):
        batch.collect()
        while number == 1 and not go_on.is_set():
            inside.set()
            batch.collect()

    query = evenly.stream_by_key(
        visits.stream(),
        lambda placed: placed.dropDuplicates(["user", "slot"]).writeStream.foreachBatch(slow),
        key="user",
        instances=INSTANCES,
        checkpoint=visits.checkpoint,
        mapping=by_hash(),
        controller=False,
    )
    change = threading.Thread(target=lambda: query.change_mapping(turned(by_hash())), daemon=True)
    try:
        assert inside.wait(PATIENT_S)
        change.start()
        until(lambda: not query.query.isActive, "the change waits")
        for one in spark.streams.active:
            one.stop()
        change.join(PATIENT_S)
        assert not change.is_alive()
        assert query.awaitTermination(PATIENT_S)
        assert not query.isActive
        assert spark.streams.active == []
    finally:
        go_on.set()
        query.stop()
    assert query.exception() is None
    assert query.mapping.version == 2  # the change was asked for, and serves the next start
