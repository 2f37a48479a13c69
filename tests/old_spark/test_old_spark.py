"""The whole of batch key grouping, in short, on a Spark without `repartitionById`."""

import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import Window
from pyspark.sql import functions as F

import evenly
from evenly.spark.keyed.keys import key_id

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

INSTANCES = 4
KEYS = {
    "boolean": "n % 2 = 0",
    "tinyint": "cast(n as tinyint)",
    "int": "cast(n as int)",
    "bigint": "(n - 50) * 1000000000000000",
    "double": "n / 8 - 3",
    "decimal": "cast(n / 4 as decimal(10,2))",
    "wide decimal": "cast(n * 100000000000000000000BD as decimal(38,3))",
    "string": "concat('é ', n)",
    "binary": "cast(concat('b', n) as binary)",
    "date": "date_add(date'2020-01-01', cast(n as int))",
    "timestamp": "timestamp_seconds(n * 86401)",
    "timestamp_ntz": "cast(timestamp_seconds(n * 86401) as timestamp_ntz)",
    "array": "array(n, n + 1)",
    "struct": "named_struct('a', n, 'b', concat('x', n))",
}


@pytest.fixture(scope="module")
def visits(spark):
    user = F.concat(F.lit("user "), F.floor(F.sqrt(F.col("id") % 2_500)))
    rows = spark.range(5_000).select(F.when(F.col("id") % 50 != 7, user).alias("user"), F.col("id").alias("amount"))
    return rows.withColumn("half", F.when(F.col("amount") % 3 > 0, F.col("amount"))).persist()


@pytest.fixture(scope="module")
def mapping(visits):
    return evenly.learn_mapping(visits, key="user", instances=INSTANCES)


def rows_of(df):
    return sorted((tuple(row) for row in df.collect()), key=repr)


def place(df, mapping, **options):
    return df.transform(evenly.by_key, key="user", instances=INSTANCES, mapping=mapping, **options)


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("slot", ["slot", None])
def test_rows_are_on_their_instance_with_and_without_a_slot(spark, visits, mapping, slot, adaptive):
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    placed = place(visits, mapping, slot=slot)
    assert placed.columns == [*visits.columns, *([slot] if slot else [])]
    rows = placed.select("user", F.spark_partition_id().alias("at")).collect()
    assert len(rows) == 5_000
    assert mapping.assign([row.user for row in rows]).tolist() == [row.at for row in rows]


def test_without_a_slot_a_column_of_that_name_stays(visits, mapping):
    named = visits.withColumnRenamed("amount", "Slot")
    assert rows_of(place(named, mapping, slot=None)) == rows_of(named)


def test_operators_give_sparks_results_without_a_second_shuffle(visits, mapping):
    placed = place(visits, mapping)
    for ours, theirs in (
        (
            placed.groupBy("user", "slot").agg(F.sum("amount").alias("n")),
            visits.groupBy("user").agg(F.sum("amount").alias("n")),
        ),
        (
            placed.withColumn("n", F.rank().over(Window.partitionBy("user", "slot").orderBy("amount"))),
            visits.withColumn("n", F.rank().over(Window.partitionBy("user").orderBy("amount"))),
        ),
    ):
        assert rows_of(ours.select("user", "n")) == rows_of(theirs.select("user", "n"))
        assert ours._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0].count("Exchange") == 1


@pytest.mark.parametrize("kind", KEYS)
def test_no_key_of_any_type_is_misplaced(spark, kind):
    df = spark.range(100).selectExpr("id as n").selectExpr(f"if(n % 11 = 0, null, {KEYS[kind]}) as key")
    learnt = evenly.learn_mapping(df, key="key", instances=INSTANCES)
    placed = df.transform(evenly.by_key, key="key", instances=INSTANCES, mapping=learnt)
    rows = placed.select(key_id(("key",)).alias("id"), F.spark_partition_id().alias("at")).collect()
    assert len(rows) == 100
    assert learnt.assign_ids(np.array([row.id for row in rows]).view(np.uint64)).tolist() == [row.at for row in rows]


def describe(key, group):
    seen = sorted(repr(row) for row in group.itertuples(index=False, name=None))
    return pd.DataFrame({"key": [repr(key)], "types": [repr(list(map(str, group.dtypes)))], "rows": [repr(seen)]})


def test_grouped_functions_see_what_sparks_own_show_them(visits):
    schema = "key string, types string, rows string"
    ours = evenly.apply_by_key(visits, describe, schema, key="user", instances=INSTANCES)
    assert rows_of(ours) == rows_of(visits.groupBy("user").applyInPandas(describe, schema))


def test_grouped_functions_over_tables(visits):
    def count(key, group):
        return pa.table({"user": pa.array([key[0].as_py()], pa.string()), "n": pa.array([group.num_rows], pa.int64())})

    ours = evenly.apply_by_key(visits, count, "user string, n bigint", key="user", instances=INSTANCES, arrow=True)
    assert rows_of(ours) == rows_of(visits.groupBy("user").count())


def test_a_stream_is_placed_without_a_slot_too(spark, visits, mapping, tmp_path):
    visits.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(visits.schema).parquet(str(tmp_path / "in"))
    counted = place(stream, mapping).groupBy("user", "slot").count()
    query = counted.writeStream.format("memory").queryName("counted").outputMode("complete").trigger(availableNow=True).start()
    query.awaitTermination()
    assert rows_of(spark.table("counted").select("user", "count")) == rows_of(visits.groupBy("user").count())
