"""Advice that cannot be carried out, or that would change what a job gives: what small jobs on Spark have shown."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import event_logs as made
from evenly.diagnosis.application import read_application
from evenly.diagnosis.causes import diagnose_stage
from evenly.diagnosis.event_log import open_event_log
from evenly.diagnosis.findings import Cause, Confidence
from evenly.diagnosis.plans import parse_exchange
from evenly.diagnosis.stages import Exchange
from evenly.errors import DamagedData
from evenly.report.diagnosis_pictures import stage_bars
from past_stages import BY_USER, stage

UNEVEN = [100, 110, 90, 100, 105, 95, 100, 200]
HOT = [100] * 7 + [700]
ALL_IN_ONE = Exchange("SinglePartition", (), (), 1)


def uneven(rows, **more):
    return diagnose_stage(stage([count * 100 for count in rows], rows, **more))


def read(tmp_path, events):
    return read_application(open_event_log(made.written(tmp_path, made.text(events))))


def other(events):
    return json.loads(json.dumps(events).replace("app-1", "app-2").replace("my job", "another"))


def test_two_applications_in_one_log_are_refused_and_one_that_is_there_twice_is_not(tmp_path):
    one = made.skewed_job()
    with pytest.raises(DamagedData, match=r"my job \(app-1\), and then another \(app-2\)"):
        read(tmp_path, [*one, *other(one)])
    with pytest.raises(DamagedData, match=r"one whose beginning is missing, and then another \(app-2\)"):
        read(tmp_path, [*one[4:], *other(one)])
    assert read(tmp_path, [*one, *one]).finished == 1


def test_what_the_jobs_own_coalesce_decides_is_not_asked_for_elsewhere():
    for exchange in (BY_USER, None):
        found = diagnose_stage(stage([30_000], cluster_slots=8, exchange=exchange, work={"coalesced": 1}))
        assert found.cause is Cause.TOO_FEW
        assert "the job's own coalesce(1) puts all that comes before it into one task" in found.remedy
        assert found.call is None


@pytest.mark.parametrize(("shuffled", "number"), [(False, 1), (True, 0)])
def test_a_coalesce_is_told_from_a_repartition_of_rdds_which_is_one_with_a_shuffle(tmp_path, shuffled, number):
    scope = '{"id":"4","name":"coalesce"}'
    rdds = [{"Name": "CoalescedRDD", "Scope": scope, "Number of Partitions": 1}]
    rdds += [{"Name": "ShuffledRDD", "Scope": scope, "Number of Partitions": 1}] * shuffled
    begin = made.submitted(1, 1)
    begin["Stage Info"]["RDD Info"] += rdds
    found = read(tmp_path, [*made.start(), begin, made.task_end(1, 0, run_ms=9_000), made.completed(1, 1)])
    assert found.stages[0].work.coalesced == number


def test_what_is_in_one_partition_by_the_jobs_own_wish_gets_another_number_and_behind_a_limit_rows_are_spread():
    asked = replace(ALL_IN_ONE, origin="REPARTITION_BY_NUM")
    found = diagnose_stage(stage([30_000], cluster_slots=8, exchange=asked, operators=("MapInArrow",)))
    assert "the job's own repartition: 8 instead of 1" in found.remedy
    found = diagnose_stage(stage([30_000], cluster_slots=8, exchange=ALL_IN_ONE, operators=("MapInArrow",)))
    assert found.call == "df.repartition(8)"


def test_rows_that_a_job_has_put_together_by_their_key_are_spread_only_if_nothing_counts_on_that():
    found = uneven(HOT, exchange=replace(BY_USER, origin="REPARTITION_BY_COL"), operators=("MapInArrow",))
    assert found.cause is Cause.HOT_KEY
    assert "if what follows does not count on rows of a key being together" in found.remedy


def test_both_sides_of_a_cogroup_are_placed_under_one_mapping_and_never_by_the_cost_of_their_rows():
    sides = (
        replace(BY_USER, side="left", number=1),
        Exchange("hashpartitioning", ("id",), ("id",), 8, side="right", number=2),
    )
    rows = {1: np.array(UNEVEN), 2: np.array([9] * 8)}
    found = uneven(UNEVEN, operators=("FlatMapCoGroupsInPandas",), work={"reads": sides}, by_read=rows)
    assert found.cause is Cause.KEYS
    assert found.call.splitlines() == [
        'mapping = evenly.learn_mapping(left, key="user", instances=8)',
        'left = left.transform(evenly.by_key, key="user", instances=8, mapping=mapping)',
        'right = right.transform(evenly.by_key, key="id", instances=8, mapping=mapping)',
        'left.groupBy("user", "slot").cogroup(right.groupBy("id", "slot"))',
    ]
    costly = diagnose_stage(stage([10_000] * 7 + [40_000], operators=("FlatMapCoGroupsInPandas",), work={"reads": sides}))
    assert costly.cause is Cause.COST
    assert "apply_by_cost" not in costly.call
    alone = uneven(UNEVEN, operators=("FlatMapCoGroupsInPandas",))
    assert alone.call is None
    assert "evenly.learn_mapping" in alone.remedy


def test_keys_of_a_stream_are_placed_by_a_query_of_ours_and_its_hot_keys_by_nobody():
    stateful = "FlatMapGroupsInPandasWithState"
    assert uneven(UNEVEN, operators=(stateful,)).call == (
        'evenly.stream_by_key(rows, build, key="user", instances=8, checkpoint=checkpoint)'
    )
    windowed = Exchange("hashpartitioning", ("window", "user"), ("window", "user"), 8)
    assert uneven(UNEVEN, exchange=windowed, operators=("StateStoreSave", "HashAggregate")).call == (
        'evenly.stream_by_key(rows, build, key="user", instances=8, window="window", checkpoint=checkpoint)'
    )
    hot = uneven(HOT, operators=(stateful,))
    assert (hot.cause, hot.call) == (Cause.HOT_KEY, None)
    placed = Exchange("hashpartitioning", ("user", "slot"), ("user", "slot"), 8)
    again = uneven(UNEVEN, exchange=placed, operators=(stateful,))
    assert again.call is None
    assert "evenly mapping list" in again.remedy
    both = tuple(replace(BY_USER, keys=(name,), number=at) for at, name in enumerate(("user", "id")))
    assert uneven(UNEVEN, operators=("StreamingSymmetricHashJoin",), work={"reads": both}).call is None


def test_other_advice_for_streams_is_of_calls_that_take_streams():
    costly = diagnose_stage(stage([10_000] * 7 + [40_000], exchange=None, operators=("MapInArrow",), work={"streaming": True}))
    assert costly.call.startswith("evenly.stream_apply_by_cost(rows, function, schema, cost_key=cost_key, instances=8")
    few = diagnose_stage(stage([30_000] * 2, cluster_slots=8, cpu_ms=[30_000] * 2, operators=("StreamingDeduplicate",)))
    assert "with a new checkpoint" in few.remedy
    keyed = uneven(
        UNEVEN, exchange=replace(BY_USER, origin="REPARTITION_BY_COL"), operators=("MapInArrow",), work={"streaming": True}
    )
    assert keyed.call.endswith("slot=None, fit_on=earlier)")


@pytest.mark.parametrize(("scan", "streaming"), [("Scan parquet", True), ("Scan ExistingRDD", False)])
def test_a_batch_that_a_streams_function_was_handed_is_a_batch(tmp_path, scan, streaming):
    plan = made.grouped_plan()
    plan["children"][0]["children"][0]["children"][0]["children"].append(made.node(scan))
    begin = made.submitted(1, 1, query=0)
    begin["Properties"]["sql.streaming.queryId"] = "one"
    events = [*made.start(), made.query_start(0, plan), begin, made.task_end(1, 0, run_ms=9_000), made.completed(1, 1)]
    assert read(tmp_path, events).stages[0].work.streaming is streaming


def test_the_delay_of_a_watermark_is_no_part_of_a_name():
    found = parse_exchange("Exchange hashpartitioning(window#23-T3600000ms, k#1L, 4), [plan_id=1]")
    assert found.keys == ("window", "k")


def test_parts_of_a_union_are_compared_with_their_like_and_told_by_their_own_key():
    by_country = Exchange("hashpartitioning", ("country", "day"), ("country", "day"), 4, number=2)
    reads = (replace(BY_USER, number=1), by_country)
    small, large = [10] * 4, [100, 104, 96, 100]
    rows = {1: np.array([0] * 4 + large), 2: np.array(small + [0] * 4)}
    even = uneven(small + large, work={"reads": reads}, by_read=rows)
    assert even.cause not in {Cause.KEYS, Cause.HOT_KEY}
    rows[1] = np.array([0, 0, 0, 0, 100, 100, 100, 200])
    found = uneven([*small, 100, 100, 100, 200], work={"reads": reads}, by_read=rows)
    assert found.cause is Cause.KEYS
    assert "the mean is 125" in found.why
    assert 'key="user", instances=8' in found.call


def test_of_three_inputs_that_are_joined_none_is_called_the_small_one():
    sides = [replace(BY_USER, side=side, number=at) for at, side in enumerate(("left", "right", "right"))]
    join = "SortMergeJoin [user#1], [user#2], Inner"
    rows = {0: np.array(HOT), 1: np.array([50] * 8), 2: np.array([1] * 8)}
    found = uneven(HOT, operators=("SortMergeJoin",), work={"reads": tuple(sides), "join": join}, by_read=rows)
    assert found.call is None
    assert "more than two inputs are joined here (by user)" in found.remedy


def test_a_table_of_buckets_is_neither_cut_finer_nor_spread():
    scan = {"scan": "FileScan parquet shop.sales[user#1L] Batched: true, Bucketed: true, SelectedBucketsCount: 2 out of 2"}
    few = diagnose_stage(stage([30_000] * 2, cluster_slots=8, exchange=None, work=scan))
    assert "the table has 2 buckets" in few.remedy
    assert few.call == 'spark.conf.set("spark.sql.sources.bucketing.enabled", "false")'
    found = uneven(UNEVEN, exchange=None, operators=("Window",), work=scan)
    assert found.cause is Cause.ROWS
    assert "a bucket of its table" in found.remedy


def test_batches_of_rows_in_shuffles_of_pythons_rdds_are_not_taken_for_rows():
    work = {"rdds": ("PythonRDD",), "groups_rdds": True}
    found = diagnose_stage(stage([10_000] * 7 + [40_000], exchange=None, operators=(), work=work))
    assert (found.cause, found.confidence, found.call) == (Cause.COST, Confidence.GUESS, None)
    assert "rows were not counted" in found.why
    assert "the job's own shuffle" in found.remedy


def test_a_line_that_spark_does_not_know_is_not_told():
    found = replace(stage([1_000]), name="save at <unknown>:0", query="nightly totals")
    assert found.line == "nightly totals"
    assert replace(found, query=None).line == "save"


def test_numbers_below_bars_have_room():
    for tasks, told, left_out in ((10, ">9<", ">10<"), (16, ">14<", ">15<")):
        drawn = str(stage_bars(stage([1_000] * tasks, [0] * tasks)))
        assert told in drawn
        assert left_out not in drawn
