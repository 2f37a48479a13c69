"""Aggregates of a user's own, and what a worker does with them: a partial for each key on each instance, then the merge.

Workers import this module, so it imports nothing that takes long to load.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from evenly.errors import InvalidParameter, InvalidResult
from evenly.spark.groups.pandas_rows import to_arrow, to_pandas

PARTIAL, HOME = "__evenly_partial", "__evenly_home"


@dataclass(frozen=True)
class Merging:
    """An aggregate of your own: `merge([partial(rows), partial(other rows), ...])` is the result for all those rows.

    - `partial(rows)` gets rows of one key as a pandas DataFrame with the columns of the input, at least one row, as
      `applyInPandas` would give them, and returns anything that can be pickled: a frame, a tuple, a sketch.
    - `merge(partials)` gets the list of what `partial` returned for one key, one or more, in no promised order, and returns
      a pandas DataFrame with the columns of `schema`, without the key columns: those are added.

    How the rows of a key are cut must not matter for the result. That is what lets a hot key run on several instances.
    `merge=None` says that the function does not merge: `partial` returns the result's frame itself, and a key that
    is too hot for one instance is an error.
    """

    partial: Callable[[pd.DataFrame], Any]
    merge: Callable[[list[Any]], pd.DataFrame] | None
    schema: str | StructType

    def __post_init__(self) -> None:
        for name, function in (("partial", self.partial), ("merge", self.merge)):
            if not callable(function) and not (name == "merge" and function is None):
                raise InvalidParameter(f"{name} must be a function, got {function!r}")


def starter(
    merging: Merging, names: list[str], schema: pa.Schema, zone: str, homes: list[int]
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """The first stage: a key that is not split is finished; of a split key a partial, for the instance that merges it.

    `homes` are the instances that merge the split keys; with none, results are all there is. The last two columns of a
    group's table are its instance and the number of its split key.
    """

    def start(values: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        at, number = (table.column(own)[0].as_py() for own in (-2, -1))
        key = {name: _plus_zero(value) for name, value in zip(names, values, strict=True)}
        partial = merging.partial(to_pandas(table.select(range(table.num_columns - 2))))
        if number < len(homes):
            columns = {name: pa.repeat(value, 1) for name, value in key.items()}
            columns.update({field.name: pa.nulls(1, field.type) for field in schema})
            columns[PARTIAL] = pa.array([pickle.dumps(partial, protocol=5)], pa.binary())
            columns[HOME] = pa.array([homes[number]], pa.int32())
            return pa.table(columns)
        finished = _finished(merging, [partial], key, schema, zone)
        if not homes:
            return finished
        count = finished.num_rows
        unpacked = finished.append_column(PARTIAL, pa.nulls(count, pa.binary()))
        return unpacked.append_column(HOME, pa.array(np.full(count, at, np.int32)))

    return start


def merger(
    merging: Merging, names: list[str], schema: pa.Schema, zone: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The second stage: finished rows pass as they are, the partials of a key are merged."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: dict[object, tuple[dict[str, pa.Scalar], list[Any]]] = {}
        shape: pa.Schema | None = None
        for batch in batches:
            packed = batch.column(batch.schema.get_field_index(PARTIAL))
            finished = batch.drop_columns([PARTIAL])
            shape = finished.schema
            if packed.null_count == len(packed):
                yield finished
                continue
            yield finished.filter(packed.is_null())
            for at in np.flatnonzero(packed.is_valid()).tolist():
                key = {name: batch.column(batch.schema.get_field_index(name))[at] for name in names}
                _, partials = waiting.setdefault(_identity([value.as_py() for value in key.values()]), (key, []))
                partials.append(pickle.loads(packed[at].as_py()))  # noqa: S301 - what the stage before has just written
        for key, partials in waiting.values():
            yield from _shaped(_finished(merging, partials, key, schema, zone), shape)

    return merge


def _shaped(table: pa.Table, shape: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    """The rows in the very types of those that pass: Arrow writes one schema a stream, down to names inside lists."""
    if shape is not None and table.num_rows:
        columns = [table[field.name].combine_chunks().cast(field.type) for field in shape]
        yield pa.RecordBatch.from_arrays(columns, schema=shape)


def _finished(merging: Merging, partials: list[Any], key: dict[str, pa.Scalar], schema: pa.Schema, zone: str) -> pa.Table:
    """The result for one key, with the key's columns first."""
    frame = partials[0] if merging.merge is None else merging.merge(partials)
    if not isinstance(frame, pd.DataFrame):
        told = "partial" if merging.merge is None else "merge"
        raise InvalidResult(f"{told} must return a pandas DataFrame with the columns of the schema, got {type(frame).__name__}")
    columns = {name: pa.repeat(value, len(frame)) for name, value in key.items()}
    columns.update(zip(schema.names, to_arrow(frame, schema, zone), strict=True))
    return pa.table(columns)


def _plus_zero(value: pa.Scalar) -> pa.Scalar:
    """A key as Spark's grouping gives it: -0.0 is 0.0."""
    return pc.add(value, pa.scalar(0.0, value.type)) if pa.types.is_floating(value.type) else value


def _identity(value: Any) -> object:
    """A value that is equal for equal keys: NaN is one key, and so are 0.0 and -0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, _identity(held)) for name, held in value.items())
    if isinstance(value, list):
        return tuple(_identity(held) for held in value)
    return value
