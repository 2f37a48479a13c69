"""`apply_by_key(..., balance="time")`: results of `applyInPandas` in every case, times that come back, and what is refused."""

import logging
import math
import sys

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F

import evenly
from evenly.costs.group_report import GroupMeter
from evenly.errors import DamagedData, InvalidParameter, MissingFile
from evenly.instances import Slots
from evenly.keys.dkg import DKG
from evenly.keys.hot_keys import split_hot_keys
from evenly.spark.keyed import group_learning

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

SCHEMA = "key string, n bigint not null, day date not null, kept array<int> not null"


@pytest.fixture(scope="module")
def rows(spark):
    """Groups of 1 to 60 rows, one of null and one of NaN; columns with names that are in the way."""
    key = F.expr("case when id < 40 then null when id < 70 then double('NaN') else floor(sqrt(id)) * if(id % 2 = 0, 1, 1) end")
    return (
        spark.range(900)
        .select(key.alias("a.b"), F.col("id").alias("__evenly_report"), F.lit(0).alias("c0"))
        .repartition(3)
        .cache()
    )


def summed(key, group):
    """No result for some groups, and more than one row for others."""
    size = len(group)
    told = pd.DataFrame({"key": [str(key[0])], "n": [size], "day": [pd.Timestamp("2024-02-03").date()], "kept": [[1, size]]})
    group["c0"] = 7
    return told.iloc[:0] if size % 3 == 0 else pd.concat([told] * (1 + size % 2), ignore_index=True)


def summed_table(key, group):
    size = group.num_rows
    value = key[0].as_py()
    told = summed((math.nan if value is None else value,), pd.DataFrame({"c0": [0] * size}))
    shape = pa.schema([("key", pa.string()), ("n", pa.int64()), ("day", pa.date32()), ("kept", pa.list_(pa.int32()))])
    return pa.Table.from_pandas(told, schema=shape, preserve_index=False)


@pytest.fixture
def small_batches(spark):
    """So that groups go over several batches."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    yield
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def found(df):
    return sorted((tuple(row) for row in df.collect()), key=repr)


def timed(rows, function, instances, **options):
    return evenly.apply_by_key(rows, function, SCHEMA, key="a.b", instances=instances, balance="time", **options)


@pytest.mark.usefixtures("small_batches")
def test_results_are_those_of_spark_before_and_after_times_are_known(rows, tmp_path):
    plain = rows.toDF("key", "id", "c0").groupBy("key").applyInPandas(summed, SCHEMA)  # Spark cannot by "a.b"
    wanted = found(plain)
    watch = evenly.TimeWatch()
    first = timed(rows, summed, 2, watch=watch)
    assert not watch.ready
    assert watch.times.groups == 0
    assert first.schema == plain.schema
    assert found(first) == wanted
    assert watch.ready
    groups = rows.groupBy("`a.b`").count()
    assert sum(report.groups for report in watch.reports) == groups.count() == watch.times.groups
    assert sum(report.all_rows for report in watch.reports) == 900
    assert watch.busy_s.size == 2
    assert watch.busy_s.sum() == pytest.approx(sum(report.busy_s for report in watch.reports))
    assert watch.instances == 2
    assert watch.mapping.instances == 10  # nothing is known: each instance is in five pieces
    sizes = dict(groups.select(F.xxhash64("`a.b`"), "count").collect())
    assert {key: n for it in watch.reports for key, n in zip(it.ids.tolist(), it.rows.tolist(), strict=True)} == sizes

    beyond_slots = evenly.TimeWatch()
    timed(rows, summed, 9, watch=beyond_slots)
    assert beyond_slots.mapping.instances == 9  # they start as slots come free anyway

    path = tmp_path / "times.json"
    watch.times.save(path)
    again = evenly.TimeWatch()
    # Another number of instances, Arrow, and the path as Spark reads it.
    second = timed(rows, summed_table, 5, times=path.as_uri(), watch=again, arrow=True)
    assert second.schema == plain.schema
    assert found(second) == wanted
    assert again.times.groups > watch.times.groups
    assert again.mapping.instances == 5
    assert found(timed(rows, summed, 1, times=again.times)) == wanted  # nobody watches


def test_a_first_run_is_whole_where_its_pieces_would_be_more_than_there_may_be_instances(spark, monkeypatch):
    monkeypatch.setattr(group_learning, "session_slots", lambda _: Slots(3_000, "3,000 tasks can run at once"))
    for instances, pieces in ((3, 15), (2_001, 2_001)):
        watch = evenly.TimeWatch()
        evenly.apply_by_key(
            spark.range(9), lambda group: group, "id long", key="id", instances=instances, balance="time", watch=watch
        )
        assert (watch.instances, watch.mapping.instances) == (instances, pieces)


def test_times_are_placed_by_and_long_groups_are_named(spark, caplog):
    df = spark.createDataFrame([(user, n) for user in range(12) for n in range(1 + user % 3)], "user int, n int")
    ids = {row[0]: row[1] for row in df.select("user", F.xxhash64("user")).distinct().collect()}
    times = evenly.GroupTimes(["USER"], ["int"])
    meter = GroupMeter()
    for user, key in ids.items():
        meter.add(key, 1 + user % 3, 50.0 if user == 5 else 1.0)
        meter.name(key, 50.0 if user == 5 else 1.0, f"'{user}'")
    times.learn([meter.report(0)])
    watch = evenly.TimeWatch()
    schema = "user int"
    with caplog.at_level(logging.WARNING, "evenly"):
        result = evenly.apply_by_key(
            df, lambda group: group[["user"]][:1], schema, key="user", instances=3, balance="time", times=times, watch=watch
        )
    (told,) = [record.getMessage() for record in caplog.records if "longer than an instance" in record.getMessage()]
    assert "'5' (" in told
    assert "1 instance will do" in told
    assert sorted(row.user for row in result.collect()) == list(range(12))
    alone = watch.mapping.assign_ids(pd.Series([ids[5]], dtype="int64").to_numpy().view("uint64"))[0]
    assert alone == 0  # the fullest instance is the first to start
    assert watch.reports[0].groups == 1
    # As the warning says: the mapping's loads are times, so that a key too long for an instance is split.
    counts = evenly.Merging(len, lambda parts: pd.DataFrame({"rows": [sum(parts)]}), "rows long")
    split = evenly.aggregate_by_key(df, counts, key="user", instances=3, mapping=watch.mapping)
    assert split_hot_keys(watch.mapping).needs_merge
    assert sorted(map(tuple, split.collect())) == [(user, 1 + user % 3) for user in range(12)]


def test_an_input_without_rows_and_one_that_differs_each_time(spark):
    def one(group):
        return pd.DataFrame({"n": [len(group)]})

    empty = spark.range(0)
    watch = evenly.TimeWatch()
    assert evenly.apply_by_key(empty, one, "n long", key="id", instances=2, balance="time", watch=watch).collect() == []
    assert watch.ready
    assert watch.times.exponent is None
    random = spark.range(400, numPartitions=2).select(F.floor(F.rand() * 9).alias("k"))
    watch = evenly.TimeWatch()
    found = evenly.apply_by_key(random, one, "n long", key="k", instances=2, balance="time", watch=watch)
    assert sum(row.n for row in found.collect()) == 400
    # What is computed twice in one plan counts once.
    watch = evenly.TimeWatch()
    once = evenly.apply_by_key(spark.range(6), one, "n long", key="id", instances=2, balance="time", watch=watch)
    assert once.union(once).count() == 12
    assert watch.times.groups == 6


def test_a_function_that_fails_fails_the_job_and_leaves_nothing(spark):
    def fails(group):
        raise KeyError(f"no model for {group.id[0]}")

    watch = evenly.TimeWatch()
    broken = evenly.apply_by_key(spark.range(3), fails, "n long", key="id", instances=1, balance="time", watch=watch)
    with pytest.raises(Exception, match="no model for"):
        broken.collect()
    assert watch.times.groups == 0  # of what did not end nothing is known


def test_what_makes_no_sense_is_refused_at_the_call(spark, tmp_path):
    def refused(message, error=InvalidParameter, key="id", **options):
        with pytest.raises(error, match=message):
            evenly.apply_by_key(spark.range(3), lambda group: group, "id long", key=key, instances=2, **options)

    times = evenly.GroupTimes(["id"], ["bigint"])
    refused("balance must be 'rows' or 'time', got 'cost'", balance="cost")
    refused("balance='time' needs to know times", balance="time")
    refused("give balance='time' too", times=times)
    refused("give one of them", balance="time", times=times, mapping=DKG(2, ids="xxhash64").mapping(2))
    refused("got a TimeWatch: give watch.times", balance="time", times=evenly.TimeWatch())
    refused("watch must be a TimeWatch", watch=evenly.CostWatch())
    refused(
        r"of groups by user \(bigint\), and these are by id \(bigint\)",
        balance="time",
        times=evenly.GroupTimes(["user"], ["bigint"]),
    )
    refused(r"by id \(int\), and these are by id \(bigint\)", balance="time", times=evenly.GroupTimes(["id"], ["int"]))
    refused("there is no file", MissingFile, balance="time", times=str(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text(times.to_json().replace("bigint", "string"))
    refused("checksum", DamagedData, balance="time", times=tmp_path / "bad.json")
    watch = evenly.TimeWatch()
    evenly.apply_by_key(spark.range(3), lambda group: group, "id long", key="id", instances=2, watch=watch).collect()
    assert watch.times.groups == 3  # measured, though rows were balanced
    refused("another call", watch=watch)
