"""What past stages would save, and how they are named: numbers, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.diagnosis.causes import diagnose_application, diagnose_stage
from evenly.diagnosis.findings import Cause, Thresholds
from evenly.diagnosis.past import Application
from evenly.diagnosis.savings import left_at_the_end_ms, on_critical_path_s
from evenly.diagnosis.stages import Schedule, tallest
from evenly.errors import InvalidParameter
from past_stages import stage

EVEN = [10_000] * 8
ONE_LONG = [10_000] * 7 + [40_000]


@given(
    st.lists(st.integers(1, 10_000), min_size=1, max_size=40),
    st.integers(1, 12),
    st.lists(st.integers(0, 5_000), min_size=40, max_size=40),
    st.sampled_from(["FlatMapGroupsInPandas", "MapInArrow", "Window", "HashAggregate", "SortMergeJoin", ""]),
)
def test_what_balance_saves_is_never_more_than_the_slots_stood_idle(run_ms, slots, rows, operator):
    one = stage(run_ms, rows[: len(run_ms)], slots=slots, operators=(operator,) if operator else ())
    assert one.slots == min(slots, len(run_ms))
    assert 0.0 <= one.saved_s <= one.seconds - sum(run_ms) / 1000.0 / one.slots + 1e-9
    found = diagnose_stage(one, Thresholds(least_saved_s=0.0, least_saved_pct=0.0))
    assert 0.0 <= found.saved_s <= one.seconds
    assert found.why
    assert found.remedy
    if found.call is not None:
        compile(found.call, "call", "exec")
    if "apply_by_cost" in (found.call or ""):
        assert operator == "MapInArrow"
    json.dumps(found.row())


@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=20))
def test_with_a_slot_for_every_task_balance_saves_all_beyond_the_mean(run_ms):
    assert stage(run_ms).saved_s * 1000.0 == pytest.approx(max(run_ms) - sum(run_ms) / len(run_ms))


@given(st.integers(1, 30), st.integers(1, 8), st.integers(100, 100_000))
def test_equal_tasks_are_even_or_short_of_a_round(tasks, slots, run_ms):
    found = diagnose_stage(stage([run_ms] * tasks, slots=slots, cluster_slots=min(slots, tasks)))
    assert found.cause in (Cause.EVEN, Cause.ROUNDS)
    if tasks % slots == 0 or tasks < slots:
        assert found.cause is Cause.EVEN


def test_an_end_that_is_told_late_makes_no_slot():
    launch, finish = [0] * 16 + [9_999], [10_000] * 16 + [20_000]
    late = Schedule(np.array(launch, np.int64), np.array(finish, np.int64))
    one = replace(stage([10_000] * 16 + [10_001], slots=16, slot_limit=16), schedule=late)
    assert (late.slots, one.slots) == (17, 16)


def test_waiting_for_slots_that_others_hold_is_not_counted_as_imbalance():
    begin, finish = np.array([0, 0, 60_000], np.int64), np.array([10_000, 10_000, 70_000], np.int64)
    assert left_at_the_end_ms(begin, finish, 2) == pytest.approx(10_000 - 10_000 / 2)


def test_stages_that_run_at_the_same_time_are_counted_once():
    bounds = [(0, 10_000), (0, 10_000), (10_000, 20_000)]
    assert on_critical_path_s(bounds, [(bounds[0], 4.0)]) == 0.0  # the second goes on
    assert on_critical_path_s(bounds, [(bounds[0], 4.0), (bounds[1], 6.0)]) == pytest.approx(4.0)
    assert on_critical_path_s(bounds, [(bounds[0], 4.0), (bounds[1], 6.0), (bounds[2], 3.0)]) == pytest.approx(7.0)


@given(st.lists(st.tuples(st.integers(0, 50_000), st.integers(1, 20_000), st.floats(0.0, 30.0)), max_size=12))
def test_an_application_never_saves_more_than_it_ran_nor_than_its_stages_do(stages):
    bounds = [(begin, begin + took) for begin, took, _ in stages]
    saved = [(one, seconds) for one, (_, _, seconds) in zip(bounds, stages, strict=True)]
    busy = sum(1 for at in range(0, 70_000, 100) if any(begin <= at < end for begin, end in bounds)) / 10.0
    found = on_critical_path_s(bounds, saved)
    assert 0.0 <= found <= busy + 1.0
    assert found <= sum(seconds for _, seconds in saved) + 1e-6


def test_an_applications_saving_is_that_of_its_critical_path():
    uneven = stage(ONE_LONG, [1_000] * 8)
    both = Application(stages=[uneven, uneven], bounds_ms=[uneven.bounds_ms] * 2, finished=2)
    found = diagnose_application(both)
    assert sum(one.saved_s for one in found.findings) == pytest.approx(2 * found.saved_s)


@pytest.mark.parametrize(
    ("name", "query", "line"),
    [
        ("collect at /home/me/job.py:7", None, "collect at job.py:7"),
        ("$anonfun$1 at CompletableFuture.java:1768", "toPandas at /home/me/job.py:9", "toPandas at job.py:9"),
        ("count at NativeMethodAccessorImpl.java:0", "count at NativeMethodAccessorImpl.java:0", "count"),
        ("start at NativeMethodAccessorImpl.java:0", "clicks\nid = 7\nbatch = 3", "clicks"),
    ],
)
def test_a_stage_is_named_by_a_line_that_people_know(name, query, line):
    assert replace(stage(EVEN), name=name, query=query).line == line


def test_tasks_need_one_entry_each():
    with pytest.raises(InvalidParameter, match="at least one task"):
        stage([])


def test_many_bars_are_thinned_out_from_the_largest_to_the_smallest():
    thin = tallest(np.arange(1_000), 10)
    assert (thin.size, thin[0], thin[-1]) == (10, 999, 0)
    assert tallest(np.array([1, 3, 2]), 10).tolist() == [3, 2, 1]
