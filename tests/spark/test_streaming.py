"""`stream_by_key`: mappings that are learnt, kept beside the checkpoint, read back, and changed while the query runs."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F

import evenly
from evenly.errors import (
    CheckpointMismatch,
    ColumnConflict,
    DamagedData,
    ImmovableState,
    InvalidParameter,
    StreamingMismatch,
    UnknownColumn,
)
from evenly.grouping.keys import DKG
from evenly.spark.keys import key_id
from evenly.spark.state.lineage import current_checkpoint
from evenly.spark.streaming import changing, keyed_query
from evenly.spark.streaming.first_look import can_look
from evenly.spark.streaming.mapping_store import MappingStore, Placement, Version
from waiting import until

INSTANCES = 4
SCHEMA = "user string, ts timestamp"
BEGIN = 36_000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Visits:
    """A folder of rows to stream from, one file at a time, and a folder of what a query has written, one for each batch."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.input, self.output, self.checkpoint = (str(folder / name) for name in ("in", "out", "checkpoint"))
        self.rows = 0
        Path(self.input).mkdir()

    def add(self, rows=3_000, *, files=1, users="cast(pow(200, rand(5)) as int)"):
        """Rows of one second each after those that are there, of users of whom few have most rows."""
        for _ in range(files):
            new = self.spark.range(self.rows, self.rows + rows, numPartitions=1)
            user, ts = f"if(id % 29 = 0, null, concat('u', {users})) as user", f"timestamp_seconds(id + {BEGIN}) as ts"
            new.selectExpr(user, ts).write.mode("append").parquet(self.input)
            self.rows += rows

    def stream(self):
        return self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(self.input)

    def windows(self, delay="10 minutes"):
        return self.stream().withWatermark("ts", delay).withColumn("window", F.window("ts", "10 minutes"))

    def written(self, *keys):
        """The last count of every group."""
        last = self.spark.read.parquet(self.output).groupBy(*keys).agg(F.max("count"))
        return sorted((tuple(row) for row in last.collect()), key=repr)

    def expected(self, *keys):
        rows = self.spark.read.schema(SCHEMA).parquet(self.input).withColumn("window", F.window("ts", "10 minutes"))
        return sorted((tuple(row) for row in rows.groupBy(*keys).count().collect()), key=repr)

    def counts(self, *keys):
        """A pipeline that counts, as `stream_by_key` takes it."""

        def write(batch, number):
            batch.write.mode("overwrite").parquet(f"{self.output}/batch={number}")

        return lambda placed: placed.groupBy(*keys, "slot").count().writeStream.foreachBatch(write).outputMode("update")

    def misplaced(self, mapping, condition="true"):
        """The groups with state that meet a condition, and how many of them are not on their key's instance."""
        state = self.spark.read.format("statestore").load(current_checkpoint(self.spark, self.checkpoint)).where(condition)
        found = state.select(key_id(("key.user",)).alias("id"), "partition_id").collect()
        ids = np.array([row.id for row in found], np.int64).view(np.uint64)
        return len(found), int(np.count_nonzero(mapping.assign_ids(ids) != [row.partition_id for row in found]))

    def run(self, build, **options):
        """All rows that are there, through a query that is then stopped."""
        rows = options.pop("rows", None)
        options = {"key": "user", "instances": INSTANCES, "checkpoint": self.checkpoint, **options}
        query = evenly.stream_by_key(self.stream() if rows is None else rows, build, **options)
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return query


@pytest.fixture
def rocksdb(spark):
    """State that can be moved."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    yield
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


@pytest.fixture
def visits(spark, tmp_path):
    return Visits(spark, tmp_path)


def by_hash():
    return DKG.automatic(INSTANCES, ids="xxhash64").mapping(columns=("user",))


def turned(mapping, by=1):
    """A mapping that has every key on another instance."""
    return replace(
        mapping,
        buckets=((mapping.buckets + by) % INSTANCES).astype(np.int32),
        heavy_instances=((mapping.heavy_instances + by) % INSTANCES).astype(np.int32),
    )


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
def test_a_query_started_by_hash_is_balanced_by_the_controller(visits, window):
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
    last = query.batches[-1]
    assert last.version == 2
    assert last.mapped_imbalance_pct < figures["before_pct"] / 2.0
    assert [batch.number for batch in query.batches] == list(range(6))
    assert visits.written(*keys) == visits.expected(*keys)
    stored = json.loads((Path(visits.checkpoint) / "evenly" / "versions.json").read_text())
    assert stored["versions"][-1]["figures"] == query.versions[-1].figures


def test_a_stream_that_has_nothing_yet_starts_by_hash(visits):
    query = evenly.stream_by_key(
        visits.stream(), visits.counts("user"), key="user", instances=INSTANCES, checkpoint=f"file://{visits.checkpoint}"
    )
    assert query.versions[0].reason.startswith("by hash")
    visits.add()
    query.processAllAvailable()
    query.stop()
    assert visits.written("user") == visits.expected("user")
    assert visits.run(visits.counts("user")).versions == query.versions


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


def test_what_does_not_fit_the_checkpoint_is_refused_and_nothing_is_started(spark, visits):
    visits.add(100)
    visits.run(visits.counts("user"), mapping=by_hash(), controller=False)
    build = visits.counts("user")
    for options, word in (
        ({"instances": 8}, "instances=4.*instances=8"),
        ({"key": ["user", "ts"]}, "key=.*'user'.*'ts'"),
        ({"slot": "place"}, "slot='slot'.*slot='place'"),
        ({"rows": visits.windows(), "window": "window"}, "window=None.*window='window'"),
    ):
        with pytest.raises(CheckpointMismatch, match=word):
            visits.run(build, **options)

    folder = Path(visits.checkpoint) / "evenly"
    log, first = folder / "versions.json", folder / "mapping-000001.json"
    whole, mapping = log.read_text(), first.read_text()

    def put(path, text):
        (folder / f".{path.name}.crc").unlink(missing_ok=True)
        path.write_text(text) if text else path.unlink()

    for path, text, error in (
        (first, mapping[: len(mapping) // 2], DamagedData),
        (first, mapping.replace('"buckets": [', '"buckets": [1, ', 1), DamagedData),
        (first, turned(by_hash()).to_json(), DamagedData),
        (first, "", DamagedData),
        (log, whole[:-30], DamagedData),
        (log, whole.replace('"given"', '"taken"'), DamagedData),
        (log, "", CheckpointMismatch),
    ):
        put(path, text)
        with pytest.raises(error, match=rf"{path.name}.*(missing|damaged).*backup.*new checkpoint"):
            visits.run(build)
        put(log, whole)
        put(first, mapping)
    assert spark.streams.active == []
    visits.add(100)
    visits.run(build)
    assert visits.written("user") == visits.expected("user")


def test_a_checkpoint_knows_the_types_of_its_key_also_one_that_was_begun_without(spark, tmp_path):
    untyped = Placement(("user",), INSTANCES, "slot")
    store = MappingStore(spark, str(tmp_path), untyped)
    store.propose(by_hash())
    store.enforce(Version(1, "given", ((1, None),)))
    assert store.mapping(1).types == ()

    typed = MappingStore(spark, str(tmp_path), replace(untyped, key=("USER",), types=("int",)))
    assert typed.load(), "the case of a name does not count"
    assert typed.mapping(1).types == ("int",)
    typed.placement.check(replace(by_hash(), columns=("id",), types=("smallint",)))
    with pytest.raises(InvalidParameter, match=r"'USER' is int, and the mapping is for bigint"):
        typed.placement.check(replace(by_hash(), types=("bigint",)))
    typed.note(1, {"after_pct": 1.0})
    with pytest.raises(CheckpointMismatch, match=r"types=\['int'\].*types=\['bigint'\].*Cast the key columns to int"):
        MappingStore(spark, str(tmp_path), replace(untyped, types=("bigint",))).load()


def test_streams_whose_keys_would_not_find_each_other_are_refused_with_the_remedy(visits):
    rows = visits.stream()
    for other, error, word in (
        (
            rows.selectExpr("cast(user as bigint) as user", "ts"),
            InvalidParameter,
            "string in the first DataFrame and bigint in Da",
        ),
        (rows.selectExpr("user as who", "ts"), UnknownColumn, r"'user'.*in DataFrame 2.*withColumnRenamed"),
    ):
        with pytest.raises(error, match=word):
            visits.run(visits.counts("user"), rows=(rows, other))
    whole = (rows.selectExpr("cast(user as bigint) as user"), rows.selectExpr("cast(user as int) as user"))
    with pytest.raises(InvalidParameter, match=r"Cast it in DataFrame 2: \.withColumn\('user', .*cast\('bigint'\)"):
        visits.run(visits.counts("user"), rows=whole)


def test_a_source_that_cannot_be_read_twice_is_not_looked_at(spark, visits):
    assert can_look([visits.stream()])
    assert can_look([spark.readStream.format("rate").load()])
    tidying = spark.readStream.schema(SCHEMA).option("cleanSource", "delete").parquet(visits.input)
    assert not can_look([tidying])
    assert not can_look([spark.readStream.format("socket").option("host", "127.0.0.1").option("port", 9).load()])


def test_wrong_arguments_are_refused_with_the_remedy(spark, visits):
    build = visits.counts("user")
    for options, error, word in (
        ({"rows": spark.range(3).selectExpr("string(id) as user")}, StreamingMismatch, "use by_key"),
        ({"rows": []}, InvalidParameter, "no DataFrame"),
        ({"window": "hour"}, UnknownColumn, "'hour'.*functions.window"),
        ({"slot": "TS"}, ColumnConflict, "'TS'"),
        ({"key": "usr"}, UnknownColumn, "'usr'"),
        ({"instances": 0}, InvalidParameter, "instances"),
        ({"mapping": DKG.automatic(8, ids="xxhash64").mapping()}, InvalidParameter, "for 8 instances, not for 4"),
        ({"mapping": DKG.automatic(4).mapping()}, InvalidParameter, "not learnt on Spark"),
    ):
        with pytest.raises(error, match=word):
            visits.run(build, **options)
    assert not Path(visits.checkpoint).exists()
    with pytest.raises(InvalidParameter, match="DataStreamWriter"):
        visits.run(lambda placed: placed, mapping=by_hash())
    assert spark.conf.get("spark.sql.shuffle.partitions") == "8"


def test_a_pipeline_that_leaves_the_window_out_is_refused_before_it_starts(visits):
    visits.add()
    with pytest.raises(InvalidParameter, match=r"groups by \(user, slot\).*Group by \(window, user, slot\)"):
        visits.run(visits.counts("user"), rows=visits.windows(), window="window", look=False)
    with pytest.raises(InvalidParameter, match=r"groups by \(user, slot\).*Group by \(window, user, slot\)"):
        visits.run(
            lambda placed: placed.dropDuplicates(["user", "slot"]).writeStream.format("noop"),
            rows=visits.windows(),
            window="window",
            look=False,
        )


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
