"""Arrow tables to pandas and back, the way that Spark does it for `applyInPandas`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd
import pyarrow as pa

from evenly.errors import InvalidResult
from evenly.worker.zones import zone_of


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Rows as a grouped pandas function expects them: dates as objects, timestamps without a zone, in the session's."""
    frame: pd.DataFrame = table.to_pandas(date_as_object=True, maps_as_pydicts="strict", coerce_temporal_nanoseconds=True)
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            frame.isetitem(at, frame.iloc[:, at].dt.tz_localize(None))
    return frame


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


_Place = Callable[[Any], Any]


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
