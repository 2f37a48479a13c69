"""Aggregates of a user's own, and what a worker does with them: a partial for each key on each instance, then the merge.

Workers import this module, so it imports nothing that takes long to load.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.types import StructType

from evenly.errors import InvalidParameter, InvalidResult
from evenly.spark.groups.frames import ROWS_A_RESULT, joined
from evenly.spark.groups.keyed_frames import keyed_frames
from evenly.spark.groups.layout import Layout
from evenly.spark.groups.pandas_rows import columns_of, to_arrow

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
    merging: Merging, names: list[str], schema: pa.Schema, zone: str, homes: list[int], layout: Layout
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The first stage: a key that is not split is finished; of a split key a partial, for the instance that merges it.

    `homes` are the instances that merge the split keys; with none, results are all there is. The last two of the
    user's columns in `layout` are the instance of a row and the number of its split key.
    """

    def start(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting = _Waiting(schema, zone)
        partials = _Partials(schema)
        for key, (at, number), rows in keyed_frames(batches, layout, names, 2):
            partial = merging.partial(rows)
            if number < len(homes):
                partials.add(key, partial, homes[number])
                continue
            waiting.add(key, _result(merging, [partial]), at)
            if waiting.full:
                yield from waiting.take(placed=bool(homes))
        yield from waiting.take(placed=bool(homes))
        yield from partials.take()

    return start


class _Waiting:
    """Results of whole keys, made Arrow together: a table for each of them would cost more than most functions."""

    def __init__(self, schema: pa.Schema, zone: str) -> None:
        self._schema, self._zone = schema, zone
        self._by_types: dict[tuple[Any, ...], list[tuple[pa.RecordBatch, int, int, list[pd.Series[Any]]]]] = {}
        self._size = 0

    @property
    def full(self) -> bool:
        return self._size >= ROWS_A_RESULT

    def add(self, key: pa.RecordBatch, result: pd.DataFrame, at: int) -> None:
        columns = columns_of(result, self._schema)
        if len(result):
            kind = tuple(column.dtype for column in columns)
            self._by_types.setdefault(kind, []).append((key, at, len(result), columns))
            self._size += len(result)

    def take(self, *, placed: bool) -> Iterator[pa.RecordBatch]:
        """All results so far, in a batch for each combination of types; `placed` with where they are."""
        by_types, self._by_types, self._size = self._by_types, {}, 0
        for results in by_types.values():
            keys, at, lengths, frames = zip(*results, strict=True)
            parts = [pd.Series(joined(part)) for part in zip(*frames, strict=True)]
            columns = [*_repeated(keys, lengths), *to_arrow(parts, self._schema, self._zone)]
            names = [*keys[0].schema.names, *self._schema.names]
            if placed:
                columns += [pa.nulls(sum(lengths), pa.binary()), pa.array(np.repeat(np.array(at, np.int32), lengths))]
                names += [PARTIAL, HOME]
            yield pa.RecordBatch.from_arrays(columns, names=names)


class _Partials:
    """Partials of split keys, on their way to the instances that merge them."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._keys: list[pa.RecordBatch] = []
        self._packed: list[bytes] = []
        self._homes: list[int] = []

    def add(self, key: pa.RecordBatch, partial: Any, home: int) -> None:
        self._keys.append(key)
        self._packed.append(pickle.dumps(partial, protocol=5))
        self._homes.append(home)

    def take(self) -> Iterator[pa.RecordBatch]:
        if count := len(self._keys):
            empty = [pa.nulls(count, field.type) for field in self._schema]
            sent = [pa.array(self._packed, pa.binary()), pa.array(self._homes, pa.int32())]
            names = [*self._keys[0].schema.names, *self._schema.names, PARTIAL, HOME]
            yield pa.RecordBatch.from_arrays([*_repeated(self._keys, [1] * count), *empty, *sent], names=names)


def _repeated(keys: Sequence[pa.RecordBatch], lengths: Sequence[int]) -> list[pa.Array]:
    """The columns of keys of one row each, each as often as its result has rows."""
    table = pa.Table.from_batches(keys).combine_chunks()
    if any(length != 1 for length in lengths):
        table = table.take(np.repeat(np.arange(len(lengths)), lengths))
    return [_one(column) for column in table.columns]


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


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
    frame = _result(merging, partials)
    columns = {name: pa.repeat(value, len(frame)) for name, value in key.items()}
    columns.update(zip(schema.names, to_arrow(columns_of(frame, schema), schema, zone), strict=True))
    return pa.table(columns)


def _result(merging: Merging, partials: list[Any]) -> pd.DataFrame:
    frame = partials[0] if merging.merge is None else merging.merge(partials)
    if not isinstance(frame, pd.DataFrame):
        told = "partial" if merging.merge is None else "merge"
        raise InvalidResult(f"{told} must return a pandas DataFrame with the columns of the schema, got {type(frame).__name__}")
    return frame


def _identity(value: Any) -> object:
    """A value that is equal for equal keys: NaN is one key, and so are 0.0 and -0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, _identity(held)) for name, held in value.items())
    if isinstance(value, list):
        return tuple(_identity(held) for held in value)
    return value
