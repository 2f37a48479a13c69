"""Advice that can be carried out: where a stage's number of tasks is decided, and how it is changed there."""

from __future__ import annotations

import re

from evenly.diagnosis.calls import by_key_call, setting_call
from evenly.diagnosis.findings import Advice
from evenly.diagnosis.stages import Exchange, PastStage, Work

MIB = 1 << 20
GROUPED = ("FlatMapGroupsIn", "AggregateIn", "ArrowAggregate", "MapGroups", "TransformWithState")
"""Operators that call a function for every group."""
AGGREGATES = re.compile(r"^(Gpu|Photon)?(HashAggregate|ObjectHashAggregate|SortAggregate|GroupingAgg|Agg)")
WINDOWS = re.compile(r"^(Gpu|Photon)?(Window|RunningWindow|WindowInPandas|ArrowWindowPython|WindowGroupLimit)")
_FILES = re.compile(r"^(Gpu|Photon)?(FileScan|Scan (parquet|orc|csv|json|text|avro|hive)|BatchScan)", re.IGNORECASE)
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


def _where_decided(stage: PastStage, tasks: int) -> Advice | None:
    if stage.exchange is not None:
        return _of_shuffle(stage, tasks)
    if stage.work.python and stage.operators:
        return Advice(f"{tasks} tasks: spread the rows before the function", f"df.repartition({tasks})")
    if scans_files(stage) and not stage.work.reads_shuffle:
        return _of_files(stage, tasks)
    if stage.work.reads_shuffle or (stage.query is None and not stage.operators):
        return _without_plan(stage, tasks)
    if "JDBCRelation" in stage.work.scan:
        remedy = f"{tasks} parts: give the JDBC source numPartitions={tasks} with partitionColumn, lowerBound and upperBound"
        return Advice(remedy)
    return None


def _without_plan(stage: PastStage, tasks: int) -> Advice:
    """Where the log has no plan, or none that describes the shuffle that is read."""
    if stage.work.reads_shuffle:
        remedy = f"{tasks} partitions of the shuffle: in the job's own repartition where it has one, else by this setting"
        return Advice(remedy, setting_call("spark.sql.shuffle.partitions", tasks))
    remedy = (
        f"{tasks} partitions where the rows are made (parallelize, textFile, reduceByKey and the like take the number), or "
        "before the function"
    )
    return Advice(remedy, f"rdd.repartition({tasks})")


def _of_shuffle(stage: PastStage, tasks: int) -> Advice | None:
    exchange = stage.exchange
    assert exchange is not None  # noqa: S101 - the caller has looked
    if exchange.kind == "SinglePartition":
        if not any(WINDOWS.match(name) for name in stage.operators) and not stage.work.python:
            return None  # a total or a limit is one task by its nature
        return Advice("everything is in one partition: partition by a key what need not see all rows")
    if exchange.keys and tasks > stage.instances and runs(stage, *GROUPED):
        return Advice(f"{tasks} instances, with the keys placed by their weight", by_key_call(exchange.placeable, tasks))
    if "REPARTITION_BY_NUM" in exchange.origin or exchange.kind == "RoundRobinPartitioning":
        return Advice(f"another number in the job's own repartition: {tasks} instead of {exchange.partitions}")
    merged = _of_merged(stage, exchange, tasks) if exchange.coalesced else None
    return merged or _of_partitions(stage, tasks)


def _of_partitions(stage: PastStage, tasks: int) -> Advice:
    """A setting. Adaptive execution merges partitions that are small, so that more of them alone would change nothing."""
    partitions = setting_call("spark.sql.shuffle.partitions", tasks)
    if not stage.work.adaptive or tasks <= stage.instances:
        return Advice(f"{tasks} partitions of the shuffle", partitions)
    merging = setting_call("spark.sql.adaptive.coalescePartitions.enabled", "false")
    remedy = f"{tasks} partitions of the shuffle, which adaptive execution must not merge again for this query"
    return Advice(remedy, f"{partitions}\n{merging}")


def _of_merged(stage: PastStage, exchange: Exchange, tasks: int) -> Advice | None:
    """Adaptive execution decides how many tasks there are, by their sizes."""
    if stage.instances < tasks <= (exchange.partitions or 0):
        remedy = (
            f"adaptive execution merged {exchange.partitions} partitions into {stage.instances} tasks, because they are small; "
            "the work on them is not: switch merging off for this query"
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
