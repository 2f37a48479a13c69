"""Arrow tables to pandas and back, the way that Spark does it for `applyInPandas`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from evenly.errors import InvalidResult


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Rows as a grouped pandas function expects them: dates as objects, timestamps without a zone, in the session's."""
    frame: pd.DataFrame = table.to_pandas(date_as_object=True, maps_as_pydicts="strict", coerce_temporal_nanoseconds=True)
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            frame.isetitem(at, frame.iloc[:, at].dt.tz_localize(None))
    return frame


def columns_of(frame: pd.DataFrame, schema: pa.Schema) -> list[pd.Series[Any]]:
    """The columns of `schema` of a frame, by name."""
    missing = [name for name in schema.names if name not in frame.columns]
    if missing:
        raise InvalidResult(
            f"the function's frame has no column {', '.join(map(repr, missing))} of the schema: "
            f"it has {', '.join(map(str, frame.columns))}"
        )
    return [frame[name] for name in schema.names]


def to_arrow(columns: Sequence[pd.Series[Any]], schema: pa.Schema, zone: str) -> list[pa.Array]:
    """Columns in the types of `schema`; as in Spark NaN becomes null, and timestamps are in the session's `zone`."""
    return [_array(values, field.type, zone) for values, field in zip(columns, schema, strict=True)]


def _array(values: pd.Series[Any], kind: pa.DataType, zone: str) -> pa.Array:
    if pa.types.is_timestamp(kind) and kind.tz is not None and pd.api.types.is_datetime64_dtype(values.dtype):
        values = values.dt.tz_localize(zone, ambiguous=False)
    # Not safely, as Spark: integers that pandas holds as floats, beside a null, may be too large for Arrow's liking.
    found = pa.Array.from_pandas(values, type=kind, safe=False)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
