"""What learning and placement cost on Spark, beside plain Spark, measured in turn in one run.

    python benchmarks/spark_placement.py [--part rows|learning|tasks] [--rows 10000000] [--json]

rows   whole jobs of many rows at 16 instances
learning  what learning takes of a cached frame in 8 partitions, beside groupBy(key).count()
tasks  what a task behind the shuffle takes at 16, 256 and 1,000 instances, from the event log: short tasks, so that whatever
       travels with each of them shows; and the characters of the plan
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.diagnosis.event_log import open_event_log
from evenly.spark.session import local_session

INSTANCES = 16
TARGETS = {"placed with slot": 1.25, "learning": 0.5}
CACHED_TARGETS = {"integer": 0.35, "text": 0.25}
CACHED_PARTITIONS = 8
MANY_INSTANCES, SHORT_ROWS = (16, 256, 1_000), 200_000
MOST_PER_TASK, MOST_PLAN_CHARACTERS = 1.3, 50_000


def make_rows(spark: SparkSession, rows: int, folder: Path, *, text: bool) -> DataFrame:
    """Three rows in four of a Zipf-1 key, one of a uniform key, among a million distinct keys."""
    key = F.pow(F.lit(1e6), F.rand(987_654_321)).cast("bigint")
    many = (F.rand(123_456_789) * 1e6).cast("bigint")
    mixed = F.when(F.col("id") % 4 == 0, many).otherwise(key)
    path = str(folder / ("text" if text else "integer"))
    named = F.concat(F.lit("user-"), mixed) if text else mixed
    spark.range(rows).select(named.alias("key"), F.col("id").alias("value")).write.parquet(path)
    return spark.read.parquet(path)


def run(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def ways(df: DataFrame) -> dict[str, tuple[str, Callable[[], object]]]:
    """Each way with the name of its baseline."""
    mapping = evenly.learn_mapping(df, key="key", instances=INSTANCES)

    def place(slot: str | None) -> None:
        run(evenly.by_key(df, key="key", instances=INSTANCES, mapping=mapping, slot=slot))

    return {
        "repartition(n, key)": ("", lambda: run(df.repartition(INSTANCES, "key"))),
        "placed with slot": ("repartition(n, key)", lambda: place("slot")),
        "placed by id": ("repartition(n, key)", lambda: place(None)),
        "groupBy(key).count()": ("", lambda: run(df.groupBy("key").count())),
        "learning": ("groupBy(key).count()", lambda: evenly.learn_mapping(df, key="key", instances=INSTANCES)),
    }


def learning_ways(df: DataFrame) -> dict[str, tuple[str, Callable[[], object]]]:
    """Learning, and what it is held against, on a frame that is cached in 8 partitions."""
    cached = df.repartition(CACHED_PARTITIONS).select("key").cache()
    cached.count()
    return {
        "groupBy(key).count()": ("", lambda: run(cached.groupBy("key").count())),
        "learning, cached": ("groupBy(key).count()", lambda: evenly.learn_mapping(cached, key="key", instances=INSTANCES)),
    }


def measure(timed: dict[str, tuple[str, Callable[[], object]]], stream: str, rounds: int, rows: int) -> list[dict[str, object]]:
    """All ways in turn, `rounds` times after two rounds of warm-up; the median time of each."""
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for turn in range(rounds + 2):
        for name, (_, way) in timed.items():
            started = time.perf_counter()
            way()
            if turn >= 2:
                seconds[name].append(time.perf_counter() - started)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    return [
        {
            "stream": stream,
            "series": name,
            "instances": INSTANCES,
            "seconds": median[name],
            "tuples_per_s": rows / median[name],
            "baseline": baseline or None,
            "ratio": median[name] / median[baseline] if baseline else None,
        }
        for name, (baseline, _) in timed.items()
    ]


def show(results: list[dict[str, object]]) -> None:
    table = Table(title="Median seconds, and ratio to the baseline of the same run", title_justify="left")
    for heading in ("keys", "way", "seconds", "baseline", "ratio", "wanted"):
        table.add_column(heading)
    for row in results:
        cached = row["series"] == "learning, cached"
        wanted = CACHED_TARGETS[str(row["stream"])] if cached else TARGETS.get(str(row["series"]))
        ratio = row["ratio"]
        met = isinstance(ratio, float) and wanted is not None and ratio <= wanted
        verdict = "" if wanted is None else f"<= {wanted} {'met' if met else 'not met'}"
        shown = f"{ratio:.2f}" if isinstance(ratio, float) else ""
        table.add_row(
            str(row["stream"]), str(row["series"]), f"{row['seconds']:.2f}", str(row["baseline"] or ""), shown, verdict
        )
    Console().print(table)


def task_jobs(df: DataFrame, instances: int) -> dict[str, tuple[DataFrame, DataFrame]]:
    """What is done behind the shuffle, as plain Spark and with Evenly."""
    mapping = evenly.learn_mapping(df, key="key", instances=instances)
    plain = df.repartition(instances, "key")
    placed = evenly.by_key(df, key="key", instances=instances, mapping=mapping)
    by_id = evenly.by_key(df, key="key", instances=instances, mapping=mapping, slot=None)
    values, order = F.collect_list("value").alias("values"), F.row_number()
    return {
        "placed only": (plain, placed),
        "aggregate": (plain.groupBy("key").agg(values), placed.groupBy("key", "slot").agg(values)),
        "window": (
            plain.withColumn("n", order.over(Window.partitionBy("key").orderBy("value"))),
            placed.withColumn("n", order.over(Window.partitionBy("key", "slot").orderBy("value"))),
        ),
        "mapInArrow by id": (plain.mapInArrow(_same, df.schema), by_id.mapInArrow(_same, df.schema)),
    }


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def plan_characters(df: DataFrame) -> int:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        df.explain(mode="extended")
    return len(told.getvalue())


def tasks(rounds: int) -> list[dict[str, object]]:
    """Seconds of the tasks behind the shuffle, by job; the least round of each."""
    plans: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{folder}"}
        spark = local_session("evenly tasks", slots=2, memory="3g", settings={"spark.eventLog.compress": "false", **logged})
        df = spark.range(SHORT_ROWS).select(
            (F.pow(F.rand(1), 4) * 50_000).cast("bigint").alias("key"), F.col("id").alias("value")
        )
        df = df.cache()
        for instances in MANY_INSTANCES:
            jobs = task_jobs(df, instances)
            plans |= {f"{instances}/{job}": plan_characters(ours) for job, (_, ours) in jobs.items()}
            for turn in range(rounds + 1):
                for job, ways in jobs.items():
                    for way, frame in zip(("plain", "evenly"), ways, strict=True):
                        spark.sparkContext.setJobDescription(f"{instances}/{job}/{way}/{turn}")
                        run(frame)
            print(f"tasks: {instances} instances done", file=sys.stderr)
        spark.stop()
        seconds = _task_seconds(Path(folder))
    results: list[dict[str, object]] = []
    for name, characters in plans.items():
        number, job = name.split("/")
        instances = int(number)
        least = {
            way: min(seconds[f"{name}/{way}/{turn}"] for turn in range(1, rounds + 1)) / instances
            for way in ("plain", "evenly")
        }
        results.append(
            {
                "series": job,
                "instances": instances,
                "plain_ms": 1e3 * least["plain"],
                "evenly_ms": 1e3 * least["evenly"],
                "ratio": least["evenly"] / least["plain"],
                "plan_characters": characters,
            }
        )
    return results


def _task_seconds(folder: Path) -> dict[str, float]:
    """By the description of a job, the time of the tasks of its last stage, from launch to finish."""
    described: dict[int, str] = {}
    took: dict[int, float] = defaultdict(float)
    for event in open_event_log(folder).events(frozenset(("SparkListenerJobStart", "SparkListenerTaskEnd"))):
        if event["Event"] == "SparkListenerJobStart":
            text = (event.get("Properties") or {}).get("spark.job.description")
            described |= {max(event["Stage IDs"]): str(text)}
        elif event["Event"] == "SparkListenerTaskEnd":
            info = event["Task Info"]
            took[event["Stage ID"]] += (info["Finish Time"] - info["Launch Time"]) / 1e3
    found: dict[str, float] = defaultdict(float)
    for stage, text in described.items():
        found[text] += took[stage]
    return found


def show_tasks(results: list[dict[str, object]]) -> None:
    table = Table(title="Milliseconds of a task behind the shuffle", title_justify="left")
    for heading in ("instances", "job", "plain Spark", "Evenly", "ratio", "wanted", "plan characters", "wanted"):
        table.add_column(heading)
    for row in results:
        ratio, characters = float(str(row["ratio"])), int(str(row["plan_characters"]))
        table.add_row(
            str(row["instances"]),
            str(row["series"]),
            f"{row['plain_ms']:.2f}",
            f"{row['evenly_ms']:.2f}",
            f"{ratio:.2f}",
            f"<= {MOST_PER_TASK} {'met' if ratio <= MOST_PER_TASK else 'not met'}",
            f"{characters:,}",
            f"<= {MOST_PLAN_CHARACTERS:,} {'met' if characters <= MOST_PLAN_CHARACTERS else 'not met'}",
        )
    Console(width=140).print(table)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--part", choices=("rows", "learning", "tasks"), help="only this part")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    results: list[dict[str, object]] = []
    if options.part != "tasks":
        spark = local_session("evenly benchmark", slots=2, memory="6g")
        with tempfile.TemporaryDirectory() as folder:
            for stream in ("integer", "text"):
                print(f"measuring {stream} keys", file=sys.stderr)
                df = make_rows(spark, options.rows, Path(folder), text=stream == "text")
                if options.part != "learning":
                    results += measure(ways(df), stream, options.rounds, options.rows)
                if options.part != "rows":
                    results += measure(learning_ways(df), stream, options.rounds, options.rows)
                    spark.catalog.clearCache()
        spark.stop()
    short = [] if options.part in ("rows", "learning") else tasks(options.rounds)
    if options.json:
        print_json("spark_placement", {"rows": options.rows, "rounds": options.rounds}, results + short)
        return
    if results:
        show(results)
    if short:
        show_tasks(short)


if __name__ == "__main__":
    main()
