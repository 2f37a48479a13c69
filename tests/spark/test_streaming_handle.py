"""The handle of a query whose mapping changes, whatever comes between: idle triggers, late reports, faults, other threads."""

import logging
import threading
from dataclasses import replace

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from visiting import INSTANCES, by_hash, turned

import evenly
from evenly.errors import CheckpointMismatch, InvalidParameter, WaitsForItself
from evenly.keys.controller import Decision
from evenly.spark.streaming import keyed_query, mapping_store
from waiting import PATIENT_S, until

IDLE = "spark.sql.streaming.noDataProgressEventInterval"
KEYS = ("window", "user")


def start(visits, build=None, **options):
    """A query over windows, whose changes move no state."""
    given = {"key": "user", "instances": INSTANCES, "checkpoint": visits.checkpoint, "window": "window", "look": False}
    build = visits.counts(*KEYS) if build is None else build
    return evenly.stream_by_key(visits.windows("1 hour"), build, **(given | options))


@pytest.fixture
def seen(spark, monkeypatch):
    """Once it is set the controller sees batches, long after they are over; and an idle query says so soon."""
    read, event = keyed_query.ReadRows.of, threading.Event()

    def later(rows, batch):
        assert event.wait(PATIENT_S)
        return read(rows, batch)

    monkeypatch.setattr(keyed_query.ReadRows, "of", later)
    spark.conf.set(IDLE, "200")
    yield event
    event.set()
    spark.conf.unset(IDLE)


def waits_for(event, call):
    """A call returns after an event, and not before."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    event.set()
    thread.join(PATIENT_S)
    assert not thread.is_alive()
    event.clear()


def told(query):
    return [(batch.number, batch.version) for batch in query.batches]


def test_all_that_is_there_includes_what_the_controller_must_see_though_the_query_is_idle_or_changed(visits, seen):
    visits.add(300, files=2)
    query = start(visits)
    query.query.processAllAvailable()
    until(lambda: not query.lastProgress.observedMetrics, "the query is idle")
    waits_for(seen, query.processAllAvailable)
    assert told(query) == [(0, 1), (1, 1)]
    visits.add(300)
    query.query.processAllAvailable()
    query.change_mapping(turned(query.mapping))
    waits_for(seen, query.processAllAvailable)
    assert [version for _, version in told(query)] == [1, 1, 1]
    query.stop()
    assert sum(sum(batch.mapped_rows) for batch in query.batches) == visits.rows


def test_after_the_end_all_batches_are_listed_and_nothing_listens_any_more(visits, seen):
    visits.add(300, files=2)
    query = start(visits, trigger={"availableNow": True})
    until(lambda: not query.isActive, "the query ends")
    waits_for(seen, query.awaitTermination)
    assert [number for number, _ in told(query)] == [0, 1]
    until(lambda: query._listener is None, "nothing listens")


def test_what_others_observe_of_a_batch_may_be_what_python_and_json_have_not(visits):
    odd = [F.expr("first(make_date(99999, 1, 1))").alias("far"), F.expr("first(interval '1' month)").alias("months")]
    visits.add(300)
    query = start(visits, lambda placed: visits.counts(*KEYS)(placed.observe("others", *odd)))
    until(lambda: query.batches, "the controller sees a batch")
    query.stop()
    assert [sum(batch.mapped_rows) for batch in query.batches] == [300]


def test_a_report_that_never_comes_is_not_waited_for_for_ever(visits, monkeypatch, caplog):
    monkeypatch.setattr(keyed_query, "_REPORT_S", 0.1)
    monkeypatch.setattr(keyed_query.ProgressListener, "onQueryProgress", lambda *_: None)
    visits.add(300)
    query = start(visits)
    query.processAllAvailable()
    query.stop()
    assert query.batches == ()
    assert "has not reported batch" in caplog.text


def failing(placed):
    def fail(batch, number):
        batch.collect()
        if number:
            raise ValueError("no such sink")

    return placed.groupBy(*KEYS, "slot").count().writeStream.foreachBatch(fail).outputMode("update")


def test_a_change_of_a_query_that_has_failed_raises_what_ended_it(visits):
    visits.add(300, files=2)
    query = start(visits, failing, controller=False)
    until(lambda: not query.query.isActive, "the query fails")
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="no such sink"):
            query.change_mapping(turned(query.mapping))
    assert query.changes == ()
    with pytest.raises(StreamingQueryException, match="no such sink"):
        query.awaitTermination()
    assert not query.isActive


def test_a_controller_that_fails_leaves_the_query_running_and_says_so_once(visits, monkeypatch, caplog):
    def broken(*_):
        raise LookupError("no such count")

    monkeypatch.setattr(keyed_query.DriftController, "observe", broken)
    visits.add(300, files=2)
    query = start(visits)
    query.processAllAvailable()
    visits.add(300)
    query.processAllAvailable()
    assert query.awaitTermination(0.1) is False
    assert query.isActive
    assert query.exception() is None
    assert query.refusals == ("the controller has ended, and the mapping stays as it is: no such count",)
    errors = [it.getMessage() for it in caplog.records if it.levelno >= logging.WARNING and it.name.startswith("evenly")]
    assert len(errors) == 1
    assert "no such count" in errors[0]
    mapping = query.mapping
    other = replace(mapping, buckets=mapping.buckets[:64], bucket_weights=mapping.bucket_weights[:64])
    for wrong, word in ((None, "a Mapping, got a NoneType"), (other, "the mapping has 64 buckets and the controller learns")):
        with pytest.raises(InvalidParameter, match=word):
            query.change_mapping(wrong)
    assert query.change_mapping(turned(mapping)).number == 2, "a change by hand is still possible"
    query.stop()
    assert query.awaitTermination() is True
    assert visits.written(*KEYS) == visits.expected(*KEYS)


def test_a_query_that_the_controller_stopped_and_that_does_not_start_again_has_failed(visits, monkeypatch, caplog):
    monkeypatch.setattr(
        keyed_query.DriftController, "observe", lambda *_: Decision("a test", 9.0, 1.0, 2.0, mapping=turned(by_hash()))
    )
    starts = []

    def once(placed):
        starts.append(placed)
        if len(starts) > 1:
            raise LookupError("no second time")
        return visits.counts(*KEYS)(placed)

    visits.add(300)
    query = start(visits, once)
    for _ in range(2):
        with pytest.raises(LookupError, match="no second time"):
            query.awaitTermination(PATIENT_S)
    assert isinstance(query.exception(), LookupError)
    assert not query.isActive
    for call in (query.processAllAvailable, lambda: query.change_mapping(by_hash())):
        with pytest.raises(LookupError, match="no second time"):
            call()
    assert "stopped for a change of the mapping and not started again: no second time" in caplog.text
    query.stop()


def test_a_second_change_waits_for_the_first_and_one_after_the_stop_is_for_the_next_start(visits, monkeypatch):
    visits.add(300)
    query = start(visits, controller=False)
    query.processAllAvailable()
    stopped, go_on = threading.Event(), threading.Event()

    def slowly(step):
        if step == "stopped":
            stopped.set()
            assert go_on.wait(PATIENT_S)

    monkeypatch.setattr(mapping_store, "reached", slowly)
    changes = [threading.Thread(target=query.change_mapping, args=(turned(by_hash(), by),)) for by in (1, 2)]
    changes[0].start()
    assert stopped.wait(PATIENT_S)
    changes[1].start()
    changes[1].join(0.2)
    assert changes[1].is_alive()
    assert len(query.versions) == 1
    go_on.set()
    for change in changes:
        change.join(PATIENT_S)
    assert [version.number for version in query.versions] == [1, 2, 3]
    assert query.isActive
    query.stop()
    assert query.change_mapping(turned(by_hash(), 3)).number == 4
    assert not query.isActive
    assert query.awaitTermination(PATIENT_S) is True

    visits.add(300)
    again = start(visits, controller=False)
    assert again.mapping.version == 4
    with pytest.raises(CheckpointMismatch, match="another one runs on its checkpoint"):
        query.change_mapping(by_hash())
    again.processAllAvailable()
    again.stop()
    assert visits.written(*KEYS) == visits.expected(*KEYS)


def test_neither_the_sink_nor_build_can_wait_for_itself_and_both_can_stop_the_query(visits):
    raised, starts = [], []

    def asking(placed):
        def ask(batch, number):
            for what in (lambda: query.change_mapping(by_hash()), query.processAllAvailable, query.awaitTermination):
                if number == 0:
                    with pytest.raises(WaitsForItself, match="by what the query itself runs"):
                        what()
                    raised.append(what)
            batch.write.mode("overwrite").parquet(f"{visits.output}/batch={number}")

        starts.append(placed)
        if len(starts) > 1:
            with pytest.raises(WaitsForItself):
                query.change_mapping(by_hash())
            query.stop()
        return placed.groupBy(*KEYS, "slot").count().writeStream.foreachBatch(ask).outputMode("update")

    query = start(visits, asking, controller=False)
    visits.add(300)
    query.processAllAvailable()
    assert len(raised) == 3
    assert query.isActive
    assert query.change_mapping(turned(by_hash())).number == 2
    assert query.awaitTermination(PATIENT_S) is True
    assert not query.isActive
    assert visits.written(*KEYS) == visits.expected(*KEYS)
