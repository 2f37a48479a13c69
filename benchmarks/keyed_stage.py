"""A grouped Python function with work for each row, on recorded keys: Spark's ways to place the keys, and Evenly.

    python benchmarks/keyed_stage.py FOLDER [--instances 8,16] [--rows 60000] [--json]

FOLDER holds the recorded streams (see recorded_keys.py). The work is a wait, so that 8 or 16 instances can
overlap on few cores. All ways run in turn in one session; each result is checked against exact counts. The stage
time is that of all stages that read a shuffle, and its ratio is to the lower bound: the larger of the whole work
divided by the instances, and the work of the heaviest key. A way that splits keys can be below it: salting does, and
Evenly where a key has more than an instance's share (`aggregate_by_key`; `apply_by_key` elsewhere).
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.measures import imbalance_pct
from evenly.spark.session import local_session
from recorded_keys import recorded_keys

WAIT_S_PER_INSTANCE = 62.5e-6
"""The wait a row times the instances: with 60,000 rows the bound is 3.75 s whatever their number."""

COUNTS = "key string, n bigint"
Counts = dict[object, int]
Way = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Measured:
    """One run: the stages that read a shuffle, and the whole job with the cpu time of all its processes."""

    stage_s: float
    tasks: int
    shuffle_bytes: int
    job_s: float
    cpu_s: float


def waiting_count(wait_s: float) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """The grouped function: the number of rows of a key, after a wait for each of them."""

    def count(rows: pd.DataFrame) -> pd.DataFrame:
        time.sleep(len(rows) * wait_s)
        return pd.DataFrame({"key": rows["key"].iloc[:1], "n": [len(rows)]})

    return count


def waiting_sum(wait_s: float) -> evenly.Merging:
    """The same for a key whose rows may be on several instances."""

    def partial(rows: pd.DataFrame) -> int:
        time.sleep(len(rows) * wait_s)
        return len(rows)

    return evenly.Merging(partial, merge=lambda counts: pd.DataFrame({"n": [sum(counts)]}), schema="n bigint")


class Stream:
    """Recorded keys as cached rows, with what is known of them beforehand."""

    def __init__(self, spark: SparkSession, name: str, keys: pa.Array, rows: int) -> None:
        step = max(1, len(keys) // rows)
        chosen = keys.take(pa.array(np.arange(0, step * min(rows, len(keys)), step))).cast(pa.string())
        table = pa.table({"key": chosen, "value": np.arange(len(chosen), dtype=np.int64)})
        self.name = name
        self.df = spark.createDataFrame(table).repartition(4, "value").persist()
        self.rows = len(chosen)
        self.counts: Counts = {entry["values"]: entry["counts"] for entry in chosen.value_counts().to_pylist()}
        self.df.count()

    def hot(self, share: float) -> list[object]:
        return [key for key, n in self.counts.items() if n > share * self.rows]

    def bound_s(self, instances: int, wait_s: float) -> float:
        return max(self.rows / instances, *self.counts.values()) * wait_s


def ways(stream: Stream, instances: int, wait_s: float, shuffle_bytes: int) -> dict[str, tuple[Way, dict[str, object]]]:
    """Each way with the settings it runs under."""
    count = waiting_count(wait_s)

    def grouped(df: DataFrame) -> DataFrame:
        return df.groupBy("key").applyInPandas(count, COUNTS)

    def salted(df: DataFrame) -> DataFrame:
        hot = F.col("key").isin(stream.hot(0.5 / instances))
        salt = F.when(hot, F.pmod(F.xxhash64("value"), F.lit(instances))).otherwise(F.lit(0))
        parts = df.withColumn("salt", salt).groupBy("key", "salt").applyInPandas(count, COUNTS)
        return parts.groupBy("key").agg(F.sum("n").alias("n"))

    def placed(df: DataFrame) -> DataFrame:
        return evenly.by_key(df, key="key", instances=instances).groupBy("key", "slot").applyInPandas(count, COUNTS)

    def applied(df: DataFrame) -> DataFrame:
        if stream.hot(1.0 / instances):
            return evenly.aggregate_by_key(df, waiting_sum(wait_s), key="key", instances=instances)
        return evenly.apply_by_key(df, count, COUNTS, key="key", instances=instances)

    def hashed(times: int) -> tuple[Way, dict[str, object]]:
        return grouped, {"spark.sql.adaptive.enabled": False, "spark.sql.shuffle.partitions": times * instances}

    def adaptive(parts: int) -> tuple[Way, dict[str, object]]:
        return grouped, {
            "spark.sql.adaptive.enabled": True,
            "spark.sql.adaptive.coalescePartitions.parallelismFirst": False,
            "spark.sql.adaptive.coalescePartitions.initialPartitionNum": 16 * instances,
            "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1b",
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": f"{max(1, shuffle_bytes // parts)}b",
        }

    plain = hashed(1)[1]
    return {
        "hash": hashed(1),
        "hash x4": hashed(4),
        "hash x16": hashed(16),
        "adaptive": adaptive(instances),
        "adaptive, finer": adaptive(4 * instances),
        "salting": (salted, plain),
        "evenly": (applied, plain),
        "evenly, applyInPandas": (placed, plain),
    }


def measure(spark: SparkSession, stream: Stream, way: Way, settings: dict[str, object]) -> Measured:
    """Run one way and check its result; learning a mapping counts to the job."""
    for name, value in settings.items():
        spark.conf.set(name, str(value).lower() if isinstance(value, bool) else str(value))
    group = f"run {time.monotonic_ns()}"
    started, cpu = time.perf_counter(), _cpu_s()
    result = way(stream.df)
    spark.sparkContext.setJobGroup(group, group)
    counts = {row["key"]: row["n"] for row in result.collect()}
    job_s, cpu_s = time.perf_counter() - started, _cpu_s() - cpu
    if counts != stream.counts:
        sys.exit(f"{stream.name}: wrong counts")
    return Measured(*shuffle_readers(spark, group), job_s, cpu_s)


def shuffle_readers(spark: SparkSession, group: str) -> tuple[float, int, int]:
    """Wall time and tasks of the stages that read a shuffle, and the bytes that were shuffled."""
    context = spark.sparkContext
    store = context._jsc.sc().statusStore()  # noqa: SLF001
    tracker = context.statusTracker()
    # The store hears of a stage's end a little after the job's result.
    time.sleep(0.3)
    stages = {stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds}  # type: ignore[union-attr]
    seconds, tasks, moved = 0.0, 0, 0
    for stage in stages:
        told = store.lastStageAttempt(stage)
        if told.completionTime().isDefined() and told.shuffleReadRecords() > 0:
            seconds += (told.completionTime().get().getTime() - told.submissionTime().get().getTime()) / 1000.0
            tasks += told.numTasks()
            moved += told.shuffleReadBytes()
    return seconds, tasks, moved


def _cpu_s() -> float:
    """Cpu seconds so far of this process and all below it, ended children included."""
    below: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            below.setdefault(int(fields[1]), []).append(int(entry.name))
            used[int(entry.name)] = sum(int(field) for field in fields[11:15])
    total, waiting = 0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        total += used.get(process, 0)
        waiting += below.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")


def measure_all(spark: SparkSession, stream: Stream, instances: int, rounds: int) -> Iterable[dict[str, object]]:
    """Every way in turn, `rounds` times; the run with the median stage time of each."""
    wait_s = WAIT_S_PER_INSTANCE * instances
    bound_s = stream.bound_s(instances, wait_s)
    hashed, settings = ways(stream, instances, 0.0, 1)["hash"]
    shuffle_bytes = measure(spark, stream, hashed, settings).shuffle_bytes
    idle, settings = ways(stream, instances, 0.0, 1)["evenly"]
    fixed_s = measure(spark, stream, idle, settings).stage_s
    parts = stream.df.groupBy(F.pmod(F.hash("key"), F.lit(instances)).alias("part")).count().collect()
    loads = np.zeros(instances)
    for row in parts:
        loads[row["part"]] = row["count"]
    timed = ways(stream, instances, wait_s, shuffle_bytes)
    runs: dict[str, list[Measured]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name, (way, settings) in timed.items():
            runs[name].append(measure(spark, stream, way, settings))
    for name, measured in runs.items():
        run = sorted(measured, key=lambda one: one.stage_s)[len(measured) // 2]
        yield {
            "stream": stream.name,
            "series": name,
            "instances": instances,
            "imbalance_pct_mean": imbalance_pct(loads),
            "baseline": "lower bound",
            "bound_s": bound_s,
            "fixed_s": fixed_s,
            "stage_s": run.stage_s,
            "ratio": run.stage_s / bound_s,
            "tasks": run.tasks,
            "seconds": run.job_s,
            "cpu_s": run.cpu_s,
        }


def show(results: list[dict[str, object]]) -> None:
    """One Markdown table of ratios, one of what each way pays, and the bars."""
    names = list(dict.fromkeys(str(row["series"]) for row in results))
    cases = list(dict.fromkeys((str(row["stream"]), int(str(row["instances"]))) for row in results))
    at = {(row["stream"], row["instances"], row["series"]): row for row in results}

    def number(case: tuple[str, int], name: str, field: str) -> float:
        return float(str(at[(*case, name)][field]))

    print("Stage time, ratio to the lower bound\n")
    print(f"| stream | instances | λ of hash % | bound s | {' | '.join(names)} |")
    print("|---|---|---|---|" + "---|" * len(names))
    for case in cases:
        ratios = [number(case, name, "ratio") for name in names]
        shown = " | ".join(f"**{ratio:.2f}**" if ratio == min(ratios) else f"{ratio:.2f}" for ratio in ratios)
        print(
            f"| {case[0]} | {case[1]} | {number(case, names[0], 'imbalance_pct_mean'):.0f} "
            f"| {number(case, names[0], 'bound_s'):.2f} | {shown} |"
        )
    print("\nTasks / cpu-seconds of the whole job / seconds of the whole job (learning included), mean over the streams\n")
    print(f"| instances | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for instances in dict.fromkeys(case[1] for case in cases):
        same = [case for case in cases if case[1] == instances]
        cells = [
            " / ".join(
                f"{statistics.mean(number(case, name, field) for case in same):.1f}" for field in ("tasks", "cpu_s", "seconds")
            )
            for name in names
        ]
        print(f"| {instances} | {' | '.join(cells)} |")
    _show_bars(cases, names, number)


def _show_bars(cases: list[tuple[str, int]], names: list[str], number: Callable[[tuple[str, int], str, str], float]) -> None:
    others = [name for name in names if not name.startswith("evenly")]
    slow = [
        c
        for c in cases
        if number(c, "evenly", "stage_s") > 1.1 * number(c, "evenly", "bound_s") + number(c, "evenly", "fixed_s")
    ]
    skewed = [case for case in cases if number(case, "hash", "imbalance_pct_mean") > 20.0]
    behind = [case for case in skewed if number(case, "evenly", "ratio") >= number(case, "hash", "ratio")]
    second = [c for c in cases if number(c, "evenly", "ratio") > 1.05 * min(number(c, name, "ratio") for name in others)]
    for text, failed, of in (
        ("at most 1.10 x bound + the stage without waits", slow, cases),
        ("ahead of hash where its λ is above 20 %", behind, skewed),
        ("first, or within 5 % of the best other", second, cases),
    ):
        print(
            f"\n{text}: {len(of) - len(failed)} of {len(of)}"
            + (f"; not {', '.join(f'{s} at {k}' for s, k in failed)}" if failed else "")
        )


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--instances", default="8,16")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--streams", default="", help="only streams whose name holds one of these, separated by commas")
    options = parser.parse_args()
    results: list[dict[str, object]] = []
    for instances in (int(text) for text in options.instances.split(",")):
        spark = local_session("evenly benchmark", slots=instances, memory="3g")
        warm = False
        for name, keys in recorded_keys(options.folder):
            if not any(wanted in name for wanted in options.streams.split(",")):
                continue
            stream = Stream(spark, name, keys, options.rows)
            if not warm:
                warm = True
                list(measure_all(spark, Stream(spark, name, keys, 2_000), instances, 1))
            print(f"measuring {name} at {instances} instances", file=sys.stderr)
            measured = list(measure_all(spark, stream, instances, options.rounds))
            print("  " + ", ".join(f"{row['series']} {row['ratio']:.2f}" for row in measured), file=sys.stderr)
            results += measured
            stream.df.unpersist()
        spark.stop()
    if options.json:
        print_json("keyed_stage", {"rows": options.rows, "rounds": options.rounds}, results)
    else:
        show(results)


if __name__ == "__main__":
    main()
