"""What turns a value as Spark's users write it into what Arrow takes. Nothing is guessed: what does not fit is an error."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from evenly.worker.rows import parts_of
from evenly.worker.zones import zone_of

_MOST_OF_A_FLOAT = float(np.finfo(np.float32).max)
_ONCE = "it is an iterator, which can be read once only; make a list of it"
_NO_MAP = "a map is a dict or a list of pairs"


def unfinished(value: Any) -> str:
    """What to do with a result that has yet to be made; nothing if it is none."""
    if inspect.iscoroutine(value):
        value.close()  # or Python warns that nobody awaited it
        return "it is a coroutine; give the async function itself, not one that calls it"
    if inspect.isgenerator(value):
        return "it is a generator; return one result for a row, such as a list"
    return _ONCE if isinstance(value, Iterator) else ""


def by_name(held: Sequence[Any], fields: list[str], names: list[str]) -> Sequence[Any]:
    """What a Row holds, in the order of `names` if its fields have these names; else as it is, by position."""
    if fields == names or len(set(names)) < len(names) or sorted(fields) != sorted(names):
        return held
    return [held[fields.index(name)] for name in names]


def whole(value: Any) -> Any:
    """A number for a field of whole numbers: Arrow would cut off what is behind the point."""
    if value is not None and not isinstance(value, int) and value != int(value):
        raise ValueError("it is not a whole number")
    return value


def converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What turns a value as Spark's users write it into what Arrow takes; None where nothing is to be done.

    Structs may be tuples, and a datetime without a zone is one in the session's. Arrow would take any number for a time, in
    microseconds, and the zone of a datetime from it where there is none.
    """
    if pa.types.is_integer(kind) or pa.types.is_float32(kind):
        return _single if pa.types.is_float32(kind) else whole
    if pa.types.is_temporal(kind):
        return _time_converter(kind)
    if pa.types.is_struct(kind):
        names, inner = [field.name for field in kind], [converter(field.type) for field in kind]
        return lambda value: _as_struct(value, names, inner)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        each = converter(kind.value_type)
        return _listed if each is None else lambda value: None if value is None else [each(held) for held in _listed(value)]
    if pa.types.is_map(kind):
        of_key, of_item = converter(kind.key_type) or _same, converter(kind.item_type) or _same
        return lambda value: None if value is None else [(of_key(key), of_item(item)) for key, item in _pairs(value)]
    return None


def _listed(value: Any) -> Any:
    """What is for an array. Arrow would take a text for its letters, bytes for numbers and a dict for its keys; and a value is
    looked at more than once: a second look at an iterator would find nothing in it."""
    if isinstance(value, (str, bytes, bytearray, dict)):
        raise TypeError("it is not a list; a list that a function returns is many results, so give one in a dict or a tuple")
    if isinstance(value, Iterator):
        raise TypeError(unfinished(value))
    return value


def _pairs(value: Any) -> Any:
    """The keys and items of a dict, or of a list of pairs, in whose place Arrow takes dicts of a key and a value too. A list of
    something else would end the process: Arrow does not check it."""
    if isinstance(value, dict):
        return value.items()
    if not isinstance(value, (list, tuple, np.ndarray)):
        raise TypeError(unfinished(value) or _NO_MAP)
    return map(_pair, value)


def _pair(given: Any) -> Any:
    if isinstance(given, dict):
        return given["key"], given["value"]
    if not (isinstance(given, (list, tuple, np.ndarray)) and len(given) == 2):
        raise TypeError(_NO_MAP)
    return given


def _single(value: Any) -> Any:
    """A number for a float of 32 bits: Arrow makes one that is too large infinite."""
    if isinstance(value, (int, float, np.number)) and _MOST_OF_A_FLOAT < abs(float(value)) < np.inf:
        raise ValueError("it is too large for a float; make the field a double")
    return value


def _time_converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    if pa.types.is_timestamp(kind):
        return lambda value: _moment(value, kind.tz)
    if pa.types.is_date(kind):
        return lambda value: _of(value, date, np.datetime64)
    if pa.types.is_time(kind):
        return lambda value: _of(value, time)
    if pa.types.is_duration(kind):
        return lambda value: _of(value, timedelta, np.timedelta64)
    return None


def _moment(value: Any, zone: str | None) -> Any:
    """A datetime for a timestamp in the session's zone, or, of no zone, for a timestamp_ntz."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if _of(value, datetime) is None:
        return None
    if zone is None:
        if value.tzinfo is not None:
            raise ValueError("it has a time zone and a timestamp_ntz has none; take it off, as value.replace(tzinfo=None) does")
        return value
    return value.replace(tzinfo=zone_of(zone)) if value.tzinfo is None else value


def _of(value: Any, *kinds: type) -> Any:
    """A value that is of one of these types, or None."""
    if value is not None and not isinstance(value, kinds):
        raise TypeError(f"it is not a {kinds[0].__name__}")
    return value


def _same(value: Any) -> Any:
    return value


def _as_struct(value: Any, names: list[str], inner: list[Callable[[Any], Any] | None]) -> Any:
    if value is None:
        return None
    if not isinstance(value, (dict, tuple, list)):
        value = parts_of(value) or value
    if isinstance(value, dict):
        if unknown := [name for name in value if name not in names]:
            raise ValueError(f"it has no field {unknown[0]!r}")
        held = [value.get(name) for name in names]
    elif isinstance(value, (tuple, list)):
        held = list(by_name(value, list(getattr(value, "__fields__", ())), names))
    else:
        raise TypeError("a struct is a dict or a tuple")
    return {name: each(it) if each else it for name, it, each in zip(names, held, inner, strict=True)}
