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
from evenly.worker.groups.layout import ROWS_A_RESULT, Layout, Timed
from evenly.worker.groups.timing import GroupClock

"""So many rows (or groups) are put together before they go back to Spark."""


def tables_by_group(
    function: Callable[..., pa.Table],
    schema: pa.Schema,
    layout: Layout,
    *,
    with_key: bool,
    by_name: bool = True,
    timed: Timed | None = None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`function` over each group of an instance, for `mapInArrow`; `schema` is that of its results.

    `by_name=False` is for sessions that take columns by position (`assignColumnsByName`). With `timed` each group is timed,
    results have one more column, and the last row is a report.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.Table] = []
        rows, shape = 0, schema
        clock = None if timed is None else table_clock(layout, timed)
        for key, group in table_groups(batches if clock is None else clock.passed(batches), layout):
            result = checked_result(function(key, group) if with_key else function(group), schema, by_name=by_name)
            if clock is not None:
                clock.ended(group.num_rows)
            if result.num_rows == 0:
                continue
            shape = result.schema  # Arrow writes one schema a stream, down to what may be null
            waiting.append(result if timed is None else _reported(result, timed))
            rows += result.num_rows
            if rows >= ROWS_A_RESULT:
                yield from _joined(waiting)
                waiting, rows = [], 0
                if clock is not None:
                    clock.resume()
        yield from _joined(waiting)
        if timed is not None and clock is not None:
            others = [pa.array([timed.others.get(field.name)], field.type) for field in shape]
            yield from _joined([_reported(pa.Table.from_arrays(others, schema=shape), timed, clock.report())])

    return run


def table_clock(layout: Layout, timed: Timed) -> GroupClock:
    """A clock for groups that are cut out of Arrow's batches."""
    return GroupClock(
        layout,
        ids=lambda batch: batch.column(layout.id).to_numpy(),
        value=lambda batch, at, position: batch.column(position)[at].as_py(),
        limit=timed.most_groups,
    )


def _reported(table: pa.Table, timed: Timed, report: bytes | None = None) -> pa.Table:
    """With the column of reports."""
    return table.append_column(pa.field(timed.report, pa.binary()), pa.array([report] * table.num_rows, pa.binary()))


def table_groups(batches: Iterator[pa.RecordBatch], layout: Layout) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The key and the table of each group. Held at a time: one group and one batch."""
    parts: list[pa.RecordBatch] = []
    last: list[pa.Array] | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        carried = batch.select(range(layout.carried)).rename_columns(list(layout.names))
        compared = [batch.column(position) for position in layout.compared]
        if last is not None and _differs(last, compared):
            yield _finished(parts, layout)
            parts = []
        starts = [0, *(np.flatnonzero(key_changes(compared)) + 1).tolist()]
        for start, end in pairwise(starts):
            parts.append(carried.slice(start, end - start))
            yield _finished(parts, layout)
            parts = []
        parts.append(carried.slice(starts[-1]))
        last = [values.slice(batch.num_rows - 1) for values in compared]
    if parts:
        yield _finished(parts, layout)


def key_changes(compared: list[pa.Array]) -> NDArray[np.bool_]:
    """Whether each row but the first has another key than the row before. Null is a key, and so is NaN."""
    changed = np.zeros(len(compared[0]) - 1, np.bool_)
    for values in compared:
        if pa.types.is_null(values.type):  # one key, and Arrow does not compare it
            continue
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
        key_changes([pa.concat_arrays([before, values.slice(0, 1)]) for before, values in zip(last, compared, strict=True)])[0]
    )


def _finished(parts: list[pa.RecordBatch], layout: Layout) -> tuple[tuple[Any, ...], pa.Table]:
    """The key, as Arrow scalars, and the table of a whole group, as `applyInArrow` would give them."""
    key = tuple(parts[0].column(position)[0] for position in layout.keys)
    group = pa.Table.from_batches(parts)
    return key, group.select(range(layout.width)) if layout.carried > layout.width else group


def checked_result(result: pa.Table, schema: pa.Schema, *, by_name: bool = True) -> pa.Table:
    """The columns of the schema in its order and types, as `applyInArrow` demands them.

    A type that holds the same values in another way is taken, too: a time in another zone, no nulls where there might be some.
    Any other is refused: Spark would round a decimal and take a time without a zone for one in UTC.
    """
    names = schema.names
    if not isinstance(result, pa.Table):
        raise InvalidResult(
            f"the function returned {type(result).__name__}, not a pyarrow.Table: "
            f"return one with the columns {', '.join(names)}"
        )
    labels = result.column_names
    if not labels and result.num_rows == 0:
        return result
    if labels != names:
        if not (sorted(labels) == sorted(names) if by_name else len(labels) == len(names)):
            raise InvalidResult(
                f"the function returned the columns {', '.join(labels) or 'none'}, and the schema has {', '.join(names)}: "
                f"return these, in {'any' if by_name else 'this'} order"
            )
        result = result.select(names) if by_name else result.rename_columns(names)
    for at, field in enumerate(schema):
        found = result.schema.field(at).type
        if found == field.type:
            continue
        if not same_values(found, field.type):
            raise InvalidResult(
                f"column {field.name!r} of the function's table is {found}, and the schema has {field.type}: name the type "
                "when you make the table, as in pa.array(values, type), or cast it in the function"
            )
        result = result.set_column(at, field.name, result.column(at).cast(field.type))
    return result


def same_values(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of one type holds just what one of the other does, as far as `wanted` allows nulls."""
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return bool(found.unit == wanted.unit and (found.tz is None) == (wanted.tz is None))
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        names = [[field.name for field in kind] for kind in (found, wanted)]
        return names[0] == names[1] and all(_same_field(*pair) for pair in zip(found, wanted, strict=True))
    if _is_list(found) and _is_list(wanted):
        return _same_field(found.value_field, wanted.value_field)
    if pa.types.is_map(found) and pa.types.is_map(wanted):
        return same_values(found.key_type, wanted.key_type) and _same_field(found.item_field, wanted.item_field)
    wide = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return bool(wide.get(found, found) == wide.get(wanted, wanted))


def _same_field(found: pa.Field, wanted: pa.Field) -> bool:
    return (wanted.nullable or not found.nullable) and same_values(found.type, wanted.type)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _joined(tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    if tables:
        yield from pa.concat_tables(tables).combine_chunks().to_batches()
