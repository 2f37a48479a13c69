"""Functions over iterators are known at the call, however they are written; results in Arrow are compared by type."""

from collections.abc import Generator, Iterable, Iterator
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import evenly
from evenly.errors import InvalidParameter, InvalidResult
from evenly.spark.keyed.functions import check_no_iterator
from evenly.worker.groups.frames import key_changes_of_arrays
from evenly.worker.groups.merging import identity
from evenly.worker.groups.pandas_rows import columns_of
from evenly.worker.groups.tables import checked_result


def yields(group):
    yield group


def takes(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    return batches


def takes_with_key(_key: tuple, batches: "Iterator[pa.RecordBatch]") -> "Iterator[NotKnownHere]":  # noqa: F821
    return batches


def returns(group: pd.DataFrame) -> Iterable[pd.DataFrame]:
    return [group]


def generates(group: pd.DataFrame) -> Generator[pd.DataFrame, None, None]:
    return (group for _ in range(1))


async def awaits(group):
    return group


class Yielding:
    def __call__(self, group):
        yield group


def plain(_key: tuple, group: pd.DataFrame) -> pd.DataFrame:
    return group


@pytest.mark.parametrize(
    "function", [yields, takes, takes_with_key, returns, generates, awaits, Yielding(), partial(yields), Yielding().__call__]
)
def test_iterators_are_refused(function):
    with pytest.raises(InvalidParameter, match=r"the function takes or yields an iterator.*one result"):
        check_no_iterator(function, "the function")
    with pytest.raises(InvalidParameter, match="partial of a Merging takes or yields"):
        evenly.Merging(partial=function, merge=None, schema="n int")
    with pytest.raises(InvalidParameter, match="merge of a Merging takes or yields"):
        evenly.Merging(partial=len, merge=function, schema="n int")


@pytest.mark.parametrize("function", [plain, len, partial(plain, ()), lambda group: group, pd.DataFrame])
def test_other_functions_pass(function):
    check_no_iterator(function, "the function")


SCHEMA = pa.schema({"x": pa.decimal128(10, 2), "t": pa.timestamp("us", "UTC")})
X, T = pa.array([None], pa.decimal128(10, 2)), pa.array([0], pa.timestamp("us", "Europe/Berlin"))


def test_a_time_in_another_zone_is_the_same_time():
    assert checked_result(pa.table({"t": T, "x": X}), SCHEMA).schema == SCHEMA


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (
            {"x": pa.array([None], pa.decimal128(10, 3)), "t": T},
            r"column 'x' .* is decimal128\(10, 3\), .* has decimal128\(10, 2\)",
        ),
        ({"x": X, "t": pa.array([0], pa.timestamp("us"))}, r"column 't' .* is timestamp\[us\], .* has timestamp\[us, tz=UTC\]"),
        ({"x": X, "t": pa.array([0], pa.timestamp("ms", "UTC"))}, r"column 't' .* is timestamp\[ms, tz=UTC\]"),
        ({"x": X}, r"returned the columns x, and the schema has x, t"),
    ],
)
def test_any_other_type_is_refused_with_the_column_and_both_types(columns, told):
    with pytest.raises(InvalidResult, match=told):
        checked_result(pa.table(columns), SCHEMA)


def test_columns_are_taken_by_position_where_the_session_says_so():
    swapped = pa.table({"other": X, "names": T})
    assert checked_result(swapped, SCHEMA, by_name=False).schema == SCHEMA
    frame = pd.DataFrame({"b": [1], "a": [2]})
    assert [column.tolist() for column in columns_of(frame, ["a", "b"], by_name=False)] == [[1], [2]]
    assert [column.tolist() for column in columns_of(frame, ["a", "b"], by_name=True)] == [[2], [1]]


def test_the_two_moments_of_a_repeated_hour_are_two_keys():
    """On 27 October 2024 Berlin's clocks showed half past two twice: at 00:30 and at 01:30 UTC."""
    kind = pa.timestamp("us", "Europe/Berlin")
    first, second = pa.array([1_729_989_000_000_000, 1_729_992_600_000_000], kind)
    assert first.as_py() == second.as_py(), "as Python compares them"
    assert identity(first) != identity(second)
    nested = pa.array([[{"t": first.as_py()}], [{"t": second.as_py()}]], pa.list_(pa.struct({"t": kind})))
    assert identity(nested[0]) != identity(nested[1])


def test_nan_is_one_key_and_so_are_both_zeros_and_null_is_another():
    found = [identity(value) for value in pa.array([float("nan"), -float("nan"), 0.0, -0.0, None, 1.0])]
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert len(set(found)) == 4


def test_a_null_is_one_key_however_pandas_tells_it():
    for null in (None, float("nan")):
        values = np.array(["a", null, null, "b", "b"], np.object_)
        assert key_changes_of_arrays([values]).tolist() == [True, False, True, False]
