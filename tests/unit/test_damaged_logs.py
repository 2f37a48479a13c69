"""Event logs with lines that cannot be read, fields that hold anything, and events that stand there twice."""

from __future__ import annotations

import copy
import functools
import itertools
import json

import pytest

import event_logs as made
from evenly.diagnosis.application import read_application
from evenly.diagnosis.causes import diagnose_application, diagnose_stage
from evenly.diagnosis.event_log import open_event_log
from evenly.errors import EmptyStream
from event_logs import written

LOG = made.text(made.skewed_job())


def test_lines_that_cannot_be_read_are_skipped_and_counted(tmp_path):
    lines = LOG.splitlines(keepends=True)
    broken = [
        lines[0],
        b"###\n",
        b'{"Event":"SparkListenerTaskEnd","Stage ID":\n',
        b'{"Event":"SparkListenerTaskEnd"}\n',
        *lines[1:],
    ]
    found = read_application(open_event_log(written(tmp_path, b"".join(broken))))
    assert (found.skipped_lines, found.finished) == (3, 1)
    assert "3 lines of the log could not be read" in found.notes()[-1]


def test_events_that_a_log_has_twice_count_once(tmp_path):
    events = made.skewed_job()
    once, pairs, copies = (
        read_application(open_event_log(written(tmp_path, made.text(all_events))))
        for all_events in (events, [event for event in events for _ in range(2)], [*events[:-1], *events])
    )
    for twice in (pairs, copies):
        assert (twice.finished, twice.slots, twice.notes()) == (once.finished, once.slots, once.notes())
        assert twice.row() == once.row()
        assert [diagnose_stage(stage).row() for stage in twice.stages] == [diagnose_stage(once.stages[0]).row()]
        assert twice.stages[0].schedule.slots == once.stages[0].schedule.slots


ODD = [None, -1, 1 << 46, 10**30, float("nan"), float("inf"), "", "x", "\u00b2", "[red]", [], [None], {}, {"a": 1}, True, 3.7]


def fields(value, path=()):
    """The path of everything in an event but its name."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        if name != "Event":
            yield (*path, name)
            yield from fields(inner, (*path, name))


def test_whatever_a_field_holds_the_log_is_read_or_refused_and_what_is_told_is_a_number(tmp_path):
    events = made.skewed_job(rows=(100, 500))
    updates = {"ID": 2, "Name": "records read", "Update": "100"}
    next(one for one in events if one["Event"] == "SparkListenerTaskEnd")["Task Info"]["Accumulables"] = [updates]
    told = {"Event": "SparkListenerTaskStart", "Stage ID": 1, "Task Info": {"Task ID": 1_000, "Launch Time": 10}}
    events.insert(-4, told)
    seen = set()
    for at, event in enumerate(events):
        for path, odd in itertools.product(fields(event), ODD):
            if (event["Event"], path, str(odd)) in seen:
                continue
            seen.add((event["Event"], path, str(odd)))
            changed = copy.deepcopy(events)
            holder = functools.reduce(lambda value, name: value[name], path[:-1], changed[at])
            holder[path[-1]] = odd
            try:
                found = read_application(open_event_log(written(tmp_path, made.text(changed))))
            except EmptyStream:
                continue
            rows = [finding.row() for finding in diagnose_application(found).findings]
            json.dumps([found.row(), *rows, *(one.row() for one in found.unfinished)], allow_nan=False)
            assert all(0.0 <= row["gc_pct"] <= 100.0 and 0.0 <= row["fetch_wait_pct"] <= 100.0 for row in rows)
            assert all(row["saved_s"] <= row["seconds"] and row["rows"] >= 0 for row in rows)


def test_a_task_whose_numbers_are_damaged_leaves_nothing_behind(tmp_path):
    events = made.skewed_job()
    ends = [one for one in events if one["Event"] == "SparkListenerTaskEnd"]
    ends[1]["Task Metrics"]["Disk Bytes Spilled"] = 10**30
    found = read_application(open_event_log(written(tmp_path, made.text(events))))
    assert (found.skipped_lines, found.stages) == (1, [])
    assert any("3 of 4 tasks: not judged" in note for note in found.notes())
    whole = made.text([*events[:-3], made.skewed_job()[7], *events[-3:]])
    (stage,) = read_application(open_event_log(written(tmp_path, whole))).stages
    assert stage.tasks.rows.tolist() == [100, 100, 100, 500]


def test_a_log_of_which_no_stage_can_be_read_says_how_many_lines_that_were(tmp_path):
    events = [one | {"Stage Info": 1} for one in (made.submitted(1, 1), made.completed(1, 1))]
    with pytest.raises(EmptyStream, match="2 of its lines could not be read"):
        read_application(open_event_log(written(tmp_path, made.text([*made.start(), *events]))))


def test_half_a_character_in_a_name_can_be_printed(tmp_path):
    name = "collect \U0001f600 at \ud83d.py:7"
    events = [*made.start(), made.submitted(1, 1, name=name), made.task_end(1, 0, run_ms=5), made.completed(1, 1, name=name)]
    (stage,) = read_application(open_event_log(written(tmp_path, made.text(events)))).stages
    assert stage.name.encode().decode() == "collect \U0001f600 at \ufffd.py:7"
