"""A grouped function over many small groups: `apply_by_key` beside Spark's own ways, in turn in one run.

python benchmarks/many_groups.py [--groups 100000] [--rows 5] [--rounds 2] [--json]

Learning the mapping is part of the time of `apply_by_key`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.spark.session import local_session

INSTANCES = 4
SCHEMA = "user string, total bigint, mean double"
TARGETS = {"apply_by_key": 3.0}


def make_rows(spark: SparkSession, groups: int, rows: int) -> DataFrame:
    """`groups` users of about `rows` rows each, in no order."""
    user = F.concat(F.lit("user-"), F.pmod(F.xxhash64("id"), F.lit(groups)))
    df = spark.range(groups * rows, numPartitions=INSTANCES).select(user.alias("user"), F.col("id").alias("amount"))
    df = df.withColumn("price", F.col("amount") / 7).persist()
    df.count()
    return df


def summary(group: pd.DataFrame) -> pd.DataFrame:
    """What a user would write, without effort to be fast."""
    total, mean = group["amount"].sum(), group["price"].mean()
    return pd.DataFrame({"user": [group["user"].iloc[0]], "total": [total], "mean": [mean]})


def summary_of_table(group: pa.Table) -> pa.Table:
    total = pa.array([pc.sum(group["amount"]).as_py()], pa.int64())
    mean = pa.array([pc.mean(group["price"]).as_py()], pa.float64())
    return pa.table({"user": group["user"].slice(0, 1), "total": total, "mean": mean})


def run(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def ways(df: DataFrame) -> dict[str, tuple[str, Callable[[], object]]]:
    """Each way with the name of its baseline."""
    grouped = df.groupBy("user")

    def ours(function: Callable[..., object], *, arrow: bool = False) -> None:
        run(evenly.apply_by_key(df, function, SCHEMA, key="user", instances=INSTANCES, arrow=arrow))

    return {
        "applyInPandas": ("", lambda: run(grouped.applyInPandas(summary, SCHEMA))),
        "apply_by_key": ("applyInPandas", lambda: ours(summary)),
        "applyInArrow": ("", lambda: run(grouped.applyInArrow(summary_of_table, SCHEMA))),
        "apply_by_key, arrow": ("applyInArrow", lambda: ours(summary_of_table, arrow=True)),
    }


def measure(df: DataFrame, groups: int, rounds: int) -> list[dict[str, object]]:
    """All ways in turn, `rounds` times; the median time of each. `ratio` is how many times faster than the baseline."""
    timed = ways(df)
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for turn in range(rounds):
        for name, (_, way) in timed.items():
            started = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - started)
            print(f"round {turn + 1} of {rounds}: {name} {seconds[name][-1]:.1f} s", file=sys.stderr, flush=True)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    return [
        {
            "series": name,
            "instances": INSTANCES,
            "groups": groups,
            "seconds": median[name],
            "baseline": baseline or None,
            "ratio": median[baseline] / median[name] if baseline else None,
        }
        for name, (baseline, _) in timed.items()
    ]


def show(results: list[dict[str, object]], groups: int) -> None:
    table = Table(title=f"{groups:,} groups: median seconds, and how many times faster than Spark's own", title_justify="left")
    for heading in ("way", "seconds", "baseline", "times faster", "wanted"):
        table.add_column(heading)
    for row in results:
        wanted, ratio = TARGETS.get(str(row["series"])), row["ratio"]
        shown = f"{ratio:.1f}" if isinstance(ratio, float) else ""
        met = isinstance(ratio, float) and wanted is not None and ratio >= wanted
        verdict = "" if wanted is None else f">= {wanted:g} {'met' if met else 'not met'}"
        table.add_row(str(row["series"]), f"{row['seconds']:.1f}", str(row["baseline"] or ""), shown, verdict)
    Console().print(table)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=5, help="rows per group")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    spark = local_session("evenly benchmark", slots=2, memory="2g", settings={"spark.sql.shuffle.partitions": str(INSTANCES)})
    results = measure(make_rows(spark, options.groups, options.rows), options.groups, options.rounds)
    spark.stop()
    if options.json:
        parameters = {"groups": options.groups, "rows": options.rows, "rounds": options.rounds}
        print_json("many_groups", parameters, results)
    else:
        show(results, options.groups)


if __name__ == "__main__":
    main()
