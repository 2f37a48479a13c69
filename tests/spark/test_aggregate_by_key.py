"""Keys hotter than an instance: rows where the plan says, whatever runs twice, and the results of Spark's own groupBy."""

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import evenly
from evenly.errors import ColumnConflict, InvalidParameter, KeyTooHot, StreamingMismatch
from evenly.keys.hot_keys import split_hot_keys
from evenly.measures import imbalance_pct
from evenly.spark.keyed.keys import key_id

INSTANCES = 8


@pytest.fixture(scope="module")
def visits(spark):
    """Half of the rows of one key, a tenth of null, the others of 60 light keys."""
    user = "case when id % 2 = 0 then 'hot' when id % 10 = 1 then null else concat('user ', id * 7919 % 61) end"
    return spark.range(6_000).selectExpr(f"{user} as user", "id", "id * 31 % 1000 as amount").persist()


@pytest.fixture(scope="module")
def plan(visits):
    return split_hot_keys(evenly.learn_mapping(visits, key="user", instances=INSTANCES))


def sorted_rows(df):
    """Rows as texts, in which NaN is equal to NaN."""
    return sorted(repr(tuple(row)) for row in df.collect())


def shuffles(df):
    return df._jdf.queryExecution().executedPlan().toString().count("Exchange")


TOTALS = evenly.Merging(
    partial=lambda rows: (len(rows), int(rows["amount"].sum())),
    merge=lambda partials: pd.DataFrame({"rows": [sum(p[0] for p in partials)], "total": [sum(p[1] for p in partials)]}),
    schema="rows bigint, total bigint",
)


def native_totals(df, *key):
    return df.groupBy(*key).agg(F.count("*").alias("rows"), F.sum("amount").alias("total"))


@pytest.mark.parametrize("way", ["dkg+pkg", "w-choices"])
def test_every_row_is_where_the_plan_puts_it_and_only_split_keys_are_in_several_places(visits, way):
    plan = split_hot_keys(evenly.learn_mapping(visits, key="user", instances=INSTANCES), way=way)
    placed = evenly.split_by_key(visits, key="user", instances=INSTANCES, mapping=plan)
    assert placed.columns == [*visits.columns, "part"]
    rows = placed.select(
        key_id(("user",)).alias("key"), F.xxhash64(*visits.columns).alias("spread"), "part", F.spark_partition_id().alias("at")
    ).toPandas()
    ids, spread = (rows[name].to_numpy().view(np.uint64) for name in ("key", "spread"))
    assert (rows["part"] == rows["at"]).all()
    assert np.array_equal(plan.assign_ids(ids, spread), rows["part"].to_numpy())
    assert len(rows) == 6_000
    assert imbalance_pct(np.bincount(rows["at"], minlength=INSTANCES)) < 20.0 < plan.light.least_imbalance_pct + 300.0
    places = rows.groupby("key")["part"].nunique()
    assert set(places[places > 1].index.to_numpy().view(np.uint64)) == set(plan.split_keys().tolist())


def test_unequal_shares_are_kept_on_spark(visits, plan):
    shares = np.array([0.6, 0.3, 0.1])
    object.__setattr__(uneven := evenly.SplitMapping.from_json(plan.to_json()), "parts", np.array([5, 1, 6], np.int32))
    object.__setattr__(uneven, "part_loads", shares)
    object.__setattr__(uneven, "starts", np.array([0, 3]))
    placed = evenly.split_by_key(visits, key="user", instances=INSTANCES, mapping=uneven).where("user = 'hot'")
    found = {row.part: row["count"] / 3_000 for row in placed.groupBy("part").count().collect()}
    assert found == pytest.approx({5: 0.6, 1: 0.3, 6: 0.1}, abs=0.05)


def test_the_same_rows_go_to_the_same_parts_however_they_are_partitioned(visits, plan):
    first, second = (
        sorted_rows(evenly.split_by_key(df, key="user", instances=INSTANCES, mapping=plan))
        for df in (visits, visits.repartition(3, "id"))
    )
    assert first == second


def test_groups_by_key_and_part_need_no_second_shuffle(visits, plan):
    placed = evenly.split_by_key(visits, key="user", instances=INSTANCES, mapping=plan)
    assert shuffles(placed.groupBy("user", "part").agg(F.collect_list("amount"))) == 1


def test_a_column_can_be_named_to_spread_by(visits, plan):
    def parts(spread_on):
        placed = evenly.split_by_key(visits, key="user", instances=INSTANCES, mapping=plan, spread_on=spread_on)
        return placed.where("user = 'hot'").groupBy("amount").agg(F.count_distinct("part").alias("parts")).collect()

    assert all(row.parts == 1 for row in parts("amount"))
    assert any(row.parts > 1 for row in parts(["amount", "id"]))
    with pytest.raises(InvalidParameter, match=r"the key alone \(user\)"):
        parts("user")


def test_rows_that_are_all_alike_are_spread_by_their_position(spark):
    alike = spark.range(4_000, numPartitions=2).select(F.when(F.col("id") < 2_000, "hot").otherwise("other").alias("user"))
    plan = split_hot_keys(evenly.learn_mapping(alike, key="user", instances=4))
    with pytest.raises(InvalidParameter, match="spread_on='position'"):
        evenly.split_by_key(alike, key="user", instances=4, mapping=plan)
    placed = evenly.split_by_key(alike, key="user", instances=4, mapping=plan, spread_on="position")
    counted = [row["count"] for row in placed.groupBy("part").count().collect()]
    assert sum(counted) == 4_000
    assert imbalance_pct(counted) < 20.0
    assert sorted_rows(placed) == sorted_rows(placed), "an input that is read again in its order is placed as before"


def test_a_column_called_position_is_spread_by_and_not_the_place_of_a_row(visits, plan):
    rows = visits.withColumnRenamed("amount", "position")
    placed = evenly.split_by_key(rows, key="user", instances=INSTANCES, mapping=plan, spread_on="position")
    parts = placed.where("user = 'hot'").groupBy("position").agg(F.count_distinct("part").alias("parts"))
    assert {row.parts for row in parts.collect()} == {1}


def test_columns_that_spark_cannot_hash_are_left_out_of_the_spread(visits, plan):
    wide = visits.select("user", F.create_map("id", "amount").alias("map"), F.col("id").alias("a.b"))
    placed = evenly.split_by_key(wide, key="user", instances=INSTANCES, mapping=plan)
    assert placed.where("user = 'hot'").select("part").distinct().count() == 4


def test_an_aggregate_of_ones_own_gives_what_groupby_gives(visits, plan):
    ours = evenly.aggregate_by_key(visits, TOTALS, key="user", instances=INSTANCES, mapping=plan)
    assert ours.columns == ["user", "rows", "total"]
    assert shuffles(ours) == 2, "one to place the rows, one for the results"
    assert sorted_rows(ours) == sorted_rows(native_totals(visits, "user"))


def test_parts_of_a_hot_key_run_on_several_instances_and_other_keys_once(visits, plan):
    calls = evenly.Merging(
        partial=len,
        merge=lambda partials: pd.DataFrame({"parts": [len(partials)], "most": [max(partials)]}),
        schema="parts int, most int",
    )
    found = {row.user: row for row in evenly.aggregate_by_key(visits, calls, key="user", instances=8, mapping=plan).collect()}
    assert found["hot"].parts == 4
    assert found["hot"].most < 900
    assert {row.parts for user, row in found.items() if user != "hot"} == {1}


def test_no_key_too_hot_means_no_second_shuffle(spark):
    even = spark.range(2_000).select((F.col("id") % 40).alias("user"), F.col("id").alias("amount"))
    ours = evenly.aggregate_by_key(even, TOTALS, key="user", instances=4)
    assert shuffles(ours) == 1
    assert sorted_rows(ours) == sorted_rows(native_totals(even, "user"))


def test_results_of_many_rows_and_none_are_those_of_apply_in_pandas(visits, plan):
    def three_highest(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.nlargest(3, ["amount", "id"])[["amount", "id"]]

    def even_ids(group: pd.DataFrame) -> pd.DataFrame:
        return three_highest(group).query("id % 2 == 0")

    top = evenly.Merging(
        partial=three_highest, merge=lambda partials: even_ids(pd.concat(partials)), schema="amount bigint, id bigint"
    )
    ours = evenly.aggregate_by_key(visits, top, key="user", instances=INSTANCES, mapping=plan)

    def whole(group: pd.DataFrame) -> pd.DataFrame:
        return even_ids(group).assign(user=group["user"].iloc[0])

    theirs = visits.groupBy("user").applyInPandas(whole, "user string, amount bigint, id bigint")
    assert sorted_rows(ours) == sorted_rows(theirs)


TYPES = {
    "flag": "id % 3 = 0",
    "small": "cast(id % 100 as tinyint)",
    "large": "id * 100000000000000",
    "ratio": "id / 8",
    "price": "cast(id / 4 as decimal(12,2))",
    "text": "concat('\u00e9 ', id)",
    "raw": "cast(concat('b', id) as binary)",
    "day": "date_add(date'2020-01-01', cast(id % 900 as int))",
    "instant": "timestamp_seconds(id * 86401)",
    "wall": "cast(timestamp_seconds(id * 86401) as timestamp_ntz)",
    "many": "array(id, id + 1)",
    "pair": "named_struct('a', id, 'b', concat('x', id))",
    "moments": "array(timestamp_seconds(id), null)",
    "holes": "array(9007199254740993L + id, null)",
    "inside": "named_struct('at', timestamp_seconds(id), 'local', array(timestamp_ntz'2020-01-01'))",
    "by_time": "map(timestamp_seconds(id), array(timestamp_seconds(id)))",
}


def test_the_function_sees_and_returns_every_type_as_in_apply_in_pandas(spark):
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        columns = [f"if(id % 7 = 0, null, {expression}) as {name}" for name, expression in TYPES.items()]
        df = spark.range(400).selectExpr("if(id % 2 = 0, 1, id % 5) as key", "id", *columns).persist()
        fields = [field for field in df.schema if field.name != "key"]
        schema = StructType(fields)

        def first_two(rows: pd.DataFrame) -> pd.DataFrame:
            return rows.sort_values("id").head(2)[[field.name for field in fields]]

        def seen(group: pd.DataFrame) -> pd.DataFrame:
            first = {name: group.sort_values("id")[name].dropna().iloc[0] for name in TYPES}
            kinds = [f"{name}: {group[name].dtype} {type(value).__name__} {value!r}" for name, value in first.items()]
            return pd.DataFrame({"kinds": [", ".join(kinds)], "key": [group["key"].iloc[0]]})

        plan = split_hot_keys(evenly.learn_mapping(df, key="key", instances=4))
        assert plan.needs_merge
        merging = evenly.Merging(partial=first_two, merge=lambda parts: first_two(pd.concat(parts)), schema=schema)
        ours = evenly.aggregate_by_key(df, merging, key="key", instances=4, mapping=plan)
        theirs = df.groupBy("key").applyInPandas(lambda rows: rows.sort_values("id").head(2), df.schema)
        assert sorted_rows(ours.select(*df.columns)) == sorted_rows(theirs)

        some = df.where("key > 1")
        kinds = evenly.Merging(partial=seen, merge=lambda parts: parts[0].drop(columns="key"), schema="kinds string")
        ours = evenly.aggregate_by_key(some, kinds, key="key", instances=1)
        assert sorted_rows(ours) == sorted_rows(some.groupBy("key").applyInPandas(seen, "key bigint, kinds string"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize(
    "hot",
    [
        "null",
        "bigint(null)",
        "double('nan')",
        "-0.0D",
        "1.5D",
        "named_struct('a', double('nan'))",
        "timestamp'2020-01-01'",
        "date'2020-01-01'",
    ],
)
def test_a_hot_key_of_any_type_is_one_key(spark, hot):
    twin = "0.0D" if hot == "-0.0D" else hot
    other = (
        "cast(id as double)"
        if hot == "null"
        else hot.replace("'2020-01-01'", "'2021-01-01'").replace("nan", "1").replace("1.5", "2.5")
    )
    other = {"-0.0D": "3.0D", "bigint(null)": "id"}.get(hot, other)
    df = spark.range(800).selectExpr(
        f"case when id % 4 = 0 then {twin} when id % 4 = 3 then {other} else {hot} end as key", "id as amount"
    )
    plan = split_hot_keys(evenly.learn_mapping(df, key="key", instances=4))
    assert plan.needs_merge
    ours = evenly.aggregate_by_key(df, TOTALS, key="key", instances=4, mapping=plan)
    assert sorted_rows(ours) == sorted_rows(native_totals(df, "key"))


def test_several_key_columns_and_fields_of_structs(spark):
    df = spark.range(1_000).select(
        F.struct(F.when(F.col("id") % 2 == 0, 7).otherwise(F.col("id") % 9).alias("user")).alias("who"),
        F.lit("x").alias("day"),
        F.col("id").alias("amount"),
    )
    ours = evenly.aggregate_by_key(df, TOTALS, key=["who.user", "day"], instances=4)
    assert sorted_rows(ours) == sorted_rows(native_totals(df, "who.user", "day"))


def test_sparks_own_aggregates_are_left_to_spark_and_nothing_is_learnt(visits):
    exact = [
        F.count("*").alias("rows"),
        F.sum("amount").alias("s"),
        F.sum(F.col("amount").cast("decimal(10,2)")).alias("d"),
        F.avg("amount").alias("a"),
        F.var_samp("amount").alias("v"),
        F.min("amount").alias("low"),
        F.max_by("id", "amount").alias("by"),
        F.count_distinct("amount").alias("distinct"),
        F.approx_count_distinct("amount").alias("about"),
        F.sort_array(F.collect_set("amount")).alias("set"),
        F.percentile("amount", 0.5).alias("median"),
    ]
    ours = evenly.aggregate_by_key(visits, *exact, key="user", instances=INSTANCES)
    theirs = visits.groupBy("user").agg(*exact)
    assert ours._jdf.queryExecution().analyzed().sameResult(theirs._jdf.queryExecution().analyzed())
    assert sorted_rows(ours.drop("by")) == sorted_rows(theirs.drop("by"))


def test_spark_limits_the_highest_rows_of_a_key_before_it_shuffles_so_evenly_is_not_needed_there(visits):
    ranked = visits.withColumn("rank", F.row_number().over(Window.partitionBy("user").orderBy(F.desc("amount"))))
    plan = ranked.where("rank <= 3")._jdf.queryExecution().executedPlan().toString()
    assert plan.count("WindowGroupLimit") == 2
    assert plan.index("Partial") > plan.index("Exchange"), "the tree is printed from the end: the limit comes first"


def test_a_function_that_does_not_merge_is_refused_with_the_key_and_what_is_possible(visits):
    one = evenly.Merging(partial=lambda rows: pd.DataFrame({"n": [len(rows)]}), merge=None, schema="n int")
    with pytest.raises(
        KeyTooHot, match=r"'hot' with (50|49)\.\d %.*4\.0 times.*λ cannot be below (300|299) %.*at most 2 instances"
    ):
        evenly.aggregate_by_key(visits, one, key="user", instances=INSTANCES)
    light = visits.where("user <> 'hot'")
    counted = evenly.aggregate_by_key(light, one, key="user", instances=4)
    assert sorted_rows(counted) == sorted_rows(light.groupBy("user").agg(F.count("*").cast("int")))


def test_an_error_in_the_function_or_a_frame_of_another_shape_reaches_the_caller(visits, plan):
    wrong = evenly.Merging(partial=len, merge=lambda parts: pd.DataFrame({"m": parts}), schema="n int")
    with pytest.raises(Exception, match="returned the columns m, and the schema has n"):
        evenly.aggregate_by_key(visits, wrong, key="user", instances=INSTANCES, mapping=plan).collect()
    nothing = evenly.Merging(partial=len, merge=sum, schema="n int")
    with pytest.raises(Exception, match=r"merge must return a pandas DataFrame.*got int"):
        evenly.aggregate_by_key(visits, nothing, key="user", instances=INSTANCES, mapping=plan).collect()


def test_rows_are_not_told_apart_by_what_may_differ_or_there_is_a_warning(visits, plan, caplog):
    """A task that runs again would send a row elsewhere than before: it would be lost, or there twice."""
    sums = visits.groupBy("user", "id").agg(F.sum(F.col("amount") / 3).alias("third"))
    alike = visits.select("user", (F.col("amount") / 3).alias("third"))
    for rows, options, spread, warned in (
        (sums, {}, ["id"], False),
        (alike, {}, ["user", "third"], False),
        (sums.drop("id"), {}, ["user", "third"], True),
        (visits.withColumn("r", F.rand()), {}, None, True),
        (visits.withColumn("r", F.rand()), {"spread_on": "id"}, ["id"], False),
    ):
        caplog.clear()
        parts = evenly.split_by_key(rows, key="user", instances=INSTANCES, mapping=plan, **options)
        assert ("Name columns that stay the same" in caplog.text) == warned
        if spread:
            told = parts.select(key_id(("user",)).alias("key"), F.xxhash64(*spread).alias("spread"), "part").toPandas()
            ids, spreads = (told[name].to_numpy().view(np.uint64) for name in ("key", "spread"))
            assert (plan.assign_ids(ids, spreads) == told["part"]).all()


def test_partials_may_be_of_a_class_that_no_other_worker_can_import_and_are_told_where_they_are_none(visits, plan):
    class Count:
        def __init__(self, rows):
            self.rows = rows

    def merged(counts):
        assert all(isinstance(count, Count) for count in counts)
        return pd.DataFrame({"rows": [sum(count.rows for count in counts)]})

    own = evenly.Merging(lambda rows: Count(len(rows)), merged, "rows bigint")
    got = evenly.aggregate_by_key(visits, own, key="user", instances=INSTANCES, mapping=plan)
    assert sorted_rows(got) == sorted_rows(visits.groupBy("user").agg(F.count("*").alias("rows")))
    none = evenly.Merging(lambda rows: (it for it in rows), merged, "rows bigint")
    with pytest.raises(Exception, match="partial must return something that can be pickled, got generator"):
        evenly.aggregate_by_key(visits, none, key="user", instances=INSTANCES, mapping=plan).collect()


def test_an_empty_dataframe_gives_no_result(spark):
    df = spark.createDataFrame([], "user string, amount bigint")
    assert evenly.aggregate_by_key(df, TOTALS, key="user", instances=4).collect() == []


def test_what_does_not_fit_is_refused(spark, visits, plan):
    with pytest.raises(InvalidParameter, match="got 0 aggregates"):
        evenly.aggregate_by_key(visits, key="user", instances=4)
    with pytest.raises(InvalidParameter, match="got 2 aggregates, 1 of them"):
        evenly.aggregate_by_key(visits, TOTALS, F.count("*"), key="user", instances=4)
    with pytest.raises(InvalidParameter, match="partial must be a function, got 3"):
        evenly.Merging(partial=3, merge=None, schema="n int")
    with pytest.raises(InvalidParameter, match="for 8 instances, not for 4"):
        evenly.split_by_key(visits, key="user", instances=4, mapping=plan)
    with pytest.raises(ColumnConflict, match="'Amount'"):
        evenly.split_by_key(visits, key="user", instances=8, mapping=plan, part="Amount")
    again = evenly.Merging(partial=len, merge=pd.DataFrame, schema="n int, USER string")
    with pytest.raises(ColumnConflict, match="'USER', a key column"):
        evenly.aggregate_by_key(visits, again, key="user", instances=8, mapping=plan)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(StreamingMismatch, match="foreachBatch"):
        evenly.split_by_key(stream, key="value", instances=8, mapping=plan)
