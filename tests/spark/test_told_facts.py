"""What real queries and jobs tell of themselves, to a file and to what a user asks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator
from prometheus_client import CollectorRegistry
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from visiting import INSTANCES, by_hash, turned

import command
import evenly
from evenly.errors import DestinationFailed
from evenly.facts.records import schema
from evenly.keys.versions import Request, RequestAnswer
from evenly.spark.streaming import mapping_store
from waiting import until

NOW = {"availableNow": True}


@pytest.fixture
def told(tmp_path):
    """The records that a test's jobs have told, which all fit the schema."""
    path = tmp_path / "facts.jsonl"
    emitting = evenly.emit_to(path, names=True)

    def found(**having):
        assert emitting.flush()
        for line in path.read_bytes().splitlines():
            Draft202012Validator(schema()).validate(json.loads(line))
        facts = evenly.read_facts(path)
        assert facts.cut == emitting.dropped == 0
        begun = {it.run for it in facts.facts if it.event == "start"}  # not those that other tests have stopped just now
        return [
            it for it in facts.facts if it.run in begun and all(getattr(it, name) == value for name, value in having.items())
        ]

    yield found
    emitting.close()


@pytest.mark.usefixtures("rocksdb")
def test_a_keyed_query_tells_its_start_batches_change_and_end_and_goes_on_under_the_same_run(spark, visits, told):
    visits.add(files=2)
    given = {"key": "user", "instances": INSTANCES, "checkpoint": visits.checkpoint, "mapping": by_hash()}
    first = evenly.stream_by_key(visits.stream(), visits.counts("user"), query_name="seen", **given)
    first.processAllAvailable()
    first.change_mapping(turned(first.mapping), reason="to try it")
    visits.add()
    first.processAllAvailable()
    shown, page = repr(first), first._repr_html_()
    first.stop()
    visits.add()
    second = visits.run(visits.counts("user"))

    until(lambda: len(told(event="end", run=first.id)) == 2, "both ends were told")
    facts = told(run=first.id)
    assert [fact.event for fact in facts] == [
        "start",
        "batch",
        "batch",
        "change",
        "move",
        "batch",
        "end",
        "start",
        "batch",
        "end",
    ]
    assert {fact.run for fact in facts} == {first.id} == {second.id}
    assert [fact.name for fact in facts] == ["seen"] * 7 + [""] * 3
    assert [fact.batch.number for fact in facts if fact.batch] == [0, 1, 2, 3]
    assert [fact.mapping_version for fact in facts] == [1, 1, 1, 2, 2, 2, 2, 2, 2, 2]
    assert [fact.time for fact in facts] == sorted(fact.time for fact in facts)
    assert all(not fact.error for fact in facts)
    seen = {batch.number: batch for query in (first, second) for batch in query.batches}
    for fact in facts:
        if fact.batch:
            assert fact.batch.rows_by_instance.values == seen[fact.batch.number].mapped_rows
            assert fact.batch.rows == 3_000
            assert fact.batch.imbalance_pct == pytest.approx(seen[fact.batch.number].mapped_imbalance_pct)
            assert 0.0 < fact.batch.bound_ms <= fact.batch.duration_ms
            named = {it.key for it in fact.batch.heavy_keys}
            heaviest = spark.read.parquet(visits.input).groupBy("user").count().orderBy(F.desc("count")).first()["user"]
            assert heaviest in named
            assert len(named) == len(fact.batch.heavy_keys) == 8
    change = facts[3].decision
    assert (change.what, change.reason, change.asked) == ("mapping", "to try it", True)
    assert facts[4].decision.stood_ms > 0.0

    recent = [fact for fact in first.facts if fact.batch]
    assert [fact.batch.number for fact in recent] == [0, 1, 2]
    assert all(key.key.startswith("#") for fact in recent for key in fact.batch.heavy_keys)
    assert "name: seen" in shown
    assert "state: running" in shown
    assert "last batch: 2, 3,000 rows" in shown
    assert "mapping: version 2" in shown
    assert "rows of instances in batch 2" in page
    assert "state: ended" in repr(first)


@pytest.mark.usefixtures("rocksdb")
def test_what_a_keyed_batch_tells_is_what_its_file_holds_counted_again(visits, told):
    """Rows, λ and heavy keys of records, of metrics and of the live page beside those of the files, by the mapping alone."""
    visits.add(files=3)
    registry = CollectorRegistry()
    given = {"key": "user", "instances": INSTANCES, "checkpoint": visits.checkpoint, "mapping": by_hash()}
    with evenly.emit_to(evenly.Prometheus(registry=registry)) as metrics:
        query = evenly.stream_by_key(visits.stream(), visits.counts("user"), query_name="counted", **given)
        with query.watch() as live:
            query.processAllAvailable()
            query.stop()
            until(lambda: told(event="end", run=query.id), "the end was told")
            until(lambda: b'"event":"end"' in live.history.since(0)[-1].line, "the end is shown")
            shown = [json.loads(entry.line).get("batch") for entry in live.history.since(0)]
        metrics.flush()
        labels, scraped = {"name": "counted", "kind": "keyed"}, dict[str, float]()
        for name in ("rows_total", "batches_total", "imbalance_ratio", "mapping_version", "running", "instances"):
            scraped[name] = registry.get_sample_value(f"evenly_{name}", labels)
    files = sorted(Path(visits.input).glob("*.parquet"))
    facts = told(event="batch", run=query.id)
    batches = [fact.batch for fact in facts]
    assert [batch.number for batch in batches] == [0, 1, 2]
    assert [one["rows_by_instance"]["values"] for one in shown if one] == [list(it.rows_by_instance.values) for it in batches]
    for file, fact, batch in zip(files, facts, batches, strict=True):
        mapping = query._store.mapping(fact.mapping_version)  # the controller may change it
        users = pq.read_table(file, partitioning=None)["user"].to_pylist()
        loads = np.bincount(mapping.assign(users), minlength=INSTANCES)
        assert list(batch.rows_by_instance.values) == loads.tolist()
        uneven = 100.0 * (loads.max() / loads.mean() - 1.0)
        assert batch.imbalance_pct == pytest.approx(uneven)
        counts = Counter(users)
        for heavy in batch.heavy_keys:
            user = None if heavy.key == "null" else heavy.key
            assert heavy.share_pct == pytest.approx(100.0 * counts[user] / len(users), rel=0.005)
            assert heavy.instance == mapping.assign([user])[0]
        heaviest = [share for _, share in counts.most_common(8)]
        assert [100.0 * it / len(users) for it in heaviest] == pytest.approx(
            [it.share_pct for it in batch.heavy_keys], rel=0.005
        )
        bound = max(loads.mean(), *counts.values()) / loads.max()
        assert batch.bound_ms == pytest.approx(batch.duration_ms * min(1.0, bound), rel=0.005)
    assert scraped == {
        "rows_total": 9_000.0,
        "batches_total": 3.0,
        "imbalance_ratio": pytest.approx(uneven / 100.0),
        "mapping_version": query.versions[-1].number,
        "running": 0.0,
        "instances": INSTANCES,
    }


def test_what_still_ran_when_its_session_or_its_process_ended_is_told_to_have_ended(tmp_path):
    """The bus that tells of ends is gone by then."""
    (tmp_path / "in").mkdir()
    with pq.ParquetWriter(tmp_path / "in" / "rows.parquet", pa.schema([("user", pa.string())])) as file:
        file.write_table(pa.table({"user": ["a", "b", "a"]}))
    script = Path(__file__).with_name("left_running.py")
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, timeout=300)
    ends = {it.name: it.error for it in evenly.read_facts(tmp_path / "facts.jsonl").facts if it.event == "end"}
    assert ends == {"stopped": "", "left": "the driver's process ended while the query ran"}


def test_a_refused_change_is_told(visits, told):
    visits.add(100)
    given = {"key": "user", "instances": INSTANCES, "checkpoint": visits.checkpoint, "mapping": by_hash()}
    query = evenly.stream_by_key(visits.stream(), visits.counts("user"), controller=False, **given)
    query.processAllAvailable()
    with pytest.raises(evenly.EvenlyError):  # Spark's default store of state cannot be moved
        query.change_mapping(turned(query.mapping))
    query.stop()
    until(lambda: told(event="end"), "the end was told")
    assert [fact.event for fact in told()] == ["start", "batch", "refusal", "end"]
    refusal = told(event="refusal")[0].decision
    assert refusal.asked
    assert "state" in refusal.reason


def test_a_query_by_cost_tells_what_its_instances_measured(spark, tmp_path, told):
    spark.range(0, 60, 1, 1).selectExpr("id", "id % 3 as kind").write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("id long, kind long").parquet(str(tmp_path / "in"))
    given = {"cost_key": "kind", "instances": 3, "checkpoint": tmp_path / "checkpoint", "trigger": NOW}
    query = evenly.stream_apply_by_cost(rows, lambda row: row.id, "id long", sink=lambda rows, _: rows.count(), **given)
    query.awaitTermination()
    until(lambda: told(event="end"), "the end was told")
    start, batch, end = told(run=query.id)
    assert (start.event, start.instances, end.event, end.error) == ("start", 3, "end", "")
    assert (batch.kind, batch.batch.rows, batch.batch.instances) == ("cost", 60, 3)
    assert batch.batch.rows_by_instance.total == 60
    assert batch.batch.busy_ms_by_instance.total > 0.0
    assert batch.batch.bound_ms <= batch.batch.duration_ms
    assert "milliseconds busy" in query._repr_html_()


def test_a_query_that_fails_tells_why(spark, tmp_path, told):
    spark.range(0, 4, 1, 1).write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("id long").parquet(str(tmp_path / "in"))
    query = evenly.stream_send(rows, to=lambda row: row.missing, checkpoint=tmp_path / "checkpoint", trigger=NOW)
    with pytest.raises(DestinationFailed):
        query.awaitTermination()
    until(lambda: told(event="end"), "the end was told")
    start, end = told(run=query.id)
    assert (start.event, end.event) == ("start", "end")
    assert end.error
    assert "ended by" in repr(query)


def test_sending_tells_what_each_task_has_sent(spark, tmp_path, told):
    spark.range(0, 40, 1, 2).write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("id long").parquet(str(tmp_path / "in"))
    query = evenly.stream_send(rows, to=lambda _: None, checkpoint=tmp_path / "checkpoint", trigger=NOW, policy="lbf")
    query.awaitTermination()
    until(lambda: told(event="end"), "the end was told")
    _, batch, _ = told(run=query.id)
    assert (batch.kind, batch.batch.rows, batch.batch.queues.policy) == ("send", 40, "lbf")
    assert batch.batch.queues.unasked is not None
    assert batch.batch.queues.backlogs.count == len(batch.batch.rows_by_instance.values)
    assert 0 <= batch.batch.queues.backlogs.most <= 40


def test_a_dataflow_tells_its_graph_and_what_its_operators_did(spark, tmp_path, told):
    spark.range(0, 30, 1, 2).write.parquet(str(tmp_path / "in"))
    evenly.run(_doubles("doubles", tmp_path), spark=spark)
    query = evenly.run(_doubles("streamed", tmp_path), spark=spark, checkpoint=tmp_path / "checkpoint", trigger=NOW)
    query.awaitTermination()
    until(lambda: len(told(event="end")) == 2, "the end was told")
    for run, name in (("doubles", "doubles"), (query.id, "streamed")):
        start, batch, end = told(run=run)
        assert (start.kind, start.name, end.error) == ("flow", name, "")
        assert [one.name for one in start.graph.operators] == ["rows", "double", "kept"]
        assert start.graph.edges == ((0, 1), (1, 2))
        assert [(one.name, one.rows, one.rows_out) for one in batch.batch.operators] == [("double", 30, 30)]
        assert batch.batch.operator == "double"
        assert batch.batch.busy_ms_by_instance.count == batch.batch.instances


def _doubles(name, folder):
    flow = evenly.Flow(name)
    rows = flow.source("rows", format="parquet", path=str(folder / "in"))
    doubled = rows.row(lambda row: 2 * row.id, name="double", schema="twice long")
    doubled.sink("kept", format="parquet", path=str(folder / name))
    return flow


def test_queries_that_evenly_has_not_started_are_told_by_a_listener_and_its_own_once(spark, tmp_path, told):
    spark.range(0, 40, 1, 2).write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("id long").parquet(str(tmp_path / "in"))

    def fails(batch, number):
        raise RuntimeError(f"batch {number} of {batch.count()} rows")

    listener = evenly.QueryFacts()
    spark.streams.addListener(listener)
    try:
        own = evenly.stream_send(rows, to=lambda _: None, checkpoint=tmp_path / "own", trigger=NOW)
        own.awaitTermination()
        plain = rows.writeStream.format("noop").queryName("plain").trigger(**NOW).start()
        plain.awaitTermination()
        until(lambda: told(run=str(plain.id), event="end"), "the end was told")
        lost = rows.writeStream.queryName("lost").foreachBatch(fails).trigger(**NOW).start()
        with pytest.raises(StreamingQueryException):
            lost.awaitTermination()
        until(lambda: told(run=str(lost.id), event="end"), "the failure was told")
    finally:
        spark.streams.removeListener(listener)
    start, batch, end = told(run=str(plain.id))
    assert (start.kind, start.event, start.name, end.error) == ("query", "start", "plain", "")
    assert (batch.batch.number, batch.batch.rows) == (0, 40)
    assert batch.batch.duration_ms == float(plain.lastProgress["batchDuration"])
    assert {fact.kind for fact in told(run=own.id)} == {"send"}
    start, end = told(run=str(lost.id))
    assert (start.event, start.name, end.event) == ("start", "lost", "end")
    assert end.error


def test_a_batch_job_with_a_watch_tells_when_its_action_has_ended(spark, told):
    rows = spark.range(0, 24, 1, 2).selectExpr("id", "concat('k', id % 4) as kind")
    ran = evenly.apply_by_cost(rows, lambda row: row.id, "id long", cost_key="kind", instances=3, watch=evenly.CostWatch())
    assert ran.count() == 24
    until(lambda: told(name="apply_by_cost", event="end"), "the end was told")
    start, batch, _ = told(name="apply_by_cost")
    assert (start.kind, batch.batch.rows, batch.batch.rows_by_instance.total) == ("batch", 24, 24)

    def score(group):
        return group[["kind"]].head(1)

    watch = evenly.TimeWatch()
    evenly.apply_by_key(rows, score, "kind string", key="kind", instances=2, watch=watch).collect()
    until(lambda: told(name="apply_by_key", event="end"), "the end was told")
    _, batch, _ = told(name="apply_by_key")
    assert batch.batch.busy_ms_by_instance.total == pytest.approx(1e3 * watch.busy_s.sum(), rel=1e-4)
    assert {it.key for it in batch.batch.heavy_keys} == {name for name, _ in watch.longest}
    assert len(told(name="apply_by_key")) == 3


def test_jobs_of_ours_are_described_and_the_users_description_comes_back(spark):
    from evenly.spark.described import described

    context, name = spark.sparkContext, "spark.job.description"
    for before in (None, "nightly"):
        context.setLocalProperty(name, before)
        with described(spark, "learn mapping of user"):
            assert context.getLocalProperty(name) == "Evenly: learn mapping of user"
        assert context.getLocalProperty(name) == before
    context.setLocalProperty(name, None)


@pytest.mark.usefixtures("rocksdb")
def test_a_request_from_the_shell_is_carried_out_and_answered_by_the_query_or_by_its_next_start(
    visits, told, monkeypatch, capsys
):
    visits.add(300)
    query = evenly.stream_by_key(
        *(visits.stream(), visits.counts("user")),
        key="user",
        instances=INSTANCES,
        checkpoint=visits.checkpoint,
        mapping=by_hash(),
        controller=False,
    )
    query.processAllAvailable()
    first = query.mapping
    query.change_mapping(turned(first))
    assert query._requests.look() is None
    later = Request(1, "another one", "2026-01-01T00:00:00+00:00")
    request = Path(visits.checkpoint) / "evenly" / "request.json"

    def meanwhile(step):
        if step == "stopped" and query.versions[-1].number == 2:
            request.write_text(later.to_json())

    monkeypatch.setattr(mapping_store, "reached", meanwhile)
    assert command.told(monkeypatch, capsys, "mapping", "rollback", visits.checkpoint)[0] == 0
    until(lambda: query._requests.look() is None, "all was answered")  # the query's own look may have come first
    answer = _answered(visits)
    assert (answer.request, answer.version, answer.asked_version, answer.refused) == (later.identity, 3, 1, "")
    assert replace(query.mapping, version=1) == first
    assert query.roll_back(1).number == 3  # it is in force: nothing moves
    with pytest.raises(evenly.errors.InvalidParameter, match="there is no version 9"):
        query.roll_back(9)
    visits.add(300)
    query.processAllAvailable()
    query.stop()
    assert command.told(monkeypatch, capsys, "mapping", "rollback", visits.checkpoint, "--to", "2")[0] == 0
    visits.add(300, files=2)
    query = evenly.stream_by_key(
        *(visits.stream(), visits.counts("user")),
        key="user",
        instances=INSTANCES,
        checkpoint=visits.checkpoint,
        controller=False,
        trigger=NOW,
    )
    query.awaitTermination()
    until(lambda: _answered(visits).version == 4, "the next start has answered")
    assert replace(query.mapping, version=1) == turned(first)
    assert visits.misplaced(query.mapping)[1] == 0
    assert visits.written("user") == visits.expected("user")
    code, out, _ = command.told(monkeypatch, capsys, "mapping", "list", visits.checkpoint)
    assert code == 0
    assert "went back to version 2, as version 4" in " ".join(out.split())
    assert [fact.mapping_version for fact in told(event="change")] == [2, 3, 4]


def _answered(visits):
    path = Path(visits.checkpoint) / "evenly" / "answer.json"
    return RequestAnswer.from_json(until(path.read_bytes, "an answer"), source=str(path))
