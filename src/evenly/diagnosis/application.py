"""From events to stages: what an application did, with memory for its running stages and the worst of the finished ones."""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from evenly.diagnosis.event_log import EventLog
from evenly.diagnosis.executors import Executors
from evenly.diagnosis.own_jobs import own_job
from evenly.diagnosis.past import Application, OwnJobs, Unfinished
from evenly.diagnosis.plans import QueryPlan
from evenly.diagnosis.running import RunningStage, moment_ms
from evenly.diagnosis.savings import in_turn_ms
from evenly.diagnosis.stages import PastStage, Work
from evenly.errors import DamagedData, EmptyStream

MOST_STAGES = 1_000
"""How many finished stages are kept: those in which balance would have saved the most time."""
_MOST_GAPS = 5


class _Reader:
    """Takes in events one at a time."""

    def __init__(self) -> None:
        self.application = Application()
        self.kept: list[tuple[float, int, PastStage]] = []
        self.counter = itertools.count()
        self.running: dict[tuple[int, int], RunningStage] = {}
        self.ended: set[tuple[int, int]] = set()
        self.plans: dict[int, QueryPlan] = {}
        self.executors = Executors()
        self.begins, self.ends, self.busy = array("q"), array("q"), array("q")
        self.properties: dict[str, str] = {}
        self.started = 0
        self.earliest = 0
        self.last = 0
        self.over = False
        self.another = ""
        self.partial: list[str] = []
        self.names: dict[str, str] = {}

    def take(self, event: dict[str, Any]) -> None:
        _HANDLERS[event["Event"]](self, event)

    def environment(self, event: dict[str, Any]) -> None:
        self.properties = {str(name): str(value) for name, value in dict(event.get("Spark Properties") or {}).items()}

    def application_start(self, event: dict[str, Any]) -> None:
        attempt = event.get("App Attempt ID")
        started = moment_ms(event.get("Timestamp", 0))
        named = str(event.get("App ID", "")), None if attempt is None else str(attempt)
        again = named == (self.application.id, self.application.attempt) and bool(named[0] or started == self.started)
        if self.earliest and not (self.started and again):
            # The numbers of its stages are those of stages before: nothing that follows can be told apart from them.
            self.another = self.another or f"{event.get('App Name', '')} ({named[0]})"
            return
        self.application.name = str(event.get("App Name", ""))
        self.application.id, self.application.attempt = named
        self.started = started

    def application_end(self, event: dict[str, Any]) -> None:
        self.over = True
        self.last = max(self.last, moment_ms(event.get("Timestamp", 0)))

    def executor_added(self, event: dict[str, Any]) -> None:
        info = event.get("Executor Info") or {}
        at = moment_ms(event.get("Timestamp", 0))
        self.executors.add(str(event["Executor ID"]), str(info.get("Host", "")), self._slots(info), at)

    def _slots(self, info: dict[str, Any]) -> int:
        """How many tasks an executor takes at once: by its cores, and by its GPUs where tasks ask for one."""
        slots = int(info.get("Total Cores", 0)) / _number(self.properties.get("spark.task.cpus"), 1.0)
        for name, told in dict(info.get("Resources") or {}).items():
            asked = _number(self.properties.get(f"spark.task.resource.{name}.amount"), 0.0)
            if asked > 0.0:
                slots = min(slots, len(told.get("addresses", ())) / asked)
        return max(0, int(slots))

    def _is_set(self, name: str) -> bool:
        return self.properties.get(name, "").strip().lower() == "true"

    def executor_removed(self, event: dict[str, Any]) -> None:
        self.executors.remove(str(event["Executor ID"]), moment_ms(event.get("Timestamp", 0)))

    def query_start(self, event: dict[str, Any]) -> None:
        plan = self.plans.setdefault(int(event["executionId"]), QueryPlan(str(event.get("description", ""))))
        plan.learn(event.get("sparkPlanInfo", {}))

    def driver_counts(self, event: dict[str, Any]) -> None:
        plan = self.plans.get(int(event["executionId"]))
        for number, value in event.get("accumUpdates", ()):
            if plan is not None and int(value) >= 0:
                plan.counted[int(number)] = moment_ms(value)

    def query_end(self, event: dict[str, Any]) -> None:
        self.plans.pop(int(event["executionId"]), None)

    def stage_submitted(self, event: dict[str, Any]) -> None:
        info = event["Stage Info"]
        if _key(info) not in self.ended:  # else the log has it twice
            self.running[_key(info)] = RunningStage.submitted(info, event.get("Properties") or {})

    def task_start(self, event: dict[str, Any]) -> None:
        info = event["Task Info"]
        task, launch = int(info["Task ID"]), moment_ms(info["Launch Time"])
        stage = self._stage(event)
        self._at(launch)
        if "Executor ID" in info:
            self.executors.age_ms(str(info["Executor ID"]), launch)
        if stage is not None:
            stage.open[task] = launch

    def task_end(self, event: dict[str, Any]) -> None:
        info = event["Task Info"]
        launch, finish = moment_ms(info["Launch Time"]), moment_ms(info["Finish Time"])
        stage = self._stage(event)
        executor = self.names.setdefault(str(info["Executor ID"]), str(info["Executor ID"]))
        first, age = self.executors.first(executor, launch), self.executors.age_ms(executor, launch)
        if stage is not None:  # else a copy that was killed after its stage had finished
            plan = self.plans.get(stage.query) if stage.query is not None else None
            stage.take(event, executor, _nothing if plan is None else plan.watched, first=first, age=age)
        self._at(finish)
        if (event.get("Task End Reason") or {}).get("Reason") == "Success":
            self.executors.ended(executor, finish)

    def _at(self, moment: int) -> None:
        self.last = max(self.last, moment)
        self.earliest = min(self.earliest, moment) if self.earliest else moment

    def _stage(self, event: dict[str, Any]) -> RunningStage | None:
        """The stage of a task. A log with a gap may lack the stage's submission: then the stage is told by its tasks."""
        key = (int(event["Stage ID"]), int(event.get("Stage Attempt ID", 0)))
        if key not in self.running and key not in self.ended:
            self.running[key] = RunningStage(known=False)
        return self.running.get(key)

    def stage_completed(self, event: dict[str, Any]) -> None:
        info = event["Stage Info"]
        key = _key(info)
        if key in self.ended:  # the log has it twice
            return
        running = self.running.pop(key, None)
        self.ended.add(key)
        if info.get("Failure Reason") is not None:
            self.application.failed += 1
            return
        tasks = int(info.get("Number of Tasks", 0))
        if running is None or not running.executors:
            if tasks:
                self.application.finished += 1
                self.partial.append(f"of stage {key[0]} ({info.get('Stage Name', '')}) the log has none of {tasks} tasks")
            return
        self.application.finished += 1
        if not running.known:
            running = running.described(info)
        if len(running.done) < tasks:
            self.partial.append(
                f"of stage {key[0]} ({running.name}) the log has {len(running.done)} of {tasks} tasks: not judged"
            )
            return
        self._finished(key, running, {int(one["ID"]) for one in info.get("Accumulables", ())})

    def _finished(self, key: tuple[int, int], running: RunningStage, numbers: set[int]) -> None:
        stage = self._summary(key, running, numbers)
        begin, end = stage.bounds_ms
        self.begins.append(begin)
        self.ends.append(end)
        self.busy.append(int((stage.schedule.finish_ms - stage.schedule.launch_ms).sum()))
        if stage.own is not None:
            own = self.application.own.setdefault(stage.own, OwnJobs(stage.own))
            own.stages += 1
            own.seconds += stage.seconds
            return
        self.executors.judge(stage.tasks)
        entry = (_could_save(stage), next(self.counter), stage)
        if len(self.kept) < MOST_STAGES:
            heapq.heappush(self.kept, entry)
        else:
            heapq.heappushpop(self.kept, entry)

    def _summary(self, key: tuple[int, int], running: RunningStage, numbers: set[int]) -> PastStage:
        plan = None if running.query is None else self.plans.get(running.query)
        tasks, schedule = running.finished_tasks(), running.schedule()
        begin, end = int(schedule.launch_ms.min()), int(schedule.finish_ms.max())
        work = Work(rdds=running.rdds, adaptive=running.adaptive) if plan is None else plan.work_of(numbers, running.rdds)
        work = replace(
            work,
            reads_shuffle=running.reads_shuffle,
            groups_rdds=running.groups_rdds or (running.unnamed and running.fetches),
            part=running.part,
            file_rdd=running.file_rdd,
            coalesced=running.coalesced,
            streaming=running.of_stream and not (plan is not None and plan.reads_rdd),
        )
        rows = int(tasks.rows.sum() + tasks.rows_out.sum())
        return PastStage(
            stage=key[0],
            attempt=key[1],
            name=running.name,
            tasks=tasks,
            schedule=schedule,
            cluster_slots=self.executors.slots_during(begin, end),
            slot_limit=self.executors.slots_within(begin, end),
            given_back=self.executors.most_so_far if self._is_set("spark.dynamicAllocation.enabled") else 0,
            speculates=self._is_set("spark.speculation"),
            work=work,
            query=None if plan is None else plan.description,
            description=running.description,
            own=own_job(running.name, running.description, work, has_query=running.query is not None, rows=rows),
            failed=running.failed,
            failed_s=running.failed_ms / 1000.0,
            failure=running.failure,
            speculative=running.speculative,
        )

    def result(self, log: EventLog) -> Application:
        application = self.application
        if self.another:
            first = f"{application.name} ({application.id})" if self.started else "one whose beginning is missing"
            raise DamagedData(
                f"{log.path} holds more than one application: {first}, and then {self.another}. Give the log of each by "
                "itself: it begins with the line of its SparkListenerLogStart"
            )
        for key, stage in list(self.running.items()):
            if stage.known and stage.tasks and len(stage.done) == stage.tasks and not stage.open:
                # Its end is missing, but all of its tasks are there.
                application.finished += 1
                self._finished(key, self.running.pop(key), set())
        begins, ends, busy = (np.array(values, np.float64) for values in (self.begins, self.ends, self.busy))
        took = np.maximum(ends - begins, 1.0)

        def settled(stage: PastStage) -> PastStage:
            """What is known only at the end: which executors were slow all along, and how busy the others were meanwhile."""
            begin, end = stage.bounds_ms
            shared = np.clip(np.minimum(ends, end) - np.maximum(begins, begin), 0.0, None) / took
            alone = float((stage.schedule.finish_ms - stage.schedule.launch_ms).sum())
            others = (float((shared * busy).sum()) - alone) / max(end - begin, 1)
            return replace(stage, others_busy=max(0.0, others), slow_executors=self.executors.slow, hosts=self.executors.hosts)

        application.slots = self.executors.most_slots
        application.stages = [settled(stage) for _, _, stage in sorted(self.kept, reverse=True)]
        application.bounds_ms = list(zip(self.begins, self.ends, strict=True))
        began = self.started or self.earliest
        application.seconds = max(0.0, (self.last - began) / 1000.0) if began else 0.0
        application.skipped_lines, application.truncated, application.over = log.unreadable, log.truncated, self.over
        application.gaps = [*log.gaps, *self.partial[:_MOST_GAPS]]
        if len(self.partial) > _MOST_GAPS:
            application.gaps.append(f"… and so of {len(self.partial) - _MOST_GAPS} more stages")
        if not self.started:
            application.gaps.append("the log begins after the application did: its first part is missing")
        application.unfinished = [
            Unfinished(
                stage=key[0],
                attempt=key[1],
                name=stage.name,
                tasks=stage.tasks,
                ended=len(stage.done),
                running=len(stage.open),
                longest_s=max(((self.last - launch) / 1000.0 for launch in stage.open.values()), default=0.0),
                ended_after=self.over,
            )
            for key, stage in self.running.items()
        ]
        if not application.finished and not application.unfinished:
            remedy = "the application ended without one" if self.over else "run the job to its end, or give a later copy"
            if log.unreadable:
                remedy = f"{log.unreadable} of its lines could not be read. Copy it again"
            raise EmptyStream(f"{log.path} has no stage that finished, so there is nothing to diagnose: {remedy}")
        return application


def _could_save(stage: PastStage) -> float:
    """At most what any remedy could save: by which stages are kept."""
    slots = max(stage.slots, stage.cluster_slots)
    worked = in_turn_ms(stage.tasks.in_order, stage.slots) / 1000.0
    starting = float(stage.tasks.start_ms.max()) / 1000.0 + stage.overhead_s / stage.slots
    return worked - float(stage.tasks.work_ms.sum()) / slots / 1000.0 + starting + (stage.seconds if stage.failed else 0.0)


def _key(info: dict[str, Any]) -> tuple[int, int]:
    return int(info["Stage ID"]), int(info.get("Stage Attempt ID", 0))


def _number(text: str | None, otherwise: float) -> float:
    try:
        return float(text) if text else otherwise
    except ValueError:
        return otherwise


def _nothing(_: int) -> None:
    return None


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
    "SparkListenerDriverAccumUpdates": _Reader.driver_counts,
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
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            log.unreadable += 1
    return reader.result(log)
