"""`KeptStates` says of every key what a dict would, after any number of batches, and holds little that is void."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.errors import DamagedData
from evenly.worker.results import Shape
from evenly.worker.states.kept import KeptStates
from evenly.worker.states.layout import NEVER, StateLayout

KEYS = 300
CHANGES = st.dictionaries(st.integers(0, KEYS - 1), st.none() | st.tuples(st.integers(0, 9), st.integers(0, 20)), max_size=12)


def layout(timeout="event", mark=b"12345678"):
    key, state = pa.schema([("user", pa.int64())]), pa.schema([("seen", pa.int64())])
    return StateLayout(key, pa.schema([*key, ("id", pa.int32())]), (0,), key, Shape(state), Shape(state), timeout, mark)


def number(user):
    """An id that two keys share."""
    return user // 2


def entries(shape, new):
    """Of users with what they have seen, and their deadlines."""
    columns = [
        [number(user) for user in new],
        [deadline for _, deadline in new.values()],
        list(new),
        [seen for seen, _ in new.values()],
    ]
    if shape.timeout is None:
        del columns[1]
    return pa.RecordBatch.from_arrays(
        [pa.array(it, field.type) for it, field in zip(columns, shape.entry, strict=True)], schema=shape.entry
    )


def written(chunks, writing):
    if writing is None:
        return chunks
    return list(writing.chunks) if writing.replaces else [*chunks, *writing.chunks]


def all_of(kept):
    return {entry.key[0]: (entry.state[0], entry.deadline_ms) for entry in kept.found(np.arange(KEYS, dtype=np.int32))}


@given(st.lists(CHANGES, max_size=40), st.randoms(use_true_random=False))
def test_it_holds_what_a_dict_would(batches, chance):
    shape, chunks, expected = layout(), [], {}
    for changes in (dict.fromkeys(range(0, KEYS, 2), (1, 15)), *batches):  # many, so that chunks are added to them
        kept = KeptStates(chunks, shape)
        places = {entry.key[0]: entry.place for entry in kept.found(np.array([number(it) for it in changes], np.int32))}
        new = {user: told for user, told in changes.items() if told is not None}
        chunks = written(chunks, kept.changed(entries(shape, new), [places[user] for user in changes if user in places]))
        expected = {**{user: told for user, told in expected.items() if user not in changes}, **new}
        assert kept.next_deadline_ms() == min((deadline for _, deadline in expected.values()), default=None)
        chance.shuffle(chunks)  # a state that was moved may have them in any order
    kept = KeptStates(chunks, shape)
    assert all_of(kept) == expected
    assert {entry.key[0] for entry in kept.due(10)} == {user for user, (_, deadline) in expected.items() if deadline < 10}


@given(st.lists(st.lists(st.integers(0, 999), min_size=1, max_size=60, unique=True), min_size=1, max_size=60))
def test_void_entries_and_chunks_are_bounded(batches):
    shape, chunks, users, wrote, changed = layout(None), [], set(), 0, 0
    for touched in batches:
        kept = KeptStates(chunks, shape)
        places = [entry.place for entry in kept.found(np.arange(1000, dtype=np.int32)) if entry.key[0] in touched]
        writing = kept.changed(entries(shape, dict.fromkeys(touched, (1, NEVER))), places)
        chunks, users = written(chunks, writing), users | set(touched)
        wrote += sum(len(KeptStates([chunk], shape)._live) if writing.replaces else len(touched) for chunk in writing.chunks)
        changed += len(touched)
        kept = KeptStates(chunks, shape)
        assert len(kept._live) <= 1.3 * len(users) + 1
        assert len(chunks) <= 64
    assert wrote <= 5 * (changed + 12 * len(batches))


def test_without_a_live_entry_nothing_is_kept():
    shape = layout()
    chunks = written([], KeptStates([], shape).changed(entries(shape, {1: (1, 5)}), []))
    writing = KeptStates(chunks, shape).changed(entries(shape, {}), [0])
    assert (writing.chunks, writing.replaces) == ((), True)
    assert KeptStates(chunks, shape).changed(entries(shape, {}), []) is None


def test_what_another_layout_wrote_is_refused():
    chunks = written([], KeptStates([], layout()).changed(entries(layout(), {1: (1, 5)}), []))
    with pytest.raises(DamagedData, match="another key or schema"):
        KeptStates(chunks, layout(mark=b"87654321"))


def test_a_chunk_that_is_missing_is_refused():
    shape = layout()
    chunks = written([], KeptStates([], shape).changed(entries(shape, dict.fromkeys(range(60), (1, 5))), []))
    chunks = written(chunks, KeptStates(chunks, shape).changed(entries(shape, {0: (2, 5)}), [0]))
    assert len(chunks) == 2
    with pytest.raises(DamagedData, match="number 0 is missing"):
        KeptStates(chunks[1:], shape)


def test_moments_are_shown_in_the_time_zone_of_today_s_session_whatever_wrote_them():
    """Keys of calls without rows (time-outs) and states are read from what is kept."""

    def shape(zone):
        moment = pa.timestamp("us", zone)
        key, state = pa.schema([("at", moment)]), pa.schema([("all", pa.list_(moment)), ("last", moment)])
        sent = pa.schema([*key, ("id", pa.int32())])
        return StateLayout(key, sent, (0,), key, Shape(state), Shape(state), "processing", b"12345678")

    winter, summer = datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 7, 1, 12, tzinfo=UTC)
    columns, before = [[1], [5], [winter], [[summer]], [summer]], shape("Asia/Tokyo")
    arrays = [pa.array(it, field.type) for it, field in zip(columns, before.entry, strict=True)]
    written = KeptStates((), before).changed(pa.RecordBatch.from_arrays(arrays, schema=before.entry), ())
    kept = KeptStates(written.chunks, shape("America/New_York"))
    for [entry] in (kept.found(np.array([1], np.int32)), kept.due(6)):
        assert [it.hour for it in (*entry.key, *entry.state[0], entry.state[1])] == [7, 8, 8]
        assert (entry.key, entry.state) == ((winter,), ([summer], summer))
