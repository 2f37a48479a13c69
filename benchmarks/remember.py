"""Whole jobs with a mapping that is remembered, given, or learnt each time; and λ of the runs after keys have changed.

python benchmarks/remember.py [FOLDER] [--sizes 2000000,10000000,30000000] [--instances 8] [--rounds 7]
                              [--parts jobs,costs,drifts] [--ways given,remembered,learnt] [--json]

A job computes so many rows, places them by key, sorts each instance and throws the rows away: no Python, so whatever the
bookkeeping takes shows; what is remembered of "weighed" rows is what they weigh. It ends when all that it writes down is
written. The ways take turns, another one first in each round; told are medians of the ratios of each round to the job that was
given its mapping, where they truly lie with 90 %, and the same of the cpu time of the driver's Python and Java (which are all
there is). So for costs: a cheap function of each row, dealt by a model that is given, remembered, or not known.

Then, for every recorded stream in FOLDER (and one that is made here), a mapping is remembered of the first part of it, and
three runs follow with the last part: λ of what they carried, beside that of a fresh mapping.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import evenly
from arguments import benchmark_parser
from evenly.cli.output import print_json
from evenly.lab.trials.paired import paired_ratio
from evenly.remembered import Remembered
from evenly.spark.jvm.outcomes import settle
from evenly.spark.session import local_session
from recorded_keys import recorded_keys

_PART = 60_000
"""Rows of the first and the last part of a stream."""
_RUNS = 3
_COST_ROWS = 300_000
Jobs = dict[str, Callable[[], None]]


def zipf_rows(spark: SparkSession, rows: int) -> DataFrame:
    """Keys of a Zipf-like stream, most of them rare, with a payload; computed whenever they are read."""
    keys = "cast(pow(200000D, rand(7)) as int)"
    return spark.range(0, rows, 1, 8).selectExpr(f"concat('user ', {keys}) as key", "id", "rand(11) as value")


def key_job(df: DataFrame, instances: int, how: dict[str, object]) -> None:
    """Rows placed by key, the call included."""
    placed = evenly.by_key(df, key="key", instances=instances, slot=None, **how)  # type: ignore[arg-type] # one way's options
    placed.sortWithinPartitions("key").write.format("noop").mode("overwrite").save()


def cost_job(df: DataFrame, instances: int, how: dict[str, object]) -> None:
    """Rows through a function."""
    ran = evenly.apply_by_cost(
        df,
        lambda row: row["id"],
        "id long",
        instances=instances,
        cost_key="kind",
        **how,  # type: ignore[arg-type] # one way's options
    )
    ran.write.format("noop").mode("overwrite").save()


@dataclass(frozen=True)
class Took:
    """What a job took until all was written down, on the clock and of the processors."""

    seconds: float
    cpu_s: float


def took(spark: SparkSession, job: Callable[[], None]) -> Took:
    start, cpu = time.perf_counter(), cpu_s()
    job()
    settle(spark)
    return Took(time.perf_counter() - start, cpu_s() - cpu)


def cpu_s() -> float:
    """Of this process and of all that it has started, Spark's Java among them."""
    own = psutil.Process()
    return float(sum(sum(it.cpu_times()[:2]) for it in (own, *own.children(recursive=True)) if it.is_running()))


def in_turn(spark: SparkSession, series: str, rows: int, rounds: int, jobs: Jobs) -> Iterator[dict[str, object]]:
    """What each way takes, and its ratio to the first one."""
    names = list(jobs)
    for name in names:  # compiled, and remembered
        jobs[name]()
        settle(spark)
    found: dict[str, list[Took]] = {name: [] for name in names}
    for turn in range(rounds):
        at = turn % len(names)
        for name in names[at:] + names[:at]:
            found[name].append(took(spark, jobs[name]))
    for name in names:
        ratio = paired_ratio([it.seconds for it in found[name]], [it.seconds for it in found[names[0]]])
        cpu = paired_ratio([it.cpu_s for it in found[name]], [it.cpu_s for it in found[names[0]]])
        yield {
            "series": series,
            "x": name,
            "rows": rows,
            "seconds": statistics.median(it.seconds for it in found[name]),
            "cpu_s": statistics.median(it.cpu_s for it in found[name]),
            "ratio": ratio.median,
            "ratio_low": ratio.low,
            "ratio_high": ratio.high,
            "cpu_ratio": cpu.median,
            "cpu_ratio_low": cpu.low,
            "cpu_ratio_high": cpu.high,
            "baseline": names[0],
        }


def whole_jobs(
    spark: SparkSession, rows: int, instances: int, rounds: int, folder: str, names: list[str]
) -> Iterator[dict[str, object]]:
    df = zipf_rows(spark, rows)
    mapping = evenly.learn_mapping(df, key="key", instances=instances)
    hows: dict[str, dict[str, object]] = {
        "given": {"mapping": mapping},
        "remembered": {"remember": folder},
        "weighed": {"remember": folder, "weight": "value"},
        "learnt": {},
    }
    jobs: Jobs = {name: partial(key_job, df, instances, hows[name]) for name in hows if name in names}
    yield from in_turn(spark, "job", rows, rounds, jobs)


def cost_jobs(spark: SparkSession, rows: int, instances: int, rounds: int, folder: str) -> Iterator[dict[str, object]]:
    df = spark.range(0, rows, 1, 8).selectExpr("id % 1000 as kind", "id")
    watch = evenly.CostWatch()
    cost_job(df, instances, {"watch": watch})
    hows: dict[str, dict[str, object]] = {
        "given": {"costs": watch.costs},
        "given, watched": {"costs": watch.costs},
        "remembered": {"remember": folder},
    }

    def run(name: str) -> None:
        cost_job(df, instances, hows[name] | ({"watch": evenly.CostWatch()} if name == "given, watched" else {}))

    jobs: Jobs = {name: partial(run, name) for name in hows}
    yield from in_turn(spark, "costs", rows, rounds, jobs)


def drifts(spark: SparkSession, name: str, keys: pa.Array, instances: int, folder: str) -> Iterator[dict[str, object]]:
    """λ of runs over the last part of a stream, whose first part was learnt."""
    size = min(_PART, len(keys) // 2)
    parts = [keys.slice(0, size), keys.slice(len(keys) - size, size)]
    first, last = (spark.createDataFrame(pa.table({"key": part.cast(pa.string())})).persist() for part in parts)
    fresh = evenly.learn_mapping(last, key="key", instances=instances).fitted_imbalance_pct
    for df in (first, *[last] * _RUNS):
        key_job(df, instances, {"remember": folder})
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
    parser.add_argument("--sizes", default="2000000,10000000,30000000", help="rows of each job")
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--parts", default="jobs,costs,drifts")
    parser.add_argument("--ways", default="given,remembered,weighed,learnt")
    given = parser.parse_args()
    spark = local_session("remember", slots=2, memory="3g", settings={"spark.sql.adaptive.enabled": "false"})
    say: Callable[[str], object] = (lambda _: None) if given.json else (lambda text: print(text, flush=True))
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in map(int, given.sizes.split(",")) if "jobs" in given.parts else ():
            ways = given.ways.split(",")
            for result in whole_jobs(spark, rows, given.instances, given.rounds, f"{folder}/jobs {rows}", ways):
                results.append(result)
                say(told(result))
        if "costs" in given.parts:
            for result in cost_jobs(spark, _COST_ROWS, given.instances, given.rounds, f"{folder}/costs"):
                results.append(result)
                say(told(result))
        for number, (name, keys) in enumerate(streams(given.folder) if "drifts" in given.parts else ()):
            for result in drifts(spark, name, keys, given.instances, f"{folder}/{number}"):
                results.append(result)
                lambdas = f"λ {result['imbalance_pct_rows']:6.1f} %, fresh {result['imbalance_pct_evenly']:6.1f} %"
                say(f"{name:>24}  run {result['x']} after the change  {lambdas}  {result['why']}")
    if given.json:
        parameters = {"sizes": given.sizes, "instances": given.instances, "rounds": given.rounds}
        print_json("benchmark remember", parameters, results)
    spark.stop()


def told(result: dict[str, object]) -> str:
    """A way in one line."""
    clock, cpu = (
        f"{result[unit]:7.2f} s, {result[of]:.3f} ({result[f'{of}_low']:.3f} to {result[f'{of}_high']:.3f})"
        for unit, of in (("seconds", "ratio"), ("cpu_s", "cpu_ratio"))
    )
    return f"{result['series']:>6} of {result['rows']:>10,} rows  {result['x']:>16}  {clock}  cpu {cpu}"


if __name__ == "__main__":
    main()
