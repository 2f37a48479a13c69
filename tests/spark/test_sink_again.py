"""Batches that are sent again after something changed: the same rows under the same identities, or an error."""

from __future__ import annotations

import json
import shutil
import uuid
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import CheckpointMismatch, DamagedData, DestinationFailed, InvalidParameter, UnwritableFile
from evenly.sealed import sealed
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.sending.encoding import BODY
from evenly.spark.sending.kept import KeptBatches
from http_receiver import HttpReceiver
from line_receiver import without_doubles

ROWS = 400


@contextmanager
def cut_for(spark, slots):
    """Files are cut as on another number of cores."""
    settings = {"spark.sql.files.minPartitionNum": str(slots), "spark.sql.files.openCostInBytes": "100"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


@pytest.fixture
def source(tmp_path):
    """Files of unequal size: another number of parts puts other files together."""
    folder = tmp_path / "in"
    folder.mkdir()
    for start, end in pairwise([0, 10, 50, 120, 130, 220, 300, ROWS]):
        pq.write_table(pa.table({"text": [f"row {number}" for number in range(start, end)]}), folder / f"{start:03}.parquet")
    return str(folder)


def run(rows, url, checkpoint, **options):
    query = evenly.stream_send(
        rows, to=evenly.HttpPost(url), checkpoint=checkpoint, trigger={"availableNow": True}, timeout_s=20.0, **options
    )
    query.awaitTermination(120)
    return query


def full_after(rows):
    return HttpReceiver(lambda before: 507 if before >= rows else 200)


def streamed(spark, source):
    return spark.readStream.schema("text string").parquet(source)


def with_random_numbers(rows):
    return rows.select(F.concat("text", F.lit(" "), F.expr("uuid()")).alias("text"))


def counted(rows):
    return rows.groupBy(F.col("text")).count().select(F.col("text"))


@pytest.mark.parametrize("change", [lambda rows: rows, with_random_numbers, counted], ids=["files", "random", "shuffled"])
def test_a_batch_begun_on_one_number_of_cores_and_ended_on_another_has_every_row_once(spark, source, tmp_path, change):
    came, mode = [], "update" if change is counted else "append"
    for slots, taken in ((1, 50), (3, 170), (5, None)):
        with cut_for(spark, slots), HttpReceiver() if taken is None else full_after(taken) as receiver:
            rows = change(streamed(spark, source))
            if taken is None:
                run(rows, receiver.url, tmp_path / "checkpoint", output_mode=mode)
            else:
                with pytest.raises(DestinationFailed, match="answered 507"):
                    run(rows, receiver.url, tmp_path / "checkpoint", output_mode=mode)
            came += receiver.rows()
    kept = without_doubles(came)
    assert len(came) > ROWS, "rows were sent again"
    assert sorted(body.decode().rsplit(" ", maxsplit=change is with_random_numbers)[0] for *_, body in kept) == sorted(
        f"row {number}" for number in range(ROWS)
    )
    assert len({row[:4] for row in came}) == len(set(came)) == ROWS, "an identity stands for one row"


def test_a_batch_that_was_sent_but_not_committed_is_sent_as_the_same(spark, source, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    with HttpReceiver() as receiver:
        with cut_for(spark, 2):
            run(streamed(spark, source), receiver.url, checkpoint)
        first = sorted(receiver.rows())
        for committed in (checkpoint / "commits").iterdir():
            committed.unlink()
        receiver.requests.clear()
        with cut_for(spark, 6):
            run(streamed(spark, source), receiver.url, checkpoint)
        assert sorted(receiver.rows()) == first
    assert len(first) == ROWS


def test_only_the_last_batch_is_kept_and_an_older_one_cannot_be_sent_again(spark, source, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    rows = spark.readStream.schema("text string").option("maxFilesPerTrigger", 3).parquet(source)
    with HttpReceiver() as receiver:
        run(rows, receiver.url, checkpoint)
        assert len(receiver.rows()) == ROWS
        assert {path.name for path in (checkpoint / "evenly" / "sending").iterdir() if not path.name.startswith(".")} == {
            "2",
            "2.json",
        }
        for folder in ("commits", "offsets"):
            for number in ("1", "2"):
                for name in (number, f".{number}.crc"):
                    (checkpoint / folder / name).unlink(missing_ok=True)
        with pytest.raises(CheckpointMismatch, match="batch 1 is to be sent after batch 2"):
            run(rows, receiver.url, checkpoint)


def test_rows_that_were_kept_and_then_lost_are_not_replaced_by_others(spark, source, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    with full_after(5) as receiver, pytest.raises(DestinationFailed):
        run(streamed(spark, source), receiver.url, checkpoint)
    next((checkpoint / "evenly" / "sending" / "0").glob("*/part-*")).unlink()
    with HttpReceiver() as receiver:
        with pytest.raises(DamagedData, match="not those that were kept"):
            run(streamed(spark, source), receiver.url, checkpoint)
        assert receiver.rows() == []


def test_rows_whose_writing_was_cut_short_are_written_again(spark, source, tmp_path):
    """Nothing has left then: what was written counts only with its list of files."""
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "evenly" / "sending" / "0").mkdir(parents=True)
    (checkpoint / "evenly" / "sending" / "0" / "part-00000-cut.txt.lz4").write_bytes(b"half")
    with HttpReceiver() as receiver:
        run(streamed(spark, source), receiver.url, checkpoint)
        assert {body for *_, body in receiver.rows()} == {f"row {number}".encode() for number in range(ROWS)}


@pytest.mark.parametrize("rows_fit", [True, False])
def test_what_a_full_disk_has_no_room_for_is_not_sent_and_leaves_nothing(spark, tmp_path, monkeypatch, rows_fit):
    """A query that is started again and again would fill what is left of it with the rows of each start."""
    kept, full = tmp_path / "evenly" / "sending", "No space left on device"
    rows = spark.range(3, numPartitions=1).select(F.col("id").cast("string").alias("text"))
    with HttpReceiver() as receiver:
        options = {"to": evenly.HttpPost(receiver.url), "sender": "s", "batch": 4, "checkpoint": tmp_path}
        if rows_fit:

            def no_room(folder, name, text):  # noqa: ARG001
                raise UnwritableFile(f"{name} cannot be written ({full})")

            monkeypatch.setattr(Folder, "make", no_room)
        failing = rows if rows_fit else rows.select(F.raise_error(F.lit(full)).cast("string").alias("text"))
        for _ in range(2):
            with pytest.raises(
                UnwritableFile, match=f"batch 4 cannot be kept in .*/evenly/sending/4 .{full}., so none of them was"
            ):
                evenly.send(failing, **options)
            assert receiver.rows() == list(kept.glob("*/*")) == []
        monkeypatch.undo()
        assert evenly.send(rows, **options).rows == len(receiver.rows()) == 3


def test_a_batch_is_ended_under_the_name_it_was_begun_under(spark, source, tmp_path):
    with full_after(5) as receiver, pytest.raises(DestinationFailed):
        run(streamed(spark, source), receiver.url, tmp_path / "checkpoint", sender="one")
    with pytest.raises(CheckpointMismatch, match="begun by the sender 'one', not 'two'"):
        run(streamed(spark, source), "http://127.0.0.1:9/", tmp_path / "checkpoint", sender="two")


def test_without_keeping_each_start_has_a_sender_of_its_own(spark, source, tmp_path):
    came = []
    for slots, receiving in ((1, full_after(50)), (4, HttpReceiver())):
        with cut_for(spark, slots), receiving as receiver:
            try:
                run(streamed(spark, source), receiver.url, tmp_path / "checkpoint", sender="me", repeatable=False)
            except DestinationFailed:
                assert slots == 1
            came += receiver.rows()
    assert len(came) == len(without_doubles(came)) == ROWS + 50, "twice, never lost"
    assert {row[0][:3] for row in came} == {"me."}
    assert len({row[0] for row in came}) == 2
    assert not (tmp_path / "checkpoint" / "evenly" / "sending").exists()


def test_a_named_run_is_repeated_as_the_same_on_any_number_of_cores(spark, source, tmp_path):
    def send(url):
        df = with_random_numbers(spark.read.parquet(source))
        return evenly.send(df, to=evenly.HttpPost(url), sender="nightly", batch=7, checkpoint=tmp_path / "kept")

    with cut_for(spark, 1), full_after(100) as receiver:
        with pytest.raises(DestinationFailed, match="answered 507"):
            send(receiver.url)
        came = receiver.rows()
    with cut_for(spark, 4), HttpReceiver() as receiver:
        sent = send(receiver.url)
        came += receiver.rows()
    assert (sent.rows, sent.sender, sent.batch) == (ROWS, "nightly", 7)
    assert len({row[:4] for row in came}) == len(set(came)) == len(without_doubles(came)) == ROWS
    with pytest.raises(CheckpointMismatch, match="begun by the sender 'nightly'"):
        evenly.send(spark.range(1), to=print, sender="other", batch=7, checkpoint=tmp_path / "kept")
    with pytest.raises(InvalidParameter, match=r"sender='nightly' names a run .* give checkpoint="):
        evenly.send(spark.range(1), to=print, sender="nightly")


def test_bytes_of_all_kinds_and_lengths_are_kept_as_they_are(spark, tmp_path):
    bodies = [bytes(range(256)) * 3, b"", b"\n", b"\r\n", b"x" * 100_000, b"\x00"]
    df = spark.createDataFrame([(body,) for body in bodies], "body binary").coalesce(1)
    with HttpReceiver() as receiver:
        evenly.send(df, to=evenly.HttpPost(receiver.url), checkpoint=tmp_path)
        assert [body for *_, body in receiver.rows()] == bodies


def test_a_name_needs_a_number_and_rows_under_a_known_number_are_those_of_then(spark, tmp_path, caplog):
    """Whoever calls it each night under one name and forgets the number would send the first night's rows for ever."""
    with HttpReceiver() as receiver:
        options = {"to": evenly.HttpPost(receiver.url), "sender": "nightly", "checkpoint": tmp_path}
        with pytest.raises(InvalidParameter, match="sender='nightly' needs batch="):
            evenly.send(spark.range(3), **options)
        for ids, batch in (((0, 3), 1), ((10, 12), 1), ((10, 12), 2)):
            evenly.send(spark.range(*ids), batch=batch, **options)
        assert sorted((batch, json.loads(body)["id"]) for _, batch, _, _, body in receiver.rows()) == [
            *((1, 0), (1, 0), (1, 1), (1, 1), (1, 2), (1, 2)),
            *((2, 10), (2, 11)),
        ]
    (told,) = [record.message for record in caplog.records if "sent again" in record.message]
    assert told.startswith(f"batch 1 of nightly was kept in {tmp_path}/evenly/sending/1 when it was sent first")


def test_rows_that_spark_has_at_the_driver_are_kept_in_their_order(spark, tmp_path):
    texts = [f"row {number} " + "x" * (100 - number) for number in range(100)]
    df = spark.sql("select * from values " + ", ".join(f"('{text}')" for text in texts) + " as t(text)")
    with HttpReceiver() as receiver:
        assert evenly.send(df, to=evenly.HttpPost(receiver.url), checkpoint=tmp_path).rows == len(texts)
        assert [body.decode() for *_, body in receiver.rows()] == texts


@pytest.mark.parametrize("name", ["run[1]", "{a,b}", "what?*", "with space", "back\\slash"])
def test_a_checkpoint_may_have_any_name(spark, tmp_path, name):
    with HttpReceiver() as receiver:
        to = evenly.HttpPost(receiver.url)
        for folder in (name, "run1"):
            evenly.send(spark.range(3, numPartitions=1), to=to, checkpoint=tmp_path / folder)
        assert [json.loads(body)["id"] for *_, body in receiver.rows()] == [0, 1, 2] * 2


def test_rows_of_older_batches_are_removed_even_if_a_kill_parted_them_from_their_list(spark, source, tmp_path):
    sending = tmp_path / "checkpoint" / "evenly" / "sending"
    rows = spark.readStream.schema("text string").option("maxFilesPerTrigger", 3).parquet(source)
    with HttpReceiver() as receiver:
        run(rows, receiver.url, tmp_path / "checkpoint")
    (sending / "before.json").write_text("{}")  # not ours, and in nobody's way
    (sending / "1").mkdir()
    (sending / "1" / "part-0").write_text("left behind")
    spark.range(5).select(F.concat(F.lit("new "), "id").alias("text")).coalesce(1).write.mode("append").parquet(source)
    with HttpReceiver() as receiver:
        run(rows, receiver.url, tmp_path / "checkpoint")
    assert {path.name for path in sending.iterdir() if not path.name.startswith(".")} == {"3", "3.json", "before.json"}


def test_the_sender_of_a_stream_is_the_query_whatever_its_thread_knows(spark, source, tmp_path, monkeypatch):
    """Without pinned threads (PYSPARK_PIN_THREAD=false) what a thread knows of its query is nothing, or another one's."""
    monkeypatch.setattr(spark.sparkContext, "getLocalProperty", lambda _: None)
    with HttpReceiver() as receiver:
        query = run(streamed(spark, source), receiver.url, tmp_path / "checkpoint")
        assert {row[0] for row in receiver.rows()} == {query.id}


def test_a_kept_file_that_was_changed_is_noticed(spark, tmp_path):
    with HttpReceiver() as receiver:
        options = {"to": evenly.HttpPost(receiver.url), "sender": "s", "batch": 0, "checkpoint": tmp_path}
        evenly.send(spark.range(9), **options)
        rows = max(Path(tmp_path).glob("evenly/sending/0/*/part-*"), key=lambda part: part.stat().st_size)
        whole = rows.read_bytes()
        rows.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(DamagedData, match=r"rows of batch 0 that were kept for s cannot be read .*restore them"):
            evenly.send(spark.range(9), **options)
        rows.write_bytes(whole)
        (told,) = Path(tmp_path, "evenly", "sending").glob("*.json")
        content = json.loads(told.read_text())
        told.write_text(json.dumps({**content, "sender": uuid.uuid4().hex}))
        (told.parent / f".{told.name}.crc").unlink()
        with pytest.raises(DamagedData, match="checksum"):
            evenly.send(spark.range(9), **options)


def test_two_runs_of_a_batch_at_the_same_time_send_the_same_rows(spark, tmp_path, monkeypatch, caplog):
    """A scheduler starts a job again that it takes for dead. Rows of both under the same identities would be dropped."""
    with HttpReceiver() as receiver:
        options = {"to": evenly.HttpPost(receiver.url), "sender": "nightly", "batch": 1, "checkpoint": tmp_path}

        def overtaken(*told, **format_of):
            monkeypatch.undo()
            assert evenly.send(spark.range(3, numPartitions=1), **options).rows == 3
            return sealed(*told, **format_of)

        monkeypatch.setattr("evenly.spark.sending.kept.sealed", overtaken)
        assert evenly.send(spark.range(10, 13, numPartitions=1), **options).rows == 3
        assert [json.loads(body)["id"] for *_, body in receiver.rows()] == [0, 1, 2] * 2
    assert "another run of batch 1 has kept its rows" in caplog.text
    assert len(list((tmp_path / "evenly" / "sending" / "1").iterdir())) == 1


def test_a_run_of_a_stream_that_another_has_left_behind_sends_nothing(spark, tmp_path, monkeypatch):
    """While it writes what batch 1 is, the other sends that batch, cut otherwise, goes on, and removes what it had kept."""
    one, other = (KeptBatches(spark, str(tmp_path), in_turn=True) for _ in range(2))
    encoded = spark.range(3, numPartitions=3).select(F.col("id").cast("string").cast("binary").alias(BODY))

    def overtaken(_):
        monkeypatch.undo()
        for batch in (1, 2):
            other.rows(encoded.coalesce(1), "s", batch)
        return False

    monkeypatch.setattr("evenly.spark.sending.kept.is_held_at_driver", overtaken)
    with pytest.raises(CheckpointMismatch, match="batch 1 is to be sent after batch 2"):
        one.rows(encoded, "s", 1)
    kept = {path.name for path in (tmp_path / "evenly" / "sending").iterdir() if not path.name.startswith(".")}
    assert kept == {"2", "2.json"}


def test_a_copy_of_a_checkpoint_needs_a_name_of_its_own_and_a_moved_one_goes_on(spark, source, tmp_path):
    """What the copy sends of its next batches would have the identities of other rows of the original."""
    first, copy, moved = (tmp_path / name for name in ("first", "copy", "moved"))
    with HttpReceiver() as receiver:
        run(streamed(spark, source), receiver.url, first)
        (tmp_path / "link").symlink_to(first)
        run(streamed(spark, source), receiver.url, tmp_path / "link")
        shutil.copytree(first, copy)
        with pytest.raises(CheckpointMismatch, match=r"/copy/.* is a copy of .*/first/.*: give this one .* sender="):
            run(streamed(spark, source), receiver.url, copy)
        run(streamed(spark, source), receiver.url, copy, sender="copy")
        first.rename(moved)
        run(streamed(spark, source), receiver.url, moved)
        assert len(receiver.rows()) == ROWS
    assert not list(moved.glob("evenly/sending/here-*"))
