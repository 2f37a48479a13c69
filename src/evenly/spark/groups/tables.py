"""Groups of an instance as pyarrow tables, cut out of batches that come sorted by key, without a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenly.errors import InvalidResult
from evenly.spark.groups.layout import Layout

ROWS_A_RESULT = 10_000
"""So many rows (or groups) are put together before they go back to Spark."""


def tables_by_group(
    function: Callable[..., pa.Table], names: list[str], layout: Layout, *, with_key: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`function` over each group of an instance, for `mapInArrow`; `names` are the columns of its results."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.Table] = []
        types: list[pa.DataType] = []
        rows = 0
        for key, group in groups(batches, layout):
            result = _checked(function(key, group) if with_key else function(group), names)
            if result.num_rows == 0:
                continue
            types = types or result.schema.types
            if result.schema.types != types:
                raise InvalidResult(
                    f"the function returned columns of the types {_told(result.schema.types)}, and of {_told(types)} for "
                    "another group: name the types of the schema when you make a table, as in pa.array(values, pa.int64())"
                )
            waiting.append(result)
            rows += result.num_rows
            if rows >= ROWS_A_RESULT:
                yield from _joined(waiting)
                waiting, rows = [], 0
        yield from _joined(waiting)

    return run


def groups(batches: Iterator[pa.RecordBatch], layout: Layout) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The key and the table of each group. Held at a time: one group and one batch."""
    parts: list[pa.RecordBatch] = []
    last: list[pa.Array] | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        carried = batch.select(range(layout.carried))
        compared = [batch.column(position) for position in layout.compared]
        if last is not None and _differs(last, compared):
            yield _finished(parts, layout)
            parts = []
        starts = [0, *(np.flatnonzero(changes(compared)) + 1).tolist()]
        for start, end in pairwise(starts):
            parts.append(carried.slice(start, end - start))
            yield _finished(parts, layout)
            parts = []
        parts.append(carried.slice(starts[-1]))
        last = [values.slice(batch.num_rows - 1) for values in compared]
    if parts:
        yield _finished(parts, layout)


def changes(compared: list[pa.Array]) -> NDArray[np.bool_]:
    """Whether each row but the first has another key than the row before. Null is a key, and so is NaN."""
    changed = np.zeros(len(compared[0]) - 1, np.bool_)
    for values in compared:
        before, after = values.slice(0, len(values) - 1), values.slice(1)
        other = pc.not_equal(before, after)
        if pa.types.is_floating(values.type):
            other = pc.and_not(other, pc.and_(pc.is_nan(before), pc.is_nan(after)))
        if values.null_count:
            other = pc.coalesce(other, pc.xor(before.is_null(), after.is_null()))
        changed |= other.to_numpy(zero_copy_only=False)
    return changed


def _differs(last: list[pa.Array], compared: list[pa.Array]) -> bool:
    return bool(
        changes([pa.concat_arrays([before, values.slice(0, 1)]) for before, values in zip(last, compared, strict=True)])[0]
    )


def _finished(parts: list[pa.RecordBatch], layout: Layout) -> tuple[tuple[Any, ...], pa.Table]:
    """The key, as Arrow scalars, and the table of a whole group, as `applyInArrow` would give them."""
    key = tuple(parts[0].column(position)[0] for position in layout.keys)
    group = pa.Table.from_batches(parts)
    return key, group.select(range(layout.width)) if layout.carried > layout.width else group


def _checked(result: pa.Table, names: list[str]) -> pa.Table:
    """The columns of the schema in its order, found by name."""
    if not isinstance(result, pa.Table):
        raise InvalidResult(
            f"the function returned {type(result).__name__}, not a pyarrow.Table: "
            f"return one with the columns {', '.join(names)}"
        )
    labels = result.column_names
    if labels == names or (not labels and result.num_rows == 0):
        return result
    if sorted(labels) != sorted(names):
        raise InvalidResult(
            f"the function returned the columns {', '.join(labels) or 'none'}, and the schema has {', '.join(names)}: "
            "return these, in any order"
        )
    return result.select(names)


def _told(types: list[pa.DataType]) -> str:
    return ", ".join(map(str, types))


def _joined(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    if tables:
        yield from pa.concat_tables(tables).combine_chunks().to_batches()
