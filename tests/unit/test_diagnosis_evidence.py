"""What a rule must have seen before it speaks: stages of other people's logs on which one spoke too soon, made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenly.diagnosis.causes import diagnose_stage
from evenly.diagnosis.findings import Cause, Confidence
from evenly.diagnosis.stages import Schedule
from past_stages import stage

NATIVE = {"exchange": None, "operators": ()}
SCAN = {"work": {"scan": "FileScan parquet [a#1]"}, "exchange": None, "operators": ("Scan parquet ",)}
ON_TWO = ["0"] * 6 + ["1"] * 6


def started_slowly(found, index, *, by_ms):
    """The stage with one of its tasks a little longer on its way from its launch to its work."""
    launch = found.tasks.launch_ms.copy()
    launch[index] -= by_ms
    return replace(found, tasks=replace(found.tasks, launch_ms=launch), schedule=Schedule(launch, found.tasks.finish_ms))


def test_a_few_tasks_that_began_late_are_not_what_every_task_costs():
    """32 tasks of 100 ms on one slot, which take 30 ms to begin; one of them took six seconds."""
    short = stage([100] * 32, slots=1, overhead_ms=[30] * 32, **NATIVE)
    late = started_slowly(short, 7, by_ms=6_000)
    assert float(late.tasks.start_ms.sum()) > 0.5 * float(late.tasks.run_ms.sum())
    assert diagnose_stage(late).cause is not Cause.TOO_MANY
    dear = diagnose_stage(stage([100] * 32, slots=1, overhead_ms=[60] * 32, **NATIVE))
    assert dear.cause is Cause.TOO_MANY
    assert "38% of their time went on starting them" in dear.why


@pytest.mark.parametrize(("each", "call"), [(1 << 10, "rdd.repartition(2)"), (24 << 20, "rdd.repartition(6)")])
def test_fewer_tasks_are_advised_only_as_far_as_each_gets_no_more_than_128_mib(each, call):
    found = diagnose_stage(stage([100] * 32, slots=1, overhead_ms=[60] * 32, bytes=[each] * 32, **NATIVE))
    assert (found.cause, found.call) == (Cause.TOO_MANY, call)


def test_one_task_with_all_rows_is_told_by_its_rows_though_they_are_few_and_its_executor_is_slow():
    """36 rows that take two seconds, in one of 36 tasks: the others had none, and were a little slower on that executor."""
    run, rows = [2_030] + [110] * 17 + [50] * 18, [36] + [0] * 35
    executors = ["1"] * 18 + ["0"] * 18
    found = diagnose_stage(stage(run, rows, executor=executors, slow=["1"], work={"groups_rdds": True}, **NATIVE))
    assert (found.cause, found.confidence) == (Cause.ROWS, Confidence.LIKELY)
    assert "read 36 rows" in found.why
    spread = diagnose_stage(stage(run, [9, 9, 9, 9] + [0] * 32, executor=executors, work={"groups_rdds": True}, **NATIVE))
    assert spread.cause is not Cause.ROWS


@pytest.mark.parametrize(("longest", "cause"), [(32_000, Cause.EXECUTOR), (200_000, Cause.COST)])
def test_a_slow_executor_must_explain_half_of_what_the_longest_task_took_longer(longest, cause):
    """Its tasks take 1.6 times as long as others: that makes 32 s of 20 s, and not 200 s."""
    run = [20_000] * 6 + [32_000] * 5 + [longest]
    found = diagnose_stage(stage(run, executor=ON_TWO, slow=["1"], **NATIVE))
    assert found.cause is cause


def test_an_executor_that_is_slow_a_row_is_the_reason_where_tasks_have_other_rows_too():
    """One of four executors takes twice as long a row, and its longest task has half as many rows again as the mean."""
    rows = np.array([400, 1_000, 1_200, 1_400, 1_600] * 4)
    pace = np.repeat([4, 4, 4, 9], 5)
    executors = [str(at) for at in range(4) for _ in range(5)]
    run = (rows * pace).tolist()
    found = diagnose_stage(stage(run, rows, executor=executors, cpu_ms=run, **SCAN))
    assert found.cause is Cause.EXECUTOR
    assert "executor 3 took 2.2 times as long a row as tasks elsewhere, nearly every one of them" in found.why
    assert "about the same rows" not in found.why
    mixed = [str(at % 4) for at in range(20)]
    assert diagnose_stage(stage(run, rows, executor=mixed, cpu_ms=run, **SCAN)).cause is not Cause.EXECUTOR


@pytest.mark.parametrize(
    ("cpu", "cause", "sure"),
    [
        (19_300, Cause.WAITING, Confidence.GUESS),
        (17_000, Cause.WAITING, Confidence.LIKELY),
        (24_000, Cause.COST, Confidence.GUESS),
    ],
)
def test_time_without_cpu_is_the_cause_where_it_is_half_of_the_excess_and_a_guess_below_seven_tenths(cpu, cause, sure):
    """A task of 30 s among such of 22 s, which computed for 16 s of these."""
    found = diagnose_stage(stage([22_000] * 31 + [30_000], cpu_ms=[16_000] * 31 + [cpu], **SCAN))
    assert (found.cause, found.confidence) == (cause, sure)


def test_rows_that_take_as_long_as_others_do_not_cost_more():
    """Eight tasks of 17 to 19 s, of which the longest was seven hundredths slower a row: that is no cost of its rows."""
    run = [14_800, 17_800, 17_800, 18_000, 18_100, 18_200, 19_000, 19_200]
    assert diagnose_stage(stage(run, cpu_ms=run, **SCAN)).cause is Cause.EVEN
    assert diagnose_stage(stage([*run[:-1], 26_000], cpu_ms=[*run[:-1], 26_000], **SCAN)).cause is Cause.COST


def test_without_cpu_time_too_few_tasks_are_a_guess_and_waiting_for_the_shuffle_is_no_work():
    few = stage([20_000] * 2, cluster_slots=16, **NATIVE)
    found = diagnose_stage(few)
    assert (found.cause, found.confidence) == (Cause.TOO_FEW, Confidence.GUESS)
    assert "the log has no cpu time" in found.why
    waited = diagnose_stage(stage([20_000] * 2, cluster_slots=16, fetch_ms=[19_900] * 2, **NATIVE))
    assert waited.cause is not Cause.TOO_FEW
    computed = diagnose_stage(stage([20_000] * 2, cluster_slots=16, cpu_ms=[19_000] * 2, **NATIVE))
    assert computed.confidence is Confidence.LIKELY


def test_files_that_a_job_without_a_query_reads_are_cut_by_the_limit_of_files():
    """`df.rdd` of a table, as MLlib reads it: the log has no plan for it, and a repartition comes after what is slow."""
    read = {"cpu_ms": [20_000] * 10, "cluster_slots": 40, "bytes": [190 << 20] * 10}
    found = diagnose_stage(stage([20_000] * 10, work={"file_rdd": True}, **read, **NATIVE))
    assert found.cause is Cause.TOO_FEW
    assert found.call == 'spark.conf.set("spark.sql.files.maxPartitionBytes", "48MB")'
    behind = diagnose_stage(stage([20_000] * 10, work={"file_rdd": True, "rdds": ("PythonRDD",)}, **read, **NATIVE))
    assert behind.call.startswith("rdd.repartition("), "the rows go to a Python function: spread them before it"
