"""What learning and placement cost on Spark, beside plain Spark, measured in turn in one run.

python benchmarks/spark_placement.py [--rows 10000000] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import evenly
from evenly.spark.session import local_session

INSTANCES = 16
TARGETS = {"placed with slot": 1.25, "learning": 0.5}


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


def measure(df: DataFrame, stream: str, rounds: int, rows: int) -> list[dict[str, object]]:
    """All ways in turn, `rounds` times after two rounds of warm-up; the median time of each."""
    timed = ways(df)
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
        wanted = TARGETS.get(str(row["series"]))
        ratio = row["ratio"]
        met = isinstance(ratio, float) and wanted is not None and ratio <= wanted
        verdict = "" if wanted is None else f"<= {wanted} {'met' if met else 'not met'}"
        shown = f"{ratio:.2f}" if isinstance(ratio, float) else ""
        table.add_row(
            str(row["stream"]), str(row["series"]), f"{row['seconds']:.2f}", str(row["baseline"] or ""), shown, verdict
        )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: list[dict[str, object]] = []
    spark = local_session("evenly benchmark", slots=2, memory="6g")
    with tempfile.TemporaryDirectory() as folder:
        for stream in ("integer", "text"):
            print(f"measuring {stream} keys", file=sys.stderr)
            df = make_rows(spark, options.rows, Path(folder), text=stream == "text")
            results += measure(df, stream, options.rounds, options.rows)
    spark.stop()
    if options.json:
        told = {"command": "spark_placement", "version": evenly.__version__}
        print(json.dumps({**told, "parameters": {"rows": options.rows, "rounds": options.rounds}, "results": results}))
    else:
        show(results)


if __name__ == "__main__":
    main()
