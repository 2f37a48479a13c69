"""Rows of batches and of streaming queries to real receivers on loopback."""

from __future__ import annotations

import json
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import DestinationFailed, InvalidParameter, StreamingMismatch, UnknownColumn
from evenly.spark.jvm.row_order import comes_in_any_order
from evenly.spark.sending.encoding import bodies
from http_receiver import HttpReceiver
from line_receiver import LineReceiver, check_at_least_once_in_order


@pytest.fixture
def link():
    return f"test.{uuid.uuid4().hex}"


def texts(spark, rows=600, partitions=4):
    return spark.range(rows, numPartitions=partitions).select(F.concat(F.lit("row "), "id").alias("text"))


def by_partition(df):
    """The bodies of each partition, in the order that Spark has them."""
    found = {}
    for row in df.select("*", F.spark_partition_id().alias("__p")).collect():
        found.setdefault((0, row["__p"]), []).append(row[0].encode())
    return found


@pytest.mark.parametrize("policy", ["lbf", "fcfs", "none"])
def test_every_row_is_sent_once_in_the_order_of_its_partition(spark, link, policy):
    df = texts(spark)
    with LineReceiver() as receiver:
        sent = evenly.send(df, to=evenly.TcpLines("127.0.0.1", receiver.port), link=link, policy=policy)
        rows = receiver.rows()
    assert len(rows) == sent.rows == 600
    check_at_least_once_in_order(rows, by_partition(df))
    assert {row[0] for row in rows} == {sent.sender}
    assert [(task.partition, task.rows, task.attempt) for task in sent.tasks] == [(p, 150, 0) for p in range(4)]


def test_rows_of_several_columns_are_sent_as_json(spark, link):
    df = spark.createDataFrame([(1, "a\n", b"x", None), (2, "ü", b"y", 0.5)], "id int, text string, data binary, share double")
    with HttpReceiver() as receiver:
        sent = evenly.send(df.coalesce(1), to=evenly.HttpPost(receiver.url), link=link)
        bodies = [json.loads(body) for *_, body in receiver.rows()]
    assert bodies == [
        {"id": 1, "text": "a\n", "data": "eA==", "share": None},
        {"id": 2, "text": "ü", "data": "eQ==", "share": 0.5},
    ]
    assert (sent.rows, sent.batch, len(sent.sender)) == (2, 0, 32)


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("timestamp'2020-01-01 00:00:00.123456'", '"2020-01-01T00:00:00.123456Z"'),
        ("timestamp_ntz'2020-01-01 00:00:00.123456'", '"2020-01-01T00:00:00.123456"'),
        ("array(timestamp'2020-01-01 00:00:00.000001', null)", '["2020-01-01T00:00:00.000001Z",null]'),
        ("named_struct('x', cast(null as int), 'y', time'12:00:00.123456')", '{"x":null,"y":"12:00:00.123456"}'),
        ("map('k', cast(null as int))", '{"k":null}'),
        ("cast(null as struct<x: int>)", "null"),
        ("date'2020-01-01'", '"2020-01-01"'),
        ("cast(1.10 as decimal(10, 2))", "1.10"),
        ("X'00ff'", '"AP8="'),
        ("double('NaN')", '"NaN"'),
        ("float('-Infinity')", '"-Infinity"'),
    ],
)
def test_json_has_all_of_a_value(spark, expression, told):
    (row,) = bodies(spark.sql(f"select 1 as id, {expression} as v"), None).collect()
    assert row.body.decode() == f'{{"id":1,"v":{told}}}'


def test_json_says_the_offset_of_the_sessions_time_zone_to_the_second(spark):
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        df = spark.sql("select 1 as id, timestamp'2020-07-01 12:00:00.5' as now, timestamp'1850-01-01 00:00:00' as old")
        (row,) = bodies(df, None).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert json.loads(row.body) == {
        "id": 1,
        "now": "2020-07-01T12:00:00.500000+02:00",
        "old": "1850-01-01T00:00:00.000000+00:53:28",
    }


def test_a_named_column_is_sent_as_it_is_and_null_as_nothing(spark, link):
    df = spark.createDataFrame([(1, b"\x00\xff"), (2, None)], "id int, `da``ta` binary").coalesce(1)
    with HttpReceiver() as receiver:
        evenly.send(df, to=evenly.HttpPost(receiver.url), column="da`ta", link=link)
        assert [body for *_, body in receiver.rows()] == [b"\x00\xff", b""]


def test_a_function_is_called_with_every_row(spark, link, tmp_path):
    folder = str(tmp_path)

    def keep(row):
        Path(folder, f"{row.sender}-{row.batch}-{row.partition}-{row.number}").write_bytes(row.body)

    me = evenly.send(texts(spark, 20, 2), to=keep, link=link, batch=5).sender
    assert {path.name for path in tmp_path.iterdir()} == {f"{me}-5-{p}-{n}" for p in range(2) for n in range(10)}
    assert (tmp_path / f"{me}-5-1-3").read_text() == "row 13"


def test_rows_out_of_a_shuffle_have_the_same_numbers_when_they_are_sent_again(spark, link):
    """Twice from tasks that finish in another order, so that the shuffle is read in another order."""
    slow = F.udf(lambda number, slow_id: time.sleep(0.4 if number == slow_id else 0.0) or number, "long")
    came = []
    for first in (0, 599):
        df = spark.range(600, numPartitions=4).select(slow("id", F.lit(first)).alias("id"))
        placed = df.repartition(3, "id").select(F.col("id").cast("string").alias("text"))
        with LineReceiver() as receiver:
            evenly.send(placed, to=evenly.TcpLines("127.0.0.1", receiver.port), link=link, timeout_s=60)
            came.append(sorted(row[1:] for row in receiver.rows()))
    assert len(came[0]) == 600
    assert came[0] == came[1]


def test_a_shuffle_is_seen_where_plans_are_cut_off_and_in_rdds(spark):
    shuffled = texts(spark, 30, 2).repartition(2)
    for longest in (0, 60, 100, 1_000):
        spark.conf.set("spark.sql.maxPlanStringLength", longest)
        assert comes_in_any_order(shuffled.select("*"))
    spark.conf.unset("spark.sql.maxPlanStringLength")
    made = spark.sparkContext.parallelize([("a",), ("b",)], 2)
    assert comes_in_any_order(made.repartition(2).toDF("text string"))
    assert not comes_in_any_order(made.toDF("text string"))
    assert not comes_in_any_order(shuffled.localCheckpoint())


def test_rows_that_the_user_sorted_keep_their_order(spark, link):
    df = spark.range(300, numPartitions=3).repartition(2).sortWithinPartitions(F.desc("id")).select(F.col("id").cast("string"))
    with LineReceiver() as receiver:
        evenly.send(df, to=evenly.TcpLines("127.0.0.1", receiver.port), link=link)
        numbers = {}
        for _, _, partition, _, body in receiver.rows():
            numbers.setdefault(partition, []).append(int(body))
    assert sum(map(len, numbers.values())) == 300
    assert all(came == sorted(came, reverse=True) for came in numbers.values())


def test_partitions_without_rows_are_no_trouble(spark, link):
    with LineReceiver() as receiver:
        sent = evenly.send(texts(spark, 1, 3), to=evenly.TcpLines("127.0.0.1", receiver.port), link=link)
    assert [task.rows for task in sent.tasks] == [0, 0, 1]
    assert evenly.send(texts(spark).limit(0), to=evenly.TcpLines("127.0.0.1", 9), link=link).rows == 0


def test_a_destination_that_hangs_fails_the_job_with_one_clear_error(spark, link):
    with (
        LineReceiver(hang=True) as receiver,
        pytest.raises(
            DestinationFailed, match=r"^tcp://127\.0\.0\.1:\d+ did not acknowledge 10 lines: nothing was heard for 0\.5 s"
        ),
    ):
        evenly.send(texts(spark, 10, 1), to=evenly.TcpLines("127.0.0.1", receiver.port), link=link, timeout_s=0.5)


def test_a_function_that_fails_or_hangs_fails_the_job_with_one_clear_error(spark, link):
    def fail(row):
        raise OSError(f"disk {row.number} is full")

    def hang(_):
        time.sleep(60)

    with pytest.raises(DestinationFailed, match=r"^the function fail failed at row 0 of partition 0.*disk 0 is full"):
        evenly.send(texts(spark, 10, 1), to=fail, link=link)
    with pytest.raises(DestinationFailed, match=r"^the function hang hangs: a row has been on its way for more than 0\.5 s"):
        evenly.send(texts(spark, 10, 1), to=hang, link=link, timeout_s=0.5)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"policy": "fastest"}, InvalidParameter, "no emission policy 'fastest'"),
        ({"capacity": 0}, InvalidParameter, "capacity must be .* got 0"),
        ({"timeout_s": 0}, InvalidParameter, "timeout_s must be .* got 0"),
        ({"to": "127.0.0.1:9"}, InvalidParameter, "to must be a TcpLines"),
        ({"sender": "a b"}, InvalidParameter, "sender must be .* got 'a b'"),
        ({"sender": "ü"}, InvalidParameter, "sender must be .* got 'ü'"),
        ({"column": "size"}, UnknownColumn, "no column 'size': the columns are text"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(spark, options, error, told):
    stream = spark.readStream.format("rate").load().select(F.col("value").cast("string").alias("text"))
    for act, rows in ((evenly.send, texts(spark)), (evenly.stream_send, stream)):
        with pytest.raises(error, match=told):
            act(rows, **{"to": print, "checkpoint": "never-made", **options})
    assert not Path("never-made").exists()


def test_a_column_that_cannot_be_encoded_is_named(spark):
    place = "st_geogfromwkb(X'0101000000000000000000F03F0000000000000040')"
    df = spark.sql(f"select 1 as id, array({place}) as places, 'x' as text")
    with pytest.raises(InvalidParameter, match=r"cannot write as JSON: places \(array<geography\(4326\)>\); cast it"):
        evenly.send(df, to=print)
    with pytest.raises(InvalidParameter, match=r"column 'id' is int, and only text and binary"):
        evenly.send(df, to=print, column="id")
    with pytest.raises(InvalidParameter, match="several columns are called 'id'"):
        evenly.send(spark.range(1).select("id", "id"), to=print)
    with pytest.raises(InvalidParameter, match="no column"):
        evenly.send(spark.range(1).select(), to=print)
    with pytest.raises(InvalidParameter, match=r"column 's' is array<struct<a:int,a:int>>, with two fields of one name"):
        evenly.send(spark.sql("select array(named_struct('a', 1, 'a', 2)) s"), to=print)


@pytest.mark.parametrize(
    "key",
    ["X'00ff'", "date'2020-01-01'", "timestamp'2020-01-01 00:00:00'", "named_struct('a', 1)", "array(1)", "interval 3 days"],
)
def test_keys_of_maps_that_json_would_garble_are_refused(spark, key):
    for column in (f"map({key}, 1)", f"array(map('a', map({key}, 1)))", f"named_struct('s', map({key}, 1))"):
        with pytest.raises(InvalidParameter, match=r"keys of maps are text, numbers or booleans in JSON: m \(.*transform_keys"):
            evenly.send(spark.sql(f"select 1 as id, {column} as m"), to=print)


def test_names_that_differ_in_case_alone_are_told_as_such(spark):
    df = spark.range(1).selectExpr("'x' as a", "'y' as A")
    for options in ({}, {"column": "A"}):
        with pytest.raises(InvalidParameter, match=r"several columns are called '[aA]'"):
            evenly.send(df, to=print, **options)


def test_json_is_written_under_the_older_way_with_times_too(spark, link):
    df = spark.sql(
        "select timestamp'2020-07-01 10:00:00.123456+00:00' as at, timestamp_ntz'2020-07-01 10:00:00.000007' as ntz, "
        "map(1.50, true, 2.00, false) as m"
    )
    spark.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    try:
        with HttpReceiver() as receiver:
            evenly.send(df, to=evenly.HttpPost(receiver.url), link=link)
            (sent,) = [json.loads(body) for *_, body in receiver.rows()]
    finally:
        spark.conf.unset("spark.sql.legacy.timeParserPolicy")
    assert datetime.fromisoformat(sent["at"]) == datetime(2020, 7, 1, 10, 0, 0, 123456, tzinfo=UTC)
    assert (sent["ntz"], sent["m"]) == ("2020-07-01T10:00:00.000007", {"1.50": True, "2.00": False})


def test_a_batch_is_not_a_stream_and_a_stream_no_batch(spark):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(StreamingMismatch, match="use stream_send"):
        evenly.send(stream, to=print)
    with pytest.raises(StreamingMismatch, match="use send for a batch"):
        evenly.stream_send(texts(spark), to=print, checkpoint="x")


def staged(spark, folder, files, rows):
    for number in range(files):
        texts(spark, rows, 1).select(F.concat(F.lit(f"file {number} "), "text").alias("text")).write.mode("append").parquet(
            folder
        )


def test_a_streaming_query_that_starts_again_sends_its_batch_again_with_the_same_identities(spark, link, tmp_path):
    source, checkpoint = str(tmp_path / "in"), tmp_path / "checkpoint"
    staged(spark, source, 2, 50)
    rows = spark.readStream.schema("text string").option("maxFilesPerTrigger", 1).parquet(source)

    def run(url):
        query = evenly.stream_send(
            rows, to=evenly.HttpPost(url), checkpoint=checkpoint, link=link, trigger={"availableNow": True}, timeout_s=5.0
        )
        query.awaitTermination(120)
        return query

    with HttpReceiver(lambda before: 507 if before >= 70 else 200) as full:
        with pytest.raises(DestinationFailed, match=r"answered 507 .* to row 20 of partition 0, batch 1"):
            run(full.url)
        first = full.rows()
    assert len(first) == 70
    with HttpReceiver() as receiver:
        query = run(receiver.url)
        again = receiver.rows()
    assert [row[1] for row in again] == [1] * 50, "batch 0 was done"
    assert again[:20] == first[50:], "the same rows under the same identities"
    assert {row[0] for row in first + again} == {query.id}
    assert len({row[:4] for row in first + again}) == 100
    assert {body for *_, body in first + again} == {f"file {f} row {n}".encode() for f in range(2) for n in range(50)}
    with HttpReceiver() as receiver:
        run(receiver.url)
        assert receiver.rows() == []


def test_a_streaming_aggregate_is_sent_in_an_order_that_can_be_repeated(spark, link, tmp_path):
    staged(spark, str(tmp_path / "in"), 2, 40)
    rows = spark.readStream.schema("text string").parquet(str(tmp_path / "in"))
    counts = rows.groupBy(F.substring("text", 7, 10).alias("row")).count()
    with HttpReceiver() as receiver:
        query = evenly.stream_send(
            counts,
            to=evenly.HttpPost(receiver.url, rows_at_once=3),
            checkpoint=tmp_path / "checkpoint",
            link=link,
            repeatable=False,
            trigger={"availableNow": True},
            output_mode="update",
        )
        query.awaitTermination(120)
        came = receiver.rows()
    bodies = [(partition, line.decode()) for _, _, partition, _, body in came for line in body.splitlines()]
    assert {one["row"]: one["count"] for _, text in bodies for one in [json.loads(text)]} == {f" row {n}": 2 for n in range(40)}
    sorted_ = spark.createDataFrame(bodies, "partition int, body string").orderBy("partition", F.xxhash64("body"), "body")
    by_task = [[text for partition, text in bodies if partition == task] for task in sorted({task for task, _ in bodies})]
    assert [text for texts in by_task for text in texts] == [row.body for row in sorted_.collect()]
