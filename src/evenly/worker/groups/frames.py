"""Groups of an instance as pandas frames, cut out of batches that come sorted by key.

A group's frame shares the memory of its batch, and results are put together column by column: what is left for a group
beside the user's function is some forty microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evenly.errors import InvalidResult
from evenly.worker.groups.layout import ROWS_A_RESULT, Layout, Timed
from evenly.worker.groups.pandas_rows import columns_of
from evenly.worker.groups.timing import GroupClock

"""So many rows (or groups) are put together before they go back to Spark."""


def frames_by_group(
    function: Callable[..., pd.DataFrame],
    names: list[str],
    layout: Layout,
    *,
    with_key: bool,
    by_name: bool = True,
    timed: Timed | None = None,
) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """`function` over each group of an instance, for `mapInPandas`; `names` are the columns of its results.

    `by_name` says whether they are found by name, see `columns_of`. With `timed` each group is timed, results have one more
    column, and the last row is a report.
    """

    def run(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        results = FrameResults(names, by_name=by_name)
        clock = None if timed is None else _clock(layout, timed)
        for key, _, group in frame_groups(batches if clock is None else clock.passed(batches), layout, with_key=with_key):
            rows = len(group)  # the function may change it
            results.add(function(key, group) if with_key else function(group))
            if clock is not None:
                clock.ended(rows)
            if results.full:
                yield from _taken(results, timed)
                if clock is not None:
                    clock.resume()
        yield from _taken(results, timed)
        if timed is not None and clock is not None:
            yield pd.DataFrame({**{name: [timed.others.get(name)] for name in names}, timed.report: [clock.report()]})

    return run


def _clock(layout: Layout, timed: Timed) -> GroupClock:
    return GroupClock(
        layout,
        ids=lambda batch: batch.iloc[:, layout.id].to_numpy(),
        value=lambda batch, at, position: batch.iat[at, position],  # noqa: PD009 - one value
        limit=timed.most_groups,
    )


def _taken(results: FrameResults, timed: Timed | None) -> Iterator[pd.DataFrame]:
    """All results so far, as Spark is to get them."""
    return results.take() if timed is None else (frame.assign(**{timed.report: None}) for frame in results.take())


def frame_groups(
    batches: Iterator[pd.DataFrame], layout: Layout, *, with_key: bool
) -> Iterator[tuple[tuple[Any, ...], int, pd.DataFrame]]:
    """The key, the number of the first row, and the frame of each group. Held at a time: one group and one batch."""
    parts: list[_Rows] = []
    last: list[NDArray[Any]] | None = None
    first, seen = 0, 0
    for batch in batches:
        if len(batch) == 0:
            continue
        carried = batch.iloc[:, : layout.carried]
        carried.columns = pd.Index(layout.names)
        rows = _Rows(carried, [_flags(batch, position) for _, position in layout.flags])
        compared = [batch.iloc[:, position].to_numpy() for position in layout.compared]
        if last is not None and _differs(last, compared):
            yield _finished(parts, first, layout, with_key=with_key)
            parts, first = [], seen
        starts = [0, *(np.flatnonzero(key_changes_of_arrays(compared)) + 1).tolist()]
        for start, end in pairwise(starts):
            parts.append(rows.cut(start, end))
            yield _finished(parts, first, layout, with_key=with_key)
            parts, first = [], seen + end
        parts.append(rows.cut(starts[-1], len(batch)))
        last = [values[-1:] for values in compared]
        seen += len(batch)
    if parts:
        yield _finished(parts, first, layout, with_key=with_key)


def _flags(batch: pd.DataFrame, position: int) -> NDArray[np.bool_] | None:
    """Where a column of the batch was null; None, which costs its groups nothing, if nowhere."""
    flags = batch.iloc[:, position].to_numpy()
    return flags if flags.any() else None


def key_changes_of_arrays(compared: list[NDArray[Any]]) -> NDArray[np.bool_]:
    """Whether each row but the first has another key than the row before. NaN is a key, and so is a missing time."""
    changed = np.zeros(len(compared[0]) - 1, np.bool_)
    for values in compared:
        before, after = values[:-1], values[1:]
        other = np.asarray(before != after, dtype=np.bool_)
        if values.dtype.kind in "fmM":
            other &= (before == before) | (after == after)  # noqa: PLR0124 - only NaN and NaT differ from themselves
        elif values.dtype.kind == "O":  # a null text is NaN where pandas has texts of their own type
            at = np.flatnonzero(other)
            other[at] = np.asarray((before[at] == before[at]) | (after[at] == after[at]), dtype=np.bool_)
        changed |= other
    return changed


def _differs(last: list[NDArray[Any]], compared: list[NDArray[Any]]) -> bool:
    """Whether a batch begins with another key than the one before it ended with."""
    return bool(
        key_changes_of_arrays([np.concatenate([before, values[:1]]) for before, values in zip(last, compared, strict=True)])[0]
    )


class _Rows:
    """Rows of one group or more, with the flags of their nulls."""

    def __init__(self, frame: pd.DataFrame, flags: list[NDArray[np.bool_] | None]) -> None:
        self.frame = frame
        self.flags = flags

    def cut(self, start: int, end: int) -> _Rows:
        return _Rows(self.frame.iloc[start:end], [None if flag is None else flag[start:end] for flag in self.flags])

    def missing(self, index: int) -> NDArray[np.bool_]:
        flags = self.flags[index]
        return np.zeros(len(self.frame), np.bool_) if flags is None else flags


def _finished(parts: list[_Rows], first: int, layout: Layout, *, with_key: bool) -> tuple[tuple[Any, ...], int, pd.DataFrame]:
    """The key and the frame of a whole group, as `applyInPandas` would give them."""
    if len(parts) == 1:
        # A shallow copy: on a plain slice pandas would warn of every column that the function sets.
        group = parts[0].frame.copy(deep=False)
        group.index = pd.RangeIndex(len(group))
    else:
        group = pd.concat([part.frame for part in parts], ignore_index=True)
    for index, (position, _) in enumerate(layout.flags):
        if any(part.flags[index] is not None for part in parts):
            missing = np.concatenate([part.missing(index) for part in parts])
            if missing.any():
                group.isetitem(position, _with_nulls(group.iloc[:, position], missing))
    key = tuple(group.iat[0, position] for position in layout.keys) if with_key else ()  # noqa: PD009 - Series.iloc takes thrice the time
    if layout.carried > layout.width:
        group = group.iloc[:, : layout.width].copy(deep=False)
    return key, first, group


def _with_nulls(values: pd.Series[Any], missing: NDArray[np.bool_]) -> Any:
    """Integers become floats with NaN and booleans objects with None; pandas' own nullable types stay."""
    if not isinstance(values.dtype, np.dtype):
        return values.mask(missing)
    boolean = values.dtype.kind == "b"
    changed: NDArray[Any] = values.to_numpy().astype(np.object_ if boolean else np.float64)
    changed[missing] = None if boolean else np.nan
    return changed


class FrameResults:
    """What the function gave, put together by the types of its columns: no value is converted on the way.

    A frame of integers and one of floats stay apart, for together the integers would be rounded.
    """

    def __init__(self, names: list[str], *, by_name: bool = True) -> None:
        self._names, self._by_name = names, by_name
        self._waiting: dict[tuple[Any, ...], list[list[pd.Series[Any]]]] = {}
        self._rows = 0
        self._frames = 0

    @property
    def full(self) -> bool:
        return self._rows >= ROWS_A_RESULT or self._frames >= ROWS_A_RESULT

    def add(self, result: pd.DataFrame) -> None:
        if not isinstance(result, pd.DataFrame):
            raise InvalidResult(
                f"the function returned {type(result).__name__}, not a pandas.DataFrame: "
                f"return one with the columns {', '.join(self._names)}"
            )
        columns = columns_of(result, self._names, by_name=self._by_name)
        if not columns or not len(result):
            return
        self._waiting.setdefault(tuple(column.dtype for column in columns), []).append(columns)
        self._rows += len(result)
        self._frames += 1

    def take(self) -> Iterator[pd.DataFrame]:
        """All results so far, in one frame for each combination of types."""
        waiting, self._waiting, self._rows, self._frames = self._waiting, {}, 0, 0
        for frames in waiting.values():
            yield pd.DataFrame(
                {name: joined(parts) for name, parts in zip(self._names, zip(*frames, strict=True), strict=True)}
            )


def joined(parts: tuple[pd.Series[Any], ...]) -> Any:
    """Columns of one type, one after the other."""
    if isinstance(parts[0].dtype, np.dtype) and parts[0].dtype.kind not in "mM":
        return np.concatenate([part.to_numpy() for part in parts])
    return pd.concat(parts, ignore_index=True)
