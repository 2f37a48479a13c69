"""What the drift controller buys and costs on recorded keys that drift: λ of every batch with it and without it.

    python benchmarks/streaming_drift.py FOLDER [--rows N] [--json]

FOLDER holds congress_mentions.parquet. Keys at equal distances in it (two years of drift) are streamed in order, each batch a
window of its own, and counted per window and over all: by Spark alone, with Evenly's first mapping kept, with batches
observed and nothing changed, and with the controller. All must count the same. The ratio of seconds is to the first mapping
kept, without observation.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.kernels.types import F64
from evenly.keys.dkg import DKG
from evenly.measures import imbalance_pct, instance_loads
from evenly.sketches import key_ids
from evenly.spark.session import local_session
from evenly.spark.streaming.keyed_query import KeyedQuery

INSTANCES = 8
BATCH_ROWS = 100_000
FIRST_ROWS = 200_000
NEVER = 1e9
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
WAYS = {
    "Spark": "hash",
    "kept": "evenly, first mapping kept",
    "observed": "evenly, the same, observed",
    "controller": "evenly, controller",
}
SCHEMA = "key string, ts timestamp"
Table = dict[tuple[object, ...], int]


@dataclass(frozen=True)
class Run:
    """One way of running the query: its seconds, λ of its batches, its changes, and what it counted."""

    way: str
    seconds: float
    imbalances: F64
    changes: int
    moved_load_pct: float
    counted: Table


def stage(folder: Path, source: Path, rows: int) -> Path:
    """The recorded keys in files of one batch each, with a made-up clock of one row a second."""
    target = folder / "in"
    target.mkdir()
    recorded = pq.read_table(source, columns=["key"])["key"].cast(pa.string()).combine_chunks()
    keys = recorded.take(pa.array(np.linspace(0, len(recorded) - 1, min(rows, len(recorded))).astype(np.int64)))
    for number, begin in enumerate(range(0, len(keys), BATCH_ROWS)):
        part = keys[begin : begin + BATCH_ROWS]
        second = np.arange(begin, begin + len(part), dtype=np.int64) + BATCH_ROWS
        ts = pa.array(second * 1_000_000, pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"key": part, "ts": ts}), target / f"{number:05d}.parquet")
        time.sleep(0.002)  # the source takes files by their time
    return target


def stream(spark: SparkSession, folder: Path, *, windows: bool) -> DataFrame:
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    if not windows:
        return rows
    window = F.window("ts", f"{BATCH_ROWS} seconds")
    return rows.withWatermark("ts", "0 seconds").withColumn("window", window)


def written(spark: SparkSession, output: Path, keys: list[str]) -> Table:
    last = spark.read.parquet(str(output)).groupBy(*keys).agg(F.max("count").alias("count")).collect()
    return {tuple(str(row[key]) for key in keys): int(row["count"]) for row in last}


def run(spark: SparkSession, source: Path, folder: Path, way: str, *, windows: bool, mapping: evenly.Mapping) -> Run:
    """The whole stream through one way of placing keys."""
    keys = ["window", "key"] if windows else ["key"]
    output, checkpoint = folder / way / "out", folder / way / "checkpoint"

    def write(batch: DataFrame, number: int) -> None:
        batch.select(*keys, "count").write.mode("overwrite").parquet(f"{output}/batch={number}")

    def counts(placed: DataFrame) -> DataStreamWriter:
        slots = ["slot"] if "slot" in placed.columns else []
        return placed.groupBy(*keys, *slots).count().writeStream.foreachBatch(write).outputMode("update")

    rows = stream(spark, source, windows=windows)
    started = time.perf_counter()
    imbalances, changes, moved = np.zeros(0), 0, 0.0
    if way == "Spark":
        plain = counts(rows).option("checkpointLocation", str(checkpoint)).start()
        plain.processAllAvailable()
        plain.stop()
    else:
        query = evenly.stream_by_key(
            rows,
            counts,
            key="key",
            instances=INSTANCES,
            checkpoint=checkpoint,
            window="window" if windows else None,
            mapping=mapping,
            controller=way != "kept",
            threshold_pct=NEVER if way == "observed" else 5.0,
        )
        query.processAllAvailable()
        query.stop()
        changes, moved = len(query.changes), sum(it.figures.get("moved_load_pct", 0.0) for it in query.changes)
        imbalances = _imbalances(query)
    seconds = time.perf_counter() - started
    return Run(way, seconds, imbalances, changes, moved, written(spark, output, keys))


def _imbalances(query: KeyedQuery) -> F64:
    return np.array([batch.mapped_imbalance_pct for batch in query.batches])


def sparks_hash(spark: SparkSession, source: Path, *, windows: bool) -> F64:
    """λ of each batch under Spark's own hash of its grouping columns."""
    found = []
    for path in sorted(source.iterdir()):
        rows = spark.read.schema(SCHEMA).parquet(str(path))
        if windows:
            rows = rows.withColumn("window", F.window("ts", f"{BATCH_ROWS} seconds"))
        at = F.pmod(F.hash(*(["window", "key"] if windows else ["key"])), F.lit(INSTANCES))
        counts = {row["at"]: row["count"] for row in rows.groupBy(at.alias("at")).count().collect()}
        found.append(imbalance_pct([counts.get(instance, 0) for instance in range(INSTANCES)]))
    return np.array(found)


def made_anew(source: Path) -> F64:
    """λ of each batch under a mapping learnt from the two batches before it, at no cost: more than a controller can do."""
    batches = [key_ids(pq.read_table(path, columns=["key"])["key"].combine_chunks()) for path in sorted(source.iterdir())]
    found = []
    for number, ids in enumerate(batches):
        before = batches[:2] if number < 2 else batches[number - 2 : number]
        mapping = DKG.automatic(INSTANCES).fit_ids(np.concatenate(before)).mapping()
        found.append(imbalance_pct(instance_loads(mapping.assign_ids(ids), INSTANCES)))
    return np.array(found)


def measure(spark: SparkSession, source: Path, folder: Path, *, windows: bool) -> list[dict[str, object]]:
    first = spark.read.schema(SCHEMA).parquet(*(str(path) for path in sorted(source.iterdir())[: FIRST_ROWS // BATCH_ROWS]))
    mapping = evenly.learn_mapping(first, key="key", instances=INSTANCES, tolerance_pct=None)
    kind = "windowed" if windows else "unwindowed"
    runs = []
    for way in WAYS:
        print(f"{kind}: {way}", file=sys.stderr)
        runs.append(run(spark, source, folder / kind, way, windows=windows, mapping=mapping))
    shown = {it.way: it.imbalances for it in runs}
    shown["Spark"], shown["kept"] = sparks_hash(spark, source, windows=windows), shown["observed"]
    kept_s = next(it.seconds for it in runs if it.way == "kept")
    return [
        {
            "series": kind,
            "grouping": WAYS[it.way],
            "instances": INSTANCES,
            "batches": int(shown[it.way].size),
            "imbalance_pct": shown[it.way].tolist(),
            "imbalance_pct_mean": float(shown[it.way].mean()),
            "imbalance_pct_late": float(shown[it.way][shown[it.way].size // 2 :].mean()),
            "imbalance_pct_worst": float(shown[it.way].max()),
            "changes": it.changes,
            "moved_load_pct": it.moved_load_pct,
            "seconds": it.seconds,
            "ratio": it.seconds / kept_s,
            "baseline": WAYS["kept"],
            "equal": it.counted == runs[0].counted,
        }
        for it in runs
    ]


def show(results: list[dict[str, object]]) -> None:
    print("| state | placed by | mean λ % | second half | worst λ % | changes | load moved % | s | ratio | as Spark counts |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in results:
        print(
            f"| {row['series']} | {row['grouping']} | {row['imbalance_pct_mean']:.1f} | {row['imbalance_pct_late']:.1f} "
            f"| {row['imbalance_pct_worst']:.1f} | {row['changes']} | {row['moved_load_pct']:.1f} "
            f"| {row['seconds']:.0f} | {row['ratio']:.2f} "
            f"| {'equal' if row['equal'] else 'NOT EQUAL'} |"
        )


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--rows", type=int, default=10**9, help="rows taken at equal distances from the whole stream; all, if it has fewer"
    )
    options = parser.parse_args()
    # Only state in RocksDB can be moved.
    settings = {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.shuffle.partitions": str(INSTANCES),
        "spark.sql.session.timeZone": "UTC",
    }
    spark = local_session("evenly drift", slots=2, memory="2g", settings=settings)
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        source = stage(Path(scratch), options.folder / "congress_mentions.parquet", options.rows)
        for windows in (True, False):
            results += measure(spark, source, Path(scratch), windows=windows)
        anew = made_anew(source)
    spark.stop()
    if options.json:
        every = [{"series": "made anew", "x": at, "imbalance_pct_mean": value} for at, value in enumerate(anew.tolist())]
        print_json("streaming_drift", {"rows": options.rows}, results + every)
    else:
        show(results)
        late = anew[anew.size // 2 :].mean()
        figures = {"mean": anew.mean(), "second half": late, "worst": anew.max()}
        shown = ", ".join(f"{name} λ {value:.1f} %" for name, value in figures.items())
        print(f"\nmade anew before every batch, in theory: {shown}")
    if not all(row["equal"] for row in results):
        sys.exit("a way counted something else than Spark")


if __name__ == "__main__":
    main()
