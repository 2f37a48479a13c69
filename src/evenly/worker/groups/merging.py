"""Aggregates of a user's own, in workers: a partial for each key on each instance, then the merge."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from evenly.errors import InvalidResult
from evenly.worker.groups.frames import joined
from evenly.worker.groups.keyed_frames import keyed_frames
from evenly.worker.groups.layout import ROWS_A_RESULT, Layout, Timed
from evenly.worker.groups.pandas_rows import Conversion
from evenly.worker.groups.tables import table_clock
from evenly.worker.groups.timing import GroupClock
from evenly.worker.results import nulls_of

PARTIAL, HOME = "partial", "home"

Partial = Callable[[pd.DataFrame], Any]
Merge = Callable[[list[Any]], pd.DataFrame] | None
"""As a `Merging` has them."""
Pickle = Callable[[Any], bytes]


def starter(
    functions: tuple[Partial, Merge],
    names: list[str],
    conversion: Conversion,
    homes: list[int],
    layout: Layout,
    timed: Timed | None = None,
    kinds: Sequence[pa.DataType] = (),
    *,
    by_value: Pickle = pickle.dumps,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The first stage: a key that is not split is finished; of a split key a partial, for the instance that merges it.

    `homes` are the instances that merge the split keys; with none, results are all there is. The last two of the
    user's columns in `layout` are the instance of a row and the number of its split key. With `timed` whole keys and parts of
    split ones are timed, results have one more column, and the last row is a report, also where there are no rows: `kinds` are
    the types of the keys, for who has seen none. `by_value` pickles what `pickle` cannot.
    """

    make, merge = functions

    def start(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        clock = None if timed is None else table_clock(layout, timed)
        found = groups(batches, clock)
        return found if timed is None or clock is None else _with_report(found, timed, clock)

    def groups(batches: Iterator[pa.RecordBatch], clock: GroupClock | None) -> Iterator[pa.RecordBatch]:
        waiting = _Waiting(conversion)
        partials = _Partials(conversion.schema, by_value)
        key: pa.RecordBatch | None = None
        for key, (at, number), rows in keyed_frames(batches, layout, names, 2, clock):
            size, partial = len(rows), make(rows)
            if number < len(homes):
                partials.add(key, partial, homes[number])
            else:
                waiting.add(key, _result(merge, [partial]), at)
            if clock is not None:
                clock.ended(size)
            if waiting.full:
                yield from waiting.take(placed=bool(homes))
                if clock is not None:
                    clock.resume()
        yield from waiting.take(placed=bool(homes))
        yield from partials.take()
        if clock is not None:
            seen = kinds if key is None else key.schema.types
            yield _nothing(seen, conversion.schema, placed=bool(homes))

    return start


def _nothing(keys: Sequence[pa.DataType], values: pa.Schema, *, placed: bool) -> pa.RecordBatch:
    """A row of nulls, in the types of all others."""
    kinds = [*keys, *values.types, *((pa.binary(), pa.int32()) if placed else ())]
    names = stage_names(len(keys), len(values), merged=placed)
    return pa.RecordBatch.from_arrays([nulls_of(1, kind) for kind in kinds], names=names)


def _with_report(batches: Iterator[pa.RecordBatch], timed: Timed, clock: GroupClock) -> Iterator[pa.RecordBatch]:
    """Batches with the column of reports. The last of them, of one row that is no result, gets the report."""
    before: pa.RecordBatch | None = None
    for batch in batches:
        if before is not None:
            yield _reported(before, timed, None)
        before = batch
    if before is not None:
        some = [
            pa.array([timed.others[field.name]], field.type) if field.name in timed.others else column
            for field, column in zip(before.schema, before.columns, strict=True)
        ]
        yield _reported(pa.RecordBatch.from_arrays(some, names=before.schema.names), timed, clock.report())


def _reported(batch: pa.RecordBatch, timed: Timed, report: bytes | None) -> pa.RecordBatch:
    reports = pa.array([report] * batch.num_rows, pa.binary())
    return pa.RecordBatch.from_arrays([*batch.columns, reports], names=[*batch.schema.names, timed.report])


def stage_names(keys: int, values: int, *, merged: bool) -> list[str]:
    """What the columns between the stages are called: the key, the result, and with `merged` the partial and where it goes."""
    named = [*(f"key_{at}" for at in range(keys)), *(f"value_{at}" for at in range(values))]
    return [*named, PARTIAL, HOME] if merged else named


class _Waiting:
    """Results of whole keys, made Arrow together: a table for each of them would cost more than most functions."""

    def __init__(self, conversion: Conversion) -> None:
        self._conversion = conversion
        self._by_types: dict[tuple[Any, ...], list[tuple[pa.RecordBatch, int, int, list[pd.Series[Any]]]]] = {}
        self._size = 0

    @property
    def full(self) -> bool:
        return self._size >= ROWS_A_RESULT

    def add(self, key: pa.RecordBatch, result: pd.DataFrame, at: int) -> None:
        columns = self._conversion.columns(result)
        if columns and len(result):
            kind = tuple(column.dtype for column in columns)
            self._by_types.setdefault(kind, []).append((key, at, len(result), columns))
            self._size += len(result)

    def take(self, *, placed: bool) -> Iterator[pa.RecordBatch]:
        """All results so far, in a batch for each combination of types; `placed` with where they are."""
        by_types, self._by_types, self._size = self._by_types, {}, 0
        for results in by_types.values():
            keys, at, lengths, frames = zip(*results, strict=True)
            parts = [pd.Series(joined(part)) for part in zip(*frames, strict=True)]
            columns = [*_repeated(keys, lengths), *self._conversion.arrays(parts)]
            if placed:
                columns += [pa.nulls(sum(lengths), pa.binary()), pa.array(np.repeat(np.array(at, np.int32), lengths))]
            names = stage_names(len(keys[0].schema), len(parts), merged=placed)
            yield pa.RecordBatch.from_arrays(columns, names=names)


class _Partials:
    """Partials of split keys, on their way to the instances that merge them."""

    def __init__(self, schema: pa.Schema, by_value: Pickle) -> None:
        self._schema, self._by_value = schema, by_value
        self._keys: list[pa.RecordBatch] = []
        self._packed: list[bytes] = []
        self._homes: list[int] = []

    def add(self, key: pa.RecordBatch, partial: Any, home: int) -> None:
        self._keys.append(key)
        self._packed.append(_packed(partial, self._by_value))
        self._homes.append(home)

    def take(self) -> Iterator[pa.RecordBatch]:
        if count := len(self._keys):
            empty = [nulls_of(count, field.type) for field in self._schema]
            sent = [pa.array(self._packed, pa.binary()), pa.array(self._homes, pa.int32())]
            names = stage_names(len(self._keys[0].schema), len(empty), merged=True)
            yield pa.RecordBatch.from_arrays([*_repeated(self._keys, [1] * count), *empty, *sent], names=names)


def _packed(partial: Any, by_value: Pickle) -> bytes:
    """A partial, pickled: with its class, if that is of a script or a notebook, which no other worker can import."""
    try:
        return pickle.dumps(partial, protocol=5)
    except Exception:  # noqa: BLE001 - whatever its classes raise
        try:
            return by_value(partial)
        except Exception as error:
            raise InvalidResult(
                f"partial must return something that can be pickled, got {type(partial).__name__} ({error}): give numbers, "
                "texts, lists or a frame"
            ) from error


def _repeated(keys: Sequence[pa.RecordBatch], lengths: Sequence[int]) -> list[pa.Array]:
    """The columns of keys of one row each, each as often as its result has rows."""
    table = pa.Table.from_batches(keys).combine_chunks()
    if any(length != 1 for length in lengths):
        table = table.take(np.repeat(np.arange(len(lengths)), lengths))
    return [_one(column) for column in table.columns]


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def merger(merge: Merge, keys: int, conversion: Conversion) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The second stage: finished rows pass as they are, partials of a key (the first `keys` columns) are merged."""

    def merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: dict[object, tuple[list[pa.Scalar], list[Any]]] = {}
        shape: pa.Schema | None = None
        for batch in batches:
            packed = batch.column(batch.num_columns - 1)
            finished = batch.select(range(batch.num_columns - 1))
            shape = finished.schema
            if packed.null_count == len(packed):
                yield finished
                continue
            yield finished.filter(packed.is_null())
            for at in np.flatnonzero(packed.is_valid()).tolist():
                key = [batch.column(position)[at] for position in range(keys)]
                _, partials = waiting.setdefault(tuple(map(identity, key)), (key, []))
                partials.append(pickle.loads(packed[at].as_py()))  # noqa: S301 - what the stage before has just written
        for key, partials in waiting.values():
            yield from _shaped(_finished(merge, partials, key, conversion), shape)

    return merged


def _shaped(columns: list[pa.Array], shape: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    """The rows in the very types of those that pass: Arrow writes one schema a stream, down to names inside lists."""
    if shape is not None and columns:
        cast = [_typed(column, field.type) for column, field in zip(columns, shape, strict=True)]
        yield pa.RecordBatch.from_arrays(cast, schema=shape)


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Not cast without need: Arrow takes the fields of a null struct for nulls where there may be none."""
    return column if column.type.equals(kind, check_metadata=True) else column.cast(kind)


def _finished(merge: Merge, partials: list[Any], key: list[pa.Scalar], conversion: Conversion) -> list[pa.Array]:
    """The result for one key, with the key's columns first; none if it has no rows."""
    frame = _result(merge, partials)
    columns = conversion.columns(frame)
    if not columns or not len(frame):
        return []
    return [*(pa.repeat(value, len(frame)) for value in key), *conversion.arrays(columns)]


def _result(merge: Merge, partials: list[Any]) -> pd.DataFrame:
    frame = partials[0] if merge is None else merge(partials)
    if not isinstance(frame, pd.DataFrame):
        told = "partial" if merge is None else "merge"
        raise InvalidResult(f"{told} must return a pandas DataFrame with the columns of the schema, got {type(frame).__name__}")
    return frame


def identity(value: pa.Scalar) -> object:
    """A value that is equal exactly for equal keys: NaN is one key, and so are 0.0 and -0.0; times are compared as numbers.

    As Python's times two moments of the hour that daylight saving time repeats would be equal.
    """
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_floating(kind):
        number = value.as_py()
        return "NaN" if math.isnan(number) else number + 0.0
    if pa.types.is_struct(kind):
        return tuple(identity(value[at]) for at in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return tuple(identity(held) for held in value.values)  # noqa: PD011 - of Arrow
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind) or pa.types.is_date(kind):
        return value.value
    return value.as_py()
