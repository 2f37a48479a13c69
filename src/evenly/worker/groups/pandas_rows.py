"""Arrow tables to pandas and back, the way that Spark does it for `applyInPandas`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from evenly.errors import InvalidResult
from evenly.worker.zones import zone_of

_Place = Callable[[Any], Any]


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Rows as a grouped pandas function expects them: dates as objects, timestamps without a zone, in the session's."""
    frame: pd.DataFrame = table.to_pandas(
        date_as_object=True, maps_as_pydicts="strict", coerce_temporal_nanoseconds=True, integer_object_nulls=True
    )
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            if field.type.tz is not None:
                frame.isetitem(at, frame.iloc[:, at].dt.tz_localize(None))
        elif (local := _local_in(field.type)) is not None:
            frame.isetitem(at, _objects([None if value is None else local(value) for value in frame.iloc[:, at]]))
    return frame


def _local_in(kind: pa.DataType) -> _Place | None:
    """What makes moments inside structs, lists and maps Timestamps without a zone, in that of their type; None without any.

    Arrow itself gives those in lists as numbers of numpy, in UTC, and the others as datetimes with a zone.
    """
    if pa.types.is_timestamp(kind):
        return pd.Timestamp if kind.tz is None else lambda value: _local(value, kind.tz)
    if pa.types.is_struct(kind):
        fields = {field.name: local for field in kind if (local := _local_in(field.type)) is not None}
        return _in_struct({name: _or_none(local) for name, local in fields.items()}) if fields else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        local = _local_in(kind.value_type)
        return None if local is None else lambda values: _array_of([_or_none(local)(value) for value in values])
    if pa.types.is_map(kind):
        keys, items = _local_in(kind.key_type), _local_in(kind.item_type)
        both = _in_map(keys and _or_none(keys), items and _or_none(items))
        return (lambda value: dict(both(value))) if keys or items else None
    return None


def _local(value: Any, zone: str) -> pd.Timestamp:
    moment = pd.Timestamp(value)
    moment = moment.tz_localize("UTC") if moment.tzinfo is None else moment
    return moment.tz_convert(zone).tz_localize(None)


def _or_none(local: _Place) -> _Place:
    return lambda value: None if value is None else local(value)


def _array_of(values: list[Any]) -> NDArray[Any]:
    try:
        return np.array(values)
    except ValueError:  # lists of several lengths
        return _objects(values)


def _objects(values: list[Any]) -> NDArray[Any]:
    made = np.empty(len(values), np.object_)
    for at, value in enumerate(values):
        made[at] = value
    return made


def columns_of(result: pd.DataFrame, names: list[str], *, by_name: bool) -> list[pd.Series[Any]]:
    """The columns `names` of a function's frame, by name if any label is a text, else by position, as in `applyInPandas`.

    `by_name=False` is for sessions that take all columns by position (`assignColumnsByName`). None for a frame of nothing.
    """
    labels = result.columns.tolist()
    if labels == names:
        return [result.iloc[:, position] for position in range(len(labels))]
    if not labels and not len(result):
        return []
    if by_name and any(isinstance(label, str) for label in labels):
        if len(labels) == len(names) and sorted(map(str, labels)) == sorted(names):
            return [result[name] for name in names]
    elif len(labels) == len(names):
        return [result.iloc[:, position] for position in range(len(labels))]
    how = "in any order, or as many without names" if by_name else "in this order, by whatever names"
    raise InvalidResult(
        f"the function returned the columns {', '.join(map(str, labels)) or 'none'}, and the schema has "
        f"{', '.join(names)}: return these, {how}"
    )


@dataclass(frozen=True)
class Conversion:
    """How frames become Arrow: the schema, the session's zone, and its settings for what functions return."""

    schema: pa.Schema
    zone: str
    by_name: bool = True
    safe: bool = False

    def columns(self, frame: pd.DataFrame) -> list[pd.Series[Any]]:
        """The columns of the schema; none for a frame of nothing."""
        return columns_of(frame, self.schema.names, by_name=self.by_name)

    def arrays(self, columns: Sequence[pd.Series[Any]]) -> list[pa.Array]:
        """Columns in the types of the schema; as in Spark NaN becomes null, and timestamps are in the session's zone."""
        return [self._array(values, field) for values, field in zip(columns, self.schema, strict=True)]

    def _array(self, values: pd.Series[Any], field: pa.Field) -> pa.Array:
        kind = field.type
        try:
            if pa.types.is_timestamp(kind) and kind.tz is not None and pd.api.types.is_datetime64_dtype(values.dtype):
                values = values.dt.tz_localize(self.zone, ambiguous=False)
            elif (placed := _placed_in(kind, self.zone)) is not None:
                values = values.map(placed, na_action="ignore")
            found = self._typed(values, kind)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidResult(
                f"column {field.name!r} of the function's frame is {values.dtype}, and the schema has {kind}: it cannot be "
                f"converted ({error}). Convert it in the function, or name its own type in the schema"
            ) from error
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    def _typed(self, values: pd.Series[Any], kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
        try:
            return pa.Array.from_pandas(values, type=kind, safe=self.safe)
        except pa.ArrowInvalid:
            # What Arrow does not make at once it may still cast without loss, and Spark lets it.
            return pa.Array.from_pandas(values).cast(kind, safe=self.safe)


def _placed_in(kind: pa.DataType, zone: str) -> _Place | None:
    """What puts times without a zone inside structs, lists and maps into the session's zone; None if there are none."""
    if pa.types.is_struct(kind):
        fields = {field.name: placed for field in kind if (placed := _inside(field.type, zone)) is not None}
        return _in_struct(fields) if fields else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        placed = _inside(kind.value_type, zone)
        return None if placed is None else lambda values: [placed(value) for value in values]
    if pa.types.is_map(kind):
        keys, items = _inside(kind.key_type, zone), _inside(kind.item_type, zone)
        return _in_map(keys, items) if keys or items else None
    return None


def _inside(kind: pa.DataType, zone: str) -> _Place | None:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        own = zone_of(zone)
        return lambda value: value.replace(tzinfo=own) if isinstance(value, datetime) and value.tzinfo is None else value
    placed = _placed_in(kind, zone)
    return None if placed is None else lambda value: None if value is None else placed(value)


def _in_struct(fields: dict[str, _Place]) -> _Place:
    def place(value: Any) -> Any:
        held = value if isinstance(value, Mapping) else value.asDict() if hasattr(value, "asDict") else None
        return value if held is None else {name: fields[name](it) if name in fields else it for name, it in held.items()}

    return place


def _in_map(keys: _Place | None, items: _Place | None) -> _Place:
    def place(value: Any) -> Any:
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(keys(key) if keys else key, items(item) if items else item) for key, item in pairs]

    return place
