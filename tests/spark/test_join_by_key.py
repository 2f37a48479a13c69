"""`join_by_key` gives the rows of Spark's own join, wherever it places them."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import datetime
from decimal import Decimal

import numpy as np
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import ColumnConflict, InvalidKeys, InvalidParameter, StreamingMismatch, UnknownColumn
from evenly.keys.joins import MAY_SPLIT
from evenly.keys.mapping import Mapping
from evenly.keys.split_mapping import SplitMapping
from evenly.spark.jvm.shuffled_again import executed_plan
from evenly.spark.keyed.split import numbered
from evenly.spark.keyed.telling_apart import what_spreads

INSTANCES = 4
THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"


@pytest.fixture(autouse=True)
def nothing_is_broadcast(spark):
    before = spark.conf.get(THRESHOLD)
    spark.conf.set(THRESHOLD, "-1")
    yield
    spark.conf.set(THRESHOLD, before)


def counted(df):
    return Counter(repr(row.asDict(recursive=True)) + repr(row.__fields__) for row in df.collect())


def ids_of(df, name="k"):
    return np.array([row[0] for row in df.select(F.xxhash64(name)).distinct().collect()], np.int64).view(np.uint64)


def all_split(df, name="k", types=()):
    """A mapping under which every key of `df` is on all instances but the first."""
    ids = np.sort(ids_of(df, name))
    parts = np.tile(np.arange(1, INSTANCES, dtype=np.int32), ids.size)
    light = Mapping(instances=INSTANCES, buckets=np.arange(4, dtype=np.int32), a=0, b=0, ids="xxhash64", types=types)
    starts = np.arange(0, parts.size + 1, INSTANCES - 1)
    return SplitMapping(light=light, split=ids, starts=starts, parts=parts, part_loads=np.ones(parts.size))


@pytest.fixture(scope="module")
def sides(spark):
    """Two sides of one kind: duplicates, nulls, keys of one side alone, values that are null, and a column both have."""

    def made(columns, seed):
        rows = [("hot", n % 9, n % 2 or None) for n in range(25 + seed)] + [(f"k{n % 5}", n, n) for n in range(12)]
        rows += [(None, 7, 7), (None, 7, 7), (None, seed, None), (f"only {seed}", 1, 1), ("k1", None, None)]
        return spark.createDataFrame(rows, columns).repartition(3).persist()

    left, right = made("k string, v int, same int", 0), made("k string, w int, same int", 1)
    yield left, right
    left.unpersist()
    right.unpersist()


@pytest.mark.parametrize("how", [*MAY_SPLIT])
def test_every_kind_of_join_is_sparks_own_whichever_side_is_split(sides, how):
    left, right = sides
    plain = left.join(right, "k", how)
    mapping = all_split(left)
    for empty in ("neither", "left", "right"):
        one, two = (df.limit(0) if empty == side else df for side, df in (("left", left), ("right", right)))
        wanted = counted(plain if empty == "neither" else one.join(two, "k", how))
        for split in MAY_SPLIT[how] or (None,):
            got = evenly.join_by_key(one, two, on="k", how=how, instances=INSTANCES, mapping=mapping, split=split)
            assert got.schema == plain.schema
            assert counted(got) == wanted, (empty, split)
            if empty == "neither":
                assert got.rdd.getNumPartitions() == INSTANCES


def test_a_hot_key_is_split_others_are_whole_and_spark_shuffles_once(sides):
    left, right = sides
    for how in ("left", "semi", "anti"):
        got = evenly.join_by_key(left, right, on="k", how=how, instances=INSTANCES, tolerance_pct=None)
        found = got.select("k", F.spark_partition_id().alias("at")).distinct().collect()
        on = Counter(row.k for row in found)
        if how != "anti":
            assert on["hot"] > 1
        else:
            assert on[None] > 1  # rows without a key are no hot spot
        assert all(many == 1 for key, many in on.items() if key not in ("hot", None))
        plan = str(executed_plan(got).toString())
        assert plan.count("Exchange shufflepartitionidpassthrough") == 2
        assert "hashpartitioning" not in plan


def test_plans_say_what_is_done_and_why(spark, sides, caplog):
    left, right = sides
    how = {"on": "k", "how": "left", "instances": INSTANCES}
    with caplog.at_level(logging.INFO, "evenly"):
        plan = evenly.plan_join(left, right, **how, tolerance_pct=None)
        assert (plan.way, plan.side, plan.split_keys) == ("split", "left", 1)
        assert plan.copies == len(plan.mapping.shares(int(plan.mapping.split[0]))) - 1
        again = evenly.plan_join(left, right, **how, mapping=plan.mapping)
        assert again.mapping == plan.mapping
        assert evenly.plan_join(left, right, on="k", how="full", instances=2, tolerance_pct=None).way == "whole"
        even = spark.range(4_000).select((F.col("id") % 2_000).alias("k"), "id")
        hashed = evenly.join_by_key(even, even.withColumnRenamed("id", "w"), on="k", instances=1, tolerance_pct=None)
        assert "join_by_key: hash: no key is hot" in caplog.text
        assert hashed.count() == 8_000
        spark.conf.set(THRESHOLD, "10m")
        assert evenly.plan_join(left, right, **how).way == "broadcast"
        assert evenly.join_by_key(left, right, **how).columns == left.join(right, "k", "left").columns
        assert "join_by_key: broadcast" in caplog.text


def test_an_instance_is_looked_up_once_and_keys_lead_where_rows_are_sorted(sides):
    """What a short join pays beyond Spark's own are changes of frames, and tables that every task carries."""
    left, right = sides
    got = evenly.join_by_key(left, right, on="k", how="inner", split="left", instances=INSTANCES, mapping=all_split(left))
    told = str(executed_plan(got).toString())
    assert told.count("Sort [k#") == 2
    assert told.count("Exchange shufflepartitionid") == 2
    split = all_split(left)
    ids = np.concatenate([split.split, np.arange(5, dtype=np.uint64)])
    codes = numbered(split).assign_ids(ids)
    assert (codes[: split.split.size] == INSTANCES + np.arange(split.split.size)).all()
    assert (codes[split.split.size :] == split.light.assign_ids(ids[split.split.size :])).all()


def test_keys_stay_whole_where_nothing_stable_tells_their_rows_apart(sides, caplog):
    left, right = sides
    for odd, options in (
        (left.select("k"), {}),
        (left.select("k", F.col("v").cast("double").alias("v")), {}),
        (left.withColumn("r", F.rand()), {}),
        (left.withColumn("r", F.rand()), {"spread_on": ["v", "same"]}),
        (left.select("k").coalesce(1), {"spread_on": "position"}),
    ):
        caplog.clear()
        plan = evenly.plan_join(odd, right, on="k", how="left", instances=INSTANCES, tolerance_pct=None, **options)
        assert plan.way == ("split" if options else "whole")
        assert ("nothing is known to tell rows of one apart" in plan.why) == (not options)
        assert ("hot keys stay whole" in caplog.text) == (not options)
    got = evenly.join_by_key(odd, right, on="k", how="left", instances=INSTANCES, mapping=plan.mapping, spread_on="position")
    assert counted(got) == counted(odd.join(right, "k", "left"))


@pytest.mark.parametrize(
    ("made", "same"),
    [
        (lambda df: df.dropDuplicates(["k"]), False),
        (lambda df: df.groupBy("k").agg(F.first("v").alias("v")), False),
        (lambda df: df.groupBy("k").agg(F.sort_array(F.collect_list("v")).alias("v")), False),
        (lambda df: df.join(df.groupBy("k").agg(F.max_by("same", "v").alias("m")), "k"), False),
        (lambda df: df.selectExpr("*", "row_number() over (partition by k order by same) as n"), False),
        (lambda df: df.selectExpr("*", "sum(v) over (partition by k order by same rows 1 preceding) as n"), False),
        (lambda df: df.groupBy("k").applyInPandas(list, "k string, n int"), False),
        (lambda df: df.mapInArrow(list, "k string, n int").where("n > 3"), False),
        (lambda df: df.sparkSession.range(9).where("id > 3").mapInArrow(list, "k string, n int"), True),
        (lambda df: df.sparkSession.createDataFrame(df.rdd.map(tuple), df.schema), False),
        (lambda df: df.groupBy("k").agg(F.hll_sketch_agg("v").alias("n")), False),
        (lambda df: df.selectExpr("*", "sum(v) over (partition by k order by same) as n"), True),
        (lambda df: df.selectExpr("*", "sum(v) over (partition by k) as n"), True),
        (lambda df: df.distinct().groupBy("k", "same").agg(F.max("v").alias("first"), F.count("*").alias("row_number")), True),
    ],
)
def test_rows_are_not_told_apart_by_what_depends_on_their_order(sides, made, same):
    """A retried task would send a row elsewhere than before: it would be lost, or there twice."""
    assert bool(what_spreads(made(sides[0]), ("k",))) == same


def test_pairs_of_names_keep_both_columns_as_a_join_by_an_expression_does(sides):
    left, right = sides
    named = right.select(F.struct(F.col("k").alias("a.b")).alias("who"), "w").withColumn("id", F.col("who.`a.b`"))
    for how in ("inner", "full", "semi", "anti"):
        plain = left.join(named, left.k == named.id, how)
        for on in ({"k": "id"}, [("k", "who.`a.b`")]):
            got = evenly.join_by_key(left, named, on=on, how=how, instances=INSTANCES, mapping=all_split(left))
            assert got.schema == plain.schema
            assert counted(got) == counted(plain)


def test_a_frame_joined_with_itself_and_columns_of_one_name(sides):
    left, _ = sides
    twice = left.select("*", F.col("v").alias("v"))
    for one, two, on in ((left, left, ["k", "same"]), (left.where("v > 3"), left, "k"), (twice, left, "K"), (left, twice, "k")):
        plain = one.join(two, on, "left")
        got = evenly.join_by_key(one, two, on=on, how="left", instances=INSTANCES, tolerance_pct=None)
        assert got.columns == plain.columns
        assert sorted(map(repr, map(tuple, got.collect()))) == sorted(map(repr, map(tuple, plain.collect())))


ODD = {
    "int": ("int", [1, 2, 2, None]),
    "bigint": ("bigint", [1, 2, 2, None]),
    "float": ("float", [0.0, -0.0, float("nan"), 1.5]),
    "double": ("double", [0.0, -0.0, float("nan"), 1.5]),
    "decimal": ("decimal(10,2)", [Decimal("1.00"), Decimal("1.50"), None]),
    "wide": ("decimal(22,4)", [Decimal("1.00"), Decimal("1.50"), None]),
    "timestamp_ntz": ("timestamp_ntz", [datetime(2020, 1, 1), None]),  # noqa: DTZ001 - it has no zone
    "binary": ("binary", [bytearray(b"a"), bytearray(b""), None]),
    "array": ("array<int>", [[1, None], [], None]),
    "struct": ("struct<a: int, b: string>", [(1, None), (None, None), None]),
}


@pytest.mark.parametrize(("one", "two"), [(it, it) for it in ODD] + [("int", "bigint"), ("double", "int"), ("wide", "decimal")])
def test_odd_and_mixed_types_of_keys(spark, one, two):
    frames = []
    for kind, value in ((one, "v"), (two, "w")):
        column, values = ODD[kind]
        rows = [(key, n) for n in range(3) for key in values]
        frames.append(spark.createDataFrame(rows, f"`a.b` {column}, {value} int"))
    left, right = frames
    shared = "bigint" if "bigint" in (one, two) else "double" if one == "double" else ODD[one][0]
    mapping = all_split(left.select(F.col("`a.b`").cast(shared).alias("k")))
    for how in ("full", "anti"):
        plain = left.join(right, "a.b", how)
        got = evenly.join_by_key(left, right, on="a.b", how=how, instances=INSTANCES, mapping=mapping)
        assert got.schema == plain.schema
        assert counted(got) == counted(plain)


def test_what_cannot_be_joined_is_refused_before_anything_runs(spark, sides):
    left, right = sides
    texts = right.select(F.col("w").alias("k"), "same")

    def call(one=left, two=right, **options):
        return evenly.join_by_key(one, two, **{"on": "k", "instances": INSTANCES, **options})

    for wrong, error, told in (
        ({"how": "cross"}, InvalidParameter, "how must be"),
        ({"how": "full", "split": "left"}, InvalidParameter, "left side of a full join cannot be split"),
        ({"how": "left", "split": "right"}, InvalidParameter, "give split='left'"),
        ({"on": "no"}, UnknownColumn, "no column 'no' on the left side"),
        ({"on": []}, InvalidParameter, "on must be"),
        ({"on": F.col("k")}, InvalidParameter, "on must be"),
        ({"on": ["k", ("k", "k")]}, InvalidParameter, "on must be"),
        ({"on": {"v": "k"}}, InvalidParameter, "is int in the first DataFrame and string"),
        ({"instances": 0}, InvalidParameter, "instances"),
        ({"two": texts}, InvalidParameter, "is string in the first DataFrame and int in DataFrame 2"),
        ({"two": right.select("k", F.col("w").alias("K"))}, ColumnConflict, "2 columns"),
        ({"mapping": "users.json"}, InvalidParameter, "Mapping.load"),
        ({"mapping": all_split(left), "instances": 5}, InvalidParameter, "for 4 instances, not for 5"),
        ({"mapping": all_split(left, types=("bigint",))}, InvalidParameter, "the mapping is for bigint"),
        ({"spread_on": "k"}, InvalidParameter, "names the key alone"),
        ({"one": "orders"}, InvalidParameter, "left must be a DataFrame"),
        ({"two": spark.readStream.format("rate").load()}, StreamingMismatch, "the right side is a stream"),
        ({"one": left.withColumn("k", F.create_map("k", "v"))}, InvalidKeys, "does not hash"),
    ):
        with pytest.raises(error, match=told):
            call(**wrong)
