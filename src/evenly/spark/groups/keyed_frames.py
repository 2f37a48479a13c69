"""Groups of an instance as pandas frames, each with its key as it came in Arrow: no type of a key goes through pandas."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from evenly.spark.groups.frames import groups
from evenly.spark.groups.layout import Layout
from evenly.spark.groups.pandas_rows import to_pandas


def keyed_frames(
    batches: Iterator[pa.RecordBatch], layout: Layout, names: list[str], marks: int
) -> Iterator[tuple[pa.RecordBatch, tuple[Any, ...], pd.DataFrame]]:
    """For each group its key, a batch of one row with the columns `names`, its marks and its frame.

    Marks are values of the group: those of its first row in the last `marks` of the user's columns, which its frame lacks.
    """
    keys: deque[tuple[int, pa.RecordBatch]] = deque()

    def frames() -> Iterator[pd.DataFrame]:
        seen = 0
        for batch in batches:
            keys.append((seen, _keys(batch, layout, names)))
            seen += batch.num_rows
            yield to_pandas(pa.Table.from_batches([batch]))

    width = layout.width - marks
    marked = Layout(width, layout.carried, layout.flags, tuple(range(width, layout.width)), layout.compared)
    for values, first, group in groups(frames(), marked, with_key=True):
        while len(keys) > 1 and keys[1][0] <= first:
            keys.popleft()
        offset, columns = keys[0]
        yield columns.slice(first - offset, 1), values, group


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
