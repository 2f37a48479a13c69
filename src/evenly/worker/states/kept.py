"""The states of a group of keys as Spark keeps them: a list of chunks to which each batch adds what it has changed.

A chunk has entries, in Arrow's format for record batches, and the places of earlier entries that are void from then on: those
that it replaces, and those of keys that have no state any more. Places are counted through all chunks. When too much is void,
or there are too many chunks, one chunk is written instead of all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenly.errors import DamagedData, InvalidResult
from evenly.kernels.types import I32, I64
from evenly.worker.rows import values_of
from evenly.worker.states.layout import NEVER, StateLayout

SCHEMA = "entries binary, void binary"
"""A chunk, as Spark is told it."""
Chunk = tuple[bytes, bytes]
_HEAD = struct.Struct("<8sI")  # the layout's mark, and the chunk's number in its list
_MOST_CHUNKS = 64
_OVERHEAD_ENTRIES = 12
"""A chunk of its own takes about as many bytes as so many entries."""
_MOST_VOID = 0.3
"""How much may be void, as a part of what is not. Fewer than five entries are written then for each that has changed."""


@dataclass(frozen=True)
class Entry:
    """What is kept of a key: where, its id and values, those of its state, and when its time is up."""

    place: int
    id: int
    key: tuple[Any, ...]
    state: tuple[Any, ...]
    deadline_ms: int


@dataclass(frozen=True)
class Writing:
    """What is to become of a list of chunks: all of it is replaced by `chunks`, or they are added at its end."""

    chunks: tuple[Chunk, ...]
    replaces: bool


class KeptStates:
    """What a list of chunks says, and what is to be written when some of it changes. Pure: it is told, and tells.

    Of a key there is one entry that is not void, or none (tests/property/test_kept_states.py).
    """

    def __init__(self, chunks: Sequence[Chunk], layout: StateLayout) -> None:
        self._layout = layout
        batches, voids = _read(chunks, layout)
        self._chunks = len(batches)
        table = pa.Table.from_batches(batches, layout.entry)
        self._entries = table.combine_chunks() if self._chunks > 1 else table
        self._live = np.ones(table.num_rows, np.bool_)
        self._new: pa.RecordBatch | None = None
        for begin, void in voids:
            if void.size and not (void.min() >= 0 and void.max() < begin):
                raise DamagedData(f"a chunk of states voids entry {void.max()} of the {begin} before it. {_RESTORE}")
            self._live[void] = False

    def found(self, ids: I32) -> list[Entry]:
        """The entries whose keys have one of these ids: among them those of the keys that are meant."""
        return self._taken(np.flatnonzero(self._live & np.isin(_numbers(self._entries, "id"), ids)))

    def due(self, now_ms: int) -> list[Entry]:
        """The entries whose deadline is before this time."""
        if self._layout.timeout is None:
            return []
        return self._taken(np.flatnonzero(self._live & (_numbers(self._entries, "deadline") < now_ms)))

    def changed(self, new: pa.RecordBatch, void: Sequence[int]) -> Writing | None:
        """What is to be written so that `new` entries are there and those at the places `void` are not. None: nothing."""
        if not new.num_rows and not len(void):
            return None
        self._live[list(void)] = False
        before = int(np.count_nonzero(self._live))
        live = before + new.num_rows
        wasted = self._live.size - before + _OVERHEAD_ENTRIES * self._chunks
        self._new = new
        if not live:
            return Writing((), replaces=True)
        if self._chunks and self._chunks < _MOST_CHUNKS and wasted <= _MOST_VOID * live:
            return Writing((self._chunk(new, void, self._chunks),), replaces=False)
        whole = pa.concat_tables([self._entries.filter(pa.array(self._live)), pa.Table.from_batches([new])]).combine_chunks()
        batches = whole.to_batches()
        if len(batches) > 1:
            raise InvalidResult("the states of one bucket of keys take over 2 GiB: begin a new checkpoint with more buckets=")
        return Writing((self._chunk(batches[0], (), 0),), replaces=True)

    def next_deadline_ms(self) -> int | None:
        """The first deadline of all, after what was changed; None if there is none."""
        if self._layout.timeout is None:
            return None
        deadlines = _numbers(self._entries, "deadline")[self._live]
        new = () if self._new is None else (_numbers(self._new, "deadline"),)
        first = min(int(told.min(initial=NEVER)) for told in (deadlines, *new))
        return None if first == NEVER else first

    def _taken(self, places: I64) -> list[Entry]:
        if not places.size:
            return []
        taken = self._entries.take(pa.array(places))
        begin, width = len(self._layout.before_key), len(self._layout.keys)
        # Keys as Arrow gives them, states as users see them.
        keys = zip(*(column.to_pylist() for column in taken.columns[begin : begin + width]), strict=True)
        states = zip(*(values_of(column) for column in taken.columns[begin + width :]), strict=True)
        timed = self._layout.timeout is not None
        deadlines = taken.column("deadline").to_pylist() if timed else [NEVER] * places.size
        return list(map(Entry, places.tolist(), taken.column("id").to_pylist(), keys, states, deadlines))

    def _chunk(self, entries: pa.RecordBatch, void: Sequence[int], number: int) -> Chunk:
        told = _HEAD.pack(self._layout.mark, number) + np.array(void, "<i4").tobytes()
        return entries.serialize().to_pybytes(), told


_RESTORE = "Restore the checkpoint from a backup, or begin a new one"


def _read(chunks: Sequence[Chunk], layout: StateLayout) -> tuple[list[pa.RecordBatch], list[tuple[int, NDArray[np.int32]]]]:
    """The entries of chunks in the order in which they were written, and what each voids of those before it."""
    told = sorted((_HEAD.unpack_from(bytes(void)), bytes(void), bytes(entries)) for entries, void in chunks)
    batches: list[pa.RecordBatch] = []
    voids, begin = [], 0
    for number, ((mark, found), void, entries) in enumerate(told):
        if mark != layout.mark:
            raise DamagedData(f"states of another key or schema are where those of this query should be. {_RESTORE}")
        if found != number:
            raise DamagedData(f"of {len(told)} chunks of states number {number} is missing or there twice. {_RESTORE}")
        batch = pa.ipc.read_record_batch(pa.py_buffer(entries), layout.entry)
        voids.append((begin, np.frombuffer(void, "<i4", offset=_HEAD.size)))
        batches.append(batch)
        begin += batch.num_rows
    return batches, voids


def _numbers(entries: pa.Table | pa.RecordBatch, name: str) -> Any:
    return entries.column(name).to_numpy()
