"""Event logs of every shape: compressed, rolling, still being written, broken off, and things that are none."""

from __future__ import annotations

import bz2
import json
import struct
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import event_logs as made
from evenly.diagnosis import application as application_module
from evenly.diagnosis.application import read_application
from evenly.diagnosis.compression import _lzf_unpacked, compression_of
from evenly.diagnosis.event_log import open_event_log
from evenly.diagnosis.plans import parse_exchange
from evenly.errors import DamagedData, EmptyStream
from event_logs import written

LOG = made.text(made.skewed_job())


def lz4(content):
    """As lz4-java frames it: one packed block, one stored block, and an empty block at the end."""
    half = len(content) // 2
    packed = pa.Codec("lz4_raw").compress(content[:half], asbytes=True)
    header = struct.Struct("<BIII")
    blocks = [header.pack(0x26, len(packed), half, 0) + packed]
    blocks.append(header.pack(0x16, len(content) - half, len(content) - half, 0) + content[half:])
    return b"".join(b"LZ4Block" + block for block in [*blocks, header.pack(0x16, 0, 0, 0)])


def snappy(content):
    """As snappy-java frames it: a heading, then blocks with their length before them; and a second stream appended."""
    half = len(content) // 2
    heading = b"\x82SNAPPY\x00" + struct.pack(">II", 1, 1)
    parts = [pa.Codec("snappy").compress(part, asbytes=True) for part in (content[:half], content[half:])]
    return b"".join(heading + struct.pack(">I", len(part)) + part for part in parts)


def lzf(content):
    """As compress-lzf frames it: stored chunks, and packed ones of literals and one copy that runs into itself."""
    chunks = []
    for start in range(0, len(content), 4_000):
        stored, rest = content[start : start + 2_000], content[start + 2_000 : start + 4_000]
        chunks.append(b"ZV\x00" + struct.pack(">H", len(stored)) + stored)
        packed = b"".join(bytes([len(rest[at : at + 32]) - 1]) + rest[at : at + 32] for at in range(0, len(rest), 32))
        chunks.append(b"ZV\x01" + struct.pack(">HH", len(packed), len(rest)) + packed)
    blanks = b"\x00 " + bytes([7 << 5, 9, 0])  # a blank, then a copy of 18 from one before: 19 blanks
    return b"".join(chunks) + b"ZV\x01" + struct.pack(">HH", len(blanks), 19) + blanks


PACKED = {
    "none": lambda content: content,
    "zstd": lambda content: pa.Codec("zstd").compress(content, asbytes=True),
    "gzip": lambda content: pa.Codec("gzip").compress(content, asbytes=True),
    "bz2": lambda content: b"".join(bz2.compress(content[at : at + 9_000]) for at in range(0, len(content), 9_000)),
    "lz4": lz4,
    "snappy": snappy,
    "lzf": lzf,
}


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("name", ["app-1", "app-1.inprogress"])
def test_every_compression_gives_the_same_stages_whatever_the_name(tmp_path, codec, name):
    content = PACKED[codec](LOG)
    assert compression_of(content[:16]) == codec
    found = read_application(open_event_log(written(tmp_path, content, name)))
    assert (found.name, found.id, found.attempt, found.slots, found.finished) == ("my job", "app-1", "2", 4, 1)
    assert found.stages[0].tasks.rows.tolist() == [100, 100, 100, 500]
    assert not found.truncated


@pytest.mark.parametrize("codec", PACKED)
def test_a_log_that_breaks_off_is_read_up_to_there(tmp_path, codec):
    whole = made.text([*made.skewed_job(), *(made.task_end(9, i, run_ms=5) for i in range(3_000))])
    content = PACKED[codec](whole)
    found = read_application(open_event_log(written(tmp_path, content[: int(len(content) * 0.9) + 3])))
    assert found.truncated
    if codec not in ("lz4", "snappy"):  # of these the test's blocks are half of the log each
        assert found.finished == 1


@pytest.mark.parametrize("codec", [one for one in PACKED if one != "none"])
@pytest.mark.parametrize("behind", [b"what another file had there\n" * 9, bytes(5_000), b"\xff"])
def test_what_comes_before_garbage_is_read_to_the_last_event(tmp_path, codec, behind):
    found = read_application(open_event_log(written(tmp_path, PACKED[codec](LOG) + behind)))
    assert (found.finished, found.stages[0].tasks.rows.tolist()) == (1, [100, 100, 100, 500])
    assert any("has the end of the application: behind it comes what cannot be read" in note for note in found.notes())


def test_of_a_damaged_file_all_is_read_that_comes_before_the_damage(tmp_path):
    """Megabytes of it: the one piece that has the damage in it is unpacked as far as it goes."""
    more = made.text(made.task_end(9, i, run_ms=5) for i in range(6_000))
    beginning, end = made.text([*made.start(), made.submitted(9, 6_000)]), made.text([made.completed(9, 6_000)])
    content = pa.Codec("zstd").compress(beginning + more + end, asbytes=True)
    found = read_application(open_event_log(written(tmp_path, content + b"behind it")))
    assert (found.finished, found.truncated) == (1, True)


def test_the_last_line_counts_if_it_is_whole_and_not_if_it_is_cut(tmp_path):
    whole = LOG.rstrip(b"\n")
    assert not read_application(open_event_log(written(tmp_path, whole))).truncated
    cut = read_application(open_event_log(written(tmp_path, whole[:-5])))
    assert cut.truncated
    assert cut.skipped_lines == 0


def test_a_rolling_folder_is_read_in_the_order_of_its_numbers(tmp_path):
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    lines = LOG.splitlines(keepends=True)
    for number in range(1, len(lines) + 1):  # 10 comes after 9, not after 1
        (folder / f"events_{number}_app-1.zstd").write_bytes(PACKED["zstd"](lines[number - 1]))
    (folder / "appstatus_app-1.inprogress").touch()
    for path in (folder, tmp_path, f"file:{folder}", f"file://{folder}"):
        found = read_application(open_event_log(path))
        assert found.finished == 1
        assert found.stages[0].exchange.keys == ("user", "day")


def test_a_compacted_part_stands_for_those_before_it(tmp_path):
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    lines = LOG.splitlines(keepends=True)
    (folder / "events_1_app-1").write_bytes(LOG)
    (folder / "events_2_app-1").write_bytes(LOG)
    (folder / "events_2_app-1.compact").write_bytes(b"".join(lines[:-2]))
    (folder / "events_3_app-1").write_bytes(b"".join(lines[-2:]))
    log = open_event_log(folder)
    assert [file.name for file in log.files] == ["events_2_app-1.compact", "events_3_app-1"]
    assert read_application(log).finished == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n\n", "is not a Spark event log"),
        (b"once upon a time\n", "is not a Spark event log"),
        (b'{"Event', "is not a Spark event log"),
        (b'{"name": "no event"}\n', "is not a Spark event log"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is not a Spark event log"),
        (b"PK\x03\x04" + b"\x00" * 26, "is a zip archive, as the history server hands out: unzip it"),
        (b"\xfd7zXZ\x00" + b"\x00" * 26, "is packed with xz"),
        (b"LZ4Block" + b"\xff" * 13, "breaks off before its first event"),
        (PACKED["gzip"](LOG)[:40], "breaks off before its first event"),
        (b"LZ4Block" + struct.pack("<BIII", 0x26, 4, 100, 0) + b"abcd", "cannot be read"),
        (b"ZV\x01" + struct.pack(">HH", 2, 10) + b"\x20\x05", "cannot be read"),
    ],
)
def test_what_is_no_event_log_is_refused_by_its_path(tmp_path, content, said):
    path = written(tmp_path, content)
    with pytest.raises(DamagedData, match=said) as refused:
        read_application(open_event_log(path))
    assert str(path) in str(refused.value)


def test_lines_that_have_run_into_each_other_are_counted_and_not_taken_for_an_application_that_still_runs(tmp_path):
    with pytest.raises(EmptyStream, match=r"1 of its lines could not be read\. Copy it again"):
        read_application(open_event_log(written(tmp_path, LOG.replace(b"\n", b""))))
    lines = [b'{"Event":"SparkListenerBlockUpdated"}' + LOG.splitlines(keepends=True)[0], *LOG.splitlines(keepends=True)[1:]]
    assert read_application(open_event_log(written(tmp_path, b"".join(lines)))).skipped_lines == 1


def test_a_copy_with_the_mark_that_windows_sets_is_read(tmp_path):
    assert read_application(open_event_log(written(tmp_path, b"\xef\xbb\xbf" + LOG))).finished == 1


def test_a_path_that_is_not_there_or_elsewhere_is_refused(tmp_path):
    with pytest.raises(DamagedData, match="an empty path was given"):
        open_event_log("")
    with pytest.raises(DamagedData, match=r"nowhere is neither a file nor a folder"):
        open_event_log(tmp_path / "nowhere")
    with pytest.raises(DamagedData, match="copy the event log here first"):
        open_event_log("hdfs://host/logs/app-1")
    with pytest.raises(DamagedData, match="has no event log in it"):
        open_event_log(tmp_path)


def test_of_several_logs_in_a_folder_one_must_be_named(tmp_path):
    for name in ("app-1", "app-1_2"):
        written(tmp_path, LOG, name)
    with pytest.raises(DamagedData, match="has 2 entries, of which one must be named"):
        open_event_log(tmp_path)


def test_a_log_without_a_stage_says_so(tmp_path):
    with pytest.raises(EmptyStream, match="has no stage that finished"):
        read_application(open_event_log(written(tmp_path, made.text(made.start()))))


def test_a_log_of_an_application_that_ended_without_a_stage_says_that(tmp_path):
    over = [*made.start(), {"Event": "SparkListenerApplicationEnd", "Timestamp": 9}]
    with pytest.raises(EmptyStream, match="the application ended without one"):
        read_application(open_event_log(written(tmp_path, made.text(over))))


def test_a_folder_of_databricks_is_read_whole_and_in_order(tmp_path):
    lines = LOG.splitlines(keepends=True)
    for name, part in (
        ("eventlog-2021-06-15--15-10.gz", lines[6:8]),
        ("eventlog-2021-06-15--15-00.gz", lines[:6]),
    ):
        (tmp_path / name).write_bytes(PACKED["gzip"](b"".join(part)))
    (tmp_path / "eventlog").write_bytes(b"".join(lines[8:]))
    log = open_event_log(tmp_path)
    assert [file.name for file in log.files] == ["eventlog-2021-06-15--15-00.gz", "eventlog-2021-06-15--15-10.gz", "eventlog"]
    found = read_application(log)
    assert (found.finished, found.gaps, found.stages[0].exchange.keys) == (1, [], ("user", "day"))


@pytest.mark.parametrize("codec", PACKED)
def test_a_part_that_breaks_off_is_told_and_the_next_is_read(tmp_path, codec):
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    one = [made.submitted(3, 1), made.task_end(3, 0, run_ms=5_000), made.completed(3, 1)]
    first = PACKED[codec](made.text([*made.start(), *(made.task_start(9, i) for i in range(500))]))
    (folder / "events_1_app-1").write_bytes(first[: len(first) - 7])
    (folder / "events_2_app-1").write_bytes(PACKED[codec](made.text(one)))
    found = read_application(open_event_log(folder))
    assert found.finished == 1
    assert not found.truncated
    assert any("events_1_app-1 breaks off" in note for note in found.notes())


def test_a_part_that_is_missing_is_told_and_stages_that_it_cut_are_not_judged(tmp_path):
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    tasks = [made.task_end(1, i, run_ms=1_000 if i else 60_000) for i in range(8)]
    parts = {
        1: [*made.start(), made.submitted(1, 8), *tasks[:2]],
        3: [*tasks[5:], made.completed(1, 8), made.task_end(2, 0, run_ms=5), made.completed(2, 1, name="map at job.py:3")],
        4: [made.completed(4, 6, name="count at job.py:9")],
    }
    for number, events in parts.items():
        (folder / f"events_{number}_app-1").write_bytes(made.text(events))
    found = read_application(open_event_log(folder))
    told = " | ".join(found.notes())
    assert "part 2 of the rolling log is missing" in told
    assert "of stage 1 (collect at /home/me/job.py:7) the log has 5 of 8 tasks: not judged" in told
    assert "of stage 4 (count at job.py:9) the log has none of 6 tasks" in told
    assert [stage.name for stage in found.stages] == ["map at job.py:3"]  # its submission is missing, its tasks are not
    alone = read_application(open_event_log(folder / "events_3_app-1"))
    assert "the log begins after the application did: its first part is missing" in alone.notes()


def test_the_last_stage_of_an_application_that_ended_is_judged_without_its_end(tmp_path):
    events = [event for event in made.skewed_job() if event["Event"] != "SparkListenerStageCompleted"]
    found = read_application(open_event_log(written(tmp_path, made.text(events))))
    assert (found.finished, found.unfinished, len(found.stages)) == (1, [], 1)
    events = [event for event in events if event.get("Task Info", {}).get("Index") != 3]
    found = read_application(open_event_log(written(tmp_path, made.text(events))))
    assert found.finished == 0
    assert "has no end in the log, though the application has: 3 of 4 tasks had ended" in found.notes()[0]


def test_a_stage_that_waits_for_its_first_slot_is_told(tmp_path):
    found = read_application(open_event_log(written(tmp_path, made.text([*made.start(), made.submitted(3, 2)]))))
    assert "0 of 2 tasks had ended, and none had begun: it waited for slots" in found.notes()[0]


def test_a_stage_that_still_runs_is_told_with_its_longest_task(tmp_path):
    events = [
        *made.start(),
        made.submitted(3, 2),
        made.task_start(3, 0, launch_ms=1_000),
        made.task_start(3, 1, launch_ms=1_000),
        made.task_end(3, 0, run_ms=60_000, launch_ms=1_000),
    ]
    found = read_application(open_event_log(written(tmp_path, made.text(events))))
    assert (found.unfinished[0].ended, found.unfinished[0].running, found.unfinished[0].longest_s) == (1, 1, 60.0)
    assert "1 of 2 tasks had ended, the longest of the 1 others had run for 60 s" in found.notes()[0]


def test_failed_speculative_and_repeated_attempts_hold_slots_but_count_once(tmp_path):
    events = [
        *made.start(),
        made.submitted(1, 2),
        made.task_end(1, 0, run_ms=500, rows=7, reason="ExceptionFailure", task=1),
        made.task_end(1, 0, run_ms=1_000, rows=10, task=2, launch_ms=500),
        made.task_end(1, 1, run_ms=900, rows=10, task=3),
        made.task_end(1, 1, run_ms=800, rows=10, task=4, speculative=True),
        made.task_end(1, 1, run_ms=700, rows=10, task=5, reason="TaskKilled", killed=True, speculative=True),
        made.completed(1, 2),
        made.task_end(1, 1, run_ms=99_000, rows=10, task=6, reason="TaskKilled", killed=True),
        made.submitted(2, 1),
        made.task_end(2, 0, run_ms=5),
        made.completed(2, 1, failure="fetch failed"),
    ]
    found = read_application(open_event_log(written(tmp_path, made.text(events))))
    stage = found.stages[0]
    assert (stage.instances, stage.failed, stage.speculative) == (2, 1, 2)
    assert stage.tasks.run_ms.tolist() == [1_000, 900]
    assert (stage.schedule.slots, stage.seconds) == (4, 1.5)
    assert (found.finished, found.failed) == (1, 1)


def test_an_adaptive_plan_replaces_what_the_first_one_said(tmp_path):
    update = made.query_start(0, made.grouped_plan(keys="city#8")) | {
        "Event": f"{made.SQL}SparkListenerSQLAdaptiveExecutionUpdate"
    }
    events = made.skewed_job()
    events.insert(6, update)
    found = read_application(open_event_log(written(tmp_path, made.text(events))))
    assert found.stages[0].exchange.keys == ("city",)
    assert found.stages[0].operators == ("FlatMapGroupsInPandas",)


@pytest.mark.parametrize(
    ("text", "kind", "keys", "expressions", "partitions"),
    [
        (
            "Exchange hashpartitioning(user#1L, my city#2, 4), ENSURE_REQUIREMENTS",
            "hashpartitioning",
            ("user", "my city"),
            2,
            4,
        ),
        ("Exchange hashpartitioning(coalesce(a#1, b#2), c#3, 200), X", "hashpartitioning", (), 2, 200),
        ("Exchange rangepartitioning(ts#9 ASC NULLS FIRST, 8), X", "rangepartitioning", (), 1, 8),
        ("Exchange RoundRobinPartitioning(4), REPARTITION_BY_NUM, [plan_id=3]", "RoundRobinPartitioning", (), 0, 4),
        ("Exchange SinglePartition, ENSURE_REQUIREMENTS, [plan_id=3]", "SinglePartition", (), 0, 1),
        ("Exchange", "Exchange", (), 0, None),
        ("Exchange hashpartitioning(user#1, user#1, 4)", "hashpartitioning", ("user",), 1, 4),
        ("Exchange hashpartitioning(id#1, id#2, 4)", "hashpartitioning", (), 2, 4),
        ("Exchange hashpartitioning(user#1", "hashpartitioning", (), 0, None),
    ],
)
def test_keys_come_from_the_plan(text, kind, keys, expressions, partitions):
    found = parse_exchange(text)
    assert (found.kind, found.keys, len(found.expressions), found.partitions) == (kind, keys, expressions, partitions)
    assert not any("#" in one for one in found.expressions)


def test_memory_does_not_grow_with_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr(application_module, "MOST_STAGES", 5)

    def peak(stages):
        events = made.start()
        for stage in range(stages):
            events += [made.submitted(stage, 20), *(made.task_end(stage, i, run_ms=i + stage) for i in range(20))]
            events.append(made.completed(stage, 20))
        log = open_event_log(written(tmp_path, made.text(events)))
        del events
        tracemalloc.start()
        found = read_application(log)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (found.finished, len(found.stages)) == (stages, 5)
        assert found.stages[0].stage == stages - 1 or found.stages[0].saved_s >= found.stages[-1].saved_s
        return used

    peak(10)
    assert peak(500) < peak(100) + 1_500_000  # the pieces that are read have a megabyte


@given(st.binary(max_size=300))
def test_damaged_lzf_is_read_to_the_promised_length_or_refused(packed):
    try:
        assert len(_lzf_unpacked(packed, 5)) == 5
    except (DamagedData, IndexError):
        return


def test_progress_counts_every_byte(tmp_path):
    log = open_event_log(written(tmp_path, LOG))
    seen = []
    read_application(log, seen.append)
    assert sum(seen) == log.size_bytes == len(LOG)
    assert json.loads(LOG.splitlines()[0])["Event"] == "SparkListenerLogStart"
