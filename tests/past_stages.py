"""Stages of past jobs, made of the numbers of their tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenly.diagnosis.stages import Exchange, PastStage, Schedule, Tasks, Work

BY_USER = Exchange("hashpartitioning", ("user",), ("user",), 8)


def stage(
    run_ms, rows=None, *, slots=None, cluster_slots=None, exchange=BY_USER, operators=("FlatMapGroupsInPandas",), **columns
):
    """A stage whose tasks all start at once, or as slots come free. `work` are fields of its `Work`."""
    run = np.asarray(run_ms, np.int64)
    overhead = np.asarray(columns.get("overhead_ms", [0] * run.size), np.int64)
    schedule = in_order(run + overhead, slots or run.size)
    zeros = [0] * run.size
    tasks = Tasks(
        run_ms=run,
        rows=np.asarray([1000] * run.size if rows is None else rows, np.int64),
        bytes=np.asarray(columns.get("bytes", [0] * run.size), np.int64),
        gc_ms=np.asarray(columns.get("gc_ms", [0] * run.size), np.int64),
        fetch_wait_ms=np.asarray(columns.get("fetch_ms", [0] * run.size), np.int64),
        spilled=np.asarray(columns.get("spilled", [0] * run.size), np.int64),
        executor=np.asarray(columns.get("executor", ["1"] * run.size)),
        cpu_ms=np.asarray(columns.get("cpu_ms", zeros), np.int64),
        first=np.asarray(columns.get("first", zeros), np.bool_),
        launch_ms=schedule.launch_ms,
        finish_ms=schedule.finish_ms,
        place=np.asarray(columns.get("place", zeros), np.int64),
        age_ms=np.asarray(columns.get("age_ms", zeros), np.int64),
        by_read=columns.get("by_read", {}),
    )
    reads = () if exchange is None else (replace(exchange, partitions=columns.get("partitions", run.size)),)
    work = {"operators": operators, "reads": reads} | columns.get("work", {})
    return PastStage(
        stage=columns.get("stage", 3),
        attempt=0,
        name="collect at /home/me/job.py:7",
        tasks=tasks,
        schedule=schedule,
        cluster_slots=cluster_slots or slots or run.size,
        slot_limit=columns.get("slot_limit", 0),
        given_back=columns.get("given_back", 0),
        speculates=columns.get("speculates", False),
        work=Work(**work),
        others_busy=columns.get("others_busy", 0.0),
        slow_executors=frozenset(columns.get("slow", ())),
        failed=columns.get("failed", 0),
    )


def in_order(durations, slots):
    free = [0] * slots
    launch, finish = [], []
    for duration in durations.tolist():
        slot = free.index(min(free))
        launch.append(free[slot])
        free[slot] += duration
        finish.append(free[slot])
    return Schedule(np.array(launch, np.int64), np.array(finish, np.int64))
