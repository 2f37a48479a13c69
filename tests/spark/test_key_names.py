"""Keys and columns of any name: every operation gives what plain Spark gives, and no column of the user is lost."""

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import ColumnConflict, InvalidParameter, KeyTooHot, UnknownColumn
from evenly.keys.dkg import DKG
from evenly.keys.hot_keys import split_hot_keys
from evenly.spark.keyed.keys import key_names
from evenly.spark.placing.placement import with_slot_of_window

INSTANCES = 4
COUNTS = evenly.Merging(partial=len, merge=lambda partials: pd.DataFrame({"number": [sum(partials)]}), schema="number bigint")
NAMES = {
    "a.b": ("a.b", "`a.b`"),
    "a`b ü": ("a`b ü",),
    "Id": ("ID",),
    "__evenly_step_routed": ("__evenly_step_routed",),
    "key_0": ("key_0",),
    "select": ("select",),
    "${spark.app.name}": ("${spark.app.name}",),
}


@pytest.fixture(scope="module")
def rows(spark):
    """Half of the rows of one key, and columns that are called as Evenly calls its own."""
    key = F.when(F.col("id") % 2 == 0, 7).otherwise(F.col("id") % 9)
    own = [F.col("id").alias(name) for name in ("__evenly_instance", "__evenlysplit_number", "home", "1st x.y", "n")]
    return spark.range(360, numPartitions=1).select(key.alias("the key"), *own).persist()


def counted(df, name):
    return sorted((row[0], row[-1]) for row in df.select(name, "number").collect())


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in NAMES.items() for key in keys])
def test_a_key_of_any_name_is_placed_split_aggregated_and_applied_as_in_spark(rows, name, key):
    df = rows.withColumnRenamed("the key", name)
    quoted = "`" + name.replace("`", "``") + "`"
    theirs = counted(df.groupBy(F.col(quoted)).agg(F.count("*").alias("number")), quoted)
    mapping = evenly.learn_mapping(df, key=key, instances=INSTANCES)
    assert mapping.columns in {(key,), (quoted,)}
    placed = evenly.by_key(df, key=key, instances=INSTANCES, mapping=mapping)
    assert placed.columns == [*df.columns, "slot"]
    assert counted(placed.groupBy(F.col(quoted), "slot").agg(F.count("*").alias("number")), quoted) == theirs
    unslotted = evenly.by_key(df, key=key, instances=INSTANCES, mapping=mapping, slot=None)
    assert unslotted.columns == df.columns
    split = evenly.split_by_key(df, key=key, instances=INSTANCES, mapping=mapping)
    assert split.columns == [*df.columns, "part"]
    merged = evenly.aggregate_by_key(df, COUNTS, key=key, instances=INSTANCES, mapping=mapping)
    assert counted(merged, quoted) == theirs
    columns = df.columns

    def count(key: tuple, group: pd.DataFrame) -> pd.DataFrame:
        assert group.columns.tolist() == columns
        return pd.DataFrame({"key": [key[0]], "number": [len(group)]})

    applied = evenly.apply_by_key(df, count, "key bigint, number bigint", key=key, instances=INSTANCES, mapping=mapping)
    assert counted(applied, "key") == theirs


def test_rows_keep_all_their_values_beside_columns_that_look_like_evenlys(rows):
    mapping = evenly.learn_mapping(rows, key="the key", instances=INSTANCES)
    wanted = sorted(map(tuple, rows.collect()))
    for placed in (
        evenly.by_key(rows, key="the key", instances=INSTANCES, mapping=mapping, slot="a.slot"),
        evenly.by_key(rows, key="the key", instances=INSTANCES, mapping=mapping, slot=None),
        evenly.split_by_key(rows, key="the key", instances=INSTANCES, mapping=mapping),
    ):
        assert sorted(tuple(row)[:6] for row in placed.collect()) == wanted


@pytest.mark.parametrize("name", ["id", "rows"])
def test_a_hot_key_of_any_name_is_told(rows, name):
    df = rows.select(F.col("the key").alias(name), "n")
    whole = evenly.Merging(partial=lambda group: pd.DataFrame({"number": [len(group)]}), merge=None, schema="number int")
    with pytest.raises(KeyTooHot, match=r"7 with 5\d\.\d %"):
        evenly.aggregate_by_key(df, whole, key=name, instances=8)
    diagnosis = evenly.diagnose_keys(df, key=name, instances=4)
    assert diagnosis.heaviest[0].rows == 200


def test_names_are_no_patterns_where_a_setting_makes_patterns_of_names_in_back_quotes(spark):
    session = spark.newSession()
    session.conf.set("spark.sql.parser.quotedRegexColumnNames", "true")
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    rows = session.range(0, 300, 1, 2).selectExpr("id", "if(id % 3 = 0, 0, id % 11) as `a.b`", "id % 7 as axb")
    counts = [
        {row[0]: row[1] for row in it.collect()}
        for it in (
            rows.groupBy(F.col("`a.b`")).count(),
            evenly.by_key(rows, key="a.b", instances=3).groupBy(F.col("`a.b`"), "slot").agg(F.count("*")).drop("slot"),
            evenly.aggregate_by_key(rows, COUNTS, key="a.b", instances=3),
        )
    ]
    assert counts[0] == counts[1] == counts[2]
    other = session.range(13).selectExpr("id as z", "id % 2 as ayb")
    joined = evenly.join_by_key(rows, other, on={"a.b": "z"}, how="left", instances=3)
    assert joined.where("z is null").count() == 0


def test_a_column_without_a_name_may_be_the_key(spark):
    rows = spark.range(20).selectExpr("id % 3", "id").toDF("", "v")
    assert evenly.by_key(rows, key="", instances=2).groupBy(F.col("``"), "slot").count().count() == 3


def test_a_column_wins_over_a_field_and_fields_may_be_quoted(spark):
    df = spark.range(8).select(
        F.struct(F.col("id").alias("b"), F.struct(F.col("id").alias("d")).alias("c.c")).alias("a"), F.lit("x").alias("a.b")
    )
    assert key_names(df, "a.b") == ("`a.b`",)
    assert key_names(df, ["`a`.b", "a.`c.c`.d"]) == ("a.b", "a.`c.c`.d")
    assert key_names(df.drop("a.b"), "a.b") == ("a.b",)
    for wrong in ("a.x", "`a", "a..b", "", "a.`c.c`.d.e"):
        with pytest.raises(UnknownColumn, match="there is no column"):
            key_names(df.drop("a.b"), wrong)
    with pytest.raises(InvalidParameter, match="names a column twice"):
        key_names(df, ["a.b", "`a.b`"])


def test_two_fields_of_one_name_are_two_columns_of_the_result(spark):
    df = spark.range(40).selectExpr("named_struct('u', id % 2) as a", "named_struct('u', id % 3) as b", "id")
    ours = evenly.aggregate_by_key(df, COUNTS, key=["a.u", "b.u"], instances=2)
    assert ours.columns == ["u", "u", "number"]
    assert sorted(map(tuple, ours.collect())) == sorted(map(tuple, df.groupBy("a.u", "b.u").count().collect()))


def test_names_that_differ_in_case_alone_are_two_where_case_counts(spark):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        df = spark.range(60).selectExpr("id % 3 as k", "id % 5 as K", "id")
        for key in ("k", "K"):
            ours = evenly.aggregate_by_key(df, COUNTS, key=key, instances=2)
            assert sorted(map(tuple, ours.collect())) == sorted(map(tuple, df.groupBy(key).count().collect()))
        counts = evenly.Merging(len, lambda partials: pd.DataFrame({"K": [sum(partials)]}), "K bigint")
        ours = evenly.aggregate_by_key(df, counts, key="k", instances=2)
        assert ours.columns == ["k", "K"]
        assert sorted(map(tuple, ours.collect())) == [(0, 20), (1, 20), (2, 20)]
        with pytest.raises(UnknownColumn):
            evenly.by_key(df, key="ID", instances=2)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_two_columns_of_one_name_are_refused_where_they_would_be_mixed_up(spark):
    twice = spark.range(20).selectExpr("id % 3 as k", "id as x", "id + 1 as X")
    assert evenly.by_key(twice, key="k", instances=2).columns == ["k", "x", "X", "slot"]
    assert evenly.by_key(twice, key="k", instances=2, slot=None).count() == 20
    with pytest.raises(ColumnConflict, match=r"2 columns 'x', so it cannot be told"):
        evenly.by_key(twice, key="x", instances=2)
    with pytest.raises(ColumnConflict, match="two columns 'X'"):
        evenly.apply_by_key(twice, len, "n int", key="k", instances=2)
    with pytest.raises(ColumnConflict, match="two columns 'X'"):
        evenly.aggregate_by_key(twice, COUNTS, key="k", instances=2)
    hot = spark.range(100).selectExpr("1 as k", "id as x", "id + 1 as X")
    plan = split_hot_keys(evenly.learn_mapping(hot, key="k", instances=4))
    with pytest.raises(ColumnConflict, match="two columns 'X'"):
        evenly.split_by_key(hot, key="k", instances=4, mapping=plan)
    with pytest.raises(ColumnConflict, match="names 'n' twice"):
        evenly.apply_by_key(hot.drop("X"), len, "n int, n int", key="k", instances=4)


def test_a_window_column_may_have_any_name(spark):
    df = spark.range(20).select(F.window(F.timestamp_seconds("id"), "5 seconds").alias("a.window"), F.col("id").alias("k.k"))
    mapping = DKG.automatic(4, ids="xxhash64").mapping()
    from evenly.spark.placing.placement import Span

    spans = (Span(mapping), Span(mapping, 5_000_000))
    slotted = with_slot_of_window(df, spans, key_names(df, "k.k"), "slot", window="a.window")
    assert slotted.columns == ["a.window", "k.k", "slot"]
    assert slotted.count() == 20


def test_tables_have_the_users_columns_too(rows):
    columns = rows.columns

    def count(group: pa.Table) -> pa.Table:
        assert group.column_names == columns
        return pa.table({"number": pa.array([group.num_rows], pa.int64())})

    applied = evenly.apply_by_key(rows, count, "number bigint", key="the key", instances=2, arrow=True)
    assert sum(row.number for row in applied.collect()) == 360
