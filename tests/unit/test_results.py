"""What functions return, as columns: a Row goes by its names, and holds what its one field is called after."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from evenly.worker.many_results import many_results
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
        (pa.struct([STRICT, ("b", pa.int32())]), (None, 1), "a null inside where the schema has none"),
        (pa.list_(STRICT), [1, None], "a null inside where the schema has none"),
        (pa.map_(pa.string(), STRICT), {"k": None}, "a null inside where the schema has none"),
        (pa.list_(pa.struct([STRICT])), [None, (None,)], "a null inside where the schema has none"),
        (pa.map_(pa.string(), pa.string()), [None], "a map is a dict, or a list of pairs"),
        (pa.map_(pa.string(), pa.string()), ["ab"], "a map is a dict, or a list of pairs"),
        (pa.map_(pa.string(), pa.string()), "ab", "a map is a dict, or a list of pairs"),
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
