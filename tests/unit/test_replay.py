"""Rows offered at a rate: which have arrived, and which rows of which file they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evenly.dataflow.replay import Offered, Pace, ReplayClock
from evenly.errors import CheckpointMismatch, InvalidDataflow, InvalidParameter
from evenly.worker import replaying
from evenly.worker.replaying import ReplayedFiles, replayed

SCHEMA = pa.schema([("id", pa.int64()), ("arrived", pa.timestamp("us", "UTC"))])


@pytest.fixture
def files(tmp_path):
    """37 rows in three files, of row groups of 5; hidden files and an empty one beside them."""
    for name, ids in {"b": range(20, 30), "a": range(20), "c": range(30, 37), "empty": []}.items():
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), tmp_path / f"{name}.parquet", row_group_size=5)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "x.parquet").write_text("no file yet")
    return tmp_path


def ids(found, begin, end, parts):
    told = Offered(end, from_row=begin, from_us=0, rate=10.0)
    return [
        [row for batch in replayed(spans, told, SCHEMA, "arrived") for row in batch["id"].to_pylist()]
        for spans in found.spans(begin, end, parts)
    ]


def test_rows_have_the_order_of_files_and_begin_again(files):
    found = ReplayedFiles.at(str(files), ["id"])
    assert found.rows == 37
    assert ids(found, 0, 37, 1) == [list(range(37))]
    assert ids(found, 35, 41, 1) == [[35, 36, 0, 1, 2, 3]]
    assert ids(found, 3, 10, 2) == [[3, 4, 5], [6, 7, 8, 9]]
    assert ids(found, 36 + 37 * 1_000, 38 + 37 * 1_000, 8) == [[36], [0]]
    assert [row for part in ids(found, 0, 111, 7) for row in part] == 3 * list(range(37))


def test_a_path_as_spark_writes_it_is_found(files):
    assert ReplayedFiles.at(f"file:{files}/a.parquet", ["id"]).rows == 20
    assert ReplayedFiles.at(f"file://{files}", ["id"]).mark == ReplayedFiles.at(str(files), ["id"]).mark


def test_every_row_has_the_stamp_of_its_number(files):
    end = Offered(12, from_row=2, from_us=1_000_000, rate=4.0)
    (spans,) = ReplayedFiles.at(str(files), ["id"]).spans(4, 12, 1)
    batches = list(replayed(spans, end, SCHEMA, "arrived"))
    assert all(batch.schema == SCHEMA for batch in batches)
    stamps = np.concatenate([batch["arrived"].cast(pa.int64()).to_numpy() for batch in batches])
    assert stamps.tolist() == [end.arrived_us(row) for row in range(4, 12)] == [1_000_000 + 250_000 * k for k in range(3, 11)]


def test_a_row_group_is_decoded_once_and_memory_is_bounded(files, monkeypatch):
    found, read = ReplayedFiles.at(str(files), ["id"]), []
    real = pq.ParquetFile.read_row_group
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lambda *a, **k: read.append(a[1]) or real(*a, **k))
    replaying._decoded.clear()
    for _ in range(3):
        assert ids(found, 5, 9, 1) == [[5, 6, 7, 8]]
    assert len(read) == 1
    monkeypatch.setattr(replaying, "_KEPT_BYTES", 100)  # two row groups
    ids(found, 0, 37, 1)
    assert sum(table.nbytes for table in replaying._decoded.values()) <= 100


def test_a_file_that_is_written_anew_is_read_anew(tmp_path):
    def wrote(*numbers):
        pq.write_table(pa.table({"id": pa.array(numbers, pa.int64())}), tmp_path / "a.parquet")
        found = ReplayedFiles.at(str(tmp_path), ["id"])
        return found.mark, ids(found, 0, len(numbers), 1)

    first, again = wrote(1, 2), wrote(3, 4)
    assert (first[1], again[1]) == ([[1, 2]], [[3, 4]])
    assert first[0] != again[0]  # as many rows in as many bytes
    assert wrote(*range(100_000))[0] != again[0]


def test_rows_of_other_files_or_beyond_these_are_not_gone_on_from(files):
    found = ReplayedFiles.at(str(files), ["id"])
    found.check(Offered(37, files=found.mark), "/data", loops=False)
    found.check(Offered(38, files=found.mark), "/data", loops=True)
    with pytest.raises(CheckpointMismatch, match="38 rows were replayed, and the files at /data have 37"):
        found.check(Offered(38, files=found.mark), "/data", loops=False)
    with pytest.raises(CheckpointMismatch, match="are not those that were replayed before row 3"):
        found.check(Offered(3, files="other"), "/data", loops=True)


def test_a_checkpoint_of_another_source_is_not_gone_on_from(files):
    source = pytest.importorskip("evenly.worker.replay_source", reason="a data source of PySpark")
    from pyspark.sql.types import StructType

    options = {"path": str(files), "rate": "5", "loop": "false", "arrival": "at"}
    reader = source.Replay(options).streamReader(StructType())
    with pytest.raises(CheckpointMismatch, match="of another source, which was no replay"):
        reader.latestOffset({"logOffset": 3}, None)


def test_types_are_made_those_of_spark(tmp_path):
    stamps = pa.array([1_000_000_000], pa.timestamp("ns"))
    table = pa.table({"at": stamps, "text": pa.array(["x"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "a.parquet")
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("arrived", pa.timestamp("us", "UTC")), ("text", pa.string())])
    (spans,) = ReplayedFiles.at(str(tmp_path), ["at", "text"]).spans(0, 1, 1)
    (batch,) = replayed(spans, Offered(1, rate=1.0), schema, "arrived")
    assert batch.schema == schema
    assert batch["at"].cast(pa.int64()).to_pylist() == [1_000_000]


def test_moments_of_any_year_are_read_from_older_timestamps(tmp_path):
    moments = pa.array(["9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", None]).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"at": moments}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("arrived", pa.timestamp("us", "UTC"))])
    (spans,) = ReplayedFiles.at(str(tmp_path), ["at"]).spans(0, 3, 1)
    (batch,) = replayed(spans, Offered(3, rate=1.0), schema, "arrived")
    assert batch["at"].cast(pa.timestamp("us")).equals(moments)


def test_files_are_those_that_spark_reads(files):
    (files / "old").mkdir()
    pq.write_table(pa.table({"id": [99]}), files / "old" / "d.parquet")
    (files / "none.parquet").write_bytes(b"")
    assert ReplayedFiles.at(str(files), ["id"]).rows == 37
    (files / "notes.txt").write_text("none of Parquet's")
    with pytest.raises(InvalidDataflow, match=r"notes\.txt is not Parquet, or is damaged"):
        ReplayedFiles.at(str(files), ["id"])
    (files / "notes.txt").unlink()
    (files / "day=1").mkdir()
    pq.write_table(pa.table({"id": [99]}), files / "day=1" / "d.parquet")
    with pytest.raises(InvalidDataflow, match=r"day=1/d\.parquet is in a folder that is named by a column"):
        ReplayedFiles.at(str(files), ["id"])


def test_what_cannot_be_replayed_is_said(tmp_path, files):
    with pytest.raises(
        InvalidDataflow, match="the column 'id' cannot be replayed, for it is kept as int64 and is to be binary"
    ):
        ReplayedFiles.at(str(files), ["id"]).check_types(pa.schema([("id", pa.binary())]))
    plain = [("metadata", pa.binary()), ("value", pa.binary())]
    (tmp_path / "shredded").mkdir()
    variants = pa.array([[None]], pa.list_(pa.struct([*plain, ("typed_value", pa.int64())])))
    pq.write_table(pa.table({"v": variants}), tmp_path / "shredded" / "v.parquet")
    with pytest.raises(InvalidDataflow, match=r"the column 'v' cannot be replayed, for it is kept as list<.*typed_value"):
        ReplayedFiles.at(str(tmp_path / "shredded"), ["v"]).check_types(pa.schema([("v", pa.list_(pa.struct(plain)))]))
    with pytest.raises(InvalidDataflow, match="there is nothing at"):
        ReplayedFiles.at(str(tmp_path / "none"), ["id"])
    with pytest.raises(InvalidDataflow, match=r"a\.parquet has no column 'day'"):
        ReplayedFiles.at(str(files), ["id", "day"])
    with pytest.raises(InvalidDataflow, match="there are no rows"):
        ReplayedFiles.at(str(files / "empty.parquet"), ["id"])
    pq.write_table(pa.table({"id": ["x"]}), files / "other.parquet")
    with pytest.raises(InvalidDataflow, match=r"'id' is int64 in .*a\.parquet and string in .*other\.parquet"):
        ReplayedFiles.at(str(files), ["id"])
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidParameter, match="rows per second, above 0 and at most"):
            Pace(rate)


def test_rows_arrive_at_the_rate_and_no_batch_has_more_than_it_may():
    clock = ReplayClock(Pace(10.0), rows=None)
    start = clock.latest(Offered(0), 0)
    assert start.row == 0
    first = clock.latest(start, 1_500_000)
    assert first.row == 15
    clock.set_pace(Pace(10.0, most_rows=4))
    second = clock.latest(first, 3_000_000)
    assert (second.row, second.arrived_us(15)) == (19, 1_600_000)  # it waited, and keeps its stamp
    assert clock.latest(second, 3_000_000, limited=False).row == 30


def test_another_rate_begins_anew_and_a_restart_too():
    clock = ReplayClock(Pace(10.0), rows=None)
    clock.latest(Offered(0), 0)
    first = clock.latest(Offered(0), 1_000_000)
    clock.set_pace(Pace(100.0))
    assert clock.latest(first, 5_000_000) == first
    then = clock.latest(first, 6_000_000)
    assert (then.row, then.arrived_us(10)) == (110, 5_010_000)
    again = ReplayClock(Pace(10.0), rows=None)
    assert again.latest(first, 900_000_000) == first  # nothing arrived while it stood still
    assert again.latest(first, 901_000_000).row == 20


def test_once_ends_and_all_at_once_is_there_now():
    clock = ReplayClock(Pace(10.0), rows=37)
    clock.latest(Offered(0), 0)
    last = clock.latest(Offered(0), 60_000_000)
    assert last.row == 37
    assert clock.latest(last, 90_000_000) == last
    now = ReplayClock(Pace(10.0, most_rows=30), rows=37).latest(Offered(0), 5_000, all_now=True)
    assert now.row == 30
    assert {now.arrived_us(row) for row in range(30)} <= {4_999, 5_000}
    assert (now.at_once, last.at_once) == (True, False)  # a rate of millions a second is nobody's


def test_an_offset_is_kept_as_plain_data_without_loss():
    offered = Offered(7, 3, 1_790_000_000_000_001, 1 / 3, "0a")
    assert Offered.from_dict(offered.to_dict()) == offered
    assert all(isinstance(value, int | str) for value in offered.to_dict().values())


def test_how_long_rows_waited_is_known_without_looking_at_them():
    end = Offered(1_000, from_row=100, from_us=5_000_000, rate=50.0)
    found = end.completion(200, 100.0)
    waited = np.array([100.0 - end.arrived_us(row) / 1e6 for row in range(200, 1_000)])
    assert found.rows == 800
    assert [found.mean_s, found.p50_s, found.p99_s] == pytest.approx([waited.mean(), *np.percentile(waited, [50, 99])])
    assert end.completion(1_000, 100.0) is None


def test_a_pace_is_written_and_read(tmp_path):
    Pace(12.5, 4).write(tmp_path / "pace.json")
    assert Pace.read(tmp_path / "pace.json") == Pace(12.5, 4)
