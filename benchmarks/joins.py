"""Joins of recorded, skewed keys with sides that are not broadcast, with and without a Python function that waits after them.

python benchmarks/joins.py FOLDER [--instances 8,16] [--rows 60000] [--rounds 1] [--pairs wyscout,...] [--json]

FOLDER has the recorded streams (wyscout_events, flights3m, congress_mentions, debian_dep_refs as .parquet). The other side of
each pair has a row for each key, and as many keys again that nobody has, each with a payload; broadcasting is switched off but
for the way that is called so. The bound is all waits over the instances; without a function it is the best time of all ways.
Every way's whole job is timed, learning included, and its result is checked. Ways take turns, another one first in each round.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.spark.session import local_session
from recorded_keys import recorded_keys

PAIRS = {
    "wyscout_events.player": "events x players",
    "wyscout_events.sub": "events x kinds",
    "flights3m.key": "flights x airports",
    "congress_mentions.key": "mentions x members",
    "debian_dep_refs.key": "dependencies x packages",
}
WAIT_S_PER_INSTANCE = 62.5e-6
"""The wait a row times the instances: with 60,000 rows the bound is 3.75 s whatever their number."""
REPEATED = 16
"""How many times the rows are taken for the join without a function after it."""

Way = Callable[[DataFrame, DataFrame], DataFrame]
Settings = dict[str, object]


class Pair:
    """Two cached sides, with what is known of them beforehand."""

    def __init__(self, spark: SparkSession, name: str, keys: pa.Array, rows: int) -> None:
        step = max(1, len(keys) // rows)
        chosen = keys.take(pa.array(np.arange(0, step * min(rows, len(keys)), step))).cast(pa.string())
        distinct = pc.unique(chosen).to_pylist()
        others = [*distinct, *(f"nobody's {at}" for at in range(len(distinct)))]
        self.name = name
        left = pa.table({"key": chosen, "value": np.arange(len(chosen), dtype=np.int64)})
        right = pa.table({"key": others, "payload": [f"{key} " * 8 for key in others]})
        self.left = spark.createDataFrame(left).repartition(4, "value").persist()
        self.right = spark.createDataFrame(right).repartition(4, "payload").persist()
        self.rows = self.left.count()
        self.right.count()
        self.counts = {it["values"]: it["counts"] for it in chosen.value_counts().to_pylist()}

    def hot(self, share: float) -> list[str]:
        return [key for key, count in self.counts.items() if count > share * self.rows]

    def drop(self) -> None:
        self.left.unpersist()
        self.right.unpersist()


def ways(pair: Pair, instances: int, mapping: evenly.Mapping) -> dict[str, tuple[Way, Settings]]:
    """Each way with the settings it runs under."""
    plain: Settings = {
        "spark.sql.adaptive.enabled": False,
        "spark.sql.shuffle.partitions": instances,
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.coalescePartitions.enabled": True,
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "5.0",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "256MB",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64MB",
    }
    adaptive = plain | {"spark.sql.adaptive.enabled": True}
    bytes_each = max(1, pair.rows * 24 // instances)
    tuned = adaptive | {
        "spark.sql.adaptive.coalescePartitions.enabled": False,
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.1",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": f"{bytes_each}b",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": f"{bytes_each}b",
    }

    def joined(left: DataFrame, right: DataFrame) -> DataFrame:
        return left.join(right, "key")

    def salted(left: DataFrame, right: DataFrame) -> DataFrame:
        hot = F.col("key").isin(pair.hot(0.5 / instances))
        one = left.withColumn("salt", F.when(hot, F.pmod(F.xxhash64("value"), F.lit(instances))).otherwise(F.lit(0)))
        salts = F.when(hot, F.sequence(F.lit(0), F.lit(instances - 1))).otherwise(F.array(F.lit(0)))
        return one.join(right.withColumn("salt", F.explode(salts.cast("array<bigint>"))), ["key", "salt"]).drop("salt")

    def broadcast(left: DataFrame, right: DataFrame) -> DataFrame:
        return left.repartition(instances).join(F.broadcast(right), "key")

    def placed(left: DataFrame, right: DataFrame) -> DataFrame:
        learnt = evenly.learn_mapping(left, key="key", instances=instances)
        one, two = (evenly.by_key(df, key="key", instances=instances, mapping=learnt) for df in (left, right))
        return one.join(two, ["key", "slot"]).drop("slot")

    by_key = partial(evenly.join_by_key, on="key", instances=instances, split="left")
    return {
        "hash": (joined, plain),
        "adaptive": (joined, adaptive),
        "adaptive, tuned": (joined, tuned),
        "salting": (salted, plain),
        "broadcast": (broadcast, plain),
        "by_key on both": (placed, plain),
        "join_by_key": (by_key, adaptive),
        "join_by_key, given": (partial(by_key, mapping=mapping), adaptive),
    }


def waiting(wait_s: float, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The function after the join: a wait for each row."""
    for frame in frames:
        time.sleep(len(frame) * wait_s)
        yield pd.DataFrame({"n": [len(frame)], "total": [int(frame["value"].sum())]})


def timed(spark: SparkSession, pair: Pair, way: Way, settings: Settings, wait_s: float | None) -> float:
    """Seconds of the whole job, its result checked; without a wait the rows are taken several times and only joined."""
    for name, value in settings.items():
        spark.conf.set(name, str(value).lower() if isinstance(value, bool) else str(value))
    left = pair.left
    if wait_s is None:
        left = left.withColumn("again", F.explode(F.sequence(F.lit(1), F.lit(REPEATED))))
    started = time.perf_counter()
    joined = way(left, pair.right)
    if wait_s is None:
        summed = joined.select(F.count("payload"), F.sum("value"), F.sum(F.length("payload")))
        rows, total, _ = summed.collect()[0]
        times = REPEATED
    else:
        found = joined.mapInPandas(partial(waiting, wait_s), "n bigint, total bigint").collect()
        rows, total, times = sum(it["n"] for it in found), sum(it["total"] for it in found), 1
    seconds = time.perf_counter() - started
    if (rows, total) != (times * pair.rows, times * pair.rows * (pair.rows - 1) // 2):
        sys.exit(f"{pair.name}: a wrong join")
    return seconds


def measured(spark: SparkSession, pair: Pair, instances: int, rounds: int) -> Iterator[dict[str, object]]:
    """Every way in turn, `rounds` times, with and without the function."""
    mapping = evenly.learn_mapping(pair.left, key="key", instances=instances)
    named = ways(pair, instances, mapping)
    order = list(named)
    for wait_s, after in ((WAIT_S_PER_INSTANCE * instances, "function"), (None, "nothing")):
        runs: dict[str, list[float]] = {name: [] for name in order}
        for turn in range(rounds):
            first = turn % len(order)
            for name in (*order[first:], *order[:first]):
                way, settings = named[name]
                runs[name].append(timed(spark, pair, way, settings, wait_s))
        medians = {name: statistics.median(each) for name, each in runs.items()}
        bound_s = min(medians.values()) if wait_s is None else pair.rows * wait_s / instances
        for name, seconds in medians.items():
            yield {
                "stream": pair.name,
                "operator": f"join, then {after}",
                "series": name,
                "instances": instances,
                "baseline": "the best of all ways" if wait_s is None else "all work over the instances",
                "bound_s": bound_s,
                "seconds": seconds,
                "ratio": seconds / bound_s,
                "ratio_to_hash": seconds / medians["hash"],
            }


def show(results: list[dict[str, object]]) -> None:
    """A Markdown table for each thing done after the join, and the bars."""
    names = list(dict.fromkeys(str(row["series"]) for row in results))
    for after in dict.fromkeys(str(row["operator"]) for row in results):
        rows = [row for row in results if row["operator"] == after]
        print(f"\n{after}: whole job, ratio to {rows[0]['baseline']}\n")
        print(f"| pair | instances | bound s | {' | '.join(names)} |\n|---|---|---|{'---|' * len(names)}")
        for case in dict.fromkeys((row["stream"], row["instances"]) for row in rows):
            here = {str(row["series"]): row for row in rows if (row["stream"], row["instances"]) == case}
            ratios = {name: float(str(here[name]["ratio"])) for name in names}
            best = min(ratios.values())
            cells = " | ".join(f"**{ratio:.2f}**" if ratio == best else f"{ratio:.2f}" for ratio in ratios.values())
            print(f"| {case[0]} | {case[1]} | {float(str(here[names[0]]['bound_s'])):.2f} | {cells} |")
    given = [row for row in results if row["series"] == "join_by_key, given"]
    waited = [row for row in given if row["operator"] == "join, then function"]
    learnt = [row for row in results if row["series"] == "join_by_key"]
    for text, rows, most, field in (
        ("with the mapping given at most 1.25 of all work over the instances", waited, 1.25, "ratio"),
        ("with the mapping given at most 1.05 of the plain join", given, 1.05, "ratio_to_hash"),
        ("with learning at most 1.05 of the plain join", learnt, 1.05, "ratio_to_hash"),
    ):
        kept = sum(float(str(row[field])) <= most for row in rows)
        print(f"\n{text}: {kept} of {len(rows)}")


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--instances", default="8,16")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--pairs", default="", help="only pairs whose key column's name holds one of these, separated by commas"
    )
    options = parser.parse_args()
    results: list[dict[str, object]] = []
    for instances in (int(text) for text in options.instances.split(",")):
        spark = local_session("evenly benchmark", slots=instances, memory="3g")
        warm = False
        for stream, keys in recorded_keys(options.folder):
            if stream not in PAIRS or not any(wanted in stream for wanted in options.pairs.split(",")):
                continue
            name = f"{PAIRS[stream]} ({stream})"
            if not warm:
                warm = True
                few = Pair(spark, name, keys, 2_000)
                list(measured(spark, few, instances, 1))
                few.drop()
            print(f"measuring {name} at {instances} instances", file=sys.stderr)
            pair = Pair(spark, name, keys, options.rows)
            found = list(measured(spark, pair, instances, options.rounds))
            print("  " + ", ".join(f"{row['series']} {row['ratio']:.2f}" for row in found), file=sys.stderr)
            results += found
            pair.drop()
        spark.stop()
    if options.json:
        print_json("joins", {"rows": options.rows, "rounds": options.rounds}, results)
    else:
        show(results)


if __name__ == "__main__":
    main()
