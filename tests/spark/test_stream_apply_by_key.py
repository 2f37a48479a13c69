"""States for many keys: row for row what Spark's own operators give by the key, over restarts, moves and mistakes."""

import os
import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

import evenly
from evenly.errors import (
    CheckpointMismatch,
    ColumnConflict,
    FunctionFailed,
    InvalidParameter,
    InvalidResult,
    StreamingMismatch,
    UnknownColumn,
    UnsupportedSpark,
)
from waiting import until

INSTANCES = 2
VISIT = pa.schema([("user", pa.string()), ("ts", pa.timestamp("us", tz="UTC")), ("amount", pa.int64())])
BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
pytestmark = pytest.mark.usefixtures("rocksdb")


class Files:
    """A folder to stream from, a file a batch, and one for what queries write."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.schema = spark, folder, None
        (folder / "in").mkdir()

    def add(self, table):
        number = len(list((self.folder / "in").iterdir()))
        path = self.folder / "in" / f"{number:03d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (number, number))  # Spark reads files in the order of their times
        self.schema = self.spark.read.parquet(str(self.folder / "in")).schema

    def visits(self, *visits):
        """A batch of (user, second, amount)."""
        columns = zip(*((user, BEGIN + timedelta(seconds=second), amount) for user, second, amount in visits), strict=True)
        self.add(pa.table([pa.array(values, field.type) for values, field in zip(columns, VISIT, strict=True)], schema=VISIT))

    def stream(self):
        return self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))

    def written(self, name, schema=None):
        reader = self.spark.read if schema is None else self.spark.read.schema(schema)
        return sorted(map(repr, reader.parquet(str(self.folder / name)).collect()))

    def sink(self, name):
        return lambda results: results.writeStream.format("parquet").option("path", str(self.folder / name))

    def batches(self, name):
        """A sink that any start may write to."""
        path = f"{self.folder}/{name}"
        write = lambda batch, number: batch.write.mode("overwrite").parquet(f"{path}/batch={number}")  # noqa: E731
        return lambda results: results.writeStream.foreachBatch(write)

    def apply(self, function, schema, *, name="ours", rows=None, **options):
        options = {
            "instances": INSTANCES,
            "buckets": 3,
            "controller": False,
            "look": False,
            "write": self.sink(name),
            **options,
        }
        checkpoint = str(self.folder / f"{name}-checkpoint")
        return evenly.stream_apply_by_key(
            self.stream() if rows is None else rows, function, schema, **{"checkpoint": checkpoint, **options}
        )

    def run(self, function, schema, **options):
        return ended(self.apply(function, schema, **options))

    def run_by_spark(self, results, name="theirs"):
        writer = self.sink(name)(results).option("checkpointLocation", str(self.folder / f"{name}-checkpoint"))
        ended(writer.start())


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path)


def ended(query):
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return query


def seen(key, rows, state):
    number = (state.seen if state else 0) + len(rows)
    return [(*key, number)], (number,)


SEEN = {"key": "user", "state": "seen long"}
COUNTED = "user string, seen long"

KEYS = {
    "text": (pa.string(), ["a", "A", "", None]),
    "price": (pa.decimal128(10, 2), [Decimal("1.10"), Decimal("-0.01"), None]),
    "at": (pa.timestamp("us", tz="UTC"), [BEGIN, BEGIN + timedelta(microseconds=1), None]),
    "raw": (pa.binary(), [b"\x00", b"", None]),
    "real": (pa.float64(), [float("nan"), -0.0, 0.0, None]),
    "day": (pa.date32(), [date(2024, 3, 1), None]),
    "pair": (pa.struct([("x", pa.float64()), ("y", pa.list_(pa.int32()))]), [{"x": -0.0, "y": [1, 2]}, {"x": None, "y": None}]),
}
KEPT = (
    "n long, amounts array<long>, tags map<string,long>, last struct<at:timestamp,price:decimal(10,2)>, raw binary, "
    "real double, since date, ntz timestamp_ntz"
)
TOLD = "told string, n long, amounts array<long>, tags map<string,long>, price decimal(10,2), late boolean"


def counted(key, rows, state):
    """A state of many types, which is forgotten at the fourth row."""
    n, amounts = (state.n, state.amounts) if state else (0, [])
    n, amounts = n + len(rows), amounts + [row.amount for row in rows]
    tags = {**(state.tags if state else {}), f"t{n}": n}
    last = (BEGIN + timedelta(days=n), Decimal(n))
    late = None if state is None else state.last.at > BEGIN and state.since == date(2024, 3, 1) and state.raw == b"\x00raw"
    told = repr([str(value) for value in key])
    kept = (n, amounts, tags, last, b"\x00raw", -0.5, date(2024, 3, 1), datetime(2024, 3, 1))  # noqa: DTZ001 - of a timestamp_ntz
    return [(told, n, sorted(amounts), tags, Decimal(n), late)], None if n >= 4 else kept


def counted_by_spark(_key, frames, state):
    """`counted`, as far as Spark's own operators can: a `transformWithState` takes each NaN for a group of its own."""
    rows = pd.concat(frames)
    n, before = state.get if state.exists else (0, "")
    amounts = [*map(int, filter(None, before.split(","))), *rows["amount"]]
    more = n + len(rows)
    if more >= 4:
        state.remove()
    else:
        state.update((more, ",".join(map(str, amounts))))
    yield pd.DataFrame({"n": [more], "amounts": [sorted(amounts)], "had": [n > 0]})


def test_results_are_those_of_spark_by_the_key(spark, files):
    chance = np.random.default_rng(5)
    for _ in range(3):
        drawn = {name: [values[it] for it in chance.integers(0, len(values), 60)] for name, (_, values) in KEYS.items()}
        for name in ("text", "price", "at", "raw", "day"):  # so that keys come back
            drawn[name] = [
                value if one else KEYS[name][1][0] for value, one in zip(drawn[name], chance.random(60) < 0.3, strict=True)
            ]
        arrays = [pa.array(drawn[name], kind) for name, (kind, _) in KEYS.items()]
        files.add(pa.table([*arrays, pa.array(range(60), pa.int64())], names=[*KEYS, "amount"]))

    files.run(counted, TOLD, key=list(KEYS), state=KEPT, buckets=5)
    # Spark's own operators keep a state for -0.0 and one for 0.0.
    grouped = files.stream().withColumn("real", F.col("real") + F.lit(0.0)).groupBy(*KEYS)
    schema, kept = "n long, amounts array<long>, had boolean", "n long, amounts string"
    files.run_by_spark(grouped.applyInPandasWithState(counted_by_spark, schema, kept, "append", GroupStateTimeout.NoTimeout))

    ours = spark.read.parquet(str(files.folder / "ours"))
    theirs = spark.read.parquet(str(files.folder / "theirs"))
    same = ours.select("n", "amounts", F.col("late").isNotNull().alias("had"))
    assert same.exceptAll(theirs).count() == theirs.exceptAll(same).count() == 0
    rows = ours.collect()
    assert len(rows) > 90
    assert any(row.n >= 4 for row in rows)
    assert all(row.late in (None, True) and row.price == row.n for row in rows)
    assert all(f"t{row.n}" in row.tags for row in rows)


def sessions(key, rows, state, times):
    """The rows of a user until none came for five seconds."""
    if not rows:
        return [(*key, state.n, True)], None, None
    n = (state.n if state else 0) + len(rows)
    last = max(int(row.ts.timestamp() * 1000) for row in rows)
    if n == 7:
        return [(*key, n, False)], (n,), None
    return [(*key, n, False)], (n,), max(last, times.watermark_ms) + 5_000


def sessions_by_spark(key, frames, state):
    if state.hasTimedOut:
        (n,) = state.get
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "n": [n], "over": [True]})
        return
    rows = pd.concat(frames)
    n = (state.get[0] if state.exists else 0) + len(rows)
    state.update((n,))
    if n != 7:
        last = int(rows["ts"].max().timestamp() * 1000)
        state.setTimeoutTimestamp(max(last, state.getCurrentWatermarkMs()) + 5_000)
    yield pd.DataFrame({"user": [key[0]], "n": [n], "over": [False]})


def test_deadlines_and_late_rows_are_those_of_a_group_state(files):
    files.visits(("a", 0, 1), ("a", 1, 1), ("b", 2, 1), (None, 3, 1))
    files.visits(("b", 8, 1), ("c", 20, 1))
    files.visits(("c", 21, 1))  # the watermark is 10 s: a and null are over
    files.visits(("a", 3, 1), ("a", 22, 1), ("c", 19, 1), *[("d", 22, 1)] * 7)  # the first is late
    files.visits(("b", 90, 1))
    files.visits(("e", 91, 1))
    schema = "user string, n long, over boolean"

    files.run(
        sessions, schema, rows=files.stream().withWatermark("ts", "10 seconds"), key="user", state="n long", timeout="event"
    )
    grouped = files.stream().withWatermark("ts", "10 seconds").groupBy("user")
    timeout = GroupStateTimeout.EventTimeTimeout
    files.run_by_spark(grouped.applyInPandasWithState(sessions_by_spark, schema, "n long", "append", timeout))

    ours = files.written("ours")
    assert ours == files.written("theirs")
    assert sum("over=True" in row for row in ours) >= 4
    assert "Row(user='a', n=2, over=True)" in ours
    assert "Row(user='a', n=1, over=False)" in ours  # the late row is not in it
    assert "Row(user='d', n=7, over=True)" not in ours


def test_a_deadline_by_the_clock_comes_without_rows(files):
    def waiting(key, rows, _state, times):
        if not rows:
            return [(*key, "over")], None, None
        return [(*key, "begun")], (times.now_ms,), times.now_ms + 1

    files.visits(("a", 0, 1), ("b", 0, 1))
    options = {"key": "user", "state": "since long", "timeout": "processing", "output_mode": "append"}
    schema = "user string, what string"
    query = files.apply(waiting, schema, **options)
    try:
        begun = files.folder / "ours" / "_spark_metadata" / "0"
        until(lambda: begun.exists() and len(files.written("ours", schema)) == 4, "the deadlines")
    finally:
        query.stop()
    assert files.written("ours") == sorted(
        f"Row(user={user!r}, what={what!r})" for user in ("a", "b") for what in ("begun", "over")
    )


def test_a_restart_goes_on_elsewhere_and_after_a_move(spark, files):
    users = [f"u{number}" for number in range(30)]
    files.visits(*((user, 0, 1) for user in users))
    files.run(seen, COUNTED, **SEEN)
    (files.folder / "ours-checkpoint").rename(files.folder / "another-ü-checkpoint")  # of which Spark keeps the whole path
    there = {**SEEN, "name": "another-ü"}

    def doubled(key, rows, state):
        results, kept = seen(key, rows, state)
        return [(*row, row[-1] * 2) for row in results], kept

    # Another function, another schema of results, other settings of the session.
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    files.visits(*((user, 1, 1) for user in users[:20]), (None, 1, 1))
    try:
        spark.conf.set("spark.sql.shuffle.partitions", 5)
        spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
        files.run(doubled, f"{COUNTED}, twice long", **there, write=files.batches("second"))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    second = {row.user: row.twice for row in spark.read.parquet(str(files.folder / "second")).collect()}
    assert second == {**dict.fromkeys(users[:20], 4), None: 2}

    query = files.apply(seen, COUNTED, **there, write=files.batches("third"))
    try:
        turned = replace(query.mapping, buckets=(1 - query.mapping.buckets).astype(np.int32))
        if turned.heavy_instances.size:
            turned = replace(turned, heavy_instances=(1 - turned.heavy_instances).astype(np.int32))
        version = query.change_mapping(turned)
        files.visits(*((user, 2, 1) for user in users))
        query.processAllAvailable()
    finally:
        query.stop()
    assert version.number == 2
    assert version.figures["moved_state_rows"] > 0
    third = {row.user: row.seen for row in spark.read.parquet(str(files.folder / "third")).collect()}
    assert third == {user: 3 if user in users[:20] else 2 for user in users}

    rows = files.stream().withColumn("user", F.col("user").cast("binary"))
    for other, word in (
        ({"key": "amount"}, "key=\\['user'\\]"),
        ({"key": ["user", "amount"]}, "key=\\['user'\\]"),
        ({"rows": rows}, "types=\\['string'\\]"),
        ({"state": "seen int"}, "state='struct<seen:bigint>'"),
        ({"buckets": 4}, "buckets=3"),
        ({"timeout": "processing"}, "timeout=None"),
        ({"instances": 3}, "instances=2"),
    ):
        function = seen if "timeout" not in other else lambda _key, _rows, _state, _times: ([], None, None)
        with pytest.raises(CheckpointMismatch, match=word):
            files.apply(function, COUNTED, **{**there, "buckets": None, "write": files.batches("third"), **other})


def test_what_the_function_raises_names_the_key_and_commits_nothing(files):
    def failing(key, rows, state):
        if key == ("b",):
            raise LookupError("no such user")
        return seen(key, rows, state)

    files.visits(("a", 0, 1), ("b", 0, 1))
    with pytest.raises(FunctionFailed, match=r'LookupError: no such user; on {"user": "b"}. It got 1 rows and no state'):
        files.run(failing, COUNTED, **SEEN)
    files.run(seen, COUNTED, **SEEN)  # the same batch again, with a function that is right
    assert files.written("ours") == ["Row(user='a', seen=1)", "Row(user='b', seen=1)"]


def test_a_state_that_does_not_fit_names_the_key(files):
    files.visits(("a", 0, 1))
    with pytest.raises(InvalidResult, match=r"'many' .str. for field 'seen'.*\"user\": \"a\""):
        files.run(lambda _key, _rows, _state: ([], ("many",)), COUNTED, **SEEN)


def test_fields_of_structs_odd_names_and_empty_results(files):
    files.visits(("a", 0, 1), ("a", 0, 2), ("b", 0, 3))
    rows = files.stream().select(F.struct("user", "amount").alias("a.b"), F.col("amount").alias("k`t"))

    def told(key, rows, _state):
        kept = sum(row["k`t"] for row in rows)
        return ([] if key[0] == "b" else [{"total": kept, "who": rows[0]["a.b"].user}]), {"total": kept}

    files.run(told, "who string, total long", rows=rows, key="`a.b`.user", state="total long")
    assert files.written("ours") == ["Row(who='a', total=3)"]


def test_mistakes_are_told_before_anything_is_written(spark, files):
    files.visits(("a", 0, 1))
    good = {**SEEN, "function": seen, "schema": COUNTED}
    for wrong, error, word in (
        ({"rows": spark.range(1)}, StreamingMismatch, "use apply_by_key"),
        ({"key": "nobody"}, UnknownColumn, "nobody"),
        ({"function": lambda _key, _rows: None}, InvalidParameter, "key, rows, state"),
        ({"function": 3}, InvalidParameter, "got 3"),
        ({"function": seen, "timeout": "event"}, InvalidParameter, "needs a watermark"),
        ({"timeout": "processing"}, InvalidParameter, "key, rows, state, times"),
        ({"timeout": "soon"}, InvalidParameter, "'soon'"),
        ({"output_mode": "complete"}, InvalidParameter, "'complete'"),
        ({"state": "seen long, Seen int"}, ColumnConflict, "twice"),
        ({"state": "seen longish"}, InvalidParameter, "^state 'seen longish' is not one"),
        ({"state": "name varchar(3)"}, InvalidParameter, "^state .*: write string"),
        ({"schema": 3}, InvalidParameter, "got 3"),
        ({"buckets": 1}, InvalidParameter, "buckets must be a whole number from 2"),
        ({"instances": 0}, InvalidParameter, "instances"),
        ({"write": "parquet"}, InvalidParameter, "DataStreamWriter"),
        ({"write": lambda results: results}, InvalidParameter, "DataStreamWriter"),
        ({"query_name": " "}, InvalidParameter, "query_name must be a name"),
        ({"controller": True, "threshold_pct": -1.0}, InvalidParameter, "threshold_pct"),
    ):
        with pytest.raises(error, match=word):
            files.apply(**{**good, **wrong})
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    with pytest.raises(UnsupportedSpark, match="providerClass"):
        files.apply(**good)
    assert not (files.folder / "ours-checkpoint" / "metadata").exists()
    assert not any((files.folder / "ours-checkpoint").rglob("*.json"))


def test_a_checkpoint_of_another_query_is_refused(files):
    files.visits(("a", 0, 1))
    files.run_by_spark(files.stream(), name="ours")
    with pytest.raises(CheckpointMismatch, match="not begun by stream_apply_by_key"):
        files.apply(seen, COUNTED, **SEEN)


@pytest.mark.parametrize("timeout", [None, "event"])
def test_moments_are_in_the_sessions_time_zone(spark, files, timeout):
    def hours(key, rows, state, times=None):
        last = state.last.hour if state else -1
        told = [(key[0].hour, row.ts.hour, row.inner.moments[0].hour, next(iter(row.by)).hour, last) for row in rows]
        return (told, (key[0],)) if times is None else (told, (key[0],), None)

    files.visits(("a", 0, 1))
    files.visits(("a", 0, 1))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = files.stream().withWatermark("ts", "1 hour")
        rows = rows.selectExpr("ts", "struct(array(ts) as moments) as inner", "map(ts, 1) as by")
        schema = "key int, top int, inside int, in_map int, last int"
        files.run(hours, schema, name="hours", rows=rows, key="ts", state="last timestamp", timeout=timeout)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    same = "Row(key=19, top=19, inside=19, in_map=19, last="
    assert sorted(files.written("hours")) == [f"{same}-1)", f"{same}19)"]
