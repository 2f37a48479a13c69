"""Rows of a bucket as one value: every row is in its bucket's pack, as it was and in its order."""

import pyarrow as pa
import pytest

from evenly.errors import SparkFailed
from evenly.worker.states import packing
from evenly.worker.states.packing import PACKED

SENT = pa.schema([("c0", pa.string()), ("c1", pa.timestamp("us", tz="UTC")), ("id", pa.int32())])


def batch(*rows, sent=SENT):
    """Of (bucket, slot, columns…)."""
    schema = pa.schema([("bucket", pa.int32()), ("slot", pa.int32()), *sent])
    columns = [pa.array(values, it.type) for values, it in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.record_batch(columns, schema)


def packs(*batches):
    """What is in each pack, by bucket and slot, in the order in which packs came."""
    return [
        (bucket, slot, [tuple(row.values()) for row in pa.ipc.read_record_batch(pa.py_buffer(packed), SENT).to_pylist()])
        for made in packing.packing(SENT)(iter(batches))
        for bucket, slot, packed in zip(*(it.to_pylist() for it in made.columns), strict=True)
    ]


def test_rows_of_a_bucket_are_one_value_in_their_order():
    assert packs(batch((3, -5, "b", None, 1), (0, 7, "a", None, 2), (3, -5, None, None, 3)), batch((3, -5, "a", None, 4))) == [
        (0, 7, [("a", None, 2)]),
        (3, -5, [("b", None, 1), (None, None, 3), ("a", None, 4)]),
    ]


def test_a_bucket_with_two_slots_is_two_groups():
    made = packs(batch((1, 1, "a", None, 1), (1, -1, "a", None, 2), (1, 1, "a", None, 3)))
    assert sorted((slot, len(rows)) for _, slot, rows in made) == [(-1, 1), (1, 2)]


def test_many_rows_are_packed_as_they_come(monkeypatch):
    monkeypatch.setattr(packing, "_HELD_BYTES", 1)
    one = batch((1, 1, "a", None, 1))
    assert packs(one, one) == [(1, 1, [("a", None, 1)])] * 2


def test_no_rows_are_no_packs():
    assert packs() == packs(batch((1, 1, "a", None, 1)).slice(0, 0)) == []


def test_another_time_zone_of_the_session_changes_no_moment():
    told = SENT.set(1, pa.field("c1", pa.timestamp("us", tz="Asia/Tokyo")))
    (_, _, [(_, moment, _)]) = packs(batch((1, 1, "a", 0, 1), sent=told))[0]
    assert moment.timestamp() == 0


def test_other_columns_are_refused():
    other = pa.schema([("c0", pa.string()), ("c2", pa.timestamp("us", tz="UTC")), ("id", pa.int32())])
    with pytest.raises(SparkFailed, match="c2"):
        packs(batch((1, 1, "a", None, 1), sent=other))


def test_results_that_were_packed_are_rows():
    rows = pa.record_batch({"c0": ["a", None], "c1": pa.array([0, 1], SENT.field(1).type), "id": pa.array([1, 2], pa.int32())})
    packed = pa.record_batch({PACKED: [rows.serialize().to_pybytes()]})
    assert list(packing.unpacked(SENT)(iter([packed]))) == [rows]
