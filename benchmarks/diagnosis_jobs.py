"""Small Spark jobs, each slow for a reason that is known because the job was made for it, or not slow at all.

python benchmarks/diagnosis_jobs.py FOLDER APPLICATION SEED

runs the jobs of one application ("local", "sizes", "cluster" or "slow host") and leaves its event log in FOLDER. Every job
carries the name of its case as the job's description, so its stages are found in the log. Time is slept, not computed, so that
the log is the same on a machine with fewer cores than slots.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import evenly
from evenly.spark.session import local_session

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # the campaign of faults has a cluster on loopback

from faults.cluster import Cluster  # type: ignore[import-not-found]

SLOTS = 8
_AS_WIDE = "id long"


@dataclass(frozen=True)
class Case:
    """A job and what is true of it: `causes` must be found, `allowed` may be, anything else is wrong. Innocent: no causes."""

    name: str
    run: Callable[[SparkSession, int, Path], Any]
    causes: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()
    settings: tuple[tuple[str, str], ...] = ()


def slept(of: Callable[[int], float]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function over batches that sleeps so many seconds for each id."""

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(sum(of(one) for one in batch.column("id").to_pylist()))
            yield batch

    return function


def group_slept(seconds: float) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def function(group: pd.DataFrame) -> pd.DataFrame:
        time.sleep(seconds * len(group))
        return group.head(1)[["id"]]

    return function


def done(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def keyed(spark: SparkSession, weights: dict[int, list[int]]) -> DataFrame:
    """Rows whose keys are where Spark's hash puts them: `weights` has, for each of the 8 partitions, the rows of its keys."""
    made = spark.range(4_000).select(F.col("id").alias("k"), F.pmod(F.hash("id"), F.lit(SLOTS)).alias("p"))
    by_place: dict[int, list[int]] = {}
    for row in made.collect():
        by_place.setdefault(row.p, []).append(row.k)
    rows = [
        (key, at)
        for place, counts in weights.items()
        for key, count in zip(by_place[place], counts, strict=False)
        for at in range(count)
    ]
    return spark.createDataFrame(pd.DataFrame(rows, columns=["k", "id"])).repartition(4)


def even_weights(rows: int, keys: int) -> dict[int, list[int]]:
    return {place: [rows // keys] * keys for place in range(SLOTS)}


def uneven_keys(spark: SparkSession, seed: int, _: Path) -> None:
    """Twice as many keys, all alike, on one instance."""
    weights = even_weights(200, 10)
    weights[seed % SLOTS] = weights[seed % SLOTS] * 2
    done(keyed(spark, weights).repartition(SLOTS, "k").groupBy("k").applyInPandas(group_slept(0.012), _AS_WIDE))


def hot_key(spark: SparkSession, seed: int, _: Path) -> None:
    weights = even_weights(100, 10)
    weights[seed % SLOTS] = [600 + 50 * seed, *weights[seed % SLOTS]]
    done(keyed(spark, weights).repartition(SLOTS, "k").groupBy("k").applyInPandas(group_slept(0.006), _AS_WIDE))


def hot_window(spark: SparkSession, seed: int, _: Path) -> None:
    weights = even_weights(100, 10)
    weights[seed % SLOTS] = [700, *weights[seed % SLOTS]]
    ranked = keyed(spark, weights).withColumn("n", F.expr("row_number() over (partition by k order by id)"))
    done(ranked.withColumn("slept", F.expr(f"{java_sleep('5L')} || n")))


def spilled_window(spark: SparkSession, seed: int, _: Path) -> None:
    """As many rows everywhere, but on one instance they are of one key, which is more than a window's buffer holds."""
    weights = even_weights(380, 380)
    weights[seed % SLOTS] = [380]
    summed = keyed(spark, weights).withColumn("n", F.expr("count(id) over (partition by k)"))
    done(summed.where(F.expr(f"{java_sleep('if(n > 1, 9L, 1L)')} is not null")))


def equal_keys_merged(spark: SparkSession, seed: int, _: Path) -> None:
    """Forty equal keys, merged by adaptive execution into a few tasks."""
    df = spark.range(0, 40 * 20, 1, 4).select((F.col("id") % 40 + seed).alias("k"), "id")
    done(df.groupBy("k").applyInPandas(group_slept(0.01), _AS_WIDE))


def merged_too_far(spark: SparkSession, seed: int, _: Path) -> None:
    """Few bytes and much work: adaptive execution makes one task of it."""
    df = spark.range(0, 400, 1, 4).select((F.col("id") % 40 + seed).alias("k"), "id")
    done(df.groupBy("k").applyInPandas(group_slept(0.012), _AS_WIDE))


def uneven_parts(spark: SparkSession, seed: int, _: Path) -> None:
    parts = [spark.range(0, 100, 1, 7), spark.range(0, 120 + 20 * seed, 1, 1)]
    done(parts[0].union(parts[1]).mapInArrow(slept(lambda _: 0.02), _AS_WIDE))


def files_of(spark: SparkSession, folder: Path, sizes: list[int]) -> DataFrame:
    shutil.rmtree(folder, ignore_errors=True)
    for place, rows in enumerate(sizes):
        spark.range(0, rows, 1, 1).write.parquet(str(folder / f"part={place}"))
    return spark.read.parquet(*(str(folder / f"part={place}") for place in range(len(sizes))))


def uneven_files(spark: SparkSession, seed: int, folder: Path) -> None:
    """One file has most of the rows, and Spark's own operators take the same time for each."""
    sizes = [100] * SLOTS
    sizes[seed % SLOTS] = 700
    spark.sparkContext.setJobDescription("writing")
    df = files_of(spark, folder / f"files {seed}", sizes)
    spark.sparkContext.setJobDescription(f"uneven files #{seed}")
    done(df.where(F.expr(f"{java_sleep('5L')} is not null")))


def java_sleep(milliseconds: str) -> str:
    """An expression that sleeps in the JVM, without Python."""
    return f"java_method('java.lang.Thread', 'sleep', {milliseconds})"


def slow_rows(spark: SparkSession, seed: int, _: Path) -> None:
    """Rows even, their cost not."""
    low = 100 * (seed % SLOTS)
    costly = slept(lambda one: 0.03 if low <= one < low + 100 else 0.004)
    done(spark.range(0, 100 * SLOTS, 1, SLOTS).mapInArrow(costly, _AS_WIDE))


def slow_udf(spark: SparkSession, seed: int, _: Path) -> None:
    low = 100 * (seed % SLOTS)

    def cost(one: int) -> int:
        time.sleep(0.03 if low <= one < low + 100 else 0.004)
        return one

    done(spark.range(0, 100 * SLOTS, 1, SLOTS).select(F.udf(cost, "long")("id")))


def slow_rdd(spark: SparkSession, seed: int, _: Path) -> None:
    low = 10 * (seed % SLOTS)

    def cost(one: int) -> int:
        time.sleep(0.3 if low <= one < low + 10 else 0.04)
        return one

    spark.sparkContext.parallelize(range(10 * SLOTS), SLOTS).map(cost).count()


def equal_rounds(tasks: int) -> Callable[[SparkSession, int, Path], None]:
    def run(spark: SparkSession, seed: int, _: Path) -> None:
        done(spark.range(0, 20 * tasks, 1, tasks).mapInArrow(slept(lambda _: 0.12 + 0.01 * seed), _AS_WIDE))

    return run


def many_short(spark: SparkSession, seed: int, _: Path) -> None:
    """Many tasks, most of whose time is work. Without Python, whose workers take as long to start where cores are few."""
    done(spark.range(0, 12 * SLOTS, 1, 12 * SLOTS).where(F.expr(f"{java_sleep(f'{400 + 10 * seed}L')} is not null")))


def few_tasks(spark: SparkSession, seed: int, _: Path) -> None:
    done(spark.range(0, 80, 1, 2 + seed % 2).mapInArrow(slept(lambda _: 0.08), _AS_WIDE))


def even_work(spark: SparkSession, _: int, __: Path) -> None:
    done(spark.range(0, 160, 1, SLOTS).mapInArrow(slept(lambda _: 0.1), _AS_WIDE))


def waiting(spark: SparkSession, seed: int, _: Path) -> None:
    """A task of Spark's own operators waits for something that is not its rows."""
    how_long = java_sleep(f"if(id = {seed % SLOTS}, 4000L, 500L)")
    done(spark.range(0, SLOTS, 1, SLOTS).where(F.expr(f"{how_long} is not null")))


def read_schema(spark: SparkSession, seed: int, folder: Path) -> None:
    """A CSV file in one piece, whose types Spark finds out in one task."""
    path = folder / f"lines {seed}.csv"
    if not path.exists():
        path.write_text(
            "a,b,c,d\n" + "".join(f"{i},{i * 7 % 1000},2024-01-{i % 28 + 1:02d},word {i}\n" for i in range(250_000))
        )
    spark.read.option("header", "true").option("inferSchema", "true").option("multiLine", "true").csv(str(path))


def list_files(spark: SparkSession, seed: int, folder: Path) -> None:
    root = folder / f"listed {seed}"
    for place in range(60):
        (root / f"day={place}").mkdir(parents=True, exist_ok=True)
        (root / f"day={place}" / "x.csv").write_text("1\n")
    spark.read.schema("x int").csv([str(root / f"day={place}") for place in range(60)])


def broadcast(spark: SparkSession, seed: int, _: Path) -> None:
    """The small side of a join comes late, from one task; that is no want of balance."""
    small = spark.range(0, 1, 1, 1).where(F.expr(f"{java_sleep(f'{2500 + 100 * seed}L')} is not null"))
    done(spark.range(0, 1_000, 1, SLOTS).join(F.broadcast(small), "id"))


def joined(spark: SparkSession, seed: int) -> DataFrame:
    weights = even_weights(100, 10)
    weights[seed % SLOTS] = [900, *weights[seed % SLOTS]]
    left = keyed(spark, weights)
    keys = [row.k for row in left.select("k").distinct().collect()]
    right = spark.createDataFrame(pd.DataFrame({"other": keys})).repartition(2)
    return left.join(right, left["k"] == right["other"]).where(F.expr(f"{java_sleep('4L')} is not null"))


def skewed_join(spark: SparkSession, seed: int, _: Path) -> None:
    done(joined(spark, seed))


def skewed_join_split(spark: SparkSession, seed: int, _: Path) -> None:
    """Adaptive execution splits the hot partition, so there is little left to say."""
    done(joined(spark, seed))


def placed_by_evenly(spark: SparkSession, seed: int, _: Path) -> None:
    weights = even_weights(200, 10)
    weights[seed % SLOTS] = weights[seed % SLOTS] * 2
    placed = keyed(spark, weights).transform(evenly.by_key, key="k", instances=SLOTS)
    done(placed.groupBy("k", "slot").applyInPandas(group_slept(0.008), _AS_WIDE))


def retried(spark: SparkSession, seed: int, _: Path) -> None:
    """A task fails after a while and is run again."""

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            time.sleep(2.5)
            if context.partitionId() == seed % 3 and context.attemptNumber() == 0:
                raise RuntimeError("the first attempt fails")
            yield batch

    done(spark.range(0, 3, 1, 3).mapInArrow(function, _AS_WIDE))


def speculated(spark: SparkSession, seed: int, _: Path) -> None:
    """The first attempt of one task hangs, and its copy is as fast as the others."""

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            time.sleep(20.0 if context.partitionId() == seed % 8 and context.attemptNumber() == 0 else 1.2)
            yield batch

    done(spark.range(0, 8, 1, 8).mapInArrow(function, _AS_WIDE))


def tiny_tasks(spark: SparkSession, seed: int, _: Path) -> None:
    """A few thousand rows in hundreds of tasks, each of which is started for a few of them."""
    df = spark.range(0, 4_000 + seed, 1, SLOTS).groupBy((F.col("id") % 2_000).alias("k")).agg(F.sum("id").alias("id"))
    done(df)


def collecting_garbage(spark: SparkSession, seed: int, _: Path) -> None:
    """Rows alike and their work alike, but in one task Java collects its garbage again and again."""
    low = 40 * (seed % SLOTS)
    collected = "java_method('java.lang.System', 'gc')"
    told = spark.range(0, 40 * SLOTS, 1, SLOTS).where(F.expr(f"{java_sleep('15L')} is not null"))
    done(told.select(F.expr(f"if(id >= {low} and id < {low + 40}, {collected}, 'none') as gc")))


def on_slow_host(spark: SparkSession, seed: int, _: Path) -> None:
    """The same work on two executors, of which one takes three times as long: its Python workers live in its folder."""

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        slow = Path.cwd().name == str(seed % 2)
        for batch in batches:
            time.sleep((0.6 if slow else 0.2) * batch.num_rows)
            yield batch

    done(spark.range(0, 80, 1, 8).mapInArrow(function, _AS_WIDE))


def warm_up(spark: SparkSession, _: int, __: Path) -> None:
    done(spark.range(0, 4 * SLOTS, 1, 4 * SLOTS).mapInArrow(slept(lambda _: 0.05), _AS_WIDE))


def _of(*causes: str) -> frozenset[str]:
    return frozenset(causes)


_UNMERGED = (("spark.sql.adaptive.enabled", "false"),)
_SMALL_BUFFER = (
    ("spark.sql.windowExec.buffer.in.memory.threshold", "50"),
    ("spark.sql.windowExec.buffer.spill.threshold", "100"),
)
_SHUFFLED = (("spark.sql.autoBroadcastJoinThreshold", "-1"),)
_MERGED = (("spark.sql.shuffle.partitions", "40"), ("spark.sql.adaptive.coalescePartitions.minPartitionSize", "1b"))
_SPLIT = (
    *_SHUFFLED,
    ("spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes", "200b"),
    ("spark.sql.adaptive.skewJoin.skewedPartitionFactor", "2"),
    ("spark.sql.adaptive.advisoryPartitionSizeInBytes", "400b"),
    ("spark.sql.adaptive.coalescePartitions.enabled", "false"),
)
_LISTED = (("spark.sql.sources.parallelPartitionDiscovery.threshold", "1"),)
_ONE_FILE_A_TASK = (("spark.sql.files.openCostInBytes", "128MB"),)

LOCAL = (
    Case("cold executor", warm_up, allowed=_of("cold executors")),
    Case("uneven keys", uneven_keys, _of("keys")),
    Case("hot key", hot_key, _of("hot key")),
    Case("hot key of a window", hot_window, _of("hot key"), settings=_UNMERGED),
    Case("spilled window", spilled_window, _of("spill"), settings=(*_UNMERGED, *_SMALL_BUFFER)),
    Case("equal keys, merged", equal_keys_merged, allowed=_of("rows", "last round"), settings=_MERGED),
    Case("merged too far", merged_too_far, _of("too few tasks")),
    Case("uneven parts", uneven_parts, _of("rows")),
    Case("uneven files", uneven_files, _of("rows"), settings=_ONE_FILE_A_TASK),
    Case("slow Python rows", slow_rows, _of("cost")),
    Case("slow rows of a UDF", slow_udf, _of("cost")),
    Case("slow rows of an RDD", slow_rdd, _of("cost")),
    Case("one task too many", equal_rounds(SLOTS + 1), _of("last round")),
    Case("three tasks too many", equal_rounds(2 * SLOTS + 3), _of("last round")),
    Case("full rounds", equal_rounds(2 * SLOTS)),
    Case("too few tasks", few_tasks, _of("too few tasks")),
    Case("even work", even_work),
    Case("a task that waits", waiting, _of("waiting")),
    Case("schema inference", read_schema),
    Case("listing files", list_files, settings=_LISTED),
    Case("broadcast", broadcast),
    Case("skewed join", skewed_join, _of("hot key"), settings=(*_SHUFFLED, *_UNMERGED)),
    Case("skewed join, split", skewed_join_split, allowed=_of("rows", "last round", "keys"), settings=_SPLIT),
    Case("placed by Evenly", placed_by_evenly),
)
SIZES = (
    Case("cold executor", warm_up, allowed=_of("cold executors")),
    Case("too many tasks", tiny_tasks, _of("too many tasks"), settings=(*_UNMERGED, ("spark.sql.shuffle.partitions", "800"))),
    Case("many short tasks", many_short),
    Case("garbage collection", collecting_garbage, _of("garbage collection")),
)
CLUSTER = (
    Case("cold executors", warm_up, allowed=_of("cold executors")),
    Case("retried task", retried, _of("failed tasks")),
    Case("speculation", speculated, allowed=_of("last round")),
)
SLOW_HOST = (
    Case("cold executors", warm_up, allowed=_of("cold executors")),
    Case("slow host, first stage", on_slow_host, _of("slow executor")),
    Case("slow host, second stage", on_slow_host, _of("slow executor")),
)
APPLICATIONS = {"local": LOCAL, "sizes": SIZES, "cluster": CLUSTER, "slow host": SLOW_HOST}


def run_application(folder: Path, application: str, seed: int) -> None:
    """Run the cases of an application one after another; its event log is then in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.resolve().as_uri()}
    with ExitStack() as at_the_end:
        if application == "slow host":
            settings |= {"spark.master": "local-cluster[2,4,1024]", "spark.executor.memory": "512m"}
        if application == "cluster":
            # Spark starts no copy of a task on the host of the first: so workers on addresses of their own.
            cluster = Cluster(Path(at_the_end.enter_context(tempfile.TemporaryDirectory())))
            at_the_end.callback(cluster.close)
            settings |= {"spark.master": cluster.address, "spark.executor.memory": "512m"}
            settings |= {"spark.speculation": "true", "spark.speculation.quantile": "0.5"}
        _run_cases(folder, application, seed, settings)


def _run_cases(folder: Path, application: str, seed: int, settings: dict[str, str]) -> None:
    spark = local_session(f"{application} #{seed}", slots=SLOTS, memory="1g", settings=settings)
    data = folder.parent / "data"
    data.mkdir(exist_ok=True)
    try:
        for case in APPLICATIONS[application]:
            before = {name: spark.conf.get(name, None) for name, _ in case.settings}
            for name, value in case.settings:
                spark.conf.set(name, value)
            spark.sparkContext.setJobDescription(f"{case.name} #{seed}")
            case.run(spark, seed, data)
            for name, old in before.items():
                if old is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, old)
    finally:
        spark.stop()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    run_application(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
