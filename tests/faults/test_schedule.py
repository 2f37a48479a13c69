"""Schedules: drawn from their seed alone, every operation with every fault, and plainer step by step."""

import pytest

from faults.driver import differs
from faults.schedule import BETWEEN_BATCHES, FILES, KINDS, OPERATIONS, STREAMS, Schedule, cells, covering, draw, simpler
from faults.sent import kept, parsed
from faults.table import table

DRAWN = [draw(seed) for seed in range(300)]


def test_a_seed_always_gives_the_same_schedule():
    assert [draw(seed) for seed in range(300)] == DRAWN


def test_a_schedule_survives_being_written_down():
    assert [Schedule.from_json(schedule.as_json()) for schedule in DRAWN] == DRAWN


def test_three_hundred_seeds_meet_every_fault_in_every_operation():
    drawn = {(schedule.operation, fault.kind) for schedule in DRAWN for fault in schedule.faults}
    assert set(cells()) <= drawn
    assert {operation for operation, _ in cells()} == set(OPERATIONS)
    assert {kind for _, kind in cells()} == set(KINDS)


def test_few_seeds_have_every_operation_every_fault_and_every_input():
    few = covering(DRAWN)
    assert 25 <= len(few) <= len(OPERATIONS) + 2
    assert {schedule.operation for schedule in few} == set(OPERATIONS)
    assert {fault.kind for schedule in few for fault in schedule.faults} == set(KINDS)
    again = [one for one in few if {"executor", "worker"} & {fault.kind for fault in one.faults}]
    assert {one.shape.twice for one in again} == {one.shape.twice for one in DRAWN}
    assert all(one.shape.rows for one in few)


@pytest.mark.parametrize(
    ("part", "name", "values"),
    [
        ("shape", "twice", {"same", "order", "random", "time", "dedup", "floats"}),
        ("shape", "skew", {"flat", "zipf", "hot", "one"}),
        ("shape", "rows", {0, 1, 300, 900, 3000}),
        ("settings", "instances", {1, 2, 3, 8, 64}),
        ("settings", "store", {"rocksdb", "changelog", "hdfs"}),
        ("settings", "adaptive", {True, False}),
        ("settings", "speculation", {True, False}),
        ("options", "mode", {"row", "threads", "async", "batches"}),
        ("options", "to", {"tcp", "http", "function"}),
    ],
)
def test_three_hundred_seeds_draw_every_input_and_setting(part, name, values):
    assert {getattr(getattr(schedule, part), name) for schedule in DRAWN} == values


def test_what_happens_between_batches_happens_in_streams():
    for schedule in DRAWN:
        for fault in schedule.faults:
            assert (fault.kind in BETWEEN_BATCHES) == (fault.where == "batch")
            assert fault.where != "batch" or (schedule.operation in STREAMS and 0 < fault.at < FILES)


def test_plainer_schedules_end_at_one_without_faults():
    for schedule in DRAWN[:40]:
        seen, now = 0, schedule
        while plainer := next(iter(simpler(now)), None):
            assert plainer != now
            seen, now = seen + 1, plainer
        assert now.faults == ()
        assert seen < 40


def test_a_difference_says_what_is_missing_and_what_is_too_much():
    assert differs([[1, 2], [3, 4]], [[3, 4], [1, 2]]) == ""
    assert "1 missing ([3, 4]), 1 too many ([1, 2])" in differs([[1, 2], [3, 4]], [[1, 2], [1, 2]])


def test_a_receiver_keeps_one_row_for_each_identity():
    lines = parsed("s\t0\t1\t0\ta b\ns\t0\t1\t1\tc\ns\t0\t1\t0\ta b\ns\t0\t1\t1\tc\ns\t0\t1\t2\td\ns\t0\t1\t3\tcut")
    assert kept(lines) == [("a b",), ("c",), ("d",)]


def test_the_table_counts_what_happened():
    records = {
        4: {"operation": "join", "happened": ["executor", "executor"]},
        5: {"operation": "join", "happened": []},
        6: {"operation": "join", "happened": ["executor", "exit"]},
    }
    lines = table(records, ["join", "send"], ["executor", "exit"]).splitlines()
    assert lines[1].split() == ["join", "2", "1", "1"]
    assert lines[2].split() == ["send", ".", ".", "."]
    assert lines[-1] == "  join: executor 4,6; exit 6; none 5"
