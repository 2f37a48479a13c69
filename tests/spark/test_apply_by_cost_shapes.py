"""What a function gets and what it may return."""

import datetime as dt
import decimal
import re
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from known_costs import model_of
from pyspark import cloudpickle
from pyspark.errors import PythonException
from pyspark.sql import Row
from pyspark.sql import functions as F

import evenly
from evenly.costs import CostModel
from evenly.errors import ColumnConflict, InvalidResult
from evenly.spark.costs.row_ids import content_hash
from evenly.worker.results import Shape
from evenly.worker.rows import as_json, row_class, rows_of

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

EVEN = CostModel("id")
TWO = Shape(pa.schema([("n", pa.int64()), ("text", pa.string())]))


def columns(shape, *values):
    made, wrong = shape.columns(values)
    assert not wrong, wrong
    return [column.to_pylist() for column in made]


def wrong(shape, *values):
    """The only value that is wrong, and why."""
    _, found = shape.columns(values)
    ((at, error),) = found.items()
    assert isinstance(error, InvalidResult)
    return at, str(error)


def test_a_row_is_sparks():
    kind = row_class(["id", "count", "a b", "__x"])
    batch = pa.record_batch([[1, 2], ["x", "y"], [None, 5], [7, 8]], names=["id", "count", "a b", "__x"])
    first, second = rows_of(batch, kind)
    assert isinstance(first, Row)
    assert (first.id, first["count"], first["a b"], first["__x"], first[1]) == (1, "x", None, 7, "x")
    assert second.asDict() == {"id": 2, "count": "y", "a b": 5, "__x": 8}
    assert second == Row(id=2, count="y", ab=5, x=8)
    assert repr(first) == "Row(id=1, count='x', a b=None, __x=7)"
    with pytest.raises(AttributeError):
        _ = first.nothing
    assert len(list(rows_of(pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([]))), row_class([])))) == 2


def test_values_are_those_of_spark(spark):
    def told(row):
        return f"{row.s.x} {row.s.inner.y} {row.m[2]} {row.a[0].z} {row.t.isoformat()} {row.d} {row.x} {row.b} {row.n}"

    df = spark.sql(
        "select named_struct('x', 1, 'inner', named_struct('y', 'q')) s, map(2, 'two') m, array(named_struct('z', 3)) a, "
        "timestamp'2020-02-01 10:00:00' t, date'2020-01-02' d, cast(1.50 as decimal(5,2)) x, binary('hi') b, null n, 1L id"
    )
    (row,) = evenly.apply_by_cost(df, told, "told string", instances=1, costs=EVEN).collect()
    assert row.told == "1 q two 3 2020-02-01T10:00:00+00:00 2020-01-02 1.50 b'hi' None"


def test_results_by_name_by_position_and_alone():
    assert columns(TWO, {"n": 1, "text": "a"}, {"text": None, "n": 2}) == [[1, 2], ["a", None]]
    assert columns(TWO, (1, "a"), (2, "b")) == [[1, 2], ["a", "b"]]
    assert columns(TWO, [1, "a"], Row(n=2, text="b"), {"n": 3, "text": "c"}) == [[1, 2, 3], ["a", "b", "c"]]
    one = Shape(pa.schema([("n", pa.float64())]))
    assert columns(one, 1, 2.5, None) == [[1.0, 2.5, None]]
    assert columns(one, (1.0,), {"n": 2.0}, 3.0) == [[1.0, 2.0, 3.0]]
    assert columns(one, np.float32(0.5), np.int64(4)) == [[0.5, 4.0]]
    many = Shape(pa.schema([("n", pa.list_(pa.int64()))]))
    assert columns(many, [1, 2], (3,), []) == [[[1, 2], [3], []]]
    table = Shape(pa.schema([("n", pa.map_(pa.string(), pa.int64()))]))
    assert columns(table, {"n": 1}, {}) in ([[[("n", 1)], []]], [[{"n": 1}, {}]])
    pair = Shape(pa.schema([("n", pa.struct([("x", pa.int64()), ("y", pa.string())]))]))
    assert columns(pair, {"x": 1, "y": "a"}, {"n": (2, "b")}) == [[{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]]


def test_times_without_a_zone_are_in_the_sessions():
    shape = Shape(pa.schema([("t", pa.timestamp("us", tz="Europe/Vienna")), ("d", pa.date32())]))
    summer = dt.datetime(2020, 7, 1, 12)  # noqa: DTZ001
    moment = dt.datetime(2020, 7, 1, 12, tzinfo=dt.UTC)
    times, days = columns(shape, (summer, summer.date()), (moment, None))
    assert [it.astimezone(dt.UTC).hour for it in times] == [10, 12]
    assert days == [dt.date(2020, 7, 1), None]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (pa.timestamp("us", tz="Europe/Vienna"), 1.7e9, "1700000000.0 (float) for field 'x'.*it is not a datetime"),
        (pa.timestamp("us"), 1, "it is not a datetime"),
        (pa.timestamp("us"), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "it has a time zone and a timestamp_ntz has none"),
        (pa.list_(pa.timestamp("us")), [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], "it has a time zone"),
        (pa.date32(), 20200101, "it is not a date"),
        (pa.duration("us"), 5, "it is not a timedelta"),
    ],
)
def test_a_number_is_no_time_and_a_zone_is_not_taken_off(kind, value, told):
    at, message = wrong(Shape(pa.schema([("x", kind)])), None, value)
    assert at == 1
    assert re.search(re.escape(told).replace(r"\.\*", ".*"), message)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (pa.array([dt.datetime(2020, 1, 1, 12)]), pa.timestamp("us", tz="Europe/Vienna")),  # noqa: DTZ001
        (pa.array([[dt.datetime(2020, 1, 1, 12)]]), pa.list_(pa.timestamp("us", tz="Europe/Vienna"))),  # noqa: DTZ001
        (pa.array([1]), pa.timestamp("us", tz="UTC")),
        (pa.array([2]), pa.bool_()),
        (pa.array([1.255]), pa.decimal128(10, 2)),
        (pa.array([{"a": 1, "b": 2}]), pa.struct([("a", pa.int64())])),
        (pa.array([{"a": 1}]), pa.struct([("a", pa.int64()), ("b", pa.int64())])),
    ],
)
def test_a_batch_is_not_cast_to_what_it_does_not_say(made, kind):
    with pytest.raises(InvalidResult, match=r"for field 'x', which is of type .*name the type when you make the array"):
        Shape(pa.schema([("x", kind)])).table(pa.table({"x": made}))


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (pa.array([1], pa.int16()), pa.int64()),
        (pa.array([None]), pa.timestamp("us")),
        (pa.array(["a"]).dictionary_encode(), pa.string()),
        (pa.array([[{"n": 1}]]), pa.large_list(pa.struct([("n", pa.int32())]))),
        (pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]), pa.timestamp("us", tz="Europe/Vienna")),
    ],
)
def test_a_batch_of_other_types_with_the_same_values_is_taken(made, kind):
    ((column,)) = Shape(pa.schema([("x", kind)])).table(pa.table({"x": made}))
    assert column.type == kind
    assert column.to_pylist() == made.to_pylist()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ((1, 2), "returned 2 (int) for field 'text', which is of type string"),
        (("x", "a"), "returned 'x' (str) for field 'n', which is of type int64"),
        ((1.5, "a"), "returned 1.5 (float) for field 'n'"),
        ((2**70, "a"), "for field 'n'"),
        ((1,), "of 1 values: the schema has 2 fields, n, text"),
        ({"n": 1}, "no field 'text'"),
        ({"n": 1, "text": "a", "more": 2}, "a field 'more' that the schema does not have"),
        (None, "returned None: return a dict or a tuple with the fields n, text"),
        (7, "returned 7: return a dict or a tuple"),
    ],
)
def test_what_does_not_fit_is_named(value, told):
    at, message = wrong(TWO, (1, "good"), value, (2, "good"))
    assert at == 1
    assert told in message


def test_a_field_that_may_not_be_null_is_not():
    at, message = wrong(Shape(TWO.schema, frozenset({"n"})), (1, None), (None, "a"))
    assert at == 1
    assert "None for field 'n'" in message


def test_a_wrong_result_is_one_clear_error(spark):
    df = spark.range(0, 100, 1, 2)
    with pytest.raises(PythonException, match=r"InvalidResult.*'sixty' \(str\) for field 'n', which is of type int64"):
        evenly.apply_by_cost(
            df, lambda row: "sixty" if row.id == 60 else row.id, "n long", cost_key="id", instances=2, costs=EVEN
        ).collect()


def test_arrow_batches(spark):
    def cubes(batch):
        assert batch.num_rows <= 7
        assert batch.schema.names == ["id"]
        n = batch.column("id").to_numpy()
        keep = n % 2 == 0  # fewer rows out than in
        return pa.table({"cube": (n**3)[keep], "n": n[keep].astype(np.int16)})

    df = spark.range(0, 500, 1, 3)
    result = evenly.apply_by_cost(
        df, cubes, "n long, cube long", instances=2, cost_key="id % 10", call=evenly.CallOptions(batch_rows=7)
    )
    assert sorted(tuple(row) for row in result.collect()) == [(n, n**3) for n in range(0, 500, 2)]
    for function, told in (
        (lambda batch: batch.num_rows, "return a pyarrow RecordBatch or Table with the columns n"),
        (lambda batch: pa.table({"m": batch["id"]}), "returned the columns m, and the schema has n"),
        (lambda batch: pa.table({"n": batch["id"].cast(pa.string())}).set_column(0, "n", [["x"] * len(batch)]), "field 'n'"),
    ):
        with pytest.raises(PythonException, match=told):
            evenly.apply_by_cost(
                df, function, "n long", instances=2, costs=EVEN, call=evenly.CallOptions(batch_rows=50)
            ).collect()


def test_a_result_is_typed_as_the_schema_says(spark):
    def made(row):
        return {"t": dt.datetime(2020, 1, 1, 5), "x": decimal.Decimal("1.5"), "s": (row.id, ["a"])}  # noqa: DTZ001

    schema = "s struct<id: long, names: array<string>>, t timestamp, x decimal(10,2) not null"
    result = evenly.apply_by_cost(spark.range(2), made, schema, instances=1, costs=EVEN)
    rows = result.select("s.id", "s.names", F.date_format("t", "HH:mm").alias("t"), "x").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(at, ["a"], "05:00", decimal.Decimal("1.50")) for at in range(2)]


def test_a_row_as_json():
    inner = row_class(["when", "raw"])(dt.date(2020, 1, 2), b"\x01\xff")
    row = tuple.__new__(row_class(["é", "inner", "m"]), (1.5, inner, {3: [None]}))
    assert as_json(row) == '{"é": 1.5, "inner": {"when": "2020-01-02", "raw": "01ff"}, "m": {"3": [null]}}'


ODD = ["a.b", "x`y", "slot", "id", "id", " ", "Ünï"]


@pytest.mark.parametrize(("learnt", "routers"), [(False, None), (True, None), (True, 2)])
def test_columns_of_any_name_and_of_one_name_twice(spark, learnt, routers):
    costs = model_of(spark, {n: 50.0**n for n in range(4)}, "slot % 4", "long") if learnt else None
    df = spark.range(0, 40, 1, 3).select(*(F.col("id") + at for at in range(len(ODD)))).toDF(*ODD)
    watch = evenly.CostWatch()
    result = evenly.apply_by_cost(
        df,
        lambda row: [*row, row["a.b"] + row["x`y"]],
        "numbers array<long>",
        instances=2,
        costs=costs,
        routers=routers,
        watch=watch,
    )
    width = len(ODD)
    assert sorted(row.numbers for row in result.collect()) == [[*range(n, n + width), 2 * n + 1] for n in range(40)]
    assert watch.decision.by_cost is learnt, watch.decision


@pytest.mark.parametrize("more", ["map('x', id)", "map(date'2024-01-01', id)", "struct(map(cast('x' as binary), id))"])
def test_two_columns_of_one_name_beside_one_that_spark_does_not_hash(spark, more):
    df = spark.range(0, 40, 1, 3).selectExpr("id as a", "id + 1 as a", f"{more} as m", "id as slot")
    hashes = df.select(content_hash(df).alias("h")).distinct().count()
    assert hashes == 40
    costs = model_of(spark, {n: 50.0**n for n in range(4)}, "slot % 4", "long")
    watch = evenly.CostWatch()
    result = evenly.apply_by_cost(df, lambda row: row[1], "n long", instances=2, costs=costs, watch=watch)
    assert sorted(row.n for row in result.collect()) == list(range(1, 41))
    assert watch.decision.by_cost


def test_rows_without_columns_are_rows(spark):
    df = spark.range(0, 7, 1, 2).select()
    assert evenly.apply_by_cost(df, len, "n int", instances=2).collect() == [Row(n=0)] * 7


def test_a_schema_is_what_it_says_in_this_session_now(spark):
    df = spark.range(1)
    assert evenly.apply_by_cost(df, lambda _: None, "t timestamp", instances=1).schema["t"].dataType.typeName() == "timestamp"
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        kind = evenly.apply_by_cost(df, lambda _: None, "t timestamp", instances=1).schema["t"].dataType
    finally:
        spark.conf.unset("spark.sql.timestampType")
    assert kind.typeName() == "timestamp_ntz"
    with pytest.raises(ColumnConflict, match="the schema names the field 'n' twice"):
        evenly.apply_by_cost(df, lambda _: (1, 2), "n int, n int", instances=1)


def test_a_variant_is_spark_s_object_in_a_row_and_in_a_result(spark):
    rows = spark.range(3).selectExpr(
        "id", "parse_json(concat('{\"a\": ', id, '}')) as v", "array(parse_json('[1]'), null) as all"
    )

    def told(row):
        return row.v.toPython()["a"], row.v, [None if it is None else it.toJson() for it in row.all]

    found = evenly.apply_by_cost(rows, told, "a long, v variant, all array<string>", instances=2)
    assert sorted(map(tuple, found.selectExpr("a", "to_json(v)", "all").collect())) == [
        (at, f'{{"a":{at}}}', ["[1]", None]) for at in range(3)
    ]


@pytest.mark.parametrize("zone", ["America/New_York", "+05:30"])
def test_a_datetime_without_a_zone_is_in_the_session_s(spark, zone):
    """Spark tells schemas in UTC, whatever the session's zone is."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    noon = dt.datetime(2024, 7, 1, 12)  # noqa: DTZ001

    def told(row):
        return noon, [noon], row.at, row.at.hour

    rows = session.sql("select timestamp'2024-07-01 12:00:00' as at")
    found = evenly.apply_by_cost(rows, told, "t timestamp, all array<timestamp>, at timestamp, hour int", instances=1)
    (row,) = found.selectExpr("cast(t as string)", "cast(all[0] as string)", "cast(at as string)", "hour").collect()
    assert tuple(row) == (*["2024-07-01 12:00:00"] * 3, 12)
    parts = evenly.Merging(
        lambda rows: rows["at"].iloc[0],
        lambda them: pd.DataFrame({"t": them, "all": [them]}),
        "t timestamp, all array<timestamp>",
    )
    (row,) = evenly.aggregate_by_key(rows, parts, key="at", instances=1).selectExpr("string(t)", "string(all[0])").collect()
    assert tuple(row) == ("2024-07-01 12:00:00",) * 2
