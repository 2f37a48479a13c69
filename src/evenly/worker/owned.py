"""What a function gave, as it is now: it may fill the same list, array or batch again in its next call."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa

_FILLED = (np.ndarray, bytearray, memoryview, set, deque, array)
"""What a function can fill again, beside lists and dicts."""


def own(given: Any) -> Any:
    """A dict or a list of its own."""
    return given.copy() if isinstance(given, (dict, list)) else given


def wholly_own(given: Any) -> Any:
    """The same of what is inside, too: lists, dicts, sets, arrays and bytes that can be filled again."""
    if isinstance(given, dict):
        return {key: wholly_own(value) for key, value in given.items()}
    if isinstance(given, list):
        return [wholly_own(value) for value in given]
    if isinstance(given, _FILLED):
        return copy(given) if not isinstance(given, memoryview) else given.tobytes() if given.itemsize == 1 else given.tolist()
    if isinstance(given, tuple):
        held = [wholly_own(value) for value in given]
        if all(now is before for now, before in zip(held, given, strict=True)):
            return given
        made = tuple.__new__(type(given), held)
        if hasattr(given, "__dict__"):  # the names of a Row of Spark's
            vars(made).update(vars(given))
        return made
    return given


def owning(schema: pa.Schema) -> Callable[[Any], Any]:
    """`own` for results of this schema: where all fields are plain, what is inside cannot be filled again."""
    filled = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary)
    return wholly_own if any(is_filled(kind) for kind in schema.types for is_filled in filled) else own


def own_batch(given: Any) -> Any:
    """A batch or table as it is now. Arrow makes arrays of numpy's without a copy, which a function may fill again."""
    if not isinstance(given, (pa.RecordBatch, pa.Table)):
        return given
    copied = pa.BufferOutputStream()
    with pa.ipc.new_stream(copied, given.schema) as stream:
        stream.write(given)
    return pa.ipc.open_stream(copied.getvalue()).read_all()
