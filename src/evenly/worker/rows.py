"""Rows of an Arrow batch as a Python function gets them: Spark's `Row`, at a fraction of its price.

Columns become lists at once, and rows are made of them without a step of Python for each. A struct is a Row, a map a dict, a
timestamp a datetime with the session's time zone (of a timestamp_ntz: without one), a variant or a geometry Spark's object.
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import pyarrow as pa

from evenly.errors import FunctionFailed
from evenly.worker.engine import Row, class_of_values

_NO_VALUE = (ValueError, OverflowError, TypeError)
"""What Arrow raises where Python has no such value: a text that is not UTF-8, a day of the year 10000, a struct with two fields
of one name, a map whose keys are lists."""
_Convert = Callable[[Any], Any]
_OF_TUPLES = frozenset(dir(Row))


def row_class(names: list[str]) -> type[Row]:
    """A `Row` with these fields: `row.name` costs no search, all else is as in Spark."""
    space: dict[str, Any] = {"__slots__": (), "__fields__": names}
    # The getters of a named tuple are compiled, and work on any tuple; Row's own are not.
    getters = namedtuple("_Getters", [f"f{at}" for at in range(len(names))])  # type: ignore[misc]  # noqa: PYI024
    for at, name in reversed(list(enumerate(names))):
        if name not in _OF_TUPLES and not name.startswith("__"):
            space[name] = getters.__dict__[f"f{at}"]
    return type("Row", (Row,), space)


def rows_of(batch: pa.RecordBatch, kind: type[Row]) -> Iterator[Row]:
    """The rows of a batch, of a class that `row_class` made for its columns."""
    if batch.num_columns == 0:
        return map(tuple.__new__, repeat(kind, batch.num_rows), repeat(()))
    try:
        columns = [values_of(column) for column in batch.columns]
    except _NO_VALUE:
        at, error = next(iter(unreadable(batch).items()))
        raise FunctionFailed(f"{error}; on {as_json(shown(batch.slice(at, 1))[0])}") from error
    return map(tuple.__new__, repeat(kind), zip(*columns, strict=True))


def unreadable(batch: pa.RecordBatch) -> dict[int, FunctionFailed]:
    """The rows of a batch that have a value which Python has not, as a text that is not UTF-8 or a day after the year 9999, and
    what is wrong with each."""
    found: dict[int, FunctionFailed] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for at, value in enumerate(_one_by_one(column)):
            if isinstance(value, _Unreadable):
                remedy = "make_valid_utf8 or a cast to binary" if isinstance(value.error, UnicodeError) else "a cast to string"
                found.setdefault(
                    at,
                    FunctionFailed(
                        f"the function cannot get this row: column {name!r} has a value that Python has not "
                        f"({type(value.error).__name__}: {value.error}); {remedy} makes one that it has"
                    ),
                )
    return dict(sorted(found.items()))


def shown(batch: pa.RecordBatch) -> list[Row]:
    """The rows of a batch to be told of, with a text for what Python has not."""
    kind = row_class(batch.schema.names)
    columns = [[str(it) if isinstance(it, _Unreadable) else it for it in _one_by_one(column)] for column in batch.columns]
    return [tuple.__new__(kind, values) for values in zip(*columns, strict=True)] if columns else list(rows_of(batch, kind))


class _Unreadable:
    """A value that Python has not."""

    def __init__(self, value: pa.Array, error: Exception) -> None:
        self._value, self.error = value, error

    def __str__(self) -> str:
        if isinstance(self.error, UnicodeDecodeError):
            return self.error.object.decode("utf-8", "backslashreplace")
        try:
            if pa.types.is_timestamp(self._value.type):  # as a text Arrow has another year for those far off
                return f"{self._value.cast(pa.int64())[0]} µs since 1970"
            return str(self._value.cast(pa.string())[0])
        except (pa.lib.ArrowException, *_NO_VALUE):
            return f"({self.error})"


def _one_by_one(column: pa.Array) -> list[Any]:
    """The values of a column, whatever some of them are."""
    try:
        return values_of(column)
    except _NO_VALUE:
        pass
    found: list[Any] = []
    for at in range(len(column)):
        one = column.slice(at, 1)
        try:
            found += values_of(one)
        except _NO_VALUE as error:
            found.append(_Unreadable(one, error))
    return found


def values_of(column: pa.Array) -> list[Any]:
    """The values of a column."""
    values: list[Any] = column.to_pylist()
    convert = converter(column.type)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def converter(kind: pa.DataType) -> _Convert | None:
    """What turns Arrow's Python values into Spark's; None where they are the same already."""
    if pa.types.is_struct(kind):
        made_of_parts = _object(kind)
        if made_of_parts is not None:
            return made_of_parts
        names = [field.name for field in kind]
        inner = [_maybe(converter(field.type)) for field in kind]
        made = row_class(names)
        return lambda value: tuple.__new__(made, [each(value[name]) for name, each in zip(names, inner, strict=True)])
    if pa.types.is_map(kind):
        of_key, of_item = _maybe(converter(kind.key_type)), _maybe(converter(kind.item_type))
        return lambda pairs: {of_key(key): of_item(item) for key, item in pairs}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        each = converter(kind.value_type)
        return None if each is None else lambda values: [None if value is None else each(value) for value in values]
    return None


def _object(kind: pa.StructType) -> _Convert | None:
    """What makes Spark's object of its parts, where a struct of Arrow stands for one: the metadata of a part tell."""
    told = {field.name: field.metadata or {} for field in kind}
    if told.get("metadata", {}).get(b"variant") == b"true" and (variant := class_of_values("VariantVal")):
        return lambda value: variant(value["value"], value["metadata"])
    for name in ("Geometry", "Geography"):
        if told.get("wkb", {}).get(name.lower().encode()) == b"true" and (shape := class_of_values(name)):
            made = shape.fromWKB
            return lambda value: made(value["wkb"], value["srid"])
    return None


def parts_of(given: Any) -> dict[str, Any] | None:
    """The parts of such an object, as Arrow has them; None of anything else."""
    kind = type(given).__name__
    if kind not in ("VariantVal", "Geometry", "Geography") or type(given) is not class_of_values(kind):
        return None
    if kind == "VariantVal":
        return {"value": given.value, "metadata": given.metadata}
    return {"srid": given.getSrid(), "wkb": given.getBytes()}


def _maybe(convert: _Convert | None) -> _Convert:
    return _same if convert is None else lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def as_json(row: Row) -> str:
    """A row as JSON that a person can read and a program can parse; what JSON does not know is a text."""
    return json.dumps(_plain(row), default=_text, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Rows as objects, maps with texts as keys."""
    if isinstance(value, Row):
        return {name: _plain(held) for name, held in zip(value.__fields__, value, strict=True)}
    if isinstance(value, dict):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, list):
        return [_plain(held) for held in value]
    return value


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)
