"""When two keys are one: as Spark groups them, told by Python's equality.

Null is a key, and so is NaN; 0.0 and -0.0 are one. Two moments that a clock shows alike, when summer time ends, are two keys,
although Python takes datetimes of one zone for equal if their clocks show the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

_NAN = math.nan

Identity = Callable[[tuple[Any, ...]], Any]


def identity_of(kinds: list[pa.DataType]) -> Identity:
    """A function from the values of a key of these types, as Arrow gives them, to something that is equal for equal keys."""
    if any(map(_is_told_otherwise, kinds)):
        return lambda key: tuple(map(_told, key))
    return lambda key: key


def _is_told_otherwise(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_nested(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None))


def _told(value: Any) -> Any:
    if isinstance(value, float):
        return _NAN if math.isnan(value) else value
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return tuple((name, _told(held)) for name, held in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_told, value))
    return value
