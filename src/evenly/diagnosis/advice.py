"""Advice that can be carried out: where a stage's number of tasks is decided, and how it is changed there."""

from __future__ import annotations

import re

from evenly.diagnosis.calls import setting_call
from evenly.diagnosis.findings import Advice
from evenly.diagnosis.placing import NEW_CHECKPOINT, keeps_state, placed_groups
from evenly.diagnosis.stages import Exchange, PastStage, Work

MIB = 1 << 20
GROUPED = (
    "FlatMapGroupsIn",
    "FlatMapCoGroupsIn",
    "CoGroup",
    "AggregateIn",
    "ArrowAggregate",
    "MapGroups",
    "TransformWithState",
)
"""Operators that call a function for every group."""
AGGREGATES = re.compile(r"^(Gpu|Photon)?(HashAggregate|ObjectHashAggregate|SortAggregate|GroupingAgg|Agg)")
WINDOWS = re.compile(r"^(Gpu|Photon)?(Window|RunningWindow|WindowInPandas|ArrowWindowPython|WindowGroupLimit)")
_FILES = re.compile(r"^(Gpu|Photon)?(FileScan|Scan (parquet|orc|csv|json|text|avro|hive)|BatchScan)", re.IGNORECASE)
_BUCKETS = re.compile(r"SelectedBucketsCount: (\d+) out of")
_LEAST_SPLIT = MIB
_OPENING = 4 * MIB
"""What Spark counts for a file beside its size, when it puts several into one task."""
_SPLIT_MIB = 128
"""What Spark cuts files at, unless it is told otherwise."""


def runs(stage: PastStage, *operators: str) -> bool:
    """Whether one of its operators begins with one of these names."""
    return any(name.startswith(operators) for name in stage.operators)


def scans_files(stage: PastStage) -> bool:
    """Whether its rows come from files, by its plan, or where it has none by the RDD that reads them for Spark's queries."""
    planned = bool(_FILES.match(stage.work.scan)) and stage.exchange is None
    return planned or (stage.work.file_rdd and not stage.work.python and not stage.work.reads_shuffle and not stage.operators)


def with_tasks(stage: PastStage, tasks: int) -> Advice | None:
    """How the stage gets another number of tasks, or None where that cannot be asked for: Spark may compute a part only."""
    return None if stage.work.part else _where_decided(stage, tasks)


def _some_tasks(number: int) -> str:
    return "one task" if number == 1 else f"{number} tasks"


def _where_decided(stage: PastStage, tasks: int) -> Advice | None:
    if stage.work.coalesced == stage.instances < tasks:
        return _of_coalesce(stage.work.coalesced, tasks)
    if stage.exchange is not None:
        return _of_shuffle(stage, tasks)
    if runs(stage, *GROUPED) or buckets_of(stage):
        return _of_kept_keys(stage, tasks)
    if stage.work.python and stage.operators:
        return _before_function(tasks)
    return _of_source(stage, tasks)


def _of_source(stage: PastStage, tasks: int) -> Advice | None:
    if scans_files(stage) and not stage.work.reads_shuffle:
        return _of_files(stage, tasks)
    if stage.work.reads_shuffle or (stage.query is None and not stage.operators):
        return _without_plan(stage, tasks)
    if "JDBCRelation" in stage.work.scan:
        remedy = f"{tasks} parts: give the JDBC source numPartitions={tasks} with partitionColumn, lowerBound and upperBound"
        return Advice(remedy)
    return None


def _of_coalesce(number: int, tasks: int) -> Advice:
    return Advice(
        f"the job's own coalesce({number}) puts all that comes before it into {_some_tasks(number)}: leave it out, or have "
        f"repartition({number}) in its place, before which {tasks} tasks can work"
    )


def _of_kept_keys(stage: PastStage, tasks: int) -> Advice | None:
    """Rows are together by their keys without a shuffle: to spread them would take the keys apart, or shuffle them again."""
    if tasks < stage.instances:
        return None
    if not (buckets := buckets_of(stage)):
        return Advice(f"{tasks} tasks: the input has the rows together by their key, so place it by that key (evenly.by_key)")
    remedy = f"the table has {buckets} buckets, and a task for each of them: read it without, and its rows are shuffled"
    return Advice(remedy, setting_call("spark.sql.sources.bucketing.enabled", "false"))


def _before_function(tasks: int) -> Advice:
    return Advice(f"{tasks} tasks: spread the rows before the function", f"df.repartition({tasks})")


def buckets_of(stage: PastStage) -> int:
    """How many buckets the table has whose rows stay where they are; 0 where it has none, or they are shuffled all the same."""
    found = _BUCKETS.search(stage.work.scan)
    return int(found.group(1)) if found is not None and not stage.work.reads else 0


def _without_plan(stage: PastStage, tasks: int) -> Advice:
    """Where the log has no plan, or none that describes the shuffle that is read."""
    if stage.work.reads_shuffle:
        setting = _of_partitions(stage, tasks)
        where = "in the job's own repartition where it has one, else by this setting"
        return Advice(f"{setting.remedy}: {where}", setting.call)
    if stage.work.groups_rdds:
        # Repartition would take rows of a key apart.
        return Advice(
            f"{tasks} partitions of the job's own shuffle (groupByKey, join, partitionBy and the like take the number)"
        )
    remedy = (
        f"{tasks} partitions where the rows are made (parallelize, textFile, reduceByKey and the like take the number), or "
        "before the function"
    )
    return Advice(remedy, f"rdd.repartition({tasks})")


def _of_shuffle(stage: PastStage, tasks: int) -> Advice | None:
    exchange = stage.exchange
    assert exchange is not None  # noqa: S101 - the caller has looked
    if exchange.kind == "SinglePartition" and "REPARTITION_BY_NUM" not in exchange.origin:
        windowed = any(WINDOWS.match(name) for name in stage.operators)
        if stage.work.python and not windowed and not runs(stage, *GROUPED):
            return _before_function(tasks)  # behind a limit
        if not windowed and not stage.work.python:
            return None  # a total or a limit is one task by its nature
        return Advice("everything is in one partition: partition by a key what need not see all rows")
    if exchange.keys and tasks > stage.instances and runs(stage, *GROUPED):
        placed = placed_groups(stage, exchange.placeable, tasks)
        return Advice(f"{tasks} instances: {placed.remedy}", placed.call)
    if "REPARTITION_BY_NUM" in exchange.origin or exchange.kind == "RoundRobinPartitioning":
        return Advice(f"another number in the job's own repartition: {tasks} instead of {exchange.partitions}")
    merged = _of_merged(stage, exchange, tasks) if exchange.coalesced else None
    return merged or _of_partitions(stage, tasks)


def _of_partitions(stage: PastStage, tasks: int) -> Advice:
    """A setting. Adaptive execution merges partitions that are small, so that more of them alone would change nothing."""
    partitions = setting_call("spark.sql.shuffle.partitions", tasks)
    if stage.work.streaming or keeps_state(stage):
        return Advice(f"{tasks} partitions of the shuffle, {NEW_CHECKPOINT}", partitions)
    if not stage.work.adaptive or tasks <= stage.instances:
        return Advice(f"{tasks} partitions of the shuffle", partitions)
    merging = setting_call("spark.sql.adaptive.coalescePartitions.enabled", "false")
    remedy = f"{tasks} partitions of the shuffle, which adaptive execution must not merge again for this query"
    return Advice(remedy, f"{partitions}\n{merging}")


def _of_merged(stage: PastStage, exchange: Exchange, tasks: int) -> Advice | None:
    """Adaptive execution decides how many tasks there are, by their sizes."""
    if stage.instances < tasks <= (exchange.partitions or 0):
        remedy = (
            f"adaptive execution merged {exchange.partitions} partitions into {_some_tasks(stage.instances)}, because they are "
            "small; the work on them is not: switch merging off for this query"
        )
        return Advice(remedy, setting_call("spark.sql.adaptive.coalescePartitions.enabled", "false"))
    if stage.instances > tasks:
        size = max(1, int(stage.tasks.bytes.sum() / tasks / MIB) + 1)
        remedy = f"about {tasks} tasks: let adaptive execution merge partitions up to {size} MiB"
        settings = (
            setting_call("spark.sql.adaptive.coalescePartitions.parallelismFirst", "false"),
            setting_call("spark.sql.adaptive.advisoryPartitionSizeInBytes", f"{size}MB"),
        )
        return Advice(remedy, "\n".join(settings))
    return None


def _of_files(stage: PastStage, tasks: int) -> Advice | None:
    """A scan has one task for so many bytes of files. Files that cannot be split, and row groups, stay whole."""
    work = stage.work
    total = work.files_bytes or int(stage.tasks.bytes.sum())
    if total <= 0:
        return None
    if tasks < stage.instances:
        if work.files >= stage.instances:
            return _of_whole_files(work, tasks)
        # What was read says nothing of the limit: columns that are not asked for are in the files, too.
        told = f"{-(-_SPLIT_MIB * stage.instances // tasks)}MB"
        remedy = (
            f"about {tasks} tasks: files in larger pieces, of {told} if it is {_SPLIT_MIB}MB now; small files may stay apart"
        )
        return Advice(remedy, setting_call("spark.sql.files.maxPartitionBytes", told))
    size = total // tasks
    if size < _LEAST_SPLIT:
        return None
    told = f"{-(-size // MIB)}MB"
    whole = "files that cannot be split (gzip, one row group) need a writer of more files"
    remedy = f"about {tasks} tasks of {told} of files each; {whole}"
    return Advice(remedy, setting_call("spark.sql.files.maxPartitionBytes", told))


def _of_whole_files(work: Work, tasks: int) -> Advice | None:
    """Fewer tasks of files that are not cut: so many files each, or None where no number of files comes near that."""
    each = -(-work.files // tasks)
    if work.files_bytes <= 0 or abs(-(-work.files // each) - tasks) > tasks // 8:
        return None
    told = f"{-(-each * (work.files_bytes // work.files + _OPENING) // MIB)}MB"
    remedy = f"about {tasks} tasks: {work.files:,} files, {each} in each task"
    return Advice(remedy, setting_call("spark.sql.files.maxPartitionBytes", told))
