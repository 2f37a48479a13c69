"""A stage while its tasks run: numbers a task, no JSON."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenly.diagnosis.stages import Schedule, Tasks
from evenly.kernels.types import I64

_COLUMNS = (
    *("run", "cpu", "rows", "bytes", "out", "gc", "fetch", "spilled"),
    *("python", "launch", "finish", "first", "kept", "index", "place", "age"),
)
_PLACES = {"PROCESS_LOCAL": 0, "NODE_LOCAL": 1, "NO_PREF": 1, "RACK_LOCAL": 2, "ANY": 3}
"""How far a task ran from its rows."""
_STARTED, _READY = "time to start Python workers", "time to initialize Python workers"
"""Metrics by which Spark 4 tells what a Python worker's start took within the run time, in ms. Of a worker that served another
task before, the second is counted from that task's end, and the first is not told: it did not start."""
_SAID = 160
_MOST = 1 << 45
"""No task reads so many rows or bytes, and no clock shows so many ms: such a number is damage, and sums of it overflow."""


_PARTITIONED = frozenset({"ShuffledRDD", "CoGroupedRDD", "SubtractedRDD"})
_SPREADING = ("repartition", "coalesce")
_ADAPTIVE = ("AQEShuffleRead", "CustomShuffleReader")
"""By these adaptive execution reads a shuffle whose partitions it may merge (Spark 3.2 and later, and before)."""


@dataclass
class RunningStage:
    """Takes in the attempts of a stage's tasks as they end; of those that succeeded one a task is kept.

    `known` says that the log has its submission; a log with a gap may have tasks of a stage before it says what it is.
    `unnamed` says that its RDDs have numbers for names (Spark before 1.4), and `fetches` that tasks read a shuffle.
    """

    name: str = ""
    tasks: int = 0
    query: int | None = None
    description: str = ""
    rdds: tuple[str, ...] = ()
    reads_shuffle: bool = False
    groups_rdds: bool = False
    part: bool = False
    file_rdd: bool = False
    coalesced: int = 0
    of_stream: bool = False
    keeps: bool = False
    adaptive: bool = False
    unnamed: bool = False
    fetches: bool = False
    known: bool = True
    columns: dict[str, array[int]] = field(default_factory=lambda: {name: array("q") for name in _COLUMNS})
    by_read: dict[int, array[int]] = field(default_factory=dict)
    joined: array[int] = field(default_factory=lambda: array("q"))
    launch: array[int] = field(default_factory=lambda: array("q"))
    finish: array[int] = field(default_factory=lambda: array("q"))
    executors: list[str] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    attempts: set[tuple[int, int]] = field(default_factory=set)
    failed: int = 0
    failed_ms: int = 0
    failure: str = ""
    speculative: int = 0

    @classmethod
    def submitted(cls, info: dict[str, Any], properties: dict[str, Any]) -> RunningStage:
        """A stage of which nothing has run, as `SparkListenerStageSubmitted` tells it."""
        query = properties.get("spark.sql.execution.id")
        stage = cls(
            query=None if query is None else int(query),
            description=str(properties.get("spark.job.description") or ""),
            of_stream="sql.streaming.queryId" in properties,
        )
        return stage.described(info)

    def described(self, info: dict[str, Any]) -> RunningStage:
        """The stage with what its submission says of it, and its end again."""
        rdds = info.get("RDD Info", ())
        names = {str(one.get("Name", "")) for one in rdds}
        return replace(
            self,
            name=str(info.get("Stage Name", "")),
            tasks=int(info.get("Number of Tasks", 0)),
            keeps=any(_is_kept(one) for one in rdds),
            rdds=tuple(sorted(name for name in names if "Python" in name or name == "PairwiseRDD")),
            reads_shuffle=any(_is_shuffle_of_sql(one) for one in rdds),
            groups_rdds=any(_is_grouped(one) for one in rdds),
            part=is_part(info),
            file_rdd="FileScanRDD" in names,
            coalesced=_coalesced(rdds),
            adaptive=any(reader in str(one.get("Scope")) for one in rdds for reader in _ADAPTIVE),
            unnamed=not any("RDD" in name for name in names),
        )

    def take(
        self, event: dict[str, Any], executor: str, watched: Callable[[int], str | None], *, first: bool, age: int = 0
    ) -> None:
        """An attempt of a task that ended. `age` is for how long its executor had had tasks when it was launched, in ms."""
        info = event["Task Info"]
        launch, finish = moment_ms(info["Launch Time"]), moment_ms(info["Finish Time"])
        fetched_from = moment_ms(info.get("Getting Result Time", 0)) or finish
        task, index = int(info["Task ID"]), moment_ms(info["Index"])
        reason, metrics = event.get("Task End Reason") or {}, event.get("Task Metrics")
        succeeded = reason.get("Reason") == "Success"
        measured = None if metrics is None else _measured(metrics)
        python, counted = _updates(info.get("Accumulables", ()), watched)
        # All of the event has been read: what is damaged has been refused, and nothing of it is kept.
        if (task, launch) in self.attempts:  # the log has it twice
            return
        self.attempts.add((task, launch))
        self.open.pop(task, None)
        self.launch.append(launch)
        self.finish.append(max(finish, launch))
        self.speculative += bool(info.get("Speculative"))
        if not succeeded and not info.get("Killed") and reason.get("Reason") != "TaskKilled":
            self.failed += 1
            self.failed_ms += max(finish - launch, 0)
            self.failure = self.failure or _failure(reason)
        if not succeeded or measured is None or index in self.done:
            return
        run, cpu, rows, size, out, collecting, fetching, spilled = measured
        self.fetches = self.fetches or _reads_shuffle(metrics)
        run = min(run, finish - launch) if finish > launch else run
        collecting, fetching = min(collecting, run), min(fetching, run)
        self.done.add(index)
        self.executors.append(executor)
        counts = (run, cpu, rows, size, out, collecting, fetching, spilled)
        kept = self.keeps and info.get("Locality") == "PROCESS_LOCAL"
        place = _PLACES.get(str(info.get("Locality")), 0)
        done = min(max(finish, launch), max(fetched_from, launch + run))
        row = (*counts, min(python, run), launch, done, int(first), int(kept), index, place, age)
        for name, value in zip(_COLUMNS, row, strict=True):
            self.columns[name].append(value)
        self.joined.append(counted.pop(-1, 0))
        for number, read in counted.items():
            column = self.by_read.setdefault(number, array("q"))
            column.extend([0] * (len(self.done) - 1 - len(column)))
            column.append(read)

    def schedule(self) -> Schedule:
        """When its attempts held slots."""
        return Schedule(_int64(self.launch), _int64(self.finish))

    def finished_tasks(self) -> Tasks:
        """Its tasks in the order of their numbers."""
        order = np.argsort(_int64(self.columns["index"]), kind="stable")
        columns = {name: _int64(values)[order] for name, values in self.columns.items()}
        joined = _int64(self.joined)[order]
        by_read = {}
        for number, rows in self.by_read.items():
            whole = np.zeros(order.size, np.int64)
            whole[: len(rows)] = _int64(rows)
            by_read[number] = whole[order]
        return Tasks(
            run_ms=columns["run"],
            rows=columns["rows"],
            bytes=columns["bytes"],
            gc_ms=columns["gc"],
            fetch_wait_ms=columns["fetch"],
            spilled=columns["spilled"],
            executor=np.array(self.executors)[order],
            cpu_ms=columns["cpu"],
            rows_out=joined if joined.any() else columns["out"],
            python_start_ms=columns["python"],
            launch_ms=columns["launch"],
            finish_ms=columns["finish"],
            first=columns["first"].astype(np.bool_),
            kept=columns["kept"].astype(np.bool_),
            place=columns["place"],
            age_ms=columns["age"],
            by_read=by_read,
        )


def _updates(accumulables: list[dict[str, Any]], watched: Callable[[int], str | None]) -> tuple[int, dict[int, int]]:
    """What a task tells of starting Python, and of the rows of each shuffle that it read (of joins under -1)."""
    python = {_STARTED: 0, _READY: 0}
    counted: dict[int, int] = {}
    for one in accumulables:
        number, name = int(one.get("ID", -1)), one.get("Name")
        if name in python:
            python[name] += _count(_whole(one.get("Update")))
        elif (kind := watched(number)) is not None:
            key = -1 if kind == "joined" else number
            counted[key] = counted.get(key, 0) + _count(_whole(one.get("Update")))
    return sum(python.values()) if python[_STARTED] else 0, counted


def _whole(value: object) -> int:
    text = str(value)
    return int(text) if text.removeprefix("-").isdecimal() else 0


def moment_ms(value: Any) -> int:
    """A moment, or any other number that has to be there, as an event tells it."""
    moment = int(value)
    if not 0 <= moment < _MOST:
        raise ValueError(f"a number of an event is out of range: {value}")
    return moment


def _count(value: Any) -> int:
    """What a task counted. Clocks that are set back make Spark tell times below 0: these are none."""
    return moment_ms(max(0, int(value)))


def _failure(reason: dict[str, Any]) -> str:
    told = reason.get("Class Name") or reason.get("Loss Reason") or reason.get("Reason") or "unknown"
    said = str(reason.get("Description") or reason.get("Message") or "").strip().splitlines()
    return f"{told}: {said[0]}"[:_SAID] if said else str(told)[:_SAID]


def _measured(metrics: dict[str, Any]) -> tuple[int, ...]:
    shuffle, read = metrics.get("Shuffle Read Metrics") or {}, metrics.get("Input Metrics") or {}
    written, output = metrics.get("Shuffle Write Metrics") or {}, metrics.get("Output Metrics") or {}
    return (
        _count(metrics.get("Executor Run Time", 0)),
        _count(int(metrics.get("Executor CPU Time", 0)) // 1_000_000),
        _count(shuffle.get("Total Records Read", 0)) + _count(read.get("Records Read", 0)),
        _count(shuffle.get("Remote Bytes Read", 0))
        + _count(shuffle.get("Local Bytes Read", 0))
        + _count(read.get("Bytes Read", 0)),
        _count(written.get("Shuffle Records Written", 0)) + _count(output.get("Records Written", 0)),
        _count(metrics.get("JVM GC Time", 0)),
        _count(shuffle.get("Fetch Wait Time", 0)),
        _count(metrics.get("Disk Bytes Spilled", 0)),
    )


def _reads_shuffle(metrics: Any) -> bool:
    shuffle = metrics.get("Shuffle Read Metrics") or {}
    return any(int(shuffle.get(name, 0)) > 0 for name in ("Remote Bytes Read", "Local Bytes Read"))


def _int64(values: array[int]) -> I64:
    return np.array(values, np.int64)


def is_part(info: dict[str, Any]) -> bool:
    """Whether a stage has fewer tasks than there are partitions of what it computes: the RDD that is told first."""
    rdds = info.get("RDD Info", ())
    return bool(rdds) and int(info.get("Number of Tasks", 0)) < int(rdds[0].get("Number of Partitions", 0))


def _is_kept(rdd: dict[str, Any]) -> bool:
    """Whether executors are to keep its rows: `cache` or `persist`."""
    level = rdd.get("Storage Level")
    return isinstance(level, dict) and bool(level.get("Use Memory") or level.get("Use Disk"))


def _is_grouped(rdd: dict[str, Any]) -> bool:
    """Whether rows are where a partitioner of the job puts them: by their keys, or by ranges of these."""
    return rdd.get("Name") in _PARTITIONED and not any(f'"name":"{one}"' in str(rdd.get("Scope")) for one in _SPREADING)


def _coalesced(rdds: list[dict[str, Any]]) -> int:
    """To how many partitions the job has put all that comes before them; 0 where it has not, or shuffles the rows for it."""
    shuffled = {one.get("Scope") for one in rdds if one.get("Name") == "ShuffledRDD"}
    named = [one for one in rdds if one.get("Name") == "CoalescedRDD" and one.get("Scope") not in shuffled]
    numbers = [int(one.get("Number of Partitions", 0)) for one in named if '"name":"coalesce"' in str(one.get("Scope")).lower()]
    return min(numbers, default=0)


def _is_shuffle_of_sql(rdd: dict[str, Any]) -> bool:
    """Whether it is a query's shuffle: the operator that made an RDD is its scope, also where the log has no plan (Spark 1)."""
    name = str(rdd.get("Name", ""))
    return name == "ShuffledRowRDD" or ("Shuffled" in name and "Exchange" in str(rdd.get("Scope", "")))
