"""Event logs made by hand: the events that Spark writes, with the fields that matter, for tests without Spark."""

from __future__ import annotations

import json

SQL = "org.apache.spark.sql.execution.ui."


def task_end(stage, index, *, run_ms, rows=0, launch_ms=0, executor="1", reason="Success", attempt=0, **more):
    shuffle = {"Total Records Read": rows, "Local Bytes Read": more.get("bytes", rows * 10), "Remote Bytes Read": 0}
    shuffle["Fetch Wait Time"] = more.get("fetch_ms", 0)
    info = {"Task ID": more.get("task", 1000 * stage + index), "Index": index, "Attempt": attempt, "Launch Time": launch_ms}
    info |= {
        "Finish Time": launch_ms + run_ms + more.get("overhead_ms", 0),
        "Executor ID": executor,
        "Killed": more.get("killed", False),
    }
    info |= {"Locality": more["locality"]} if "locality" in more else {}
    info["Speculative"] = more.get("speculative", False)
    metrics = {"Executor Run Time": run_ms, "JVM GC Time": more.get("gc_ms", 0), "Disk Bytes Spilled": more.get("spilled", 0)}
    metrics["Shuffle Read Metrics"] = shuffle
    metrics["Executor CPU Time"] = 1_000_000 * more.get("cpu_ms", 0)
    info["Accumulables"] = [
        {"ID": number, "Name": name, "Update": str(update)} for number, name, update in more.get("updates", ())
    ]
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task End Reason": {"Reason": reason},
        "Task Info": info,
        "Task Metrics": metrics,
    }


def task_start(stage, index, launch_ms=0):
    info = {"Task ID": 1000 * stage + index, "Index": index, "Attempt": 0, "Launch Time": launch_ms, "Executor ID": "1"}
    return {"Event": "SparkListenerTaskStart", "Stage ID": stage, "Stage Attempt ID": 0, "Task Info": info}


def stage_info(stage, tasks, *, name="collect at /home/me/job.py:7", numbers=(), rdds=(), kept=False):
    accumulables = [{"ID": number, "Name": "metric", "Value": 1} for number in numbers]
    return {
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Stage Name": name,
        "Number of Tasks": tasks,
        "Accumulables": accumulables,
        "RDD Info": [{"Name": one} for one in rdds] + [{"Name": "kept", "Storage Level": {"Use Memory": kept}}],
    }


def submitted(stage, tasks, *, query=None, description=None, **more):
    properties = {} if query is None else {"spark.sql.execution.id": str(query)}
    properties |= {} if description is None else {"spark.job.description": description}
    return {"Event": "SparkListenerStageSubmitted", "Stage Info": stage_info(stage, tasks, **more), "Properties": properties}


def completed(stage, tasks, *, failure=None, **more):
    info = stage_info(stage, tasks, **more)
    return {
        "Event": "SparkListenerStageCompleted",
        "Stage Info": info if failure is None else info | {"Failure Reason": failure},
    }


def query_start(query, plan, *, description="collect at /home/me/job.py:7"):
    return {
        "Event": f"{SQL}SparkListenerSQLExecutionStart",
        "executionId": query,
        "description": description,
        "sparkPlanInfo": plan,
    }


def node(name, simple="", *, metrics=(), children=()):
    found = [{"name": metric, "accumulatorId": number, "metricType": "sum"} for metric, number in metrics]
    return {"nodeName": name, "simpleString": simple or name, "metrics": found, "children": list(children)}


def grouped_plan(keys="user#12, day#3L", partitions=4):
    """A grouped Python function over a shuffle: its numbers are 1 (the function) and 2 (rows that the shuffle gave)."""
    exchange = node(
        "Exchange",
        f"Exchange hashpartitioning({keys}, {partitions}), ENSURE_REQUIREMENTS, [plan_id=19]",
        metrics=[("records read", 2), ("shuffle records written", 3)],
        children=[node("WholeStageCodegen (1)", children=[node("Range", metrics=[("number of output rows", 4)])])],
    )
    sort = node("Sort", metrics=[("sort time", 5)], children=[node("InputAdapter", children=[exchange])])
    return node("FlatMapGroupsInPandas", metrics=[("number of output rows", 1)], children=[sort])


def executor_added(executor, at_ms=1, *, cores=4, host="h"):
    info = {"Host": host, "Total Cores": cores}
    return {"Event": "SparkListenerExecutorAdded", "Timestamp": at_ms, "Executor ID": executor, "Executor Info": info}


def executor_removed(executor, at_ms):
    return {"Event": "SparkListenerExecutorRemoved", "Timestamp": at_ms, "Executor ID": executor}


def start(*, cores=4, executors=("1",), name="my job"):
    added = [executor_added(one, cores=cores) for one in executors]
    return [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.app.name": name}},
        {"Event": "SparkListenerApplicationStart", "App Name": name, "App ID": "app-1", "Timestamp": 1, "App Attempt ID": "2"},
        *added,
    ]


def skewed_job(rows=(100, 100, 100, 500), ms_a_row=20):
    """An application whose stage 1 reads uneven rows by (user, day), each of the same cost."""
    tasks = [task_end(1, i, run_ms=count * ms_a_row, rows=count, launch_ms=10) for i, count in enumerate(rows)]
    return [
        *start(),
        query_start(0, grouped_plan(partitions=len(rows))),
        submitted(1, len(rows), query=0),
        *tasks,
        completed(1, len(rows), numbers=(1, 2, 5)),
        {"Event": f"{SQL}SparkListenerSQLExecutionEnd", "executionId": 0, "time": 2},
        {"Event": "SparkListenerApplicationEnd", "Timestamp": 11_000},
    ]


def text(events):
    """As Spark writes them: one JSON object a line, without spaces."""
    return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events).encode()


def written(tmp_path, content, name="app-1"):
    """The path of a log with this content."""
    path = tmp_path / name
    path.write_bytes(content)
    return path
