"""`by_key`: rows where they belong, whatever the keys, and what it refuses. For operators see `test_operators.py`."""

import json
from dataclasses import replace

import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import ColumnConflict, InvalidKeys, InvalidParameter, StreamingMismatch, UnknownColumn
from evenly.keys.hot_keys import split_hot_keys
from evenly.spark.keyed.keys import key_id
from evenly.streams import zipf

INSTANCES = 8


@pytest.fixture(scope="module")
def visits(spark):
    keys = zipf(1.2, 300).draw(20_000, seed=6)
    rows = [(f"user {key}" if key % 17 else None, index % 1_000) for index, key in enumerate(keys.tolist())]
    return spark.createDataFrame(rows, "user string, amount bigint").persist()


@pytest.fixture(scope="module")
def mapping(visits):
    return evenly.learn_mapping(visits, key="user", instances=INSTANCES)


@pytest.fixture
def placed(visits, mapping):
    return visits.transform(evenly.by_key, key="user", instances=INSTANCES, mapping=mapping)


def sorted_rows(df, *columns):
    return sorted((tuple(row) for row in df.select(*columns).collect()), key=repr)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_rows_are_on_their_instance_with_adaptive_execution_on_and_off(spark, visits, mapping, adaptive):
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        for slot in ("slot", None):
            placed = visits.transform(evenly.by_key, key="user", instances=INSTANCES, mapping=mapping, slot=slot)
            rows = placed.select("user", F.spark_partition_id().alias("at")).distinct().collect()
            assert all(mapping.assign([row.user])[0] == row.at for row in rows)
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


def test_without_a_slot_no_column_is_added(visits, mapping):
    placed = visits.transform(evenly.by_key, key="user", instances=INSTANCES, mapping=mapping, slot=None)
    assert placed.columns == visits.columns
    assert sorted_rows(placed, "user", "amount") == sorted_rows(visits, "user", "amount")


def test_an_earlier_dataframe_can_be_learnt_from_and_a_saved_mapping_reused(visits, mapping, tmp_path):
    mapping.save(tmp_path / "users.json")
    again = evenly.Mapping.load(tmp_path / "users.json")
    assert again == mapping
    earlier = visits.where("amount < 500")
    learnt = visits.transform(evenly.by_key, key="user", instances=INSTANCES, fit_on=earlier)
    assert learnt.count() == visits.count()


def test_a_streaming_aggregation_keeps_every_group_on_its_instance(spark, visits, mapping, tmp_path):
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    visits.where("amount < 500").write.mode("append").parquet(str(folder))
    source = spark.readStream.schema(visits.schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    counted = source.transform(evenly.by_key, key="user", instances=INSTANCES, mapping=mapping).groupBy("user", "slot").count()
    query = counted.writeStream.format("memory").queryName("counted").outputMode("complete")
    query = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.exception() is None

    expected = visits.where("amount < 500").groupBy("user").count()
    assert sorted_rows(spark.table("counted"), "user", "count") == sorted_rows(expected, "user", "count")
    state = spark.read.format("statestore").load(str(checkpoint))
    found = state.select(key_id(("key.user",)).alias("id"), "partition_id", "key.user").collect()
    assert len(found) == expected.count()
    assert all(mapping.assign([row.user])[0] == row.partition_id for row in found)


def test_a_mapping_that_does_not_know_its_types_is_taken_as_it_is(visits, mapping):
    known = json.loads(mapping.to_json())
    assert known["types"] == ["string"]
    unknown = replace(mapping, types=())
    assert visits.transform(evenly.by_key, key="user", instances=INSTANCES, mapping=unknown).count() == visits.count()


def test_null_is_a_key_like_any_other(visits, placed):
    assert visits.where("user is null").count() > 0
    at = placed.where("user is null").select(F.spark_partition_id()).distinct().collect()
    assert len(at) == 1


def test_all_rows_of_one_key_are_placed_and_the_mapping_says_that_nothing_helps(spark):
    df = spark.range(1_000).select(F.lit("only").alias("key"), "id")
    learnt = evenly.learn_mapping(df, key="key", instances=4)
    assert learnt.least_imbalance_pct == pytest.approx(300.0)
    assert df.transform(evenly.by_key, key="key", instances=4, mapping=learnt).count() == 1_000


def test_an_empty_dataframe_stays_empty_and_its_mapping_spreads_keys_by_hash(spark):
    df = spark.createDataFrame([], "key string, value int")
    assert df.transform(evenly.by_key, key="key", instances=4).count() == 0
    learnt = evenly.learn_mapping(df, key="key", instances=4)
    assert set(learnt.assign([f"key {i}" for i in range(100)]).tolist()) == {0, 1, 2, 3}


def test_keys_of_a_megabyte_are_placed_and_not_kept(spark):
    df = spark.range(20).select(F.repeat(F.concat(F.lit("x"), F.col("id") % 3), 500_000).alias("key"))
    learnt = evenly.learn_mapping(df, key="key", instances=3)
    assert len(learnt.to_json()) < 20_000
    groups = df.transform(evenly.by_key, key="key", instances=3, mapping=learnt).groupBy("key", "slot").count()
    assert sorted(row["count"] for row in groups.select("count").collect()) == [6, 7, 7]


def test_an_unknown_column_is_named_beside_the_columns_there_are(visits):
    with pytest.raises(UnknownColumn, match=r"'usr'.*user, amount"):
        visits.transform(evenly.by_key, key="usr", instances=4)


@pytest.mark.parametrize("instances", [0, -3, 10_001, 2.5, True])
def test_instances_out_of_range_are_refused(visits, instances):
    with pytest.raises(InvalidParameter, match=str(instances)):
        visits.transform(evenly.by_key, key="user", instances=instances)


def test_no_key_column_at_all_is_refused(visits):
    with pytest.raises(InvalidParameter, match="no column"):
        visits.transform(evenly.by_key, key=[], instances=4)


def test_a_key_that_is_no_name_is_refused(visits):
    for key in (F.col("amount") + 1, ["user", F.upper("user")], None, 3):
        with pytest.raises(InvalidParameter, match=r"key must be a (name or a list of names, as texts|column of df), "):
            visits.transform(evenly.by_key, key=key, instances=4)


def test_a_slot_column_that_exists_is_refused(visits):
    with pytest.raises(ColumnConflict, match="'AMOUNT'"):
        visits.transform(evenly.by_key, key="user", instances=4, slot="AMOUNT")


@pytest.mark.parametrize(
    ("expression", "word"),
    [
        ("map(1, 2)", "map"),
        ("parse_json('1')", "variant"),
        ("'a' collate UTF8_LCASE", "UTF8_LCASE"),
        ("array(map(1, 2))", "map"),
        (
            "st_geogfromwkb(X'0101000000000000000000F03F0000000000000040')",
            "geography, .* use st_asbinary",
        ),
    ],
)
def test_keys_that_spark_cannot_hash_are_refused(spark, expression, word):
    spark.conf.set("spark.sql.geospatial.enabled", "true")
    df = spark.sql(f"select {expression} as key")
    with pytest.raises(InvalidKeys, match=word):
        df.transform(evenly.by_key, key="key", instances=4)
    spark.conf.unset("spark.sql.geospatial.enabled")


def test_a_mapping_for_other_instances_columns_or_ids_is_refused(visits, mapping):
    with pytest.raises(InvalidParameter, match="for 8 instances, not for 4"):
        visits.transform(evenly.by_key, key="user", instances=4, mapping=mapping)
    with pytest.raises(InvalidParameter, match=r"'amount' is bigint, and the mapping is for string \(user\)"):
        visits.transform(evenly.by_key, key="amount", instances=8, mapping=mapping)
    elsewhere = evenly.Mapping.from_json(mapping.to_json())
    object.__setattr__(elsewhere, "ids", "integer")
    with pytest.raises(InvalidParameter, match="not learnt on Spark"):
        visits.transform(evenly.by_key, key="user", instances=8, mapping=elsewhere)


def test_a_path_is_no_mapping(visits, mapping):
    for operation in (evenly.by_key, evenly.split_by_key):
        with pytest.raises(InvalidParameter, match=r"mapping must be a Mapping.*, got 'm.json': Mapping.load\(path\) reads"):
            visits.transform(operation, key="user", instances=8, mapping="m.json")
    with pytest.raises(InvalidParameter, match="must be a Mapping, got a SplitMapping"):
        visits.transform(evenly.by_key, key="user", instances=8, mapping=split_hot_keys(mapping))


def test_a_mapping_that_would_be_another_at_the_next_start_of_a_stream_is_refused(spark, visits):
    """State is kept by key and slot: counts of keys with another slot would begin anew, without a word."""
    stream = spark.readStream.format("rate").load().select(F.col("value").cast("string").alias("user"))
    for options in ({"fit_on": visits}, {}):
        with pytest.raises(StreamingMismatch, match=r"use stream_by_key.* mapping=Mapping.load\(path\)"):
            stream.transform(evenly.by_key, key="user", instances=INSTANCES, **options)
    assert stream.transform(evenly.by_key, key="user", instances=INSTANCES, fit_on=visits, slot=None).columns == ["user"]


def test_a_stream_needs_a_mapping_and_as_many_shuffle_partitions_as_instances(spark, mapping):
    stream = spark.readStream.format("rate").load().select(F.col("value").cast("string").alias("user"))
    with pytest.raises(StreamingMismatch, match="fit_on"):
        stream.transform(evenly.by_key, key="user", instances=INSTANCES, slot=None)
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        with pytest.raises(StreamingMismatch, match="is 5 and instances is 8"):
            stream.transform(evenly.by_key, key="user", instances=INSTANCES, mapping=mapping)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(INSTANCES))
