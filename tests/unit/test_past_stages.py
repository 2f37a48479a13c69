"""What a log says of a stage besides its tasks: whose work it is, what it reads, and which slots and executors there were."""

from __future__ import annotations

import pytest

import event_logs as made
from evenly.diagnosis.application import read_application
from evenly.diagnosis.causes import diagnose_stage
from evenly.diagnosis.event_log import open_event_log
from evenly.diagnosis.findings import Cause
from evenly.diagnosis.own_jobs import own_job
from evenly.diagnosis.stages import Work

JVM = "NativeMethodAccessorImpl.java:0"
LIMITED = Work(operators=("Scan text ",), limited=True, command="CollectLimit")
LEARNING = Work(operators=("MapInArrow",), functions=("PartitionLearner",))


def read(tmp_path, events):
    path = tmp_path / "app-1"
    path.write_bytes(made.text(events))
    return read_application(open_event_log(path))


@pytest.mark.parametrize(
    ("name", "description", "work", "has_query", "kind"),
    [
        (f"csv at {JVM}", "", Work(), False, "reading schemas"),
        (f"csv at {JVM}", "", LIMITED, True, "reading schemas"),
        ("load at <unknown>:0", "Listing leaf files and directories for 1824 paths", Work(), False, "listing files"),
        (f"sql at {JVM}", "", Work(), False, "preparing queries"),
        (f"sql at {JVM}", "", Work(command="Execute AnalyzeColumnCommand"), True, "statistics"),
        (f"count at {JVM}", "", Work(operators=("Scan json ",), for_broadcast=True), True, "collecting broadcasts"),
        ("run at ThreadPoolExecutor.java:1149", "broadcast exchange (runId 7)", Work(), True, "collecting broadcasts"),
        ("$anonfun$1 at Thread.java:7", "Delta: Filtering files for query", Work(), True, "reading table logs"),
        ("start at Main.scala:9", "Streaming job running receiver 0", Work(), False, "receiving a stream"),
        ("collect at /x/evenly/spark/keyed/learning.py:68", "", LEARNING, True, "Evenly learning keys"),
        # What a user asked for:
        (f"csv at {JVM}", "", Work(operators=("Range",), command="Execute InsertIntoHadoopFsRelationCommand"), True, None),
        ("collect at /x/job.py:3", "", Work(rdds=("PythonRDD",)), False, None),
        ("count at <console>:29", "", Work(), False, None),
        ("collect at Main.scala:12", "", Work(), False, None),
        (f"count at {JVM}", "", Work(operators=("ArrowEvalPython",), for_broadcast=True), True, None),
        (
            "collect at /x/evenly/spark/costs/stage.py:128",
            "",
            Work(operators=("MapInArrow",), functions=("score",)),
            True,
            None,
        ),
        ("toPandas at /x/evenly/spark/comparison.py:126", "", Work(operators=("Scan",)), True, None),
    ],
)
def test_work_of_sparks_and_evenlys_own_is_told_from_the_users(name, description, work, has_query, kind):
    assert own_job(name, description, work, has_query=has_query, rows=0) == kind


def shuffle(keys, number, *, read="", below=()):
    exchange = made.node(
        "Exchange",
        f"Exchange hashpartitioning({keys}, 40), ENSURE_REQUIREMENTS, [plan_id=1]",
        metrics=[("records read", number), ("shuffle records written", number + 1)],
        children=below,
    )
    stage = made.node("ShuffleQueryStage", children=[exchange])
    return made.node("AQEShuffleRead", f"AQEShuffleRead {read}", children=[stage]) if read else stage


def test_a_join_tells_its_sides_and_how_adaptive_execution_read_them(tmp_path):
    sides = [shuffle("user#1L", 10, read="coalesced and skewed"), shuffle("id#2L", 20, read="coalesced")]
    join = made.node(
        "SortMergeJoin(skew=true)",
        "SortMergeJoin(skew=true) [user#1L], [id#2L], LeftOuter",
        metrics=[("number of output rows", 30)],
        children=[made.node("Sort", children=[side]) for side in sides],
    )
    plan = made.node("AdaptiveSparkPlan", children=[join])
    updates = [
        [(10, "records read", 90), (20, "records read", 5), (30, "number of output rows", 400)],
        [(20, "records read", 7)],
    ]
    tasks = [made.task_end(1, i, run_ms=100, rows=50, updates=one) for i, one in enumerate(updates)]
    events = [made.query_start(0, plan), made.submitted(1, 2, query=0), *tasks, made.completed(1, 2, numbers=(10, 20, 30))]
    (stage,) = read(tmp_path, [*made.start(), *events]).stages
    left, right = stage.work.reads
    assert (left.side, left.keys, left.coalesced, left.split) == ("left", ("user",), True, True)
    assert (right.side, right.keys, right.coalesced, right.split) == ("right", ("id",), True, False)
    assert stage.work.join.endswith("[user], [id], LeftOuter")
    assert stage.work.adaptive
    assert stage.tasks.by_read[10].tolist() == [90, 0]
    assert stage.tasks.by_read[20].tolist() == [5, 7]
    assert stage.tasks.rows_out.tolist() == [400, 0]


def test_of_a_joins_keys_the_field_of_a_struct_is_told_apart_from_a_column(tmp_path):
    join = made.node(
        "SortMergeJoin", "SortMergeJoin [s#1.id, day#12L], [id#2L, on#3], Inner", metrics=[("number of output rows", 30)]
    )
    tasks = [made.task_end(1, i, run_ms=100, rows=50) for i in range(2)]
    events = [made.query_start(0, join), made.submitted(1, 2, query=0), *tasks, made.completed(1, 2, numbers=(30,))]
    (stage,) = read(tmp_path, [*made.start(), *events]).stages
    assert stage.work.join == "SortMergeJoin [s#1.id, day], [id, on], Inner"


def test_a_key_of_sparks_own_making_is_told_as_what_it_stands_for(tmp_path):
    project = made.node("Project", "Project [id#25, lower(cast(s#27 as string)) AS _groupingexpression#102]")
    plan = made.node(
        "ObjectHashAggregate",
        metrics=[("spill size", 1)],
        children=[shuffle("day#3, _groupingexpression#102", 10, below=[project])],
    )
    events = [
        made.query_start(0, plan),
        made.submitted(1, 1, query=0),
        made.task_end(1, 0, run_ms=5),
        made.completed(1, 1, numbers=(1, 10)),
    ]
    (stage,) = read(tmp_path, [*made.start(), *events]).stages
    assert (stage.exchange.keys, stage.exchange.expressions) == ((), ("day", "lower(cast(s as string))"))


def test_a_stage_below_a_broadcast_is_no_work_of_the_users(tmp_path):
    scan = made.node("Scan json ", "FileScan json [k#44L]", metrics=[("number of output rows", 5)])
    join = made.node(
        "BroadcastHashJoin", metrics=[("number of output rows", 6)], children=[made.node("BroadcastExchange", children=[scan])]
    )
    one = [made.submitted(1, 1, query=0), made.task_end(1, 0, run_ms=60_000), made.completed(1, 1, numbers=(5,))]
    other = [made.submitted(2, 1, query=0), made.task_end(2, 0, run_ms=60_000), made.completed(2, 1, numbers=(6,))]
    found = read(tmp_path, [*made.start(), made.query_start(0, join), *one, *other])
    assert [(own.kind, own.stages, own.seconds) for own in found.own.values()] == [("collecting broadcasts", 1, 60.0)]
    assert [stage.stage for stage in found.stages] == [2]
    assert found.finished == 2


def test_slots_are_those_that_were_there_at_the_time(tmp_path):
    few = [made.submitted(1, 2), *(made.task_end(1, i, run_ms=30_000, launch_ms=100) for i in range(2)), made.completed(1, 2)]
    late = [made.executor_added(str(n), 20_000) for n in range(2, 10)]
    gone = [made.executor_removed(str(n), 40_000) for n in range(2, 10)]
    again = [
        made.submitted(2, 2),
        *(made.task_end(2, i, run_ms=9_000, launch_ms=31_000) for i in range(2)),
        made.completed(2, 2),
    ]
    found = read(tmp_path, [*made.start(cores=2), *few[:-1], *late, few[-1], *again, *gone])
    first, second = sorted(found.stages, key=lambda stage: stage.stage)
    assert (first.cluster_slots, second.cluster_slots, found.slots) == (2, 34, 34)
    assert diagnose_stage(first).cause is Cause.EVEN
    assert diagnose_stage(second).cause is Cause.TOO_FEW


def test_slots_that_other_stages_had_were_not_free(tmp_path):
    few = [made.submitted(1, 2), *(made.task_end(1, i, run_ms=30_000) for i in range(2)), made.completed(1, 2)]
    many = [made.submitted(2, 14), *(made.task_end(2, i, run_ms=30_000) for i in range(14)), made.completed(2, 14)]
    found = read(tmp_path, [*made.start(cores=16), *few, *many])
    (stage,) = (one for one in found.stages if one.stage == 1)
    assert stage.others_busy == pytest.approx(14.0)
    assert diagnose_stage(stage).cause is Cause.EVEN


def test_an_executor_that_was_slow_in_several_stages_is_named_and_one_that_had_just_come_is_not(tmp_path):
    def run(stage, slow, launch_ms):
        ends = [
            made.task_end(
                stage,
                i,
                run_ms=slow if i > 8 else 2_000,
                rows=100,
                launch_ms=launch_ms,
                executor="2" if i > 8 else "1",
                task=100 * stage + i,
            )
            for i in range(12)
        ]
        return [made.submitted(stage, 12), *ends, made.completed(stage, 12)]

    slow = [*made.start(cores=8, executors=("1", "2")), *run(1, 2_000, 10), *run(2, 9_000, 10_000), *run(3, 9_000, 20_000)]
    found = {stage.stage: diagnose_stage(stage).cause for stage in read(tmp_path, slow).stages}
    assert found == {1: Cause.EVEN, 2: Cause.EXECUTOR, 3: Cause.EXECUTOR}
    came = [
        *made.start(cores=8),
        *run(1, 2_000, 10),
        made.executor_added("2", 9_000),
        *run(2, 9_000, 10_000),
        *run(3, 2_000, 20_000),
    ]
    events = [event for event in came if event.get("Task Info", {}).get("Executor ID") != "2" or event["Stage ID"] != 1]
    events = [
        event | {"Stage Info": event["Stage Info"] | {"Number of Tasks": 6}}
        if event.get("Stage Info", {}).get("Stage ID") == 1
        else event
        for event in events
    ]
    found = {stage.stage: diagnose_stage(stage).cause for stage in read(tmp_path, events).stages}
    assert found[2] is Cause.COLD


def test_starting_a_python_worker_is_no_work(tmp_path):
    started = [(70, "time to start Python workers", 3_000), (71, "time to initialize Python workers", 1_000)]
    reused = [(71, "time to initialize Python workers", 9_000)]  # since the worker's last task had ended
    ends = [made.task_end(1, i, run_ms=6_000 if i == 3 else 2_000, updates=started if i == 3 else reused) for i in range(4)]
    (stage,) = read(tmp_path, [*made.start(), made.submitted(1, 4), *ends, made.completed(1, 4)]).stages
    assert stage.tasks.work_ms.tolist() == [2_000] * 4
    assert stage.saved_s == 0.0
    assert diagnose_stage(stage).cause is Cause.COLD


@pytest.mark.parametrize(("kept", "cause"), [(True, Cause.CACHE), (False, Cause.COST)])
def test_rows_that_were_cached_for_some_tasks_only_do_not_cost_more(tmp_path, kept, cause):
    ends = [
        made.task_end(2, at, run_ms=9_000 if at > 13 else 10, rows=100, locality="ANY" if at > 13 else "PROCESS_LOCAL")
        for at in range(16)
    ]
    log = [*made.start(cores=16), made.submitted(2, 16, kept=kept), *ends, made.completed(2, 16, kept=kept)]
    (stage,) = read(tmp_path, log).stages
    assert diagnose_stage(stage).cause is cause
