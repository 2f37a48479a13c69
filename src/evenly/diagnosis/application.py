"""From events to stages: what an application did, with memory for its running stages and the worst of the finished ones."""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from evenly.diagnosis.event_log import EventLog
from evenly.diagnosis.plans import QueryPlan
from evenly.diagnosis.stages import PastStage, Schedule, Tasks
from evenly.errors import EmptyStream
from evenly.kernels.types import I64

MOST_STAGES = 1_000
"""How many finished stages are kept: those in which balance would have saved the most time."""

_COLUMNS = ("run", "rows", "bytes", "gc", "fetch", "spilled", "overhead", "index")


@dataclass(frozen=True)
class Unfinished:
    """A stage that the log leaves running: how many of its tasks had ended, how many ran, and the longest of those so far."""

    stage: int
    attempt: int
    name: str
    tasks: int
    ended: int
    running: int
    longest_s: float

    def row(self) -> dict[str, object]:
        """As a flat object."""
        return {"series": "unfinished", **asdict(self)}


@dataclass
class Application:
    """What an event log says of an application: see `read_application`.

    `finished` counts all stages that finished; `stages` holds at most `MOST_STAGES` of them.
    """

    name: str = ""
    id: str = ""
    attempt: str | None = None
    seconds: float = 0.0
    slots: int = 0
    stages: list[PastStage] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    finished: int = 0
    failed: int = 0
    skipped_lines: int = 0
    truncated: bool = False

    def row(self) -> dict[str, object]:
        """The application as a flat object."""
        return {
            "series": "application",
            "name": self.name,
            "application": self.id,
            "attempt": self.attempt,
            "seconds": self.seconds,
            "slots": self.slots,
            "stages": self.finished,
            "failed": self.failed,
            "unfinished": len(self.unfinished),
            "truncated": self.truncated,
            "skipped_lines": self.skipped_lines,
        }

    def notes(self) -> list[str]:
        """What a reader should know besides: stages that failed or still ran, and parts of the log that could not be read."""
        notes = [
            f"stage {one.stage} ({one.name}) had not finished: {one.ended} of {one.tasks} tasks had ended, the longest of the "
            f"{one.running} others had run for {one.longest_s:,.0f} s"
            for one in self.unfinished
        ]
        if self.failed:
            notes.append(f"{self.failed} attempts of stages failed; they are not counted above")
        if self.truncated:
            notes.append("the log breaks off: the application still runs, or was killed")
        if self.skipped_lines:
            notes.append(f"{self.skipped_lines} lines of the log could not be read and were skipped")
        return notes


@dataclass
class _Running:
    """A stage while its tasks run: numbers a task, no JSON."""

    name: str
    tasks: int
    query: int | None
    columns: dict[str, array[int]] = field(default_factory=lambda: {name: array("q") for name in _COLUMNS})
    launch: array[int] = field(default_factory=lambda: array("q"))
    finish: array[int] = field(default_factory=lambda: array("q"))
    executors: list[str] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    failed: int = 0
    speculative: int = 0


class _Reader:
    """Takes in events one at a time."""

    def __init__(self) -> None:
        self.application = Application()
        self.kept: list[tuple[float, int, PastStage]] = []
        self.counter = itertools.count()
        self.running: dict[tuple[int, int], _Running] = {}
        self.plans: dict[int, QueryPlan] = {}
        self.cores: dict[str, int] = {}
        self.task_cpus = 1.0
        self.started = 0
        self.last = 0
        self.names: dict[str, str] = {}

    def take(self, event: dict[str, Any]) -> None:
        _HANDLERS[event["Event"]](self, event)

    def environment(self, event: dict[str, Any]) -> None:
        properties = event.get("Spark Properties", {})
        self.task_cpus = float(properties.get("spark.task.cpus", 1) or 1)

    def application_start(self, event: dict[str, Any]) -> None:
        self.application.name = str(event.get("App Name", ""))
        self.application.id = str(event.get("App ID", ""))
        attempt = event.get("App Attempt ID")
        self.application.attempt = None if attempt is None else str(attempt)
        self.started = int(event.get("Timestamp", 0))

    def application_end(self, event: dict[str, Any]) -> None:
        self.last = max(self.last, int(event.get("Timestamp", 0)))

    def executor_added(self, event: dict[str, Any]) -> None:
        self.cores[str(event["Executor ID"])] = int(event.get("Executor Info", {}).get("Total Cores", 0))
        self.application.slots = max(self.application.slots, self.slots())

    def executor_removed(self, event: dict[str, Any]) -> None:
        self.cores.pop(str(event["Executor ID"]), None)

    def slots(self) -> int:
        return int(sum(self.cores.values()) / self.task_cpus)

    def query_start(self, event: dict[str, Any]) -> None:
        plan = self.plans.setdefault(int(event["executionId"]), QueryPlan(str(event.get("description", ""))))
        plan.learn(event.get("sparkPlanInfo", {}))

    def query_end(self, event: dict[str, Any]) -> None:
        self.plans.pop(int(event["executionId"]), None)

    def stage_submitted(self, event: dict[str, Any]) -> None:
        info = event["Stage Info"]
        query = (event.get("Properties") or {}).get("spark.sql.execution.id")
        self.running[int(info["Stage ID"]), int(info.get("Stage Attempt ID", 0))] = _Running(
            name=str(info.get("Stage Name", "")),
            tasks=int(info.get("Number of Tasks", 0)),
            query=None if query is None else int(query),
        )

    def task_start(self, event: dict[str, Any]) -> None:
        stage = self.running.get((int(event["Stage ID"]), int(event.get("Stage Attempt ID", 0))))
        info = event["Task Info"]
        self.last = max(self.last, int(info["Launch Time"]))
        if stage is not None:
            stage.open[int(info["Task ID"])] = int(info["Launch Time"])

    def task_end(self, event: dict[str, Any]) -> None:
        stage = self.running.get((int(event["Stage ID"]), int(event.get("Stage Attempt ID", 0))))
        info = event["Task Info"]
        self.last = max(self.last, int(info["Finish Time"]))
        if stage is None:  # a copy that was killed after its stage had finished
            return
        stage.open.pop(int(info["Task ID"]), None)
        stage.launch.append(int(info["Launch Time"]))
        stage.finish.append(max(int(info["Finish Time"]), int(info["Launch Time"])))
        stage.speculative += bool(info.get("Speculative"))
        index = int(info["Index"])
        succeeded = (event.get("Task End Reason") or {}).get("Reason") == "Success"
        metrics = event.get("Task Metrics")
        if not succeeded and not info.get("Killed"):
            stage.failed += 1
        if not succeeded or metrics is None or index in stage.done:
            return
        stage.done.add(index)
        stage.executors.append(self.names.setdefault(str(info["Executor ID"]), str(info["Executor ID"])))
        for name, value in zip(_COLUMNS, (*_measured(metrics, info), index), strict=True):
            stage.columns[name].append(value)

    def stage_completed(self, event: dict[str, Any]) -> None:
        info = event["Stage Info"]
        key = (int(info["Stage ID"]), int(info.get("Stage Attempt ID", 0)))
        running = self.running.pop(key, None)
        if info.get("Failure Reason") is not None:
            self.application.failed += 1
            return
        if running is None or not running.executors:
            return
        self.application.finished += 1
        stage = self._summary(key, running, info)
        entry = (stage.saved_s, next(self.counter), stage)
        if len(self.kept) < MOST_STAGES:
            heapq.heappush(self.kept, entry)
        else:
            heapq.heappushpop(self.kept, entry)

    def _summary(self, key: tuple[int, int], running: _Running, info: dict[str, Any]) -> PastStage:
        plan = None if running.query is None else self.plans.get(running.query)
        numbers = {int(one["ID"]) for one in info.get("Accumulables", ())}
        order = np.argsort(_int64(running.columns["index"]), kind="stable")
        columns = {name: _int64(values)[order] for name, values in running.columns.items()}
        tasks = Tasks(
            run_ms=columns["run"],
            rows=columns["rows"],
            bytes=columns["bytes"],
            gc_ms=columns["gc"],
            fetch_wait_ms=columns["fetch"],
            spilled=columns["spilled"],
            executor=np.array(running.executors)[order],
        )
        return PastStage(
            stage=key[0],
            attempt=key[1],
            name=running.name,
            tasks=tasks,
            schedule=Schedule(_int64(running.launch), _int64(running.finish)),
            cluster_slots=self.slots(),
            operators=() if plan is None else plan.operators_of(numbers),
            query=None if plan is None else plan.description,
            exchange=None if plan is None else plan.exchange_of(numbers),
            failed=running.failed,
            speculative=running.speculative,
            overhead_ms=int(columns["overhead"].sum()),
        )

    def result(self, log: EventLog) -> Application:
        application = self.application
        application.stages = [stage for _, _, stage in sorted(self.kept, reverse=True)]
        application.seconds = max(0.0, (self.last - self.started) / 1000.0) if self.started else 0.0
        application.skipped_lines, application.truncated = log.unreadable, log.truncated
        application.unfinished = [
            Unfinished(
                stage=key[0],
                attempt=key[1],
                name=stage.name,
                tasks=stage.tasks,
                ended=len(stage.done),
                running=len(stage.open),
                longest_s=max((self.last - launch) / 1000.0 for launch in stage.open.values()),
            )
            for key, stage in self.running.items()
            if stage.open
        ]
        if not application.stages and not application.unfinished:
            raise EmptyStream(
                f"{log.path} has no stage that finished, so there is nothing to diagnose: run the job to its end, or give a "
                "later copy"
            )
        return application


def _measured(metrics: dict[str, Any], info: dict[str, Any]) -> tuple[int, ...]:
    shuffle, read = metrics.get("Shuffle Read Metrics") or {}, metrics.get("Input Metrics") or {}
    run = int(metrics.get("Executor Run Time", 0))
    return (
        run,
        int(shuffle.get("Total Records Read", 0)) + int(read.get("Records Read", 0)),
        int(shuffle.get("Remote Bytes Read", 0)) + int(shuffle.get("Local Bytes Read", 0)) + int(read.get("Bytes Read", 0)),
        int(metrics.get("JVM GC Time", 0)),
        int(shuffle.get("Fetch Wait Time", 0)),
        int(metrics.get("Disk Bytes Spilled", 0)),
        max(0, int(info["Finish Time"]) - int(info["Launch Time"]) - run),
    )


def _int64(values: array[int]) -> I64:
    return np.array(values, np.int64)


_HANDLERS: dict[str, Callable[[_Reader, dict[str, Any]], None]] = {
    "SparkListenerEnvironmentUpdate": _Reader.environment,
    "SparkListenerApplicationStart": _Reader.application_start,
    "SparkListenerApplicationEnd": _Reader.application_end,
    "SparkListenerExecutorAdded": _Reader.executor_added,
    "SparkListenerExecutorRemoved": _Reader.executor_removed,
    "SparkListenerStageSubmitted": _Reader.stage_submitted,
    "SparkListenerTaskStart": _Reader.task_start,
    "SparkListenerTaskEnd": _Reader.task_end,
    "SparkListenerStageCompleted": _Reader.stage_completed,
    "SparkListenerSQLExecutionStart": _Reader.query_start,
    "SparkListenerSQLAdaptiveExecutionUpdate": _Reader.query_start,
    "SparkListenerSQLExecutionEnd": _Reader.query_end,
}


def read_application(log: EventLog, progress: Callable[[int], None] | None = None) -> Application:
    """What the log says of the application's stages. `progress` gets the bytes read, piece by piece.

    Memory grows with the tasks that run at one time and with `MOST_STAGES`, not with the length of the log.
    """
    reader = _Reader()
    for event in log.events(frozenset(_HANDLERS), progress):
        try:
            reader.take(event)
        except (KeyError, TypeError, ValueError):
            log.unreadable += 1
    return reader.result(log)
