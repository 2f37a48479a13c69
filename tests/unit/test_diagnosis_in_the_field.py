"""What logs of other people's applications taught: each a small stage or log of the same shape, made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import event_logs as made
from evenly.diagnosis.application import read_application
from evenly.diagnosis.causes import diagnose_stage
from evenly.diagnosis.event_log import open_event_log
from evenly.diagnosis.findings import Cause, Confidence
from evenly.diagnosis.running import RunningStage
from evenly.diagnosis.stages import Exchange, Schedule
from event_logs import written
from past_stages import stage

FILES = {"exchange": None, "operators": ("Scan parquet ",)}
SCAN = {"scan": "FileScan parquet [a#1]", "operators": ("Scan parquet ",), "reads": ()}


def at(made_stage, launch, work):
    """The stage with its tasks launched at these moments, in ms, each for its time."""
    launch, finish = np.array(launch, np.int64), np.array(launch, np.int64) + np.array(work, np.int64)
    tasks = replace(made_stage.tasks, launch_ms=launch, finish_ms=finish)
    return replace(made_stage, tasks=tasks, schedule=Schedule(launch, finish))


def on_two_machines(**more):
    """Two executors of two slots: ten tasks on one, the last two short; eight slower ones on the other, which end last."""
    quick, slow = [*[44_000] * 8, 20_000, 20_000], [55_000] * 8
    launch = [44_000 * (i // 2) for i in range(10)] + [55_000 * (i // 2) for i in range(8)]
    executors = ["0"] * 10 + ["1"] * 8
    found = stage(
        [*quick, *slow],
        rows=[*[1_000] * 8, 460, 460, *[1_000] * 8],
        slots=4,
        executor=executors,
        bytes=[100 << 20] * 18,
        cpu_ms=[*quick, *slow],
        **more,
    )
    return at(found, launch, [*quick, *slow])


def test_tasks_beyond_full_rounds_that_ended_before_the_others_are_not_the_cause():
    found = diagnose_stage(on_two_machines(**FILES, work=SCAN))
    assert found.cause is not Cause.ROUNDS
    assert (found.cause, found.confidence) == (Cause.EXECUTOR, Confidence.LIKELY)
    assert "executor 1 took 1.2 times as long a row as tasks elsewhere" in found.why
    assert "of other stages the log does not say" in found.remedy


def test_a_short_task_beyond_full_rounds_that_ends_last_is_the_cause():
    """16 tasks of 77 to 91 s on 16 slots, and one of 25 s that begins when the first of them ends, and ends last."""
    run = [77_000, *range(78_000, 92_500, 1_000), 25_000]
    rows = [*[2_000] * 16, 1_400]
    found = diagnose_stage(stage(run, rows, slots=16, cpu_ms=run, exchange=None, operators=()))
    assert (found.cause, found.confidence) == (Cause.ROUNDS, Confidence.CERTAIN)
    assert "1 full round and 1 more task" in found.why


def test_an_executor_is_not_blamed_where_its_rows_are_more_or_its_tasks_are_mixed():
    machines = on_two_machines(**FILES, work=SCAN)
    more = replace(machines, tasks=replace(machines.tasks, rows=np.array([1000] * 10 + [1250] * 8)))
    assert diagnose_stage(more).cause is not Cause.EXECUTOR
    mixed = replace(machines, tasks=replace(machines.tasks, executor=np.array(["0", "1"] * 9)))
    assert diagnose_stage(mixed).cause is not Cause.EXECUTOR


def test_copies_of_slow_tasks_are_not_advised_where_spark_makes_them_already():
    native = {"operators": ("HashAggregate",), "exchange": None, "cpu_ms": [100] * 4}
    alone = diagnose_stage(stage([100, 100, 100, 60_000], **native))
    assert "spark.speculation=true, set at the start" in alone.remedy
    copied = diagnose_stage(stage([100, 100, 100, 60_000], speculates=True, **native))
    assert copied.cause is Cause.WAITING
    assert "speculation=true" not in copied.remedy
    assert "copied elsewhere already" in copied.remedy


def test_second_tasks_of_new_executors_are_no_measure_of_cold_ones():
    """Two tasks are the first of their executor, two the second of one that came just before, eight are on an old executor."""
    run = [2_200, 2_200, 1_300, 1_300, *[350] * 8]
    new = {"first": [1, 1, *[0] * 10], "age_ms": [0, 0, 900, 900, *[60_000] * 8]}
    executors = ["3", "3", "2", "2", *["1"] * 8]
    cpu = [900, 900, 800, 800, *[340] * 8]
    found = diagnose_stage(stage(run, executor=executors, cpu_ms=cpu, operators=("HashAggregate",), exchange=None, **new))
    assert found.cause is Cause.COLD
    assert "first on executor 3" in found.why


def test_first_tasks_that_are_slower_than_all_later_ones_are_cold_though_the_later_ones_are_not_equal():
    """Later tasks go on getting faster, and some were launched just before an end was noted. Where one of the later tasks is as
    slow as the first ones, it is not the start."""
    run = [9_100, 9_100, 11_300, 11_300, 3_500, 3_500, 3_700, 3_700, *[2_900] * 4, *[2_400] * 4]
    rows = [10_200] * 4 + [13_500, 15_300, 16_300, 18_800] + [23_000] * 8
    started = {"executor": ["0", "0", "1", "1"] * 4, "age_ms": [0] * 4 + [9_500] * 12, "slots": 4}
    native = {"rows": rows, "operators": ("MapPartitionsRDD",), "exchange": None, **started}
    found = diagnose_stage(stage(run, first=[1] * 7 + [0] * 9, **native))
    assert found.cause is Cause.COLD
    assert "first on executor 1" in found.why
    assert found.call is None
    run[9] = 9_000
    assert diagnose_stage(stage(run, first=[1] * 7 + [0] * 9, **native)).cause is not Cause.COLD


def test_the_first_task_of_a_slow_executor_is_a_start_where_the_others_have_had_theirs():
    """A direct stream's first batches: three executors, one of which came 4 s later and is slow in other stages too."""
    new = {"executor": ["0", "1", "2"], "first": [0, 0, 1], "age_ms": [6_000, 6_000, 0], "slow": ["2"]}
    found = diagnose_stage(stage([350, 450, 3_060], rows=[0] * 3, operators=(), exchange=None, **new))
    assert found.cause is Cause.COLD
    assert "first on executor 2" in found.why


def test_nearly_all_rows_in_one_of_many_empty_tasks_are_the_reason_though_the_mean_is_small():
    """Ranges of a genome, of which all reads fall into one: 993 rows there, one here and there in 161 others."""
    run, rows = [230] * 161 + [13_100], [0, 0, 0, 1] * 40 + [0, 993]
    found = diagnose_stage(stage(run, rows, slots=31, operators=(), exchange=None, work={"groups_rdds": True}))
    assert found.cause is Cause.ROWS
    assert "read 993 rows" in found.why
    assert "own partitioner" in found.remedy
    assert found.call is None, "a repartition would take apart what belongs together"


@pytest.mark.parametrize(
    ("rdd", "scope", "grouped"),
    [
        ("ShuffledRDD", "repartitionAndSortWithinPartitions", True),
        ("CoGroupedRDD", "cogroup", True),
        ("ShuffledRDD", "repartition", False),
        ("MapPartitionsRDD", "map", False),
    ],
)
def test_a_partitioner_of_the_job_is_known_by_the_rdd_that_reads_its_shuffle(rdd, scope, grouped):
    info = {"RDD Info": [{"Name": rdd, "Scope": f'{{"id":"30","name":"{scope}"}}'}]}
    assert RunningStage.submitted(info, {}).groups_rdds is grouped


@pytest.mark.parametrize(("adaptive", "lines"), [(True, 2), (False, 1)])
def test_more_partitions_come_with_merging_off_where_adaptive_execution_would_merge_them_again(adaptive, lines):
    run = [30_000] * 7 + [40_000]
    found = diagnose_stage(stage(run, work={"adaptive": adaptive}, operators=("SortMergeJoin",), cpu_ms=run))
    assert found.cause is Cause.COST
    assert found.call.count("spark.conf.set") == lines
    assert ("coalescePartitions.enabled" in found.call) is adaptive


def whole_files(files, size, tasks=17, slots=4):
    work = SCAN | {"files": files, "files_bytes": files * size}
    return stage([16_000] * tasks, slots=slots, bytes=[size // 2] * tasks, work=work, **FILES)


def test_no_limit_makes_one_task_less_of_whole_files_so_finer_pieces_are_advised():
    """51 files of 36 MiB, three in a task: 129 MB holds three as well, and with four there are 13 tasks."""
    found = diagnose_stage(whole_files(51, 36 << 20))
    assert found.cause is Cause.ROUNDS
    assert "tasks read whole files" in found.remedy
    assert found.call == 'spark.conf.set("spark.sql.files.maxPartitionBytes", "27MB")'


def test_files_that_fit_are_put_together():
    """68 files, four in a task: with five in a task there are 14, which 7 slots take in two rounds."""
    found = diagnose_stage(whole_files(70, 10 << 20, tasks=15, slots=7))
    assert found.cause is Cause.ROUNDS
    assert found.call == 'spark.conf.set("spark.sql.files.maxPartitionBytes", "70MB")'
    assert "70 files, 5 in each task" in found.remedy


def test_files_are_cut_finer_and_never_coarser_where_they_are_uneven():
    run = [9_000] * 30 + [27_000] * 2
    rows = [1_000] * 30 + [3_000] * 2
    sizes = [100 << 20] * 30 + [300 << 20] * 2
    found = diagnose_stage(stage(run, rows, slots=4, bytes=sizes, work=SCAN, **FILES))
    assert found.cause is Cause.ROWS
    assert "about 64 tasks" in found.remedy
    assert "larger pieces" not in found.remedy
    small = diagnose_stage(stage(run, rows, slots=4, bytes=[size >> 6 for size in sizes], work=SCAN, **FILES))
    assert (small.cause, small.call) == (Cause.ROWS, None)


def test_the_end_of_a_stage_is_asked_of_the_tasks_that_ran_then():
    """A task that waited long ago is longest; the stage ends with one of twice the rows, and that is why."""
    run = [20_000, *[5_000] * 11, 10_000]
    rows = [1_000] * 12 + [2_000]
    found = diagnose_stage(stage(run, rows, slots=4, cpu_ms=run, work=SCAN, **FILES))
    assert found.stage.deciding == 12
    assert found.cause is Cause.ROWS


def test_rows_that_cost_more_in_large_tasks_are_still_the_rows():
    """Times follow the rows over all tasks, but faster than they do: half as much again for the largest."""
    rows = [1_000] * 20 + [2_000] * 10 + [2_100]
    run = [4_000] * 20 + [11_000] * 10 + [16_000]
    found = diagnose_stage(stage(run, rows, cpu_ms=run, work=SCAN, **FILES))
    assert (found.cause, found.confidence) == (Cause.ROWS, Confidence.LIKELY)
    straight = diagnose_stage(stage([5_000] * 30 + [16_000], rows, cpu_ms=[5_000] * 30 + [16_000], work=SCAN, **FILES))
    assert straight.cause is Cause.COST


def test_slots_that_stand_idle_for_a_place_near_the_rows_are_told():
    """Four tasks where their rows are; three seconds of nothing; four tasks elsewhere."""
    waited = stage([1_000] * 8, slots=4, place=[0] * 4 + [2] * 4, exchange=None, operators=())
    found = diagnose_stage(at(waited, [0] * 4 + [4_000] * 4, [1_000] * 8))
    assert (found.cause, found.saved_s, found.call) == (Cause.LOCALITY, 3.0, None)
    assert "spark.locality.wait" in found.remedy
    near = stage([1_000] * 8, slots=4, place=[0] * 8, exchange=None, operators=())
    assert diagnose_stage(at(near, [0] * 4 + [4_000] * 4, [1_000] * 8)).cause is not Cause.LOCALITY
    others = replace(waited, others_busy=2.0)
    assert diagnose_stage(at(others, [0] * 4 + [4_000] * 4, [1_000] * 8)).cause is not Cause.LOCALITY


def test_slots_that_were_given_back_for_want_of_tasks_count_where_executors_come_and_go():
    by = Exchange("RoundRobinPartitioning", (), (), 4, origin="REPARTITION_BY_NUM")
    few = {"exchange": by, "operators": ("Project",), "slots": 4}
    assert diagnose_stage(stage([80_000] * 4, **few)).cause is Cause.EVEN
    found = diagnose_stage(stage([80_000] * 4, given_back=20, **few))
    assert (found.cause, found.confidence) == (Cause.TOO_FEW, Confidence.GUESS)
    assert "given back for want of tasks (dynamic allocation)" in found.why
    assert "20 instead of 4" in found.remedy


def test_equal_tasks_that_waited_for_slots_of_other_stages_have_nothing_to_save():
    found = diagnose_stage(stage([10_000] * 5, slots=4, others_busy=2.0))
    assert (found.cause, found.saved_s) == (Cause.EVEN, 0.0)
    assert "slots that other stages had" in found.why


def shuffled(scope):
    rdd = {"RDD ID": 1, "Name": "ShuffledRDD", "Scope": f'{{"id":"25","name":"{scope}"}}'}
    before, after = made.submitted(1, 120), made.completed(1, 120)
    before["Stage Info"]["RDD Info"].append(rdd)
    tasks = [made.task_end(1, i, run_ms=20, launch_ms=100 * i, overhead_ms=80) for i in range(120)]
    return [*made.start(cores=1), before, *tasks, after]


@pytest.mark.parametrize(("scope", "call"), [("Exchange", "spark.sql.shuffle.partitions"), ("reduceByKey", None)])
def test_a_querys_shuffle_is_known_by_its_scope_where_the_log_has_no_plan(tmp_path, scope, call):
    found = read_application(open_event_log(written(tmp_path, made.text(shuffled(scope)))))
    assert diagnose_stage(found.stages[0]).cause is Cause.TOO_MANY
    told = diagnose_stage(found.stages[0])
    assert told.call is None if call is None else call in told.call


def test_stages_without_any_of_their_tasks_are_told(tmp_path):
    events = [event for event in made.skewed_job() if not event["Event"].startswith("SparkListenerTask")]
    found = read_application(open_event_log(written(tmp_path, made.text(events))))
    assert (found.finished, found.stages) == (1, [])
    assert any("the log has none of 4 tasks" in gap for gap in found.gaps)


def scanned():
    """A query that scans files, of which the driver tells the number and the size."""
    metrics = [("number of output rows", 1), ("number of files read", 2), ("size of files read", 3)]
    plan = made.node("Scan parquet ", "FileScan parquet [a#1]", metrics=metrics)
    told = {
        "Event": f"{made.SQL}SparkListenerDriverAccumUpdates",
        "executionId": 0,
        "accumUpdates": [[2, 51], [3, 900], [8, -1]],
    }
    task = made.task_end(1, 0, run_ms=10)
    return [
        *made.start(),
        made.query_start(0, plan),
        told,
        made.submitted(1, 1, query=0),
        task,
        made.completed(1, 1, numbers=(1,)),
    ]


def test_the_number_and_the_size_of_files_are_what_the_driver_told(tmp_path):
    found = read_application(open_event_log(written(tmp_path, made.text(scanned()))))
    assert (found.stages[0].work.files, found.stages[0].work.files_bytes) == (51, 900)
    assert found.skipped_lines == 0


@pytest.mark.parametrize("on", ["true", "false"])
def test_what_is_set_at_the_start_is_known_of_every_stage(tmp_path, on):
    """An executor of four slots has gone before the stage: it counts where executors come and go by demand."""
    events = made.skewed_job()
    names = ("spark.speculation", "spark.dynamicAllocation.enabled")
    events[1]["Spark Properties"] |= dict.fromkeys(names, on)
    events[4:4] = [made.executor_added("2", 1), made.executor_added("2", 2), made.executor_removed("2", 3)]
    found = read_application(open_event_log(written(tmp_path, made.text(events))))
    assert found.stages[0].speculates is (on == "true")
    assert (found.stages[0].given_back, found.stages[0].cluster_slots) == (8 if on == "true" else 0, 4)


@pytest.mark.parametrize(("partitions", "cause"), [(17, Cause.EVEN), (1, Cause.TOO_FEW)])
def test_a_stage_that_spark_computes_in_part_has_no_task_too_few(tmp_path, partitions, cause):
    """`take` and `show` compute the first partition, to see whether it has rows enough: one task of 17 is Spark's choice."""
    before, task = made.submitted(1, 1), made.task_end(1, 0, run_ms=20_000, cpu_ms=20_000, launch_ms=10)
    before["Stage Info"]["RDD Info"].insert(0, {"RDD ID": 9, "Name": "PythonRDD", "Number of Partitions": partitions})
    events = [*made.start(cores=16), before, task, made.completed(1, 1)]
    found = read_application(open_event_log(written(tmp_path, made.text(events))))
    assert found.stages[0].work.part is (partitions == 17)
    assert diagnose_stage(found.stages[0]).cause is cause


def test_of_a_stage_that_is_computed_in_part_no_other_number_of_tasks_is_advised():
    run = [10_000] * 17
    assert diagnose_stage(stage(run, slots=16, exchange=None, operators=())).cause is Cause.ROUNDS
    assert diagnose_stage(stage(run, slots=16, exchange=None, operators=(), work={"part": True})).cause is Cause.EVEN


def test_what_the_driver_took_to_fetch_a_result_is_not_the_start_of_an_executor(tmp_path):
    """Four first tasks of a second; the driver fetches their large results one after the other, for five seconds each."""
    tasks = [made.task_end(1, i, run_ms=1_000, overhead_ms=5_000 * (i + 1), launch_ms=10) for i in range(4)]
    events = [*made.start(), made.submitted(1, 4), *tasks, made.completed(1, 4)]
    untold = read_application(open_event_log(written(tmp_path, made.text(events), "untold")))
    assert diagnose_stage(untold.stages[0]).cause is Cause.COLD
    for task in tasks:
        task["Task Info"]["Getting Result Time"] = 1_040
    found = read_application(open_event_log(written(tmp_path, made.text(events))))
    assert found.stages[0].seconds == 21.0
    assert found.stages[0].tasks.start_ms.tolist() == [30] * 4
    assert diagnose_stage(found.stages[0]).cause is Cause.EVEN


def test_rows_are_not_the_reason_where_tasks_with_as_many_took_no_longer_than_others():
    """Six tasks of 1,200 rows and two of none: one of the six took three times as long as the five others."""
    rows, run = [1_200] * 6 + [0] * 2, [30_000, *[10_000] * 5, 1_000, 1_000]
    found = diagnose_stage(stage(run, rows, cpu_ms=run, work=SCAN, **FILES))
    assert found.cause is Cause.COST
    assert diagnose_stage(stage([11_000, *run[1:]], rows, cpu_ms=run, work=SCAN, **FILES)).cause is not Cause.COST


@pytest.mark.parametrize(("reader", "merged"), [("CustomShuffleReader", True), ("AQEShuffleRead", True), ("Exchange", False)])
@pytest.mark.parametrize("told", ["at its submission", "at its end"])
def test_a_querys_shuffle_is_known_without_its_plan(tmp_path, told, reader, merged):
    """Two tasks on eight slots: rows of a query are not spread by an RDD's repartition, and merging them is switched off."""
    rdds = [{"Name": "MapPartitionsRDD", "Scope": "x"}, {"Name": "ShuffledRowRDD", "Scope": f'{{"id":"7","name":"{reader}"}}'}]
    before, after = made.submitted(1, 2), made.completed(1, 2)
    for event in (before, after):
        event["Stage Info"]["RDD Info"] = rdds
    tasks = [made.task_end(1, i, run_ms=20_000, cpu_ms=20_000, rows=500, launch_ms=10) for i in range(2)]
    events = [*made.start(cores=8), *([before] if told == "at its submission" else []), *tasks, after]
    found = diagnose_stage(read_application(open_event_log(written(tmp_path, made.text(events)))).stages[0])
    assert found.cause is Cause.TOO_FEW
    assert found.call.splitlines()[0] == 'spark.conf.set("spark.sql.shuffle.partitions", "8")'
    assert ("coalescePartitions" in found.call) is merged


@pytest.mark.parametrize(("before", "names"), [("Spark 1.3", ["7", "6", "hdfs://a/b"]), ("now", ["MapPartitionsRDD"])])
def test_rows_that_a_job_of_an_old_spark_has_shuffled_are_not_taken_apart(tmp_path, before, names):
    """Its RDDs have numbers for names; `repartition` would undo what `sortByKey` or `groupByKey` had done."""
    tasks = [made.task_end(1, i, run_ms=20_000, rows=500, launch_ms=10) for i in range(2)]
    events = [*made.start(cores=8), made.submitted(1, 2, rdds=names), *tasks, made.completed(1, 2)]
    for stage_of in (events[-1], events[-4]):
        stage_of["Stage Info"]["RDD Info"].pop()
    found = diagnose_stage(read_application(open_event_log(written(tmp_path, made.text(events)))).stages[0])
    assert found.cause is Cause.TOO_FEW
    assert found.call == (None if before == "Spark 1.3" else "rdd.repartition(8)")


def test_a_log_with_neither_rows_nor_cpu_times_does_not_tell_why_tasks_that_read_as_much_differ():
    """As Spark 1 logs them. The machine, its disks and the rows may be why: it is said that the log does not tell."""
    run, rows = [9_000] * 7 + [16_000], [0] * 8
    untold = diagnose_stage(stage(run, rows, bytes=[128 << 20] * 8, exchange=None, operators=()))
    assert untold.cause is Cause.EVEN
    assert untold.why.endswith("the log does not tell why its tasks differ")
    known = diagnose_stage(stage(run, rows, bytes=[128 << 20] * 8, cpu_ms=run, exchange=None, operators=()))
    assert known.cause is Cause.COST
