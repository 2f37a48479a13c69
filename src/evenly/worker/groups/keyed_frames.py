"""Groups of an instance as pandas frames, each with its key as it came in Arrow: no type of a key goes through pandas."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evenly.worker.groups.frames import frame_groups
from evenly.worker.groups.layout import Layout
from evenly.worker.groups.pandas_rows import to_pandas
from evenly.worker.groups.timing import GroupClock


def keyed_frames(
    batches: Iterator[pa.RecordBatch], layout: Layout, names: list[str], marks: int, clock: GroupClock | None = None
) -> Iterator[tuple[pa.RecordBatch, list[int], pd.DataFrame]]:
    """For each group its key, a batch of one row with the columns `names`, its marks and its frame.

    Marks are whole numbers of the group: those of its first row in the last `marks` of the user's columns, which its frame
    lacks. A clock's groups do not count what it takes to convert their batch.
    """
    marked = range(layout.width - marks, layout.width)
    held: deque[tuple[int, pa.RecordBatch, list[NDArray[Any]]]] = deque()

    def frames() -> Iterator[pd.DataFrame]:
        seen = 0
        for batch in batches if clock is None else clock.passed(batches):
            held.append((seen, _keys(batch, layout, names), [batch.column(mark).to_numpy() for mark in marked]))
            seen += batch.num_rows
            rows = to_pandas(pa.Table.from_batches([batch.select([at for at in range(batch.num_columns) if at not in marked])]))
            if clock is not None:
                clock.resume()
            yield rows

    for _, first, group in frame_groups(frames(), _without(layout, marked), with_key=False):
        while len(held) > 1 and held[1][0] <= first:
            held.popleft()
        offset, keys, values = held[0]
        at = first - offset
        yield keys.slice(at, 1), [int(value[at]) for value in values], group


def _without(layout: Layout, gone: range) -> Layout:
    """The layout of the other columns, when these have been taken out."""

    def moved(position: int) -> int:
        return position if position < gone.start else position - len(gone)

    return Layout(
        layout.width - len(gone),
        layout.carried - len(gone),
        tuple((moved(column), moved(flag)) for column, flag in layout.flags if column not in gone),
        tuple(map(moved, layout.keys)),
        tuple(map(moved, layout.compared)),
        tuple(name for at, name in enumerate(layout.names) if at not in gone),
    )


def _keys(batch: pa.RecordBatch, layout: Layout, names: list[str]) -> pa.RecordBatch:
    """The key columns as Spark's grouping gives them: with their nulls, and -0.0 is 0.0."""
    flag_of = dict(layout.flags)
    columns = []
    for position in layout.keys:
        values = batch.column(position)
        if position in flag_of:
            values = pc.if_else(batch.column(flag_of[position]), pa.scalar(None, values.type), values)
        elif pa.types.is_floating(values.type):
            values = pc.add(values, pa.scalar(0.0, values.type))
        columns.append(values)
    return pa.RecordBatch.from_arrays(columns, names=names)
