"""Causes and remedies: decisions on numbers, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.diagnosis.causes import Cause, Thresholds, diagnose_stage, repeated_findings
from evenly.diagnosis.stages import Exchange, PastStage, Schedule, Tasks, tallest
from evenly.errors import InvalidParameter

BY_USER = Exchange("hashpartitioning", ("user",), ("user",), 8)


def stage(
    run_ms, rows=None, *, slots=None, cluster_slots=None, exchange=BY_USER, operators=("FlatMapGroupsInPandas",), **columns
):
    """A stage whose tasks all start at once, or as slots come free."""
    run = np.asarray(run_ms, np.int64)
    tasks = Tasks(
        run_ms=run,
        rows=np.asarray([1000] * run.size if rows is None else rows, np.int64),
        bytes=np.asarray(columns.get("bytes", [0] * run.size), np.int64),
        gc_ms=np.asarray(columns.get("gc_ms", [0] * run.size), np.int64),
        fetch_wait_ms=np.asarray(columns.get("fetch_ms", [0] * run.size), np.int64),
        spilled=np.asarray(columns.get("spilled", [0] * run.size), np.int64),
        executor=np.asarray(columns.get("executor", ["1"] * run.size)),
    )
    overhead = np.asarray(columns.get("overhead_ms", [0] * run.size), np.int64)
    schedule = in_order(run + overhead, slots or run.size)
    return PastStage(
        stage=columns.get("stage", 3),
        attempt=0,
        name="collect at /home/me/job.py:7",
        tasks=tasks,
        schedule=schedule,
        cluster_slots=cluster_slots or slots or run.size,
        operators=operators,
        exchange=None if exchange is None else replace(exchange, partitions=run.size),
        overhead_ms=int(overhead.sum()),
    )


def in_order(durations, slots):
    free = [0] * slots
    launch, finish = [], []
    for duration in durations.tolist():
        slot = free.index(min(free))
        launch.append(free[slot])
        free[slot] += duration
        finish.append(free[slot])
    return Schedule(np.array(launch, np.int64), np.array(finish, np.int64))


EVEN = [10_000] * 8
ONE_LONG = [10_000] * 7 + [40_000]


def test_an_even_stage_needs_nothing():
    found = diagnose_stage(stage([10_000, 10_100, 9_900, 10_050, 10_000, 9_980, 10_020, 10_000]))
    assert (found.cause, found.remedy, found.call) == (Cause.EVEN, "nothing to do", None)


def test_uneven_rows_by_key_are_mended_by_placing_keys():
    rows = [100, 110, 90, 100, 105, 95, 100, 200]
    found = diagnose_stage(stage([r * 100 for r in rows], rows))
    assert found.cause is Cause.KEYS
    assert found.call == 'df.transform(evenly.by_key, key="user", instances=8).groupBy("user", "slot")'
    assert "200 rows, the mean is 112" in found.why
    assert found.saved_s == pytest.approx(20.0 - 90.0 / 8)


def test_two_key_columns_are_named_in_their_order():
    rows = [100, 110, 90, 100, 105, 95, 100, 200]
    by = Exchange("hashpartitioning", ("country", 'a "b"'), ("country", 'a "b"'), 8)
    call = diagnose_stage(stage([r * 100 for r in rows], rows, exchange=by)).call
    assert 'key=["country", "a \\"b\\""], instances=8' in call
    compile(call, "call", "eval")


def test_a_key_that_is_an_expression_must_be_made_a_column_first():
    rows = [100, 110, 90, 100, 105, 95, 100, 200]
    found = diagnose_stage(stage([r * 100 for r in rows], rows, exchange=Exchange("hashpartitioning", ("lower(user)",), (), 8)))
    assert found.cause is Cause.KEYS
    assert "first make lower(user) a column" in found.remedy


@pytest.mark.parametrize(
    ("operators", "call"),
    [
        (
            ("FlatMapGroupsInPandas",),
            'evenly.aggregate_by_key(df, evenly.Merging(partial, merge, schema), key="user", instances=8)',
        ),
        (
            ("ObjectHashAggregate",),
            'evenly.aggregate_by_key(df, evenly.Merging(partial, merge, schema), key="user", instances=8)',
        ),
        (("Window",), 'df.transform(evenly.by_key, key="user", instances=8).groupBy("user", "slot")'),
    ],
)
def test_one_key_heavier_than_an_instance_is_split_where_results_merge(operators, call):
    rows = [100] * 7 + [1_000]
    found = diagnose_stage(stage([r * 100 for r in rows], rows, operators=operators))
    assert found.cause is Cause.HOT_KEY
    assert found.call == call
    assert "53% of the rows" in found.remedy


def test_a_stage_that_evenly_placed_before_needs_a_new_mapping():
    rows = [100, 110, 90, 100, 105, 95, 100, 200]
    placed = Exchange("hashpartitioning", ("user", "slot"), ("user", "slot"), 8)
    found = diagnose_stage(stage([r * 100 for r in rows], rows, exchange=placed))
    assert "learn the mapping anew" in found.remedy
    assert 'key="user"' in found.call


@pytest.mark.parametrize(
    ("exchange", "said", "call"),
    [
        (None, "input's parts are uneven", "df.repartition(8)"),
        (Exchange("rangepartitioning", ("ts ASC",), (), 8), "sorted ranges are uneven", None),
        (Exchange("RoundRobinPartitioning", (), (), 8), "spread the rows evenly", "df.repartition(8)"),
    ],
)
def test_uneven_rows_without_keys_are_spread(exchange, said, call):
    rows = [100] * 7 + [400]
    found = diagnose_stage(stage([r * 100 for r in rows], rows, exchange=exchange))
    assert found.cause is Cause.ROWS
    assert said in found.remedy
    assert found.call == call


def test_the_same_rows_at_another_cost_are_spread_by_cost():
    found = diagnose_stage(stage(ONE_LONG, exchange=None))
    assert found.cause is Cause.COST
    assert found.call == "df.transform(evenly.apply_by_cost, function=function, schema=schema, instances=8)"
    assert "about the same rows" in found.why


def test_uneven_rows_that_are_not_those_of_the_longest_task_are_not_the_cause():
    rows = [1000] * 7 + [900]
    rows[0] = 3000
    found = diagnose_stage(stage(ONE_LONG, rows))
    assert found.cause is Cause.COST
    assert "it is not the rows" in found.why


@pytest.mark.parametrize(
    ("columns", "cause"),
    [
        ({"gc_ms": [100] * 7 + [25_000]}, Cause.GC),
        ({"gc_ms": [100] * 7 + [5_000]}, Cause.COST),
        ({"fetch_ms": [100] * 7 + [28_000]}, Cause.FETCH),
        ({"spilled": [0] * 7 + [10**9]}, Cause.SPILL),
        ({"spilled": [10**9] * 8}, Cause.COST),
    ],
)
def test_what_explains_the_longest_task_is_the_cause(columns, cause):
    assert diagnose_stage(stage(ONE_LONG, **columns)).cause is cause


def test_rows_come_before_what_they_bring_with_them():
    rows = [100] * 7 + [220]
    found = diagnose_stage(stage([r * 100 for r in rows], rows, gc_ms=[10] * 7 + [12_000], spilled=[0] * 7 + [5 << 20]))
    assert found.cause is Cause.KEYS
    assert "5 MiB spilled" in found.why


def test_an_executor_on_which_every_task_is_slow_is_the_cause():
    executor = ["1", "1", "2", "2", "3", "3"]
    found = diagnose_stage(stage([5_000, 5_100, 5_050, 4_900, 15_000, 14_000], executor=executor))
    assert found.cause is Cause.EXECUTOR
    assert "executor 3" in found.why
    one_fast = diagnose_stage(stage([5_000, 5_100, 5_050, 4_900, 15_000, 5_000], executor=executor))
    assert one_fast.cause is Cause.COST


def test_too_few_tasks_leave_slots_idle():
    found = diagnose_stage(stage([30_000, 30_000], cluster_slots=8, exchange=None))
    assert found.cause is Cause.TOO_FEW
    assert found.saved_s == pytest.approx(30.0 - 60.0 / 8)
    assert found.call == "df.repartition(8)"
    keyed = diagnose_stage(stage([30_000, 30_000], cluster_slots=8))
    assert keyed.call == 'df.transform(evenly.by_key, key="user", instances=8).groupBy("user", "slot")'
    single = Exchange("SinglePartition", (), (), 1)
    alone = diagnose_stage(stage([30_000], cluster_slots=8, exchange=single, operators=("Window",)))
    assert (alone.cause, alone.call) == (Cause.TOO_FEW, None)
    total = diagnose_stage(stage([30_000], cluster_slots=8, exchange=single, operators=("HashAggregate",)))
    assert total.cause is Cause.EVEN


def test_tasks_that_are_mostly_started_are_too_many():
    found = diagnose_stage(stage([5] * 2_000, slots=4, overhead_ms=[10] * 2_000))
    assert found.cause is Cause.TOO_MANY
    assert 'spark.conf.set("spark.sql.shuffle.partitions", 8)' in found.call
    assert diagnose_stage(stage([500] * 200, slots=4, overhead_ms=[10] * 200)).cause is Cause.EVEN


def test_what_saves_too_little_is_even():
    rows = [100] * 7 + [200]
    short = stage(rows, rows)
    assert diagnose_stage(short).cause is Cause.EVEN
    assert diagnose_stage(short, Thresholds(least_saved_s=0.01)).cause is Cause.KEYS
    many = [10_000] * 79 + [13_000]
    assert diagnose_stage(stage(many, slots=8)).cause is Cause.EVEN  # 2.6 s of 103 s


@given(
    st.lists(st.integers(1, 10_000), min_size=1, max_size=40),
    st.integers(1, 12),
    st.lists(st.integers(0, 5_000), min_size=40, max_size=40),
)
def test_what_balance_saves_is_never_more_than_the_slots_stood_idle(run_ms, slots, rows):
    one = stage(run_ms, rows[: len(run_ms)], slots=slots)
    schedule = one.schedule
    assert schedule.slots == min(slots, len(run_ms))
    assert 0.0 <= one.saved_s <= one.seconds - sum(run_ms) / 1000.0 / schedule.slots + 1e-9
    found = diagnose_stage(one, Thresholds(least_saved_s=0.0, least_saved_pct=0.0))
    assert 0.0 <= found.saved_s <= one.seconds
    assert found.why
    if found.call is not None:
        compile(found.call, "call", "eval")
    json.dumps(found.row())


@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=20))
def test_with_a_slot_for_every_task_balance_saves_all_beyond_the_mean(run_ms):
    assert stage(run_ms).saved_s * 1000.0 == pytest.approx(max(run_ms) - sum(run_ms) / len(run_ms))


@given(st.integers(1, 30), st.integers(1, 8), st.integers(100, 100_000))
def test_equal_tasks_are_never_uneven(tasks, slots, run_ms):
    found = diagnose_stage(stage([run_ms] * tasks, slots=slots, cluster_slots=min(slots, tasks)))
    assert found.cause is Cause.EVEN


def test_waiting_for_slots_that_others_hold_is_not_counted_as_imbalance():
    late = Schedule(np.array([0, 0, 60_000], np.int64), np.array([10_000, 10_000, 70_000], np.int64))
    assert late.saved_s == pytest.approx(10.0 - 10.0 / 2)


def test_the_same_finding_of_one_line_is_told_once():
    rows = [100, 110, 90, 100, 105, 95, 100, 200]
    uneven = [diagnose_stage(stage([r * 100 * n for r in rows], rows, stage=n)) for n in (1, 2, 3)]
    few = diagnose_stage(stage([90_000], cluster_slots=8, exchange=None, stage=8))
    even = diagnose_stage(stage(EVEN, stage=9))
    found = repeated_findings([even, few, *uneven])
    assert [(one.worst.cause, one.times) for one in found] == [(Cause.KEYS, 3), (Cause.TOO_FEW, 1), (Cause.EVEN, 1)]
    assert found[0].worst.stage.stage == 3
    assert found[0].saved_s == pytest.approx(sum(one.saved_s for one in uneven))


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
