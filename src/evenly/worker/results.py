"""What a user's function returned, as the columns of its schema. Nothing is guessed: what does not fit is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from evenly.errors import InvalidResult
from evenly.worker.arrow_values import by_name, converter, unfinished, whole
from evenly.worker.owned import own

_UNFIT = (pa.lib.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError, KeyError, AttributeError)
_LONGEST = 120
_WHOLE = {int, bool, type(None)}


@dataclass(frozen=True)
class Shape:
    """The columns of the results, and which of them may be null. `strict` names those that may not.

    `held`: a list, struct or map that is the only field comes in a tuple or a dict, as fields of several do, and never bare.
    Where bare ones may come, (None,) is a list with a null in it.
    """

    schema: pa.Schema
    strict: frozenset[str] = frozenset()
    held: bool = False

    @cached_property
    def _holds_one(self) -> bool:
        return self.held and len(self.schema) == 1 and pa.types.is_nested(self.schema.field(0).type)

    def columns(self, values: Sequence[Any]) -> tuple[list[pa.Array], dict[int, InvalidResult]]:
        """A column for each field, and what is wrong with which values (in their place the columns have nulls).

        A value is a dict (by name), a tuple or list (by position), or, if there is one field, what it holds.
        """
        wrong: dict[int, InvalidResult] = {}
        lists = self._quick(values)
        if lists is None:
            lists = [[None] * len(values) for _ in self.schema]
            for at, value in enumerate(values):
                try:
                    for column, held in zip(lists, self._taken(value), strict=True):
                        column[at] = held
                except InvalidResult as error:
                    wrong[at] = error
        return [self._array(field, column, wrong) for field, column in zip(self.schema, lists, strict=True)], wrong

    def nulls(self, count: int) -> list[pa.Array]:
        return [nulls_of(count, field.type) for field in self.schema]

    def taken(self, value: Any) -> tuple[Any, ...]:
        """The fields of one value, in order, none of them null that may not be; their types are not looked at."""
        found = tuple(self._taken(value))
        for name, held in zip(self.schema.names, found, strict=True):
            if held is None and name in self.strict:
                raise _is_null(name)
        return found

    def _quick(self, values: Sequence[Any]) -> list[list[Any]] | None:
        """The fields of values that are all alike and as they should be; None to look at each."""
        names = self.schema.names
        kinds = set(map(type, values))
        holding = [kind for kind in kinds if issubclass(kind, (dict, tuple, list))]
        if len(names) == 1:
            if all(issubclass(kind, tuple) for kind in kinds) and not pa.types.is_nested(self.schema.field(0).type):
                return [[value[0] for value in values]] if set(map(len, values)) == {1} else None
            return None if holding or self._holds_one else [list(values)]
        if len(kinds) != 1 or not holding or set(map(len, values)) != {len(names)}:
            return None
        if issubclass(holding[0], dict):
            alike = all(name in value for value in values for name in names)
            return [[value[name] for value in values] for name in names] if alike else None
        columns = [list(column) for column in zip(*values, strict=True)]
        fields = vars(holding[0]).get("__fields__")  # of the rows that a function gets; Spark's own have them one by one
        if fields is None and hasattr(values[0], "__fields__"):
            return None
        return columns if fields is None else list(by_name(columns, list(fields), names))

    def _taken(self, value: Any) -> Sequence[Any]:
        """The fields of one value, in order."""
        names = self.schema.names
        if len(names) == 1 and not self._holds_one and not self._wraps(value, self.schema.field(0).type):
            return (value,)
        if isinstance(value, dict):
            missing = [name for name in names if name not in value]
            unknown = [str(name) for name in value if name not in names]
            if missing or unknown:
                what = f"no field {missing[0]!r}" if missing else f"a field {unknown[0]!r} that the schema does not have"
                raise InvalidResult(f"the function returned {_told(value)}, with {what}: the schema has {', '.join(names)}")
            return [value[name] for name in names]
        if isinstance(value, tuple) or (isinstance(value, list) and not self._holds_one):
            if len(value) != len(names):
                raise InvalidResult(
                    f"the function returned {_told(value)}, of {len(value)} values: the schema has {len(names)} fields, "
                    f"{', '.join(names)}"
                )
            return by_name(value, list(getattr(value, "__fields__", ())), names)
        what = unfinished(value) or f"return a dict or a tuple with the fields {', '.join(names)}"
        raise InvalidResult(f"the function returned {_told(value)}: {what}")

    def _wraps(self, value: Any, kind: pa.DataType) -> bool:
        """Whether a result for a schema of one field holds that field's value, or is it."""
        name = self.schema.names[0]
        if isinstance(value, dict):
            if pa.types.is_struct(kind):
                return list(value) == [name] and kind.get_field_index(name) < 0
            return not pa.types.is_map(kind)
        if isinstance(value, tuple) and pa.types.is_nested(kind):  # a Row of this field holds it; another tuple is a struct
            holds = list(getattr(value, "__fields__", ())) == [name]
            return holds and (not pa.types.is_struct(kind) or [field.name for field in kind] != [name] or _is_row(value[0]))
        return isinstance(value, tuple)

    def _array(self, field: pa.Field, values: list[Any], wrong: dict[int, InvalidResult]) -> pa.Array:
        convert = converter(field.type)
        if convert is whole and set(map(type, values)) <= _WHOLE:
            convert = None
        try:
            made = pa.array(values if convert is None else [convert(value) for value in values], field.type)
        except _UNFIT:
            made = pa.array(self._one_by_one(field, values, convert, wrong), field.type)
        if made.null_count and field.name in self.strict:
            for at in np.flatnonzero(made.is_null()).tolist():
                wrong.setdefault(at, _is_null(field.name))
        if _may_not_be_null_within(field.type) and _null_within(made):
            holed = {at for at in range(len(made)) if _null_within(made.slice(at, 1))}
            for at in holed:
                wrong.setdefault(at, _is_null(field.name, f"{_told(values[at])}, with a null inside,"))
            return self._array(field, [None if at in holed else value for at, value in enumerate(values)], wrong)
        return made

    def _one_by_one(
        self, field: pa.Field, values: list[Any], convert: Callable[[Any], Any] | None, wrong: dict[int, InvalidResult]
    ) -> list[Any]:
        fit: list[Any] = []
        for at, value in enumerate(values):
            try:
                made = value if convert is None else convert(value)
                pa.array([made], field.type)
            except _UNFIT as error:
                made = None
                wrong.setdefault(
                    at,
                    InvalidResult(
                        f"the function returned {_told(value)} ({type(value).__name__}) for field {field.name!r}, which is of "
                        f"type {field.type}: {unfinished(value) or error}"
                    ),
                )
            fit.append(made)
        return fit

    def table(self, result: Any) -> list[pa.Array]:
        """The columns of what a function over Arrow batches returned, by name."""
        if not isinstance(result, (pa.RecordBatch, pa.Table)):
            raise InvalidResult(
                f"the function returned {_told(result)} ({type(result).__name__}): return a pyarrow RecordBatch or Table with "
                f"the columns {', '.join(self.schema.names)}"
            )
        labels = result.schema.names
        if sorted(labels) != sorted(self.schema.names):
            raise InvalidResult(
                f"the function returned the columns {', '.join(labels) or 'none'}, and the schema has "
                f"{', '.join(self.schema.names)}: return these, in any order"
            )
        return [self._cast(result.column(field.name), field) for field in self.schema]

    def _cast(self, column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if column.null_count and field.name in self.strict:
            raise _is_null(field.name, "a null")
        made = self._of_type(column, field)
        if _may_not_be_null_within(field.type) and _null_within(made):
            raise _is_null(field.name, "a null inside")
        return made

    @staticmethod
    def _of_type(column: pa.Array, field: pa.Field) -> pa.Array:
        if column.type == field.type:
            return column
        told = f"the function returned {column.type} for field {field.name!r}, which is of type {field.type}"
        if not _same_kind(column.type, field.type):
            raise InvalidResult(f"{told}: name the type when you make the array, or convert it in the function")
        try:
            return column.cast(field.type)
        except _UNFIT as error:
            raise InvalidResult(f"{told}: {error}") from error


def results_in(value: Any, owned: Callable[[Any], Any] = own) -> list[Any]:
    """What a function of a row gave: nothing, one result or many."""
    if isinstance(value, (tuple, dict)):  # first: whether a value is an iterator takes long to ask
        return [owned(value)]
    if value is None:
        return []
    if isinstance(value, (list, Iterator)):
        return list(map(owned, value))
    return [value if owned is own else owned(value)]


def nulls_of(count: int, kind: pa.DataType) -> pa.Array:
    """So many nulls. Arrow's own, of a struct with a map in it, are damaged: who reads them ends the process."""
    return pa.array([None] * count, kind) if pa.types.is_nested(kind) else pa.nulls(count, kind)


def _is_null(name: str, what: str = "None") -> InvalidResult:
    return InvalidResult(f"the function returned {what} for field {name!r}, which may not be null")


def _inside(kind: pa.DataType) -> list[pa.Field]:
    """What a type holds; of a map its items, for no key is null."""
    if pa.types.is_map(kind):
        return [kind.item_field]
    return [kind.field(at) for at in range(kind.num_fields)] if pa.types.is_nested(kind) else []


@lru_cache(maxsize=256)
def _may_not_be_null_within(kind: pa.DataType) -> bool:
    """Whether there is a field or an element in a type that may not be null. Spark would read a null there as it likes."""
    return any(not field.nullable or _may_not_be_null_within(field.type) for field in _inside(kind))


def _null_within(made: pa.Array) -> bool:
    """Whether something in an array is null that may not be."""
    if pa.types.is_struct(made.type):
        there = made.filter(made.is_valid())
        held = [there.field(at) for at in range(made.type.num_fields)]
    elif pa.types.is_map(made.type):
        held = [pa.ListArray.from_arrays(made.offsets, made.items).flatten()]
    else:
        held = [made.flatten()] if pa.types.is_nested(made.type) else []
    return any(
        (inner.null_count and not field.nullable) or (_may_not_be_null_within(field.type) and _null_within(inner))
        for field, inner in zip(_inside(made.type), held, strict=True)
    )


def _is_row(value: Any) -> bool:
    return value is None or hasattr(value, "__fields__")


def _told(value: Any) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - the value is a user's
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _same_kind(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow casts one type to the other without changing what values say, or fails.

    It would take a time without a zone for one in UTC and a number for a time or a truth, leave out fields of structs, and
    round to a decimal.
    """
    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        return _same_kind(found.value_type, wanted)
    if pa.types.is_nested(wanted) or pa.types.is_nested(found):
        return _same_nested(found, wanted)
    if pa.types.is_floating(found) and pa.types.is_decimal(wanted):
        return False
    return _kind(found) == _kind(wanted)


def _same_nested(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        names = [[field.name for field in kind] for kind in (found, wanted)]
        return names[0] == names[1] and all(_same_kind(*(it.type for it in pair)) for pair in zip(found, wanted, strict=True))
    if pa.types.is_map(found) and pa.types.is_map(wanted):
        return _same_kind(found.key_type, wanted.key_type) and _same_kind(found.item_type, wanted.item_type)
    lists = all(hasattr(kind, "value_type") and not pa.types.is_map(kind) for kind in (found, wanted))
    return lists and _same_kind(found.value_type, wanted.value_type)


def _kind(of: pa.DataType) -> str:
    """One word for types that are cast to each other."""
    if pa.types.is_timestamp(of):
        return "timestamp" if of.tz else "timestamp_ntz"
    told = {"date": pa.types.is_date, "time": pa.types.is_time, "duration": pa.types.is_duration, "bool": pa.types.is_boolean}
    return next((name for name, is_one in told.items() if is_one(of)), "number or text")
