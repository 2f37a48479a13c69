"""Stateful streaming queries on recorded keys: Spark's 200 partitions, 8 hash partitions, and Evenly at 8 instances.

    python benchmarks/streaming_keys.py FOLDER [--rows 20000] [--query Python] [--json]

FOLDER holds the recorded streams. Three queries: a Python function with state and a wait for each row (a wait, so that
8 instances can overlap on few cores), a deduplication, which ships every row, and a count, which Spark combines before it
ships anything, so that no placement is needed. All ways run in turn in one session, three batches each; speed is that
of the last two. λ of rows (as shuffled), of state rows and of run time are over the partitions of the stateful stage.
What placing and watching cost is measured with large batches of queries that do nothing else.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.measures import imbalance_pct
from evenly.spark.session import local_session
from evenly.spark.state.reading import rows_per_partition
from recorded_keys import recorded_keys

INSTANCES = 8
BATCHES = 3
FILES = 4
WATCHED_ROUNDS = 3
WAIT_S = 1e-3
STREAMS = ("flights3m.key", "wyscout_events.player", "wiki_sent_1.text")
Query = Callable[[DataFrame], DataFrame]


def waits(rows: DataFrame) -> DataFrame:
    """A count per key in Python, with a wait for each row."""

    def visit(key: tuple[Any, ...], batches: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        new = sum(len(batch) for batch in batches)
        time.sleep(new * WAIT_S)
        total = (state.get[0] if state.exists else 0) + new
        state.update((total,))
        yield pd.DataFrame({"key": [key[0]], "count": [total]})

    grouped = rows.groupBy(*_keys(rows))
    return grouped.applyInPandasWithState(visit, "key string, count bigint", "total bigint", "append", "NoTimeout")


def duplicates(rows: DataFrame) -> DataFrame:
    """The first row of every key: every row is shipped."""
    return rows.dropDuplicates(_keys(rows))


def counts(rows: DataFrame) -> DataFrame:
    """A native count: combined before it is shipped."""
    return rows.groupBy(*_keys(rows)).count()


def _keys(rows: DataFrame) -> list[str]:
    return ["key", "slot"] if "slot" in rows.columns else ["key"]


QUERIES: dict[str, tuple[Query, str]] = {
    "Python with state, 1 ms per row": (waits, "append"),
    "dropDuplicates": (duplicates, "append"),
    "count": (counts, "update"),
}


def stage(folder: Path, keys: pa.Array, rows: int) -> None:
    """The first keys of a stream as text, in `FILES` files a batch: Spark reads a small file with one task."""
    folder.mkdir()
    text = keys[: rows * BATCHES].cast(pa.string())
    size = rows // FILES
    for number in range(BATCHES * FILES):
        part = text[number * size : (number + 1) * size]
        pq.write_table(pa.table({"key": part}), folder / f"{number:03d}.parquet")
        time.sleep(0.01)  # the source takes files by their time


def first_batch(spark: SparkSession, source: Path) -> DataFrame:
    return spark.read.schema("key string").parquet(*(str(path) for path in sorted(source.iterdir())[:FILES]))


def run(
    spark: SparkSession,
    source: Path,
    checkpoint: Path,
    query: Query,
    mode: str,
    *,
    partitions: int,
    mapping: evenly.Mapping | None,
    watched: bool = False,
) -> StreamingQuery:
    """All batches through one query, placed by hash over `partitions` or by a mapping."""
    rows = spark.readStream.schema("key string").option("maxFilesPerTrigger", FILES).parquet(str(source))

    def build(placed: DataFrame) -> DataStreamWriter:
        return query(placed).writeStream.format("noop").outputMode(mode)

    if mapping is not None:
        keyed = evenly.stream_by_key(
            rows, build, key="key", instances=partitions, checkpoint=checkpoint, mapping=mapping, controller=watched
        )
        keyed.processAllAvailable()
        keyed.stop()
        return keyed.query
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    plain = build(rows).option("checkpointLocation", str(checkpoint)).start()
    plain.processAllAvailable()
    plain.stop()
    return plain


def stateful_tasks(spark: SparkSession, query: StreamingQuery, partitions: int) -> tuple[list[int], list[int]]:
    """Shuffled rows and run time (ms) of every partition, over all batches of a query's run."""
    store = spark.sparkContext._jsc.sc().statusStore()  # noqa: SLF001 - the only way to the times of tasks
    tracker = spark.sparkContext.statusTracker()
    time.sleep(0.3)  # the store hears of a task's end a little later
    rows, ms = [0] * partitions, [0] * partitions
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(str(query.runId))]
    for number in {stage for job in jobs if job is not None for stage in job.stageIds}:
        told = store.lastStageAttempt(number)
        if told.shuffleReadRecords() == 0:
            continue
        tasks = store.taskList(number, told.attemptId(), told.numTasks())
        for at in range(tasks.size()):
            task = tasks.apply(at)
            if task.taskMetrics().isDefined():
                metrics = task.taskMetrics().get()
                rows[task.partitionId()] += metrics.shuffleReadMetrics().recordsRead()
                ms[task.partitionId()] += metrics.executorRunTime()
    return rows, ms


def rows_per_s(query: StreamingQuery) -> float:
    """Speed over all batches but the first, which starts the Python processes and compiles."""
    later = [it for it in query.recentProgress if it.numInputRows > 0][1:]
    return sum(it.numInputRows for it in later) / (sum(it.durationMs["triggerExecution"] for it in later) / 1000.0)


def measure(spark: SparkSession, folder: Path, stream: str, keys: pa.Array, rows: int, wanted: str) -> list[dict[str, object]]:
    source = folder / stream
    stage(source, keys, rows)
    first = first_batch(spark, source)
    mapping = evenly.learn_mapping(first, key="key", instances=INSTANCES, tolerance_pct=None)
    results: list[dict[str, object]] = []
    for name, (query, mode) in QUERIES.items():
        if wanted not in name:
            continue
        for way, partitions, fitted in (
            ("Spark, 200 partitions", 200, None),
            ("Spark, 8 partitions", INSTANCES, None),
            ("Evenly, 8 instances", INSTANCES, mapping),
        ):
            print(f"{stream}: {name}: {way}", file=sys.stderr)
            checkpoint = folder / f"{stream} {name} {way}".replace(" ", "-").replace(",", "")
            ran = run(spark, source, checkpoint, query, mode, partitions=partitions, mapping=fitted)
            shuffled, ms = stateful_tasks(spark, ran, partitions)
            state = rows_per_partition(spark, str(checkpoint))[0].rows
            results.append(
                {
                    "stream": stream,
                    "operator": name,
                    "grouping": way,
                    "instances": partitions,
                    "imbalance_pct_rows": imbalance_pct(shuffled),
                    "imbalance_pct_state": imbalance_pct(state),
                    "imbalance_pct_time": imbalance_pct(ms),
                    "tuples_per_s": rows_per_s(ran),
                    "state_rows": int(np.sum(state)),
                }
            )
    return results


def measure_watching(spark: SparkSession, folder: Path, stream: str, keys: pa.Array, rows: int) -> list[dict[str, object]]:
    """What placing and watching cost a query that has hardly any other work: cpu-bound, in large batches."""
    source = folder / f"{stream} watched"
    stage(source, keys, rows)
    mapping = evenly.learn_mapping(first_batch(spark, source), key="key", instances=INSTANCES)
    results: list[dict[str, object]] = []
    for name in ("dropDuplicates", "count"):
        query, mode = QUERIES[name]
        speeds: dict[str, list[float]] = {}
        for turn in range(WATCHED_ROUNDS):
            for way, fitted, watched in (
                ("Spark", None, False),
                ("placed", mapping, False),
                ("placed and watched", mapping, True),
            ):
                print(f"{stream}: {name}: {way}", file=sys.stderr)
                checkpoint = folder / f"{stream}-{name}-{way}-{turn}".replace(" ", "-")
                ran = run(spark, source, checkpoint, query, mode, partitions=INSTANCES, mapping=fitted, watched=watched)
                speeds.setdefault(way, []).append(rows_per_s(ran))
        of = {way: float(np.median(each)) for way, each in speeds.items()}
        results += [
            {
                "stream": stream,
                "operator": name,
                "series": way,
                "tuples_per_s": speed,
                "ratio": of["Spark"] / speed,
                "baseline": "Spark",
            }
            for way, speed in of.items()
        ]
    return results


def show_watching(results: list[dict[str, object]]) -> None:
    print("\n| query, no work of its own | | rows/s | time, ratio to Spark |\n|---|---|---|---|")
    for row in results:
        print(f"| {row['operator']} | {row['series']} | {row['tuples_per_s']:,.0f} | {row['ratio']:.2f} |")


def show(results: list[dict[str, object]]) -> None:
    print("| stream | query | placed by | λ of rows % | λ of state % | λ of time % | rows/s |")
    print("|---|---|---|---|---|---|---|")
    for row in results:
        print(
            f"| {row['stream']} | {row['operator']} | {row['grouping']} | {row['imbalance_pct_rows']:.1f} "
            f"| {row['imbalance_pct_state']:.1f} | {row['imbalance_pct_time']:.1f} | {row['tuples_per_s']:,.0f} |"
        )


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=20_000, help="rows per batch")
    parser.add_argument("--query", default="", help="only queries whose name holds this, and not what watching costs")
    parser.add_argument("--watched-rows", type=int, default=500_000, help="rows per batch where watching is measured")
    options = parser.parse_args()
    spark = local_session("evenly streaming", slots=INSTANCES, memory="3g", settings={"spark.sql.session.timeZone": "UTC"})
    results: list[dict[str, object]] = []
    watching: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for stream, keys in recorded_keys(options.folder):
            if stream in STREAMS:
                results += measure(spark, Path(scratch), stream, keys, options.rows, options.query)
            if stream == STREAMS[0] and not options.query:
                watching = measure_watching(spark, Path(scratch), stream, keys, options.watched_rows)
    spark.stop()
    if options.json:
        print_json("streaming_keys", {"rows": options.rows}, results + watching)
    else:
        show(results)
        if watching:
            show_watching(watching)


if __name__ == "__main__":
    main()
