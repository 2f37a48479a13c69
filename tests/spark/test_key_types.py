"""Types of keys and results: one mapping for two sides or none, and results that are Spark's own or refused with the column."""

import sys

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PythonException
from pyspark.sql import functions as F

import evenly
from evenly.errors import InvalidParameter
from evenly.keys.dkg import DKG
from evenly.keys.hot_keys import split_hot_keys
from evenly.spark.placing.mapping_check import hashed_alike

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

COUNTS = evenly.Merging(partial=len, merge=lambda parts: pd.DataFrame({"n": [sum(parts)]}), schema="n bigint")


def by_hash(instances):
    return DKG.automatic(instances, ids="xxhash64").mapping()


TWO_TYPES = {
    "tinyint int": "7",
    "int bigint": "7",
    "float double": "1.5",
    "decimal(10,2) decimal(12,2)": "1.25",
    "decimal(10,2) decimal(12,3)": "1.25",
    "decimal(18,2) decimal(20,2)": "1.25",
    "decimal(20,2) decimal(38,2)": "1.25",
    "timestamp timestamp_ntz": "timestamp_ntz'2024-07-01 12:00:00'",
    "date timestamp": "date'2024-07-01'",
    "struct<a:int> struct<a:bigint>": "named_struct('a', 7)",
    "array<smallint> array<int>": "array(7)",
}


def test_the_types_that_are_said_to_hash_alike_do_so_on_spark_and_no_others(spark):
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for kinds, value in TWO_TYPES.items():
            one, other = kinds.split()
            hashes = [f"xxhash64(cast({value} as {kind})), hash(cast({value} as {kind}))" for kind in (one, other)]
            row = spark.sql(f"select {', '.join(hashes)}").collect()[0]
            assert (tuple(row[:2]) == tuple(row[2:])) == hashed_alike(one, other), kinds
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_sides_whose_keys_have_other_names_meet_under_one_mapping(spark):
    orders = spark.range(400).selectExpr("cast(sqrt(id) as bigint) as user_id", "id as order")
    users = spark.range(20).selectExpr("id", "concat('u', id) as name")
    mapping = evenly.learn_mapping(orders, key="user_id", instances=4)
    left = evenly.by_key(orders, key="user_id", instances=4, mapping=mapping)
    right = evenly.by_key(users, key="id", instances=4, mapping=mapping)
    assert left.join(right, (left.user_id == right.id) & (left.slot == right.slot)).count() == 400


def test_every_call_that_takes_a_mapping_refuses_keys_that_hash_otherwise(spark):
    orders = spark.range(100).selectExpr("cast(id % 9 as int) as user", "id")
    users = spark.range(9).selectExpr("id as user", "id as other")
    mapping = evenly.learn_mapping(orders, key="user", instances=4)
    assert mapping.types == ("int",)
    calls = {
        "by_key": lambda: evenly.by_key(users, key="user", instances=4, mapping=mapping),
        "fit_on": lambda: evenly.by_key(users, key="user", instances=4, fit_on=orders),
        "split_by_key": lambda: evenly.split_by_key(users, key="user", instances=4, mapping=mapping),
        "a split mapping": lambda: evenly.split_by_key(users, key="user", instances=4, mapping=split_hot_keys(mapping)),
        "aggregate_by_key": lambda: evenly.aggregate_by_key(users, COUNTS, key="user", instances=4, mapping=mapping),
        "apply_by_key": lambda: evenly.apply_by_key(users, len, "n int", key="user", instances=4, mapping=mapping),
    }
    for call in calls.values():
        with pytest.raises(InvalidParameter, match=r"key column 'user' is bigint, and the mapping is for int \(user\)"):
            call()


def test_texts_that_spark_fills_up_to_different_lengths_are_refused_with_what_helps(spark, tmp_path):
    for name, kind in (("five", "char(5)"), ("eight", "char(8)")):
        spark.sql(f"create table {name} (k {kind}, n int) using parquet location '{tmp_path / name}'")
        spark.sql(f"insert into {name} values ('ab', 1), ('cd', 2)")
    try:
        five, eight = spark.table("five"), spark.table("eight")
        plain = five.join(eight, "k").count()
        mapping = evenly.learn_mapping(eight, key="k", instances=4)
        with pytest.raises(InvalidParameter, match=r"is char\(5\).*functions\.rpad\('k', 8, ' '\)"):
            evenly.by_key(five, key="k", instances=4, mapping=mapping)
        filled = evenly.by_key(five.withColumn("k", F.rpad("k", 8, " ")), key="k", instances=4, mapping=mapping)
        placed = evenly.by_key(eight, key="k", instances=4, mapping=mapping)
        assert filled.join(placed, ["k", "slot"]).count() == plain == 2
    finally:
        spark.sql("drop table five")
        spark.sql("drop table eight")


MADE = {
    "x decimal(10,2)": pa.array([None], pa.decimal128(10, 3)),
    "x timestamp": pa.array([0], pa.timestamp("us")),
    "x timestamp_ntz": pa.array([0], pa.timestamp("us", "UTC")),
    "x bigint": pa.array([1], pa.int32()),
    "x date": pa.array([0], pa.date64()),
    "x string": pa.array([b"a"]),
    "x array<bigint>": pa.array([[1]], pa.list_(pa.int32())),
    "x struct<a:bigint>": pa.array([{"b": 1}]),
}


@pytest.mark.parametrize("schema", ["x decimal(10,2)", "x timestamp"])
def test_a_table_of_another_type_is_refused_as_in_apply_in_arrow(spark, schema):
    df = spark.range(2).selectExpr("id % 1 as k")

    def make(_: pa.Table) -> pa.Table:
        return pa.table({"x": MADE[schema]})

    with pytest.raises(PythonException, match="RESULT_COLUMN_TYPES_MISMATCH"):
        df.groupBy("k").applyInArrow(make, schema).collect()
    with pytest.raises(PythonException, match=r"column 'x' of the function's table is .*, and the schema has"):
        evenly.apply_by_key(df, make, schema, key="k", instances=1, mapping=by_hash(1), arrow=True).collect()


def test_all_types_that_spark_refuses_are_refused(spark):
    from evenly.errors import InvalidResult
    from evenly.spark.keyed.results import Results
    from evenly.worker.groups.tables import checked_result

    for schema, values in MADE.items():
        with pytest.raises(InvalidResult, match="column 'x'"):
            checked_result(pa.table({"x": values}), Results.of(spark, schema).arrow)


def test_columns_are_taken_by_position_where_the_session_says_so(spark):
    df = spark.range(4).selectExpr("id % 2 as k", "id as v")
    setting = "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName"
    spark.conf.set(setting, "false")
    try:

        def frame(_: pd.DataFrame) -> pd.DataFrame:
            return pd.DataFrame({"b": [1], "a": [2]})

        def table(_: pa.Table) -> pa.Table:
            return pa.table({"b": [1], "a": [2]})

        schema = "a bigint, b bigint"
        theirs = df.groupBy("k").applyInPandas(frame, schema).collect()
        assert evenly.apply_by_key(df, frame, schema, key="k", instances=2, mapping=by_hash(2)).collect() == theirs
        assert evenly.apply_by_key(df, table, schema, key="k", instances=2, mapping=by_hash(2), arrow=True).collect() == theirs
        ours = evenly.aggregate_by_key(df, evenly.Merging(frame, None, schema), key="k", instances=2, mapping=by_hash(2))
        assert ours.drop("k").collect() == theirs
    finally:
        spark.conf.unset(setting)


KEYS = {
    "both zeros in arrays": "array(if(id % 2 = 0, -0.0D, 0.0D), double(id % 3))",
    "both zeros in structs": "if(id % 5 = 0, null, named_struct('a', if(id % 2 = 0, -0.0D, 0.0D), 'b', array(float(-0.0))))",
    "a repeated hour": "timestamp_seconds(1729989000 + 3600 * (id % 2))",
    "a repeated hour in a struct": "named_struct('t', timestamp_seconds(1729989000 + 3600 * (id % 2)))",
    "nothing": "null",
    "days": "make_dt_interval(cast(id % 4 as int), 1)",
    "exact": "cast(id % 4 / 7 as decimal(38,10))",
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_come_back_as_grouping_by_them_gives_them_also_where_they_are_split(spark, kind):
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        df = spark.range(200).selectExpr(f"{KEYS[kind]} as k", "id")
        theirs = sorted(repr(tuple(row)) for row in df.groupBy("k").agg(F.count("*").alias("n")).collect())
        plan = split_hot_keys(evenly.learn_mapping(df, key="k", instances=8))
        assert plan.needs_merge
        merged = evenly.aggregate_by_key(df, COUNTS, key="k", instances=8, mapping=plan)
        assert sorted(repr(tuple(row)) for row in merged.collect()) == theirs

        def count(group: pa.Table) -> pa.Table:
            return pa.table({"n": pa.array([group.num_rows], pa.int64())})

        applied = evenly.apply_by_key(df, count, "n bigint", key="k", instances=2, mapping=by_hash(2), arrow=True)
        counted = sorted(row.n for row in df.groupBy("k").agg(F.count("*").alias("n")).collect())
        assert sorted(row.n for row in applied.collect()) == counted
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("held", ["parse_json('1')", "array(named_struct('a', parse_json('1')))", "map('a', parse_json('1'))"])
def test_an_aggregate_refuses_what_its_function_would_not_get_as_from_apply_in_pandas(spark, held):
    df = spark.range(4).selectExpr("id % 2 as k", f"{held} as x")
    with pytest.raises(InvalidParameter, match=r"does not hand over x \(.*variant.*\): drop them, or"):
        evenly.aggregate_by_key(df, COUNTS, key="k", instances=2)


def test_frames_of_an_aggregate_become_what_apply_in_pandas_makes_of_them(spark):
    from datetime import datetime
    from decimal import Decimal

    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        df = spark.range(4).selectExpr("id % 2 as k", "id")
        nested = "nested struct<t: timestamp, m: map<string, timestamp>>, several array<timestamp>"
        schema = f"price decimal(10,2), at timestamp, {nested}"

        def frame(_: pd.DataFrame) -> pd.DataFrame:
            noon = datetime(2024, 7, 1, 12)  # noqa: DTZ001 - in the session's zone
            row = {"price": Decimal("1.2"), "at": noon, "nested": {"t": noon, "m": {"a": noon}}, "several": [noon, None]}
            return pd.DataFrame([row])

        theirs = df.groupBy("k").applyInPandas(frame, schema).collect()
        for merging in (evenly.Merging(frame, None, schema), evenly.Merging(len, frame, schema)):
            ours = evenly.aggregate_by_key(df, merging, key="k", instances=2, mapping=by_hash(2))
            assert ours.drop("k").collect() == theirs
        wrong = evenly.Merging(lambda _: pd.DataFrame({"n": ["x"]}), None, "n int")
        with pytest.raises(PythonException, match=r"column 'n' of the function's frame is .*, and the schema has int32"):
            evenly.aggregate_by_key(df, wrong, key="k", instances=2, mapping=by_hash(2)).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_numbers_that_do_not_fit_are_cut_off_only_where_spark_would_do_so(spark):
    """Its own default counts where the session says nothing, and that is another one in other releases."""
    df, setting = spark.range(2).selectExpr("id as k"), "spark.sql.execution.pandas.convertToArrowArraySafely"

    def frame(_: object) -> pd.DataFrame:
        return pd.DataFrame({"n": [2**32 + 5]})

    ours = evenly.aggregate_by_key(df, evenly.Merging(len, frame, "n int"), key="k", instances=2, mapping=by_hash(2))
    for asked in (ours, df.groupBy("k").applyInPandas(frame, "n int")):
        with pytest.raises(PythonException, match=r"2\^32|4294967301"):
            asked.collect()
    spark.conf.set(setting, "false")
    try:
        cut = evenly.aggregate_by_key(df, evenly.Merging(len, frame, "n int"), key="k", instances=2, mapping=by_hash(2))
        assert cut.drop("k").collect() == df.groupBy("k").applyInPandas(frame, "n int").collect()
    finally:
        spark.conf.unset(setting)
