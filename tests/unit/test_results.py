"""What functions return, as columns: a Row goes by its names, and holds what its one field is called after."""

from __future__ import annotations

import datetime as dt
import io
import re
from array import array
from collections import deque
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from evenly.errors import InvalidResult
from evenly.worker.many_results import many_results
from evenly.worker.owned import own_batch, wholly_own
from evenly.worker.results import Shape, nulls_of, results_in
from evenly.worker.rows import row_class

pytest.importorskip("pyspark")
from pyspark.sql import Row

PAIR = Shape(pa.schema([("a", pa.int64()), ("b", pa.int64())]))


def made(shape, *values):
    columns, wrong = shape.columns(values)
    assert not wrong, wrong
    return pa.RecordBatch.from_arrays(columns, schema=shape.schema).to_pylist()


def of_a_function(**held):
    """A row as a function gets it."""
    return tuple.__new__(row_class(list(held)), held.values())


@pytest.mark.parametrize("row", [Row, of_a_function])
def test_a_row_with_the_fields_of_the_schema_goes_by_name_and_any_other_by_position(row):
    assert made(PAIR, row(b=2, a=1), row(b=4, a=3)) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert made(PAIR, row(a=1, b=2), row(b=4, a=3)) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert made(PAIR, row(x=1, y=2)) == [{"a": 1, "b": 2}]
    assert PAIR.taken(row(b=2, a=1)) == (1, 2)
    inside = Shape(pa.schema([("s", pa.struct(list(PAIR.schema))), ("n", pa.int64())]))
    assert made(inside, row(s=row(b=2, a=1), n=0)) == [{"s": {"a": 1, "b": 2}, "n": 0}]


@pytest.mark.parametrize("row", [Row, of_a_function])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.list_(pa.string()), None),  # not an array with a null in it
        (pa.list_(pa.list_(pa.int64())), []),
        (pa.list_(pa.int64()), [1, None]),
        (pa.map_(pa.string(), pa.int64()), {"k": 1}),
        (pa.struct([("x", pa.int64())]), {"x": 1}),
        (pa.struct([("x", pa.int64())]), None),
    ],
)
def test_a_row_of_one_field_holds_it_whatever_it_is(kind, value, row):
    (found,) = made(Shape(pa.schema([("v", kind)])), row(v=value))
    assert found["v"] == (list(value.items()) if pa.types.is_map(kind) else value)


def test_a_row_may_be_the_struct_itself():
    shape = Shape(pa.schema([("v", pa.struct([("v", pa.int64())]))]))
    assert made(shape, Row(v=1), Row(v=Row(v=2)), (3,)) == [{"v": {"v": 1}}, {"v": {"v": 2}}, {"v": {"v": 3}}]


def test_nulls_of_structs_with_maps_can_be_sent():
    kind = pa.struct([("m", pa.map_(pa.string(), pa.int64()))])
    batch = pa.RecordBatch.from_arrays([nulls_of(2, kind)], ["s"])
    sent = io.BytesIO()
    with pa.ipc.new_stream(sent, batch.schema) as stream:
        stream.write_batch(batch)
    assert pa.ipc.open_stream(sent.getvalue()).read_all().to_pylist() == [{"s": None}] * 2


LOCAL = pa.timestamp("us", tz="America/Los_Angeles")
NOON = dt.datetime(2020, 1, 1, 12)  # noqa: DTZ001


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.list_(pa.string()), pa.list_(pa.list_(pa.date32())), pa.map_(pa.string(), pa.int64())]
)
def test_what_can_be_read_once_is_no_array_and_no_map(kind):
    """Results are looked at more than once: the second look would find nothing."""
    for value in ((x for x in ()), iter([]), map(str, [1]), zip("a", [1], strict=True)):
        shape = Shape(pa.schema([("v", kind), ("n", pa.int64())]))
        _, wrong = shape.columns([([], 0), (value, 1)])
        assert list(wrong) == [1]
        told = "it is a generator; return one result for a row, such as a list|it is an iterator, which can be read once only"
        assert re.search(told, str(wrong[1]))


def test_a_map_may_be_a_list_of_pairs_whose_items_are_taken_as_those_of_a_dict():
    moments = Shape(pa.schema([("m", pa.map_(pa.string(), LOCAL)), ("n", pa.int64())]))
    expected = [("a", NOON.replace(tzinfo=ZoneInfo("America/Los_Angeles")))]
    for given in ({"a": NOON}, [("a", NOON)], (["a", NOON],), [{"key": "a", "value": NOON}]):
        assert made(moments, (given, 1)) == [{"m": expected, "n": 1}]
    whole = Shape(pa.schema([("m", pa.map_(pa.string(), pa.int64())), ("n", pa.int64())]))
    for given in ({"a": 1.5}, [("a", 1.5)], {"a", "b"}, 7, [1]):
        assert list(whole.columns([({}, 0), (given, 1)])[1]) == [1]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (pa.time64("ns"), 5, "it is not a time"),
        (pa.float32(), 1e300, "it is too large for a float"),
        (pa.list_(pa.float32()), [1.0, -1e39], "it is too large for a float"),
        (pa.list_(pa.int64()), {1: 2}, "it is not a list"),
    ],
)
def test_nothing_is_made_of_what_does_not_fit(kind, value, told):
    ((at, error),) = Shape(pa.schema([("v", kind), ("n", pa.int64())])).columns([(None, 0), (value, 1)])[1].items()
    assert at == 1
    assert told in str(error)


def test_numbers_that_are_infinite_or_rounded_fit_a_float():
    assert made(Shape(pa.schema([("v", pa.float32())])), float("inf"), 0.5, None, np.float64(-1e38)) == [
        {"v": float("inf")},
        {"v": 0.5},
        {"v": None},
        {"v": float(np.float32(-1e38))},
    ]


def test_a_time_that_is_none_is_null_where_there_may_be_none():
    shape = Shape(pa.schema([("v", pa.timestamp("us")), ("n", pa.int64())]), frozenset({"v"}))
    assert list(shape.columns([(NOON, 1), (np.datetime64("NaT"), 2)])[1]) == [1]


def test_what_may_not_be_null_inside_of_a_field_is_not():
    """Spark believes its schema, and reads a null there as it likes."""
    whole = pa.field("x", pa.int64(), nullable=False)
    kinds = {
        "list": (pa.list_(whole), [1], [1, None]),
        "struct": (pa.struct([whole]), {"x": 1}, {"x": None}),
        "map": (pa.map_(pa.string(), whole), {"k": 1}, {"k": None}),
        "deep": (pa.list_(pa.struct([("s", pa.struct([whole]))])), [{"s": None}, None], [{"s": {"x": 1}}, {"s": {"x": None}}]),
    }
    for kind, good, bad in kinds.values():
        shape = Shape(pa.schema([("v", kind), ("n", pa.int64())]))
        columns, wrong = shape.columns([(None, 0), (good, 1), (bad, 2), (good, 3)])
        assert list(wrong) == [2]
        assert "with a null inside, for field 'v', which may not be null" in str(wrong[2])
        assert columns[0].to_pylist()[2] is None
        rows = pa.table([pa.array([None, good, bad, good], kind), columns[1]], schema=shape.schema)
        assert shape.table(rows.slice(0, 2))[0].to_pylist()[0] is None
        shape.table(rows.slice(3))
        with pytest.raises(InvalidResult, match="returned a null inside for field 'v'"):
            shape.table(rows)


def test_what_a_function_fills_again_stays_as_it_was():
    view = memoryview(bytearray(b"a"))
    held = {"set": {1}, "deque": deque([1]), "array": array("q", [1]), "bytes": bytearray(b"a"), "view": view}
    kept = wholly_own(held)
    for filled in (held["set"], held["deque"]):
        filled.clear()
    held["array"][0], held["bytes"][0], view[0] = 2, 0, 0
    assert [list(value) for value in kept.values()] == [[1], [1], [1], [97], [97]]


@pytest.mark.parametrize("made_of", [pa.RecordBatch.from_arrays, pa.Table.from_arrays])
def test_a_batch_of_numbers_that_a_function_fills_again_stays_as_it_was(made_of):
    numbers, words = np.arange(3), pa.array(["a", "b", "a"]).dictionary_encode()
    kept = own_batch(made_of([pa.array(numbers), words], ["n", "w"]))
    numbers[:] = 9
    columns = Shape(pa.schema([("n", pa.int64()), ("w", pa.string())])).table(kept)
    assert [column.to_pylist() for column in columns] == [[0, 1, 2], ["a", "b", "a"]]
    assert own_batch(None) is None


def test_nothing_one_result_or_many():
    assert results_in(None) == []
    assert results_in(0) == [0]
    assert results_in((1, 2)) == [(1, 2)]
    assert results_in([(1, 2), (3, 4)]) == [(1, 2), (3, 4)]
    assert results_in(iter("ab")) == ["a", "b"]
    assert results_in("ab") == ["ab"]


@pytest.mark.parametrize("value", ["ab", b"ab", {"a": 1}])
@pytest.mark.parametrize(
    ("kind", "held"), [(pa.list_(pa.string()), lambda it: it), (pa.list_(pa.list_(pa.int8())), lambda it: [it])]
)
def test_what_is_no_list_is_not_taken_apart(value, kind, held):
    """A function of `text.split()` for a schema of one list gives many results, each a text: not a list of its letters."""
    _, wrong = Shape(pa.schema([("words", kind), ("n", pa.int8())])).columns([{"words": held(value), "n": 1}])
    assert "it is not a list; a list that a function returns is many results" in str(wrong[0])


STRICT = pa.field("item", pa.int32(), nullable=False)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (pa.struct([STRICT, ("b", pa.int32())]), (None, 1), "with a null inside, for field 'x', which may not be null"),
        (pa.list_(STRICT), [1, None], "with a null inside, for field 'x', which may not be null"),
        (pa.map_(pa.string(), STRICT), {"k": None}, "with a null inside, for field 'x', which may not be null"),
        (pa.list_(pa.struct([STRICT])), [None, (None,)], "with a null inside, for field 'x', which may not be null"),
        (pa.map_(pa.string(), pa.string()), [None], "a map is a dict or a list of pairs"),
        (pa.map_(pa.string(), pa.string()), ["ab"], "a map is a dict or a list of pairs"),
        (pa.map_(pa.string(), pa.string()), "ab", "a map is a dict or a list of pairs"),
    ],
)
def test_what_arrow_would_take_for_something_else_is_told(kind, value, said):
    shape = Shape(pa.schema([("x", kind), ("n", pa.int8())]))
    columns, wrong = shape.columns([{"x": value, "n": 1}, {"x": None, "n": 2}])
    assert list(wrong) == [0]
    assert said in str(wrong[0])
    assert columns[0].null_count == 2


def test_a_number_is_no_time():
    _, wrong = Shape(pa.schema([("at", pa.time64("us"))])).columns([5])
    assert "it is not a time" in str(wrong[0])


def test_a_list_that_a_generator_fills_again_is_that_of_each_result():
    def growing(_row):
        held = []
        for number in range(3):
            held.append(number)
            yield {"held": held}

    shape = Shape(pa.schema([("held", pa.list_(pa.int64()))]))
    assert many_results(growing, shape)(None) == {"results": [([0],), ([0, 1],), ([0, 1, 2],)]}
