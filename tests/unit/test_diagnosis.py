"""Causes and remedies: decisions on numbers, without Spark."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenly.diagnosis.causes import diagnose_stage
from evenly.diagnosis.findings import Cause, Confidence, Thresholds, repeated_findings
from evenly.diagnosis.stages import Exchange, Schedule
from past_stages import BY_USER, stage

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


def test_a_name_with_a_dot_is_quoted_as_spark_wants_it():
    rows = [100, 110, 90, 100, 105, 95, 100, 200]
    by = Exchange("hashpartitioning", ("a.b",), ("a.b",), 8)
    call = diagnose_stage(stage([r * 100 for r in rows], rows, exchange=by)).call
    assert call == 'df.transform(evenly.by_key, key="`a.b`", instances=8).groupBy("`a.b`", "slot")'


@pytest.mark.parametrize(
    ("operators", "call"),
    [
        (
            ("FlatMapGroupsInPandas",),
            'evenly.aggregate_by_key(df, evenly.Merging(partial, merge, schema), key="user", instances=8)',
        ),
        (("ObjectHashAggregate",), 'evenly.split_by_key(df, key="user", instances=8).groupBy("user", "part")'),
        (("Window",), None),
        (("FlatMapCoGroupsInPandas",), None),
        (("MapInArrow",), 'evenly.split_by_key(df, key="user", instances=8).drop("part")'),
    ],
)
def test_one_key_heavier_than_a_slot_is_split_where_that_is_possible(operators, call):
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
        (Exchange("RoundRobinPartitioning", (), (), 8), "nothing here decides that", None),
    ],
)
def test_uneven_rows_without_keys_are_spread(exchange, said, call):
    rows = [100] * 7 + [400]
    found = diagnose_stage(stage([r * 100 for r in rows], rows, exchange=exchange, operators=("MapInPandas",)))
    assert found.cause is Cause.ROWS
    assert said in found.remedy
    assert found.call == call


def test_the_same_rows_at_another_cost_are_spread_by_cost():
    found = diagnose_stage(stage(ONE_LONG, exchange=None, operators=("MapInArrow",)))
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


def test_an_executor_is_slow_only_if_other_stages_say_so_too():
    executor = ["1", "1", "2", "2", "3", "3"]
    times = [5_000, 5_100, 5_050, 4_900, 15_000, 14_000]
    found = diagnose_stage(stage(times, executor=executor, slow=["3"]))
    assert found.cause is Cause.EXECUTOR
    assert "executor 3" in found.why
    assert diagnose_stage(stage(times, executor=executor)).cause is Cause.COST
    other = diagnose_stage(stage([5_000, 15_000, 5_050, 4_900, 5_000, 5_000], executor=executor, slow=["3"]))
    assert other.cause is Cause.COST


def test_too_few_tasks_leave_slots_idle():
    found = diagnose_stage(stage([30_000, 30_000], cluster_slots=8, exchange=None, operators=("MapInPandas",)))
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
    assert found.call == 'spark.conf.set("spark.sql.shuffle.partitions", "8")'
    assert diagnose_stage(stage([500] * 200, slots=4, overhead_ms=[10] * 200)).cause is Cause.EVEN


def test_what_saves_too_little_is_even():
    rows = [100] * 7 + [200]
    short = stage(rows, rows)
    assert diagnose_stage(short).cause is Cause.EVEN
    assert diagnose_stage(short, Thresholds(least_saved_s=0.01)).cause is Cause.KEYS
    many = [10_000] * 79 + [13_000]
    assert diagnose_stage(stage(many, slots=8)).cause is Cause.EVEN  # 2.6 s of 103 s


def test_one_task_more_than_slots_is_told_with_the_number_to_use():
    found = diagnose_stage(stage([10_000] * 17, slots=16, exchange=None, operators=("MapInArrow",)))
    assert (found.cause, found.confidence, found.call) == (Cause.ROUNDS, Confidence.CERTAIN, "df.repartition(16)")
    assert "16 tasks instead of 17" in found.remedy
    assert found.saved_s == pytest.approx(20.0 - 170.0 / 16)
    shared = diagnose_stage(stage([10_000] * 17, slots=16, exchange=None, others_busy=9.0))
    assert shared.cause is Cause.EVEN  # others had slots meanwhile: no number of tasks would fit


def test_what_an_executor_took_to_start_is_no_imbalance_and_no_want_of_tasks():
    cold = stage([2_000] * 8, overhead_ms=[10] * 7 + [9_000], first=[0] * 7 + [1], executor=["1"] * 7 + ["2"])
    assert cold.saved_s == 0.0
    found = diagnose_stage(cold)
    assert (found.cause, found.call, found.confidence) == (Cause.COLD, None, Confidence.CERTAIN)
    assert found.saved_s == pytest.approx(8.99)
    assert "nothing to balance" in found.remedy
    one = diagnose_stage(stage([20], cluster_slots=64, overhead_ms=[9_000], exchange=None))
    assert one.cause is Cause.EVEN  # 20 ms of work; what the task took to begin is not shared out by more tasks


def test_the_first_task_of_an_executor_that_had_just_come_is_not_its_rows():
    times = [5_000] * 7 + [12_000]
    executor = ["1"] * 7 + ["2"]
    first = [0] * 7 + [1]
    assert diagnose_stage(stage(times, executor=executor, first=first)).cause is Cause.COLD
    assert diagnose_stage(stage(times, executor=executor)).cause is Cause.COST


def test_even_cpu_and_uneven_time_is_the_machine_where_cpu_is_known():
    native = {"operators": ("HashAggregate",), "exchange": None}
    found = diagnose_stage(stage(ONE_LONG, cpu_ms=[8_000] * 8, **native))
    assert (found.cause, found.call) == (Cause.WAITING, None)
    assert "it waited" in found.why
    assert diagnose_stage(stage(ONE_LONG, cpu_ms=[8_000] * 7 + [36_000], **native)).cause is Cause.COST
    # What Python and GPUs do is not in the JVM's cpu time.
    assert diagnose_stage(stage(ONE_LONG, cpu_ms=[8_000] * 8, operators=("MapInArrow",), exchange=None)).cause is Cause.COST
    on_gpu = diagnose_stage(stage(ONE_LONG, cpu_ms=[8_000] * 8, operators=("GpuScan",), exchange=None))
    assert (on_gpu.cause, on_gpu.confidence, on_gpu.call) == (Cause.WAITING, Confidence.GUESS, None)


def test_rows_by_cost_are_advised_only_where_a_function_gets_them_one_by_one():
    for operators in (("HashAggregate",), ("SortMergeJoin",), ("Window",), ("Scan parquet ",), (), ("FlatMapGroupsInPandas",)):
        found = diagnose_stage(stage(ONE_LONG, operators=operators))
        assert found.cause is Cause.COST
        assert "apply_by_cost" not in (found.call or "")
    rdd = diagnose_stage(stage(ONE_LONG, operators=(), exchange=None, work={"rdds": ("PythonRDD",)}))
    assert rdd.call == "rdd.repartition(32)"
    full = diagnose_stage(stage([10_000] * 63 + [200_000], slots=8, operators=("Window",)))
    assert (full.call, "nothing short of cheaper rows" in full.remedy) == (None, True)


def test_merged_partitions_are_no_hot_key():
    merged = replace(BY_USER, read="coalesced")
    rows = [1_000, 1_200, 1_300, 500]  # 40 equal keys in 4 tasks
    found = diagnose_stage(stage([r * 10 for r in rows], rows, exchange=merged, partitions=200))
    assert found.cause is Cause.ROWS
    assert "merged 200 partitions into 4 tasks" in found.why
    assert "instances=4" in found.call
    hot = [1_000, 1_200, 1_300, 9_000]  # no merging makes a task that much larger
    assert diagnose_stage(stage([r * 10 for r in hot], hot, exchange=merged, partitions=200)).cause is Cause.HOT_KEY


def test_a_key_is_hot_by_its_share_of_a_slot_not_of_the_shuffles_partitions():
    rows = [100] * 40 + [0] * 160  # 40 equal keys in 200 partitions
    rows[0] = 300  # three of them met
    found = diagnose_stage(stage([r * 100 + 1 for r in rows], rows, slots=8))
    assert found.cause is not Cause.HOT_KEY


LEFT, RIGHT = (
    Exchange("hashpartitioning", (name,), (name,), 8, side=side, number=number)
    for number, (side, name) in enumerate((("left", "user"), ("right", "id")))
)


def joined(left, right, *, how="Inner", mib=1, **work):
    left, right = np.asarray(left, np.int64), np.asarray(right, np.int64)
    rows = left + right
    sides = (replace(LEFT, read=work.pop("read", "")), RIGHT)
    fields = {"reads": sides, "join": f"SortMergeJoin [user], [id], {how}", "adaptive": True} | work
    numbers = {"by_read": {0: left, 1: right}, "bytes": rows * (mib << 20)}
    return diagnose_stage(stage(rows * 100, rows, operators=("SortMergeJoin",), work=fields, **numbers))


def test_an_uneven_join_is_told_by_its_side():
    few, many, hot = [10] * 8, [90] * 7 + [160], [100] * 7 + [2_000]
    small = joined(hot, [1] * 8)
    assert small.cause is Cause.HOT_KEY
    assert "the left side of the join (by user)" in small.remedy
    assert small.call == 'left.join(F.broadcast(right), (left["user"] == right["id"]))'
    outer = joined(hot, few, how="RightOuter", mib=1)
    assert "join the key apart" in outer.remedy
    unsplit = joined(hot, few, mib=2)
    assert "skewedPartitionThresholdInBytes" in unsplit.call
    assert "adaptive execution is off" in joined(hot, few, mib=2, adaptive=False).remedy
    split = joined(hot, few, mib=2, read="coalesced and skewed")
    assert "has split it already" in split.remedy
    placed = joined(many, [100] * 8, how="LeftOuter", mib=2)
    assert placed.cause is Cause.KEYS
    assert 'evenly.learn_mapping(left, key="user", instances=8)' in placed.call
    assert placed.call.endswith('left.join(right, (left["user"] == right["id"]) & (left["slot"] == right["slot"]), "left")')
    assert "the right side of the join (by id)" in joined([100] * 8, many, mib=2).remedy
    renamed = joined(hot, [1] * 8, join="SortMergeJoin [user, day], [uid, on], Inner").call
    assert renamed == 'left.join(F.broadcast(right), (left["user"] == right["uid"]) & (left["day"] == right["on"]))'


@pytest.mark.parametrize("how", ["ExistenceJoin(exists#5)", "LeftSingle"])
def test_a_join_that_a_subquery_made_is_not_written_as_another_join(how):
    placed = joined([90] * 7 + [160], [100] * 8, how=how, mib=2)
    assert placed.call is None
    assert "a subquery made this join" in placed.remedy
    hot = joined([100] * 7 + [2_000], [1] * 8, how=how)
    assert "join the key apart" in hot.remedy


@pytest.mark.parametrize(("more", "told"), [("", False), (", BuildRight", False), (", (v#1 < w#2)", True)])
def test_a_join_with_another_condition_is_told_to_keep_it(more, told):
    for found in (
        joined([100] * 7 + [2_000], [1] * 8, how=f"Inner{more}"),
        joined([90] * 7 + [160], [100] * 8, how=f"Inner{more}"),
    ):
        assert ("keep its other condition" in found.remedy) is told


def test_the_field_of_a_struct_is_no_column_to_join_by():
    fields = replace(LEFT, keys=(), expressions=("s.id",))
    work = {"reads": (fields, RIGHT), "join": "SortMergeJoin [s#3.id], [id], Inner"}
    found = joined([90] * 7 + [160], [100] * 8, mib=2, **work)
    assert found.call is None
    assert "make the key a column on both sides" in found.remedy


def test_advice_for_keys_that_evenly_placed_places_them_without_their_slot():
    placed = Exchange("hashpartitioning", ("user", "slot"), ("user", "slot"), 2)
    few = diagnose_stage(stage([20_000, 20_000], cluster_slots=16, exchange=placed))
    assert few.cause is Cause.TOO_FEW
    assert few.call == 'df.transform(evenly.by_key, key="user", instances=16).groupBy("user", "slot")'


def test_a_key_that_is_called_slot_is_a_key_of_the_users():
    rows = [100] * 7 + [160]
    own = Exchange("hashpartitioning", ("slot",), ("slot",), 8)
    found = diagnose_stage(stage([r * 100 for r in rows], rows, exchange=own))
    assert "placed by Evenly already" not in found.remedy
    assert found.call == 'df.transform(evenly.by_key, key="slot", instances=8, slot="instance").groupBy("slot", "instance")'


def test_uneven_files_are_for_their_writer_or_a_finer_cut():
    rows = [100] * 7 + [400]
    scan = {"operators": ("Scan parquet ",), "exchange": None, "work": {"scan": "FileScan parquet [id]"}}
    cut = diagnose_stage(stage([r * 100 for r in rows], rows, bytes=[r << 20 for r in rows], **scan))
    assert (cut.cause, cut.call) == (Cause.ROWS, 'spark.conf.set("spark.sql.files.maxPartitionBytes", "35MB")')
    rows = [0] * 7 + [400]
    whole = diagnose_stage(stage([r * 100 + 10 for r in rows], rows, bytes=[r << 20 for r in rows], **scan))
    assert (whole.cause, whole.call) == (Cause.ROWS, None)
    assert "row groups" in whole.remedy


def test_a_scan_gets_fewer_tasks_by_larger_pieces_of_its_files():
    """17 tasks were cut at 128 MiB, and columns that were not asked for were not read: a limit below that makes more tasks."""
    scan = {"operators": ("Scan parquet ",), "exchange": None, "work": {"scan": "FileScan parquet [id]"}}
    found = diagnose_stage(stage([15_000] * 17, bytes=[100 << 20] * 17, slots=4, **scan))
    assert found.cause is Cause.ROUNDS
    assert found.call == 'spark.conf.set("spark.sql.files.maxPartitionBytes", "136MB")'
    assert "if it is 128MB now" in found.remedy


def test_half_of_the_slots_idle_for_a_whole_stage_are_too_few_tasks():
    own = Exchange("RoundRobinPartitioning", (), (), 2, origin="REPARTITION_BY_NUM")
    found = diagnose_stage(
        stage([286_900, 243_200], exchange=own, operators=("Execute InsertIntoHadoopFsRelationCommand",), cluster_slots=4)
    )
    assert found.cause is Cause.TOO_FEW
    assert found.saved_s == pytest.approx(154.4, abs=1.0)
    assert "4 instead of 2" in found.remedy


def test_attempts_that_failed_are_not_their_rows():
    again = Schedule(np.array([0] * 8 + [9_000]), np.array([5_000] * 7 + [9_000, 14_000]))
    failed = replace(stage([5_000] * 8, failed=1), schedule=again, failed_s=9.0)
    found = diagnose_stage(failed)
    assert (found.cause, found.call) == (Cause.FAILED, None)
    assert found.saved_s == pytest.approx(9.0)
    assert diagnose_stage(replace(failed, failed_s=0.1)).cause is Cause.EVEN  # it waited for something else


def test_the_same_finding_of_one_line_is_told_once():
    rows = [100, 110, 90, 100, 105, 95, 100, 200]
    uneven = [diagnose_stage(stage([r * 100 * n for r in rows], rows, stage=n)) for n in (1, 2, 3)]
    few = diagnose_stage(stage([90_000], cluster_slots=8, exchange=None, stage=8))
    even = diagnose_stage(stage(EVEN, stage=9))
    found = repeated_findings([even, few, *uneven])
    assert [(one.worst.cause, one.times) for one in found] == [(Cause.KEYS, 3), (Cause.TOO_FEW, 1), (Cause.EVEN, 1)]
    assert found[0].worst.stage.stage == 3
    assert found[0].saved_s == pytest.approx(sum(one.saved_s for one in uneven))
