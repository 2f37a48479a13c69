"""Whole jobs with a mapping that is remembered, given, or learnt each time; and λ of the runs after keys have changed.

python benchmarks/remember.py [FOLDER] [--rows 4000000] [--instances 8] [--rounds 7] [--json]

A job places cached rows by key, sorts each instance and throws the rows away: no Python, so whatever the bookkeeping takes
shows. The three ways take turns, another one first in each round; told are medians of the ratios of each round to the job that
was given its mapping. Then, for every recorded stream in FOLDER (and one that is made here), a mapping is remembered of the
first part of it, and three runs follow with the last part: λ of what they carried, beside that of a fresh mapping.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.remembered import Remembered
from evenly.spark.jvm.outcomes import settle
from evenly.spark.session import local_session
from recorded_keys import recorded_keys

_PART = 60_000
"""Rows of the first and the last part of a stream."""
_RUNS = 3


def zipf_rows(spark: SparkSession, rows: int) -> DataFrame:
    """Keys of a Zipf-like stream, most of them rare, with a payload."""
    keys = "cast(pow(200000D, rand(7)) as int)"
    return (
        spark.range(rows)
        .selectExpr(f"concat('user ', {keys}) as key", "id", "rand(11) as value")
        .repartition(4, "id")
        .persist()
    )


def job(df: DataFrame, instances: int, how: dict[str, object]) -> float:
    """The seconds of a whole job, the call included."""
    start = time.perf_counter()
    placed = evenly.by_key(df, key="key", instances=instances, slot=None, **how)  # type: ignore[arg-type] # one way's options
    placed.sortWithinPartitions("key").write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def whole_jobs(spark: SparkSession, rows: int, instances: int, rounds: int, folder: str) -> Iterator[dict[str, object]]:
    """Each way's seconds, and their ratio to those of the job that was given the mapping."""
    df = zipf_rows(spark, rows)
    df.count()
    ways: dict[str, dict[str, object]] = {
        "given": {"mapping": evenly.learn_mapping(df, key="key", instances=instances)},
        "remembered": {"remember": folder},
        "learnt": {},
    }
    for how in ways.values():
        job(df, instances, how)
    took: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for turn in range(rounds):
        for name in names[turn % 3 :] + names[: turn % 3]:
            took[name].append(job(df, instances, ways[name]))
    for name, seconds in took.items():
        ratios = [one / other for one, other in zip(seconds, took["given"], strict=True)]
        yield {
            "series": "job",
            "x": name,
            "instances": instances,
            "rows": rows,
            "seconds": statistics.median(seconds),
            "ratio": statistics.median(ratios),
            "baseline": "given",
        }
    df.unpersist()


def drifts(spark: SparkSession, name: str, keys: pa.Array, instances: int, folder: str) -> Iterator[dict[str, object]]:
    """λ of runs over the last part of a stream, whose first part was learnt."""
    size = min(_PART, len(keys) // 2)
    parts = [keys.slice(0, size), keys.slice(len(keys) - size, size)]
    first, last = (spark.createDataFrame(pa.table({"key": part.cast(pa.string())})).persist() for part in parts)
    fresh = evenly.learn_mapping(last, key="key", instances=instances).fitted_imbalance_pct
    for df in (first, *[last] * _RUNS):
        job(df, instances, {"remember": folder})
    settle(spark)
    (path,) = Path(folder).glob("*.json")
    for number, run in enumerate(Remembered.load(path).runs[1:], start=1):
        yield {
            "series": name,
            "x": number,
            "instances": instances,
            "rows": size,
            "imbalance_pct_rows": run.carried_pct,
            "imbalance_pct_evenly": fresh,
            "why": f"{run.did}, {run.judged}",
        }
    first.unpersist()
    last.unpersist()


def streams(folder: Path | None) -> Iterator[tuple[str, pa.Array]]:
    draw = np.random.default_rng(3)
    ranks = np.minimum(draw.zipf(1.3, 2 * _PART), 50_000)
    ranks[_PART:] = 50_000 - ranks[_PART:]  # other keys are hot
    yield "zipf-1.3, turned round", pa.array(ranks.astype(str))
    if folder is not None:
        yield from recorded_keys(folder)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    spark = local_session("remember", slots=2, memory="3g", settings={"spark.sql.adaptive.enabled": "false"})
    say: Callable[[str], object] = (lambda _: None) if given.json else (lambda text: print(text, flush=True))
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for result in whole_jobs(spark, given.rows, given.instances, given.rounds, f"{folder}/jobs"):
            results.append(result)
            say(f"{result['x']:>12}  {result['seconds']:7.2f} s  {result['ratio']:6.3f} of given")
        for number, (name, keys) in enumerate(streams(given.folder)):
            for result in drifts(spark, name, keys, given.instances, f"{folder}/{number}"):
                results.append(result)
                lambdas = f"λ {result['imbalance_pct_rows']:6.1f} %, fresh {result['imbalance_pct_evenly']:6.1f} %"
                say(f"{name:>24}  run {result['x']} after the change  {lambdas}  {result['why']}")
    if given.json:
        parameters = {"rows": given.rows, "instances": given.instances, "rounds": given.rounds}
        print_json("benchmark remember", parameters, results)
    spark.stop()


if __name__ == "__main__":
    main()
