"""Writing by key, one key with half of the rows: time and sizes of files, by Evenly, repartition and the rebalance hint.

python benchmarks/writing.py [--rows 4000000] [--instances 8] [--rows-per-file 100000] [--rounds 1] [--json]

Every way writes Parquet with partitionBy; ratios are to repartition(key) with maxRecordsPerFile. Ways take turns, another one
first in each round. What is written is counted.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, DataFrameWriter
from pyspark.sql import functions as F

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.spark.session import local_session


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--rows-per-file", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    instances, target = options.instances, options.rows_per_file
    spark = local_session("evenly benchmark", memory="3g", settings={"spark.sql.shuffle.partitions": str(instances)})
    key = F.when(F.col("id") % 2 == 0, F.lit("hot")).otherwise(F.concat(F.lit("key "), F.pmod(F.xxhash64("id"), F.lit(40))))
    df = spark.range(0, options.rows, 1, instances).select(
        key.alias("key"), "id", F.sha2(F.col("id").cast("string"), 256).alias("text")
    )
    df = df.persist()
    df.count()
    mapping = evenly.learn_mapping(df, key="key", instances=instances)

    def limited(placed: DataFrame) -> DataFrameWriter:
        return placed.write.option("maxRecordsPerFile", target).partitionBy("key")

    ways: dict[str, Callable[[], DataFrameWriter]] = {
        "repartition": lambda: limited(df.repartition(instances, "key")),
        "rebalance": lambda: limited(df.hint("rebalance", "key")),
        "by_key": lambda: limited(evenly.by_key(df, key="key", instances=instances, slot=None)),
        "write_by_key": lambda: evenly.write_by_key(df, key="key", instances=instances, rows_per_file=target),
        "write_by_key, given": lambda: evenly.write_by_key(
            df, key="key", instances=instances, rows_per_file=target, mapping=mapping
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    sizes: dict[str, list[int]] = {}
    order = list(ways)
    for turn in range(-1, options.rounds):  # the first warms up
        first = turn % len(order)
        for name in (*order[first:], *order[:first]):
            with tempfile.TemporaryDirectory() as folder:
                started = time.perf_counter()
                ways[name]().mode("overwrite").parquet(folder)
                if turn >= 0:
                    seconds[name].append(time.perf_counter() - started)
                sizes[name] = sorted(pq.ParquetFile(file).metadata.num_rows for file in Path(folder).rglob("*.parquet"))
            if sum(sizes[name]) != options.rows:
                sys.exit(f"{name}: {sum(sizes[name])} rows were written of {options.rows}")
    spark.stop()
    base = statistics.median(seconds["repartition"])
    results: list[dict[str, object]] = [
        {
            "series": name,
            "instances": instances,
            "baseline": "repartition",
            "seconds": statistics.median(seconds[name]),
            "ratio": statistics.median(seconds[name]) / base,
            "files": len(sizes[name]),
            "small_files": sum(rows < target / 10 for rows in sizes[name]),
            "rows_of_largest": sizes[name][-1],
        }
        for name in ways
    ]
    if options.json:
        print_json("writing", {"rows": options.rows, "rows_per_file": target, "rounds": options.rounds}, results)
        return
    print("| way | s | ratio | files | below a tenth of the target | rows of the largest |\n|---|---|---|---|---|---|")
    for row in results:
        told = f"{row['files']} | {row['small_files']} | {row['rows_of_largest']:,}"
        print(f"| {row['series']} | {row['seconds']:.2f} | {row['ratio']:.2f} | {told} |")


if __name__ == "__main__":
    main()
