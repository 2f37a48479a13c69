"""A grouped function whose time is not in proportion to rows: balanced by time, by rows, by hash and by adaptive execution.

    python benchmarks/group_times.py [--groups 320] [--bound 6] [--costs linear,quadratic] [--json]

The time of a group is a wait: linear in its rows, n log n, quadratic, or linear with a factor of its key that nothing tells but
a clock. All ways run in turn in one session on 8 slots, each result is checked, and times learnt in one run go to the next, by
hand or remembered (`call_s` is then what the call takes: groups are counted in each run, or in the first alone). The
stage time is that of the stage that reads the shuffle; its ratio is to the lower bound, the larger of all waits divided by the
instances and the longest group. `placed` is the same without Spark: the waits of each task as they were placed, on 8 slots in
the order of tasks.
"""

from __future__ import annotations

import heapq
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.spark.session import local_session
from keyed_stage import shuffle_readers

INSTANCES = 8
SCHEMA = "key string, n bigint, task int"
COSTS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "linear": lambda n, _: n,
    "n log n": lambda n, _: n * np.log2(n + 1.0),
    "quadratic": lambda n, _: n**2,
    "hidden factor": lambda n, rng: n * rng.lognormal(0.0, 1.0, n.size),
}
GIVEN = ("evenly, time, run 1", "evenly, time, run 2", "evenly, time, run 3")
KEPT = ("evenly, remembered, run 1", "evenly, remembered, run 2", "evenly, remembered, run 3")
WANTED = {run: 1.25 if run.endswith("1") else 1.10 for run in (*GIVEN, *KEPT)}
Way = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Work:
    """What each group waits, and how many rows it has."""

    name: str
    waits_s: dict[str, float]
    rows: dict[str, int]

    @property
    def bound_s(self) -> float:
        return max(sum(self.waits_s.values()) / INSTANCES, *self.waits_s.values())

    def function(self) -> Callable[[pd.DataFrame], pd.DataFrame]:
        waits_s = self.waits_s

        def wait(group: pd.DataFrame) -> pd.DataFrame:
            key, task = group["key"].iloc[0], TaskContext.get()
            time.sleep(waits_s[key])
            return pd.DataFrame({"key": [key], "n": [len(group)], "task": [0 if task is None else task.partitionId()]})

        return wait


def make_work(name: str, sizes: np.ndarray, bound_s: float) -> Work:
    costs = COSTS[name](sizes.astype(np.float64), np.random.default_rng(7))
    costs = costs * bound_s / max(costs.sum() / INSTANCES, costs.max())
    keys = [f"store {at}" for at in range(sizes.size)]
    return Work(name, dict(zip(keys, costs.tolist(), strict=True)), dict(zip(keys, sizes.tolist(), strict=True)))


def ways(work: Work, shuffle_bytes: int, folder: str) -> dict[str, tuple[Way, dict[str, object]]]:
    """Each way with the settings it runs under; the runs by time are in their order. `folder` remembers nothing yet."""
    wait = work.function()
    learnt: list[evenly.TimeWatch] = []

    def grouped(df: DataFrame) -> DataFrame:
        return df.groupBy("key").applyInPandas(wait, SCHEMA)

    def by_rows(df: DataFrame) -> DataFrame:
        return evenly.apply_by_key(df, wait, SCHEMA, key="key", instances=INSTANCES)

    def by_time(df: DataFrame) -> DataFrame:
        times = learnt[-1].times if learnt else None
        learnt.append(evenly.TimeWatch())
        return evenly.apply_by_key(
            df, wait, SCHEMA, key="key", instances=INSTANCES, balance="time", times=times, watch=learnt[-1]
        )

    def remembered(df: DataFrame) -> DataFrame:
        return evenly.apply_by_key(df, wait, SCHEMA, key="key", instances=INSTANCES, balance="time", remember=folder)

    def hashed(times: int) -> dict[str, object]:
        return {"spark.sql.adaptive.enabled": False, "spark.sql.shuffle.partitions": times * INSTANCES}

    adaptive = {
        "spark.sql.adaptive.enabled": True,
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": False,
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": 16 * INSTANCES,
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1b",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": f"{max(1, shuffle_bytes // INSTANCES)}b",
    }
    return {
        "hash": (grouped, hashed(1)),
        "hash x4": (grouped, hashed(4)),
        "hash x16": (grouped, hashed(16)),
        "adaptive": (grouped, adaptive),
        "evenly, rows": (by_rows, hashed(1)),
        **{run: (by_time, hashed(1)) for run in GIVEN},
        **{run: (remembered, hashed(1)) for run in KEPT},
    }


def measure(
    spark: SparkSession, df: DataFrame, work: Work, name: str, way: Way, settings: dict[str, object]
) -> dict[str, object]:
    for setting, value in settings.items():
        spark.conf.set(setting, str(value).lower() if isinstance(value, bool) else str(value))
    started = time.perf_counter()
    result = way(df)
    called_s = time.perf_counter() - started
    group = f"run {time.monotonic_ns()}"
    spark.sparkContext.setJobGroup(group, group)
    found = result.collect()
    job_s = time.perf_counter() - started
    if {row["key"]: row["n"] for row in found} != work.rows or len(found) != len(work.rows):
        sys.exit(f"{work.name}, {name}: wrong result")
    stage_s, tasks, moved = shuffle_readers(spark, group)
    return {
        "stream": work.name,
        "series": name,
        "instances": INSTANCES,
        "baseline": "lower bound",
        "bound_s": work.bound_s,
        "stage_s": stage_s,
        "ratio": stage_s / work.bound_s,
        "placed": placed_s(work, [(row["key"], row["task"]) for row in found]) / work.bound_s,
        "tasks": tasks,
        "call_s": called_s,
        "seconds": job_s,
        "shuffle_bytes": moved,
    }


def placed_s(work: Work, found: list[tuple[str, int]]) -> float:
    """When the last task ends if tasks start in their order as slots come free, and take their waits."""
    of_task: dict[int, float] = {}
    for key, task in found:
        of_task[task] = of_task.get(task, 0.0) + work.waits_s[key]
    slots = [0.0] * INSTANCES
    for task in sorted(of_task):
        heapq.heapreplace(slots, slots[0] + of_task[task])
    return max(slots)


def show(results: list[dict[str, object]]) -> None:
    names = list(dict.fromkeys(str(row["series"]) for row in results))
    at = {(row["stream"], row["series"]): row for row in results}
    for field, title in (("ratio", "Stage time over the lower bound"), ("placed", "As placed, without Spark")):
        table = Table(title=title, title_justify="left")
        for heading in ("time of a group", *names):
            table.add_column(heading)
        for stream in dict.fromkeys(str(row["stream"]) for row in results):
            table.add_row(stream, *(f"{float(str(at[stream, name][field])):.2f}" for name in names))
        Console(width=160).print(table)
    for name, wanted in WANTED.items():
        missed = [
            f"{row['stream']} {float(str(row['ratio'])):.2f}"
            for row in results
            if row["series"] == name and float(str(row["ratio"])) > wanted
        ]
        print(f"{name}: at most {wanted:.2f}: {'met' if not missed else 'not met by ' + ', '.join(missed)}")


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--groups", type=int, default=320)
    parser.add_argument("--bound", type=float, default=6.0, help="seconds that the stage takes at least")
    parser.add_argument("--costs", default=",".join(COSTS))
    options = parser.parse_args()
    unknown = [name for name in options.costs.split(",") if name not in COSTS]
    if unknown:
        parser.error(f"there is no cost {unknown[0]!r}: --costs takes some of {', '.join(COSTS)}, separated by commas")
    sizes = np.maximum(1, np.random.default_rng(3).lognormal(3.5, 1.0, options.groups)).astype(np.int64)
    spark = local_session("evenly benchmark", slots=INSTANCES, memory="2g")
    keys = np.repeat([f"store {at}" for at in range(sizes.size)], sizes)
    table = pd.DataFrame({"key": keys, "value": np.arange(keys.size)})
    df = spark.createDataFrame(table).repartition(4, "value").persist()
    df.count()
    results: list[dict[str, object]] = []
    idle = make_work("linear", sizes, 1e-3 * math.sqrt(options.groups))
    remember = Path(tempfile.mkdtemp())
    warm = ways(idle, 1, str(remember / "idle"))
    first = [measure(spark, df, idle, name, *way) for name, way in warm.items()]  # so that workers are there
    for name in options.costs.split(","):
        work = make_work(name, sizes, options.bound)
        for series, way in ways(work, int(str(first[0]["shuffle_bytes"])), str(remember / name)).items():
            results.append(measure(spark, df, work, series, *way))
            last = results[-1]
            print(
                f"{name}, {series}: {last['ratio']:.2f} (placed {last['placed']:.2f}, call {last['call_s']:.2f} s)",
                file=sys.stderr,
                flush=True,
            )
    spark.stop()
    shutil.rmtree(remember)
    if options.json:
        print_json("group_times", {"groups": options.groups, "bound": options.bound}, results)
    else:
        show(results)


if __name__ == "__main__":
    main()
