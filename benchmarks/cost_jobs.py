"""Whole jobs of unequal rows against `repartition(k)`, 32 and 128 partitions; and what routing takes a row and a byte."""

from __future__ import annotations

import base64
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import evenly
from cost_parts import Rows, cpu_s, say, session
from evenly.costs.meter import CostMeter
from evenly.costs.model import CostModel
from evenly.lab.papers.applications.catalogue import DOCUMENTS_FILE, _lengths, reach_application, tweet_application
from evenly.lab.papers.recorded_data import find_recorded
from evenly.lab.trials.rows import Stamped, TimedBatch, Trial
from evenly.spark.costs.dealing import deal_in_turn
from evenly.spark.costs.routing import route
from evenly.spark.costs.row_ids import with_id
from evenly.worker.routing import Routing

K, FILES = 8, 4
SIZES = (500, 2_000, 10_000, 100_000)
WIDTHS = {"narrow": 0, "10 kB": 10_000}
LEARNING_SEED = 99
BEHIND_S = 0.005
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # workers cannot import benchmarks
WAYS = ("repartition(k)", "32 partitions", "128 partitions", "first run", "learnt")


class WaitCost:
    """Waits as long as `row.cost_us` says. What a wait was too long is taken off the next ones, so tiny costs add up right."""

    def __init__(self) -> None:
        self.due_s = 0.0

    def __call__(self, row: Any) -> tuple[int]:
        now_s = time.perf_counter()
        self.due_s = max(self.due_s, now_s - BEHIND_S) + row.cost_us * 1e-6
        if self.due_s > now_s:
            time.sleep(self.due_s - now_s)
        return (row.number,)


def tweets(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    made = tweet_application(rows, seed=seed)
    return made.table["entity"].to_numpy(), made.costs_ms


def reach(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    made = reach_application(rows, seed=seed)
    return made.table["node"].to_numpy(), made.costs_ms


def documents(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths alone: the key is the length in steps of 19 %, as in the application."""
    lengths = _lengths(find_recorded(DOCUMENTS_FILE))[1]
    words = lengths[np.random.default_rng(seed).integers(0, lengths.size, rows)]
    return np.floor(4 * np.log2(words + 1)).astype(np.int64), words.astype(np.float64)


def constant(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(seed).integers(0, 64, rows), np.ones(rows)


def one_row(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One row takes 30 % of all time, the others are alike."""
    at = int(np.random.default_rng(seed).integers(0, rows))
    keys, costs = np.ones(rows, np.int64), np.ones(rows)
    keys[at], costs[at] = 0, 0.3 / 0.7 * (rows - 1)
    return keys, costs


COSTS: dict[str, Callable[[int, int], tuple[np.ndarray, np.ndarray]]] = {
    "tweets": tweets,
    "reach": reach,
    "documents": documents,
    "constant": constant,
    "one row of 30 %": one_row,
}


def bound_s(rows: int) -> float:
    """The work of an instance: 2 s, more for many rows, whose tiny waits would else be lost in what a row takes anyway."""
    return 2.0 if rows < SIZES[-1] else 4.0


def written(folder: Path, cost: str, rows: int, width: int, seed: int) -> str:
    """Rows as four Parquet files; costs are scaled so that max(sum / k, largest) is what it should be."""
    path = folder / f"{cost[:3]}-{rows}-{width}-{seed}"
    path.mkdir()
    keys, costs = COSTS[cost](rows, seed)
    scale = bound_s(rows) / max(costs.sum() / K, costs.max())
    for part in range(FILES):
        here = slice(part * rows // FILES, (part + 1) * rows // FILES)
        columns = {"key": keys[here], "cost_us": costs[here] * scale * 1e6, "number": np.arange(rows)[here]}
        if width:
            columns["body"] = bodies(columns["number"].size, width)
        pq.write_table(pa.table(columns), path / f"{part}.parquet", compression="none", use_dictionary=False)
    return str(path)


def bodies(rows: int, width: int) -> pa.Array:
    """Text that does not compress, each row another."""
    step = 37
    text = base64.b64encode(os.urandom(width + rows * step)).decode()
    return pa.array([text[at * step : at * step + width] for at in range(rows)])


def jobs(costs: list[str], sizes: list[int], widths: list[str], rounds: int) -> Rows:
    """Every way in turn on the same rows, other rows each round; medians of the rounds."""
    results: Rows = []
    with session(K) as spark, tempfile.TemporaryDirectory() as folder:
        trial = Trial(spark, WaitCost(), "number bigint", "key")
        for cost in costs:
            for rows in sizes:
                for width in widths:
                    results += _cell(trial, Path(folder), cost, rows, width, rounds)
    return results


def _cell(trial: Trial, folder: Path, cost: str, rows: int, width: str, rounds: int) -> Rows:
    def read(seed: int) -> DataFrame:
        return trial.spark.read.parquet(written(folder, cost, rows, WIDTHS[width], seed))

    taught = read(LEARNING_SEED)
    trial.round_robin(taught, 4 * K)  # Python is started on every slot
    model = _by_cost(trial, taught, None)[1].costs
    _by_cost(trial, taught.limit(min(rows, 500)), model)
    ran: dict[str, list[TimedBatch]] = {way: [] for way in WAYS}
    decision = None
    for number in range(rounds):
        df = read(number)
        turn = WAYS if number % 2 == 0 else WAYS[::-1]
        for way in turn:
            if way in ("first run", "learnt"):
                done, watch = _by_cost(trial, df, model if way == "learnt" else None)
                decision = watch.decision if way == "learnt" else decision
            else:
                done = trial.round_robin(df, {"repartition(k)": K, "32 partitions": 32}.get(way, 128))
            if done.rows != rows:
                sys.exit(f"{cost}: {done.rows} rows came back of {rows}")
            ran[way].append(done)
    assert decision is not None
    plain = ran["repartition(k)"]
    lines: Rows = []
    for way in WAYS:
        ratios = [ours.seconds / theirs.seconds for ours, theirs in zip(ran[way], plain, strict=True)]
        faster = [theirs.completion_ms_mean / ours.completion_ms_mean for ours, theirs in zip(ran[way], plain, strict=True)]
        lines.append(
            {
                "stream": cost,
                "rows": rows,
                "width": width,
                "series": way,
                "instances": K,
                "baseline": "repartition(k)",
                "seconds": statistics.median(one.seconds for one in ran[way]),
                "bound_s": bound_s(rows),
                "ratio": statistics.median(ratios),
                "speedup_mean": statistics.median(faster),
                "promised": max(decision.promised, model.gain_for(rows, K)),
                "formula": formula(model, rows),
                "reason": decision.reason if way == "learnt" else "",
            }
        )
    told = ", ".join(f"{line['series']} {line['ratio']:.3f}" for line in lines)
    say(f"jobs: {cost}, {rows} rows, {width}: {told}; {decision.reason}")
    return lines


def formula(model: CostModel, rows: int) -> float:
    """What would be saved if equal numbers of rows left cv · sqrt(2 ln k · k / n) uneven, as for very large k."""
    uneven = model.variances.shares[0] * math.sqrt(2.0 * math.log(K) * K / rows)
    return uneven / (1.0 + uneven)


def _by_cost(trial: Trial, df: DataFrame, costs: CostModel | None) -> tuple[TimedBatch, evenly.CostWatch]:
    watch = evenly.CostWatch()
    function = Stamped(trial.function)

    def grouped() -> DataFrame:
        return evenly.apply_by_cost(df, function, trial.schema, cost_key="key", instances=K, costs=costs, watch=watch)

    return trial.measured(grouped), watch


def routing(widths: dict[int, int]) -> Rows:
    """Cpu time by the row of each way to route, beyond `repartition(k)`, at several widths; the least of three rounds."""
    results: Rows = []
    with session(2) as spark, tempfile.TemporaryDirectory() as folder:
        table = _thousand(spark)
        for width, rows in widths.items():
            path = Path(folder) / str(width)
            path.mkdir()
            for part in range(FILES):
                count = rows // FILES
                columns = {"key": np.arange(count) % 1_000, "body": bodies(count, max(width - 8, 1))}
                pq.write_table(pa.table(columns), path / f"{part}.parquet", compression="none", use_dictionary=False)
            df = spark.read.parquet(str(path))
            keyed, told = with_id(df, ("key",), order="content"), Routing(table, np.full(K, 1 / K))
            ways = {
                "repartition(k)": df.repartition(K),
                "in turn": deal_in_turn(keyed, table, K),
                "routers": route(keyed, told, routers=None),
                "one router": route(keyed, told, routers=1),
            }
            least = dict.fromkeys(ways, math.inf)
            for _ in range(3):
                for name, way in ways.items():
                    begun = cpu_s()
                    way.mapInArrow(_counted, "n long").count()
                    least[name] = min(least[name], cpu_s() - begun)
            for name, seconds in least.items():
                added = (seconds - least["repartition(k)"]) / rows * 1e6
                results.append({"series": name, "row_bytes": width, "rows": rows, "cpu_s": seconds, "added_us": added})
            say(f"routing at {width} B: {', '.join(f'{name} {least[name]:.2f} cpu-s' for name in ways)}")
    return results


def fixed() -> Rows:
    """Seconds of a job whose 2,000 rows cost nothing, each way to deal them, calls included; medians."""
    results: Rows = []
    with session(K) as spark, tempfile.TemporaryDirectory() as folder:
        df = spark.read.parquet(written(Path(folder), "tweets", 2_000, 0, 0)).withColumn("cost_us", F.lit(0.0))
        trial, table = Trial(spark, WaitCost(), "number bigint", "key"), _thousand(spark)
        told = Routing(table, np.full(K, 1 / K))

        def keyed() -> DataFrame:
            return with_id(df, ("key",), order="content").withColumn("__evenly_id", F.xxhash64("key"))

        ways: dict[str, Callable[[], DataFrame]] = {
            "repartition(k)": lambda: df.repartition(K),
            "in turn": lambda: deal_in_turn(keyed(), table, K),
            "routers": lambda: route(keyed(), told, routers=None),
            "one router": lambda: route(keyed(), told, routers=1),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(20):
            for name, way in ways.items():
                batch = trial.measured(lambda way=way: trial.mapped(way().select(*df.columns)))  # type: ignore[misc]
                if turn >= 10:  # the first ones compile
                    seconds[name].append(batch.seconds)
        plain = statistics.median(seconds["repartition(k)"])
        for name, found in seconds.items():
            median = statistics.median(found)
            results.append({"series": name, "seconds": median, "added_s": median - plain})
    return results


def _thousand(spark: SparkSession) -> Any:
    ids = [row[0] for row in spark.range(1_000).selectExpr("xxhash64(id)").collect()]
    meter = CostMeter()
    for _ in range(20):
        meter.add(np.array(ids), np.random.default_rng(0).exponential(0.01, 1_000) + 1e-3)
    return CostModel(["key"]).learn(meter.report(instance=0)).table


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_arrays([pa.array([sum(batch.num_rows for batch in batches)])], names=["n"])
