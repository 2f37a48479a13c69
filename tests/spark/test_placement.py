"""Rows are where the mapping says, for every kind of key and any number of instances."""

import decimal
from dataclasses import replace

import numpy as np
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row
from pyspark.sql import functions as F

from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.spark.keyed.keys import key_id, key_names
from evenly.spark.placing.placement import with_instance, with_slot


def mapping_for(df, key, instances, *, heavy=5):
    """A mapping that scatters buckets and gives the first few keys entries of their own."""
    names = key_names(df, key)
    ids = np.unique(df.select(key_id(names)).toArrow().column(0).to_numpy()).view(np.uint64)
    rng = np.random.default_rng(4)
    chosen = ids[:heavy]
    return names, Mapping(
        instances=instances,
        buckets=rng.integers(0, instances, max(16, 2 * instances)).astype(np.int32),
        a=0,
        b=0,
        heavy_keys=chosen,
        heavy_instances=rng.integers(0, instances, chosen.size).astype(np.int32),
        heavy_weights=np.ones(chosen.size),
        ids="xxhash64",
    )


def misplaced(df, names, mapping):
    """How many rows are not in the partition of their instance, after a native shuffle by key and slot."""
    placed = with_slot(df, mapping, names, "slot").repartition(mapping.instances, *names, "slot")
    return disagreements(placed.select(key_id(names).alias("id"), F.spark_partition_id().alias("at")), mapping)


def disagreements(places, mapping):
    found = places.toArrow()
    assert found.num_rows
    ids = found["id"].to_numpy().view(np.uint64)
    return int(np.count_nonzero(mapping.assign_ids(ids) != found["at"].to_numpy()))


COLUMNS = {
    "boolean": "id % 2 = 0",
    "tinyint": "cast(id as tinyint)",
    "smallint": "cast(id as smallint)",
    "int": "cast(id as int)",
    "bigint": "(id - 50) * 1000000000000000",
    "float": "cast(id / 8 - 3 as float)",
    "double": "id / 8 - 3",
    "decimal(10,2)": "cast(id / 4 as decimal(10,2))",
    "decimal(38,3)": "cast(id * 100000000000000000000BD as decimal(38,3))",
    "string": "concat('key \u00e9 ', id)",
    "binary": "cast(concat('b', id) as binary)",
    "date": "date_add(date'2020-01-01', cast(id as int))",
    "timestamp": "timestamp_seconds(id * 86401)",
    "timestamp_ntz": "cast(timestamp_seconds(id * 86401) as timestamp_ntz)",
    "interval": "make_dt_interval(cast(id as int))",
    "array": "array(id, id + 1)",
    "struct": "named_struct('a', id, 'b', concat('x', id))",
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_no_row_is_misplaced_whatever_the_type_of_its_key(spark, kind):
    df = spark.range(100).selectExpr(f"if(id % 11 = 0, null, {COLUMNS[kind]}) as key")
    names, mapping = mapping_for(df, "key", 8)
    assert misplaced(df, names, mapping) == 0


@pytest.mark.parametrize("instances", [1, 2, 3, 16, 97])
def test_no_row_is_misplaced_for_any_number_of_instances(spark, instances):
    df = spark.range(3_000).select(F.concat(F.lit("k"), F.col("id")).alias("key"), F.col("id").alias("value"))
    names, mapping = mapping_for(df, "key", instances, heavy=50)
    assert misplaced(df, names, mapping) == 0


@pytest.mark.parametrize("instances", [1_000, 4_096, 10_000])
def test_the_slot_leads_to_the_right_one_of_many_partitions(spark, instances):
    df = spark.range(3_000).select(F.concat(F.lit("k"), F.col("id")).alias("key"))
    names, mapping = mapping_for(df, "key", instances, heavy=50)
    sparks_choice = F.pmod(F.hash("key", "slot"), F.lit(instances)).alias("at")
    assert disagreements(with_slot(df, mapping, names, "slot").select(key_id(names).alias("id"), sparks_choice), mapping) == 0


def test_plans_and_errors_are_short_with_a_thousand_instances(spark):
    df = spark.range(10).select(F.col("id").alias("key"))
    names, mapping = mapping_for(df, "key", 1_000)
    many = replace(mapping, buckets=np.resize(mapping.buckets, 64_000))
    for placed in (with_slot(df, many, names, "slot"), with_instance(df, many, names, "slot")):
        grouped = placed.groupBy("key", "slot").agg(F.collect_list("key"))
        assert len(grouped._jdf.queryExecution().toString()) < 50_000
        with pytest.raises(AnalysisException) as unknown:
            placed.select("nothing")
        assert len(str(unknown.value)) < 10_000


def test_tables_weigh_little_on_tasks_behind_the_shuffle(spark):
    """Each of them gets the plan of the other side too: bytes are cheap there, operators and casts are not."""
    df = spark.range(2_000).select(F.col("id").alias("key"))
    names, mapping = mapping_for(df, "key", 1_000, heavy=800)
    many = replace(mapping, buckets=np.resize(mapping.buckets, 64_000))
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        plain = written_task(df.repartition(8, "key").groupBy("key").agg(F.collect_list("key")))
        placed = with_slot(df, many, names, "slot").repartition(8, "key", "slot")
        ours = written_task(placed.groupBy("key", "slot").agg(F.collect_list("key")))
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    # 64,000 buckets of 2 bytes and 4,096 places of 8 and of 2 bytes, each table once; it was 394,000 and the plan
    assert 168_000 < len(ours) - len(plain) < 205_000
    # What is written first of an object is its class.
    assert b"catalyst.expressions.UnsafeArrayData" in ours
    assert b"SubqueryExec" not in ours


def written_task(df):
    """What the tasks of the last stage of `df` are given, as Spark writes it."""
    jvm = df.sparkSession._jvm
    written = jvm.java.io.ByteArrayOutputStream()
    objects = jvm.java.io.ObjectOutputStream(written)
    objects.writeObject(df._jdf.queryExecution().toRdd())
    objects.close()
    return bytes(written.toByteArray())


def test_no_row_is_misplaced_with_several_key_columns_and_fields_of_structs(spark):
    df = spark.range(500).select(
        F.struct((F.col("id") % 50).alias("user")).alias("who"), (F.col("id") % 7).cast("string").alias("day"), "id"
    )
    names, mapping = mapping_for(df, ["who.user", "day"], 16)
    assert misplaced(df, names, mapping) == 0


def test_a_million_rows_without_one_misplaced(spark):
    df = spark.range(1_000_000).select((F.col("id") * 7919 % 100_003).alias("key"))
    names, mapping = mapping_for(df, "key", 16, heavy=300)
    assert misplaced(df, names, mapping) == 0


def test_the_instance_column_is_what_the_mapping_assigns(spark):
    df = spark.createDataFrame([Row(key=f"user {i}") for i in range(500)])
    names, mapping = mapping_for(df, "key", 12)
    rows = with_instance(df, mapping, names, "instance").collect()
    assert [row.instance for row in rows] == mapping.assign([row.key for row in rows]).tolist()


def test_floats_that_are_equal_as_keys_have_one_slot(spark):
    df = spark.sql("select col as key from values (0.0D), (-0.0D), (double('nan')), (-double('nan')) as t(col)")
    names, mapping = mapping_for(df, "key", 64, heavy=1)
    slots = [row.slot for row in with_slot(df, mapping, names, "slot").collect()]
    assert slots[0] == slots[1]
    assert slots[2] == slots[3]


def test_placement_leaves_no_column_of_its_own(spark):
    df = spark.range(10).select(F.col("id").alias("key"), F.lit("2020").alias("day"))
    names, mapping = mapping_for(df, "key", 4)
    assert with_slot(df, mapping, names, "slot").columns == ["key", "day", "slot"]


def test_a_mapping_learnt_in_python_on_the_same_ids_agrees_with_spark(spark):
    keys = [f"airport {i % 37}" for i in range(2_000)]
    mapping = DKG(4, ids="xxhash64").fit(keys).mapping(columns=("key",))
    df = spark.createDataFrame([(key, decimal.Decimal(1)) for key in keys], "key string, amount decimal(5,1)")
    rows = with_instance(df, mapping, ("key",), "instance").select("key", "instance").distinct().collect()
    assert all(mapping.assign([row.key])[0] == row.instance for row in rows)
