"""What Spark calls for a group of keys (`transformWithState`): it cuts the group into keys, and keeps their states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from evenly.errors import SparkFailed
from evenly.worker.engine import Row
from evenly.worker.rows import converter, row_class, rows_of
from evenly.worker.settled import settle
from evenly.worker.states.calls import BatchTimes, Calls
from evenly.worker.states.identity import identity_of
from evenly.worker.states.kept import KeptStates, Writing
from evenly.worker.states.layout import StateLayout
from evenly.worker.states.packing import PACKED


class KeyStates:
    """What Spark's `StatefulProcessor` does, by its methods: `function` for every key of a group, and all of it in columns."""

    def __init__(self, function: Callable[..., Any], layout: StateLayout) -> None:
        self._function, self._layout = function, layout

    def begin(self, handle: Any, chunks: Any) -> None:
        """A task begins: Spark's handle of it, and the list of chunks, which is the current group's at any time."""
        settle()
        self._handle, self._chunks = handle, chunks
        layout = self._layout
        self._identity = identity_of(layout.key.types)
        self._row = row_class(list(layout.columns.names))
        self._packed = Row(PACKED)
        self._convert = [(at, found) for at, it in enumerate(layout.columns) if (found := converter(it.type))]
        self._shown = [(at, found) for at, it in enumerate(layout.key) if (found := _shown(it.type))]

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803, ARG002 - Spark's
        """All rows of a group in a batch."""
        groups = self._groups(rows)
        kept = KeptStates(list(self._chunks.get()), self._layout)
        ids = np.fromiter((number for _, number, _ in groups.values()), np.int32, len(groups))
        found = {self._identity(entry.key): entry for entry in kept.found(ids)}
        calls = self._calls(timerValues)
        for identity, (raw, number, mine) in groups.items():
            calls.call(self._key(raw), raw, number, mine, found.get(identity))
        yield from self._ended(calls, kept, expired=None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803, ARG002
        """The first deadline of a group has passed."""
        calls = self._calls(timerValues)
        kept = KeptStates(list(self._chunks.get()), self._layout)
        times = calls.times
        due = kept.due(times.now_ms if self._layout.timeout == "processing" else times.watermark_ms)
        for entry in due:
            calls.call(self._key(entry.key), entry.key, entry.id, [], entry)
        yield from self._ended(calls, kept, expired=expiredTimerInfo.getExpiryTimeInMs())

    def _groups(self, rows: Iterator[Any]) -> dict[Any, tuple[tuple[Any, ...], int, list[Row]]]:
        """The values, the id and the rows of each key, by what tells keys apart."""
        groups: dict[Any, tuple[tuple[Any, ...], int, list[Row]]] = {}
        identity = self._identity
        for raw, number, row in self._sent_packed(rows) if self._layout.packs else self._sent_singly(rows):
            told = identity(raw)
            group = groups.get(told)
            if group is None:
                groups[told] = (raw, number, [row])
            else:
                group[2].append(row)
        return groups

    def _sent_packed(self, rows: Iterator[Any]) -> Iterator[tuple[tuple[Any, ...], int, Row]]:
        """Of each row the values of its key, their id and what users see of it."""
        keys, width, sent = self._layout.keys, len(self._layout.columns), self._layout.sent
        for packed in rows:
            batch = pa.ipc.read_record_batch(pa.py_buffer(packed[PACKED]), sent)
            raw = zip(*(batch.column(at).to_pylist() for at in keys), strict=True)
            shown = rows_of(batch.select(range(width)), self._row)
            yield from zip(raw, batch.column(len(sent) - 1).to_pylist(), shown, strict=True)

    def _sent_singly(self, rows: Iterator[Any]) -> Iterator[tuple[tuple[Any, ...], int, Row]]:
        """The same of rows that Spark has to see, one by one."""
        keys, width, names = self._layout.keys, len(self._layout.columns), tuple(self._layout.sent.names)
        checked = False
        for row in rows:
            if not checked and tuple(row.__fields__[: len(names)]) != names:
                raise SparkFailed(f"Spark gives the columns {row.__fields__} where {names} are to come first")
            checked = True
            values = tuple(row)  # of a Row each look costs a search
            shown = values[:width]
            made = tuple.__new__(self._row, self._converted(shown) if self._convert else shown)
            yield tuple([values[at] for at in keys]), values[len(names) - 1], made

    def _converted(self, values: tuple[Any, ...]) -> list[Any]:
        """Nested values as users see them."""
        shown = list(values)
        for at, convert in self._convert:
            if shown[at] is not None:
                shown[at] = convert(shown[at])
        return shown

    def _key(self, raw: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self._shown:
            return raw
        key = list(raw)
        for at, shown in self._shown:
            key[at] = None if key[at] is None else shown(key[at])
        return tuple(key)

    def _calls(self, times: Any) -> Calls:
        told = BatchTimes(times.getCurrentProcessingTimeInMs(), times.getCurrentWatermarkInMs())
        return Calls(self._function, self._layout, told)

    def _ended(self, calls: Calls, kept: KeptStates, *, expired: int | None) -> Iterator[Any]:
        """Write what has changed, set the clock for the next deadline, and give the results."""
        results = calls.made()
        writing = kept.changed(calls.entries(), calls.void)
        if writing is not None:
            self._write(writing)
        if self._layout.timeout is not None:
            self._set_timer(kept.next_deadline_ms(), expired)
        if results.num_rows:
            yield self._packed(results.serialize().to_pybytes())

    def _write(self, writing: Writing) -> None:
        if not writing.replaces:
            self._chunks.appendList(list(writing.chunks))
        elif writing.chunks:
            self._chunks.put(list(writing.chunks))
        else:
            self._chunks.clear()

    def _set_timer(self, deadline_ms: int | None, expired: int | None) -> None:
        """A group has one timer, of its first deadline. Spark calls when it is reached, and a key is due when it has passed.

        Spark itself removes the one that has expired, when the call is over.
        """
        wanted = None if deadline_ms is None else deadline_ms + 1
        there = set(self._handle.listTimers())
        for timer in there - {wanted, expired}:
            self._handle.deleteTimer(timer)
        if wanted is not None and wanted not in there:
            self._handle.registerTimer(wanted)


def _shown(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What turns a key's value into what users see: -0.0 is 0.0, and nested ones as in rows."""
    if pa.types.is_floating(kind):
        return lambda value: value + 0.0
    return converter(kind)
