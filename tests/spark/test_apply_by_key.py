"""`apply_by_key` against Spark's own `applyInPandas` and `applyInArrow`: the same groups, keys, types and results."""

import sys
from functools import partial

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.errors import PythonException
from pyspark.sql import functions as F

import evenly
from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.keys.dkg import DKG

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

ROWS = 600
TYPES = {
    "flag": "id % 3 = 0",
    "tiny": "cast(id % 100 as tinyint)",
    "small": "cast(id as smallint)",
    "whole": "cast(id as int)",
    "long": "9007199254740993 + id",
    "single": "cast(id / 8 as float)",
    "real": "id / 8",
    "exact": "cast(id / 4 as decimal(10,2))",
    "text": "concat('é ', id)",
    "bytes": "cast(concat('b', id) as binary)",
    "day": "date_add(date'2020-01-01', cast(id as int))",
    "moment": "timestamp_seconds(id * 86401)",
    "local": "cast(timestamp_seconds(id * 86401) as timestamp_ntz)",
    "span": "make_dt_interval(cast(id % 50 as int))",
    "many": "array(id, id + 1)",
    "pair": "named_struct('a', id, 'b', concat('x', id))",
    "table": "map(concat('m', id), id)",
}
DESCRIBED = "key string, types string, index string, rows string"


@pytest.fixture(scope="module")
def rows(spark):
    """Every type, each with nulls in some groups, in all rows of one group, and in none of others."""
    columns = [
        f"if(id % 30 = {7 + index % 5} or id % 30 = 3 and id % 4 = 0, null, {value}) as {name}"
        for index, (name, value) in enumerate(TYPES.items())
    ]
    return spark.range(ROWS).selectExpr("cast(id % 30 as int) as key", "id", *columns).repartition(3).persist()


@pytest.fixture
def small_batches(spark):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    yield
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def describe(key: tuple, group: pd.DataFrame) -> pd.DataFrame:
    """All that a function can see of its key and group, except the order of rows."""
    types = [str(kind) for kind in group.dtypes]
    seen = sorted(repr([(type(value).__name__, value) for value in row]) for row in group.itertuples(index=False, name=None))
    return pd.DataFrame(
        {"key": [repr(key)], "types": [repr(types)], "index": [repr((group.index, group.columns))], "rows": [repr(seen)]}
    )


def describe_table(key: tuple, group: pa.Table) -> pa.Table:
    seen = sorted(repr(row) for row in group.to_pylist())
    told = {"key": [repr(key)], "types": [repr(group.schema.types)], "index": [repr(group.schema.names)], "rows": [repr(seen)]}
    return pa.table(told)


def found(df):
    return sorted((tuple(row) for row in df.collect()), key=repr)


def by_hash(instances):
    """A mapping that nothing was learnt for, which spares a test the time of learning."""
    return DKG.automatic(instances, ids="xxhash64").mapping()


def assert_same_as_spark(df, function, schema, key, *, arrow=False, plain=None):
    names = [key] if isinstance(key, str) else key
    grouped = df.groupBy(*names)
    theirs = found((grouped.applyInArrow if arrow else grouped.applyInPandas)(plain or function, schema))
    ours = found(evenly.apply_by_key(df, function, schema, key=key, instances=3, mapping=by_hash(3), arrow=arrow))
    assert ours == theirs
    assert theirs
    return theirs


def test_a_group_and_its_key_look_as_in_apply_in_pandas_for_every_type_with_and_without_nulls(rows):
    assert len(assert_same_as_spark(rows, describe, DESCRIBED, "key")) == 30


@pytest.mark.usefixtures("small_batches")
def test_groups_that_span_batches_are_whole_and_look_the_same(rows):
    assert len(assert_same_as_spark(rows, describe, DESCRIBED, "key")) == 30
    assert len(assert_same_as_spark(rows, describe_table, DESCRIBED, "key", arrow=True)) == 30


KEYS = {
    "whole": ["whole"],
    "long": ["long"],
    "bytes": ["bytes"],
    "moment": ["moment"],
    "day and flag": ["day", "flag"],
    "pair": ["pair"],
    "many": ["many"],
    "a field and exact": ["pair.a", "exact"],
    "local and text": ["local", "text"],
}


@pytest.mark.parametrize("key", KEYS)
def test_groups_of_every_type_of_key_are_sparks_and_null_is_one(rows, key):
    few = (
        rows.where("id < 120")
        .unionAll(rows.where("id < 60"))
        .select("whole", "long", "bytes", "moment", "day", "flag", "pair", "many", "exact", "local", "text")
    )
    assert_same_as_spark(few, describe, DESCRIBED, KEYS[key])


@pytest.mark.parametrize("key", ["long", "flag", "pair", "text", "real"])
def test_groups_of_tables_are_sparks(rows, key):
    few = rows.where("id < 120").unionAll(rows.where("id < 60")).select("long", "flag", "pair", "text", "real")
    assert_same_as_spark(few, describe_table, DESCRIBED, key, arrow=True)


@pytest.mark.parametrize("arrow", [False, True])
def test_nan_is_one_key_and_both_zeros_are_another(spark, arrow):
    values = "(0.0D), (-0.0D), (double('nan')), (-double('nan')), (null), (null), (1.5D)"
    df = spark.sql(f"select col as key, named_struct('x', col) as nested, array(col) as several from values {values} as t(col)")
    for key in ("key", "nested", "several"):
        if arrow:
            counted = evenly.apply_by_key(
                df,
                lambda group: pa.table({"n": pa.array([group.num_rows], pa.int64())}),
                "n long",
                key=key,
                instances=2,
                arrow=True,
            )
        else:
            counted = evenly.apply_by_key(
                df, lambda group: pd.DataFrame({"n": [len(group)]}), "n long", key=key, instances=2, mapping=by_hash(2)
            )
        assert sorted(row.n for row in counted.collect()) == [1, 2, 2, 2]


def test_moments_that_look_alike_in_local_time_are_two_keys(spark):
    """On 1 November 2020 New York's clocks showed half past one twice."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        df = spark.sql("select timestamp_seconds(col) as key from values (1604208600), (1604212200), (1604212200) as t(col)")
        df = df.withColumn("nested", F.struct("key"))
        for key in ("key", "nested"):
            counted = evenly.apply_by_key(
                df, lambda group: pd.DataFrame({"n": [len(group)]}), "n long", key=key, instances=1, mapping=by_hash(1)
            )
            assert sorted(row.n for row in counted.collect()) == [1, 2]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def mixed_results(key: tuple, _: pd.DataFrame) -> pd.DataFrame:
    """Integers that no float holds in one group, floats with NaN in another, nothing at all in a third."""
    if key[0] % 3 == 0:
        return pd.DataFrame({"value": [9_007_199_254_740_993], "key": key[:1]})
    if key[0] % 3 == 1:
        return pd.DataFrame({"key": [key[0], key[0]], "value": [None, 5.0]})
    return pd.DataFrame() if key[0] % 2 else pd.DataFrame({"key": [], "value": []})


def test_results_keep_their_values_whatever_their_types_and_columns_are_found_by_name(rows):
    expected = assert_same_as_spark(rows, mixed_results, "key int, value long", "key")
    assert (0, 9_007_199_254_740_993) in expected
    assert (1, None) in expected


def test_columns_without_names_are_taken_by_position(rows):
    assert_same_as_spark(rows, lambda group: pd.DataFrame([[int(group["key"].iloc[0]), len(group)]]), "key int, n long", "key")


def test_a_function_may_change_its_group_without_a_warning_or_an_effect_on_others(rows):
    def change(group: pd.DataFrame) -> pd.DataFrame:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            group["id"] += 1
            group.loc[0, "key"] = -1
            group["more"] = group["id"] * 2
            return group[["key", "id", "more"]].sort_values("id")

    assert_same_as_spark(rows.select("key", "id"), change, "key int, id long, more long", "key")


def test_results_may_be_of_any_type(rows):
    def last(group: pd.DataFrame) -> pd.DataFrame:
        return group.sort_values("id").tail(1)

    assert_same_as_spark(rows.drop("span"), last, rows.drop("span").schema, "key")


def test_a_table_function_gets_its_columns_by_name_too(rows):
    def total(group: pa.Table) -> pa.Table:
        return pa.table(
            {"n": pa.array([group.num_rows], pa.int64()), "id": pa.array([pc.sum(group["id"]).as_py()], pa.int64())}
        )

    assert_same_as_spark(rows, total, "id long, n long", "key", arrow=True)


def test_methods_partials_and_functions_with_a_key_are_called_as_they_want(rows):
    class Counter:
        def count(self, group):
            return pd.DataFrame({"n": [len(group)]})

    def scaled(scale, key, group):
        return pd.DataFrame({"n": [scale * len(group) * (len(key) == 1)]})

    run = partial(evenly.apply_by_key, rows.select("key"), schema="n long", key="key", instances=2)
    assert {row.n for row in run(Counter().count).collect()} == {20}
    assert {row.n for row in run(partial(scaled, 3)).collect()} == {60}


def test_rows_are_on_the_instances_of_the_mapping_and_shuffled_once(rows):
    def where(group: pd.DataFrame) -> pd.DataFrame:
        from pyspark import TaskContext

        return pd.DataFrame({"long": group["long"].iloc[:1].astype("int64"), "at": TaskContext.get().partitionId()})

    df = rows.where("long is not null").select("long")
    mapping = evenly.learn_mapping(df, key="long", instances=5)
    placed = evenly.apply_by_key(df, where, "long long, at int", key="long", instances=5, mapping=mapping)
    told = placed.collect()
    assert len(told) > 100
    assert mapping.assign([row.long for row in told]).tolist() == [row.at for row in told]
    plan = placed._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0]
    assert plan.split("InMemoryTableScan")[0].count("Exchange") == 1


def test_an_empty_dataframe_gives_an_empty_result_of_the_schema(rows):
    for arrow in (False, True):
        result = evenly.apply_by_key(rows.where("id < 0"), describe, DESCRIBED, key="key", instances=2, arrow=arrow)
        assert result.collect() == []
        assert result.columns == ["key", "types", "index", "rows"]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda group: group[["id"]], r"returned the columns id, and the schema has key, id"),
        (lambda group: group[["key", "id", "id"]], r"returned the columns key, id, id, and"),
        (lambda _: pd.DataFrame([[1, 2, 3]]), r"returned the columns 0, 1, 2, and"),
        (len, r"returned int, not a pandas.DataFrame: return one with the columns key, id"),
        (lambda group: (group for _ in range(1)), r"returned generator, not a pandas.DataFrame"),
        (lambda _: 1 // 0, r"ZeroDivisionError"),
    ],
)
def test_a_wrong_result_and_an_error_of_the_function_are_told_plainly(rows, function, told):
    df = rows.select("key", "id").where("id < 5")
    with pytest.raises(PythonException, match=told):
        evenly.apply_by_key(df, function, "key int, id long", key="key", instances=1, mapping=by_hash(1)).collect()


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda _: 1, r"returned int, not a pyarrow.Table"),
        (lambda group: group.select(["id"]), r"returned the columns id, and the schema has key, id"),
        (
            lambda group: group.set_column(1, "id", pa.array([None if group["id"][0].as_py() == 4 else 1])),
            r"column 'id' of the function's table is null, and the schema has int64",
        ),
    ],
)
def test_a_wrong_table_is_told_plainly(rows, function, told):
    df = rows.select("key", "id").where("id < 5")
    with pytest.raises(PythonException, match=told):
        evenly.apply_by_key(df, function, "key int, id long", key="key", instances=1, mapping=by_hash(1), arrow=True).collect()


def test_functions_of_no_or_three_arguments_are_refused(rows):
    for function, told in ((lambda: 1, r"\(\)"), (lambda a, b, c: a + b + c, r"\(a, b, c\)")):
        with pytest.raises(InvalidParameter, match=told):
            evenly.apply_by_key(rows, function, "n long", key="key", instances=1, mapping=by_hash(1))


def test_a_function_that_yields_is_refused_at_the_call(rows):
    def parts(group):
        yield group

    with pytest.raises(InvalidParameter, match="the function takes or yields an iterator"):
        evenly.apply_by_key(rows, parts, "n long", key="key", instances=1, mapping=by_hash(1))


def test_a_stream_is_refused(spark):
    with pytest.raises(StreamingMismatch, match="foreachBatch"):
        evenly.apply_by_key(spark.readStream.format("rate").load(), describe, DESCRIBED, key="value", instances=1)
