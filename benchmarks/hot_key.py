"""One key with half of the rows, 8 instances, 8 slots: a grouped function that waits for each row, and Spark's own aggregates.

python benchmarks/hot_key.py [--rows 48000] [--wait-ms 0.2] [--json]

No placement of whole keys helps here: the hot key alone takes four times an instance's share. The bound is the sum of all
waits over the instances. The wait stands for a call to a service; it lets 8 slots overlap on fewer cores.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.keys.hot_keys import split_hot_keys
from evenly.spark.session import local_session

INSTANCES = 8
LIGHT_KEYS = 400
NATIVE_ROWS = 10_000_000
SCHEMA = "rows bigint, total bigint, most bigint"

Partial = tuple[str, int, int, int]


def rows_with_a_hot_key(spark: SparkSession, rows: int) -> DataFrame:
    """Every second row of the key "hot", the others of light keys; kept in memory."""
    light = F.concat(F.lit("key "), F.pmod(F.xxhash64("id"), F.lit(LIGHT_KEYS)))
    key = F.when(F.col("id") % 2 == 0, F.lit("hot")).otherwise(light)
    made = spark.range(0, rows, 1, INSTANCES).select(key.alias("key"), (F.col("id") * 7919 % 10_007).alias("amount"), "id")
    made = made.persist()
    made.count()
    return made


def partial_that_waits(wait_s: float) -> Callable[[pd.DataFrame], Partial]:
    def partial(rows: pd.DataFrame) -> Partial:
        time.sleep(len(rows) * wait_s)
        return str(rows["key"].iloc[0]), len(rows), int(rows["amount"].sum()), int(rows["amount"].max())

    return partial


def merged(partials: list[Any]) -> pd.DataFrame:
    _, rows, totals, most = zip(*partials, strict=True)
    return pd.DataFrame({"rows": [sum(rows)], "total": [sum(totals)], "most": [max(most)]})


def grouped_ways(df: DataFrame, wait_s: float) -> dict[str, Callable[[], DataFrame]]:
    """The same result in five ways. The mapping is learnt beforehand, but for the last."""
    partial = partial_that_waits(wait_s)
    mapping = evenly.learn_mapping(df, key="key", instances=INSTANCES)
    merging = evenly.Merging(partial=partial, merge=merged, schema=SCHEMA)

    def whole(group: pd.DataFrame) -> pd.DataFrame:
        return merged([partial(group)]).assign(key=group["key"].iloc[0])

    def salted_part(group: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame([partial(group)], columns=["key", "rows", "total", "most"])

    def salted_merge(parts: pd.DataFrame) -> pd.DataFrame:
        return merged(list(parts.itertuples(index=False, name=None))).assign(key=parts["key"].iloc[0])

    with_key = f"key string, {SCHEMA}"
    salt = F.when(F.col("key") == "hot", F.pmod(F.xxhash64("id"), F.lit(INSTANCES))).otherwise(F.lit(0))
    return {
        "groupBy(key).applyInPandas": lambda: df.groupBy("key").applyInPandas(whole, with_key),
        "by_key, whole keys": lambda: (
            evenly.by_key(df, key="key", instances=INSTANCES, mapping=mapping)
            .groupBy("key", "slot")
            .applyInPandas(whole, with_key)
        ),
        "hot key salted by hand, merged": lambda: (
            df.withColumn("salt", salt)
            .groupBy("key", "salt")
            .applyInPandas(salted_part, with_key)
            .groupBy("key")
            .applyInPandas(salted_merge, with_key)
        ),
        "aggregate_by_key, dkg+pkg": lambda: evenly.aggregate_by_key(
            df, merging, key="key", instances=INSTANCES, mapping=split_hot_keys(mapping)
        ),
        "aggregate_by_key, w-choices": lambda: evenly.aggregate_by_key(
            df, merging, key="key", instances=INSTANCES, mapping=split_hot_keys(mapping, way="w-choices")
        ),
        "aggregate_by_key, learning included": lambda: evenly.aggregate_by_key(df, merging, key="key", instances=INSTANCES),
    }


def native_ways(spark: SparkSession) -> dict[str, Callable[[], DataFrame]]:
    """Spark's own aggregates as they are, and with the rows placed first: is it worth it?"""
    df = rows_with_a_hot_key(spark, NATIVE_ROWS)
    mapping = split_hot_keys(evenly.learn_mapping(df, key="key", instances=INSTANCES))
    sums = (F.count("*").alias("rows"), F.sum("amount").alias("total"), F.max("amount").alias("most"))

    def placed_first() -> DataFrame:
        placed = evenly.split_by_key(df, key="key", instances=INSTANCES, mapping=mapping)
        parts = placed.groupBy("key", "part").agg(*sums)
        return parts.groupBy("key").agg(F.sum("rows").alias("rows"), F.sum("total").alias("total"), F.max("most").alias("most"))

    return {
        "groupBy(key).agg": lambda: df.groupBy("key").agg(*sums),
        "aggregate_by_key": lambda: evenly.aggregate_by_key(df, *sums, key="key", instances=INSTANCES),
        "split_by_key, agg, merge": placed_first,
    }


def measure(ways: dict[str, Callable[[], DataFrame]], rounds: int) -> dict[str, float]:
    """All ways in turn after a round of warm-up: the median seconds of each. All must give the same rows."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        results = set()
        for name, way in ways.items():
            started = time.perf_counter()
            found = way().select("key", "rows", "total", "most").collect()
            if turn:
                seconds[name].append(time.perf_counter() - started)
            print(f"round {turn} {name}: {time.perf_counter() - started:.1f} s", file=sys.stderr)
            results.add(tuple(sorted(tuple(row) for row in found)))
        if len(results) != 1:
            sys.exit("the ways disagree on the result")
    return {name: statistics.median(values) for name, values in seconds.items()}


def told(stream: str, seconds: dict[str, float], baseline: str, base_s: float) -> list[dict[str, object]]:
    common = {"stream": stream, "instances": INSTANCES, "baseline": baseline}
    return [{**common, "series": name, "seconds": taken, "ratio": taken / base_s} for name, taken in seconds.items()]


def show(results: list[dict[str, object]]) -> None:
    table = Table(title="Median seconds, and ratio to the baseline of the same run", title_justify="left")
    for heading in ("stream", "way", "seconds", "baseline", "ratio"):
        table.add_column(heading)
    for row in results:
        table.add_row(
            str(row["stream"]), str(row["series"]), f"{row['seconds']:.2f}", str(row["baseline"]), f"{row['ratio']:.2f}"
        )
    Console().print(table)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--rows", type=int, default=48_000)
    parser.add_argument("--wait-ms", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    # Adaptive execution would put small partitions together into one task, and plain Spark would look worse than it must.
    spark = local_session(
        "evenly hot key", slots=INSTANCES, settings={"spark.sql.adaptive.coalescePartitions.enabled": "false"}
    )
    print("measuring the grouped function", file=sys.stderr)
    grouped = measure(grouped_ways(rows_with_a_hot_key(spark, options.rows), options.wait_ms / 1e3), options.rounds)
    bound_s = options.rows * options.wait_ms / 1e3 / INSTANCES
    results = told("grouped function", grouped, "total wait / instances", bound_s)
    print("measuring Spark's own aggregates", file=sys.stderr)
    native = measure(native_ways(spark), options.rounds)
    results += told("count, sum, max", native, "groupBy(key).agg", native["groupBy(key).agg"])
    spark.stop()
    if options.json:
        parameters = {"rows": options.rows, "wait_ms": options.wait_ms, "rounds": options.rounds}
        print_json("hot_key", parameters, results)
    else:
        show(results)


if __name__ == "__main__":
    main()
