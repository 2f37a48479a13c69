"""One INT inside rows in Spark's binary row format, read and replaced for a whole column of rows at once.

A row of n fields is a bitset of nulls (8 bytes for every 64 fields begun), 8 bytes for each field, and what does not fit
in 8 bytes. An INT is the first 4 of its 8 bytes, little-endian; a struct's 8 bytes say where in the row it is (upper half)
and how long (lower half), and there it is a row itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenly.errors import DamagedData
from evenly.kernels.types import I32, I64

Path = tuple[tuple[int, int], ...]
"""Where a field is: for each level of structs, the number of fields and the place among them."""


def replace_int(rows: Any, where: I64, path: Path, *, old: I32, new: I32, data: NDArray[np.uint8], starts: I64) -> None:
    """Replace the INT at `path` in the rows numbered `where`, in place; refused if one of them is not `old` there."""
    position = _positions(data, starts[where], path)
    found = _gather(data, position, 4).view(np.int32).ravel()
    if not np.array_equal(found, old[where]):
        wrong = int(where[np.flatnonzero(found != old[where])[0]])
        raise DamagedData(
            f"a state row of {len(rows[wrong].as_py())} bytes does not hold the slot {old[wrong]} where its schema says. "
            "The state was left as it was"
        )
    data[position[:, None] + np.arange(4)] = new[where].astype("<i4").view(np.uint8).reshape(-1, 4)


def replace_slots(rows: Any, families: Any, paths: dict[str, tuple[Path, ...]], *, old: I32, new: I32) -> Any:
    """Rows (an Arrow array of binary values) with the slot replaced in each place that its column family has one."""
    offsets, data = _buffers(rows)
    data = data.copy()
    names = families.to_numpy(zero_copy_only=False)
    present = rows.is_valid().to_numpy(zero_copy_only=False)
    for family, places in paths.items():
        where = np.flatnonzero((names == family) & present)
        for path in places:
            replace_int(rows, where, path, old=old, new=new, data=data, starts=offsets)
    return _with_data(rows, data)


def slot_replacer(paths: dict[str, tuple[Path, ...]]) -> Callable[[Any, Any, Any, Any], Any]:
    """`replace_slots` for `arrow_udf`: of the columns of rows, column families, old slots and new ones."""

    def replace(rows: Any, families: Any, old: Any, new: Any) -> Any:
        return replace_slots(rows, families, paths, old=_ints(old), new=_ints(new))

    # Spark looks at the parameters' types to see that whole columns are meant.
    replace.__annotations__ = dict.fromkeys(("rows", "families", "old", "new", "return"), pa.Array)
    return replace


def _ints(column: Any) -> Any:
    return column.to_numpy(zero_copy_only=False).astype(np.int32)


def _buffers(rows: Any) -> tuple[I64, NDArray[np.uint8]]:
    """Where each row begins, and all bytes."""
    _, offsets, data = rows.buffers()
    kind = np.int64 if pa.types.is_large_binary(rows.type) else np.int32
    begins = np.frombuffer(offsets, kind)[rows.offset : rows.offset + len(rows)].astype(np.int64)
    return begins, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def _with_data(rows: Any, data: NDArray[np.uint8]) -> Any:
    valid, offsets, _ = rows.buffers()
    return pa.Array.from_buffers(rows.type, len(rows), [valid, offsets, pa.py_buffer(data)], offset=rows.offset)


def _positions(data: NDArray[np.uint8], starts: I64, path: Path) -> I64:
    for fields, place in path[:-1]:
        word = _gather(data, _field(starts, fields, place), 8).view(np.uint64).ravel()
        starts = starts + (word >> np.uint64(32)).astype(np.int64)
    return _field(starts, *path[-1])


def _field(starts: I64, fields: int, place: int) -> I64:
    return starts + 8 * ((fields + 63) // 64 + place)


def _gather(data: NDArray[np.uint8], position: I64, width: int) -> NDArray[np.uint8]:
    return np.ascontiguousarray(data[position[:, None] + np.arange(width)])
