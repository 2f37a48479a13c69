"""The parts of cost_stage.py: each runs and gives flat objects."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import evenly
from evenly.costs.meter import CostMeter
from evenly.costs.model import CostModel
from evenly.lab.papers.applications.calls import CountUp
from evenly.lab.papers.applications.catalogue import (
    StreamApplication,
    document_application,
    reach_application,
    tweet_application,
)
from evenly.lab.trials.paired import Verdict
from evenly.lab.trials.rows import TimedBatch, Trial, in_arrow
from evenly.spark.session import local_session

Rows = list[dict[str, object]]
Bar = tuple[str, str, Verdict]
"""What is wanted, what was found, and whether that shows it."""
APPLICATIONS: dict[str, Callable[[int], StreamApplication]] = {
    "tweets": tweet_application,
    "reach": reach_application,
    "documents": document_application,
}
LEARNING_S = {"tweets": 64.0, "reach": 64.0, "documents": 10.0}
"""The work of the rows that teach the costs, spread over the instances. Documents have few keys: buckets of length."""
SLOTS = 10
LONGER = {"tweets": 2.0}
"""Where batches of the part completion are longer: what Spark needs to start a job is then less of a row's completion time."""
COST_US, ROUNDS, WARM_UPS = 50.0, 2, 4
COUNTED = "turns bigint, total bigint"
STREAM_BATCH, STREAM_KEYS = 1_000_000, 10_000_000


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(headings: list[str], lines: list[list[str]]) -> None:
    """One Markdown table."""
    print(f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}")
    for line in lines:
        print(f"| {' | '.join(line)} |")
    print()


def cpu_s() -> float:
    """Cpu seconds so far of this process and all below it, ended ones included."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    total = 0.0
    for process in processes:
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


@contextmanager
def session(slots: int, memory: str = "2g") -> Iterator[SparkSession]:
    spark = local_session("evenly benchmark", slots=slots, memory=memory)
    try:
        yield spark
    finally:
        spark.stop()


@dataclass
class Stream:
    """An application's rows: those that teach, then as many batches as are asked for."""

    name: str
    instances: int
    seconds: float
    batches: int

    def __post_init__(self) -> None:
        make = APPLICATIONS[self.name]
        mean_s = make(2_000).costs_ms.mean() * 1e-3
        self.taught = int(LEARNING_S[self.name] / mean_s)
        self.rows = int(self.seconds * self.instances / mean_s)
        self.all = make(self.taught + self.batches * self.rows)

    def part(self, number: int) -> pa.Table:
        return self.all.part(self.taught + number * self.rows, self.rows).table

    def trial(self, spark: SparkSession) -> Trial:
        return Trial(spark, self.all.function, self.all.schema, self.all.cost_key)


def learnt(stream: Stream, trial: Trial, instances: int) -> CostModel:
    """The costs, after a first batch on this session; Python is started on every slot by it."""
    few = trial.frame(stream.all.part(0, 20 * instances).table)
    trial.round_robin(few, instances)
    few.unpersist()
    df = trial.frame(stream.all.part(0, stream.taught).table)
    batch, model = trial.by_evenly(df, instances, costs=None)
    say(f"  learnt {model!r} in {batch.seconds:.1f} s, dealt evenly")
    df.unpersist()
    return model


def batch(names: list[str], counts: list[int], seconds: float, rounds: int) -> Rows:
    """Every way in turn on the same rows."""
    results: Rows = []
    models: dict[str, CostModel] = {}
    for instances in sorted(counts, reverse=True):
        with session(instances) as spark:
            for name in names:
                say(f"batch: {name} at {instances} instances")
                stream = Stream(name, instances, seconds, rounds)
                trial = stream.trial(spark)
                if name not in models:
                    models[name] = learnt(stream, trial, instances)
                results += _ways(stream, trial, instances, rounds, models[name], warm=results == [])
    return results


def _ways(stream: Stream, trial: Trial, k: int, rounds: int, model: CostModel, *, warm: bool) -> Rows:
    def evenly_way(df: DataFrame) -> TimedBatch:
        return trial.by_evenly(df, k, costs=model)[0]

    ways: dict[str, Callable[[DataFrame], TimedBatch]] = {
        "repartition(k)": lambda df: trial.round_robin(df, k),
        "4k": lambda df: trial.round_robin(df, 4 * k),
        "16k": lambda df: trial.round_robin(df, 16 * k),
        "random": lambda df: trial.at_random(df, k),
        "evenly": evenly_way,
    }
    few = trial.frame(stream.all.part(0, 20 * k).table)
    for way in ways.values() if warm else [ways["16k"], evenly_way]:
        way(few)
    few.unpersist()
    runs: dict[str, list[tuple[TimedBatch, float, int]]] = {name: [] for name in ways}
    for number in range(rounds):
        df = trial.frame(stream.part(number))
        for name, way in ways.items():
            jobs, cpu = _jobs(trial.spark), cpu_s()
            done = way(df)
            used = cpu_s() - cpu
            if done.rows != stream.rows:
                sys.exit(f"{stream.name}: {done.rows} rows came back of {stream.rows}")
            runs[name].append((done, used, _tasks(trial.spark, jobs)))
        df.unpersist()
    bound_s = min(one.bound_s(k) for measured in runs.values() for one, _, _ in measured)
    rows: Rows = []
    for name, measured in runs.items():
        done, used, tasks = sorted(measured, key=lambda one: one[0].stage_s)[len(measured) // 2]
        rows.append(
            {
                "stream": stream.name,
                "series": name,
                "instances": k,
                "baseline": "lower bound",
                "bound_s": bound_s,
                "stage_s": done.stage_s,
                "ratio": done.stage_s / bound_s,
                "seconds": done.seconds,
                "job_ratio": done.seconds / bound_s,
                "tasks": tasks,
                "cpu_s": used,
            }
        )
    say("  " + ", ".join(f"{row['series']} {row['ratio']:.3f} ({row['job_ratio']:.2f})" for row in rows))
    return rows


def _jobs(spark: SparkSession) -> set[int]:
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def _tasks(spark: SparkSession, before: set[int]) -> int:
    """Tasks that ran in the jobs since."""
    tracker = spark.sparkContext.statusTracker()
    told = [tracker.getJobInfo(job) for job in _jobs(spark) - before]
    stages = [tracker.getStageInfo(stage) for job in told if job is not None for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


def completion(names: list[str], seconds: float) -> Rows:
    """`repartition(k)` and Evenly on the same rows, for k = 2 to 10."""
    results: Rows = []
    with session(SLOTS) as spark:
        for name in names:
            say(f"completion: {name}")
            stream = Stream(name, SLOTS, seconds * LONGER.get(name, 1.0), 1)
            trial = stream.trial(spark)
            model = learnt(stream, trial, SLOTS)
            few = trial.frame(stream.all.part(0, 20 * SLOTS).table)
            for _ in range(WARM_UPS):
                trial.by_evenly(few, SLOTS, costs=model, objective="completion")
                trial.round_robin(few, SLOTS)
            few.unpersist()
            for k in range(2, SLOTS + 1):
                df = trial.frame(stream.all.part(stream.taught, stream.rows * k // SLOTS).table)
                ours = trial.by_evenly(df, k, costs=model, objective="completion")[0]
                theirs = trial.round_robin(df, k)
                df.unpersist()
                for series, one in (("round-robin", theirs), ("evenly", ours)):
                    results.append(
                        {
                            "stream": name,
                            "series": series,
                            "instances": k,
                            "completion_ms_mean": one.completion_ms_mean,
                            "completion_ms_p99": one.completion_ms_p99,
                            "speedup_mean": theirs.completion_ms_mean / one.completion_ms_mean,
                            "seconds": one.seconds,
                            "first_start_s": float(one.started_s.min()),
                        }
                    )
                say(
                    f"  k = {k}: S_L {results[-1]['speedup_mean']:.2f} ({theirs.completion_ms_mean:.0f} to "
                    f"{ours.completion_ms_mean:.0f} ms; first row after {theirs.started_s.min():.2f} and "
                    f"{ours.started_s.min():.2f} s)"
                )
    return results


def turns_for(cost_us: float) -> int:
    """How far one counts in so many microseconds of cpu."""
    row = type("Row", (), {"turns": 200_000})()
    least = []
    for _ in range(7):
        started = time.thread_time()
        CountUp()(row)
        least.append(time.thread_time() - started)
    return max(1, round(cost_us * 1e-6 / min(least) * 200_000))


def overhead(rows: int) -> Rows:
    """Cheap rows on two slots: the same function by hand and with Evenly."""
    results: Rows = []
    turns = turns_for(COST_US)
    say(f"overhead: {turns} turns take {COST_US:.0f} us")
    rng = np.random.default_rng(0)
    schema = pa.schema({"turns": pa.int64(), "total": pa.int64()})
    by_hand = in_arrow(CountUp(), schema)
    with session(2) as spark:
        for costs, factors in (("varying", np.array([0.25, 0.5, 1.0, 2.25])), ("constant", np.array([1.0]))):
            keys = rng.integers(0, 64, rows)
            table = pa.table({"key": keys, "turns": (turns * factors[keys % factors.size]).astype(np.int64)})
            df = spark.createDataFrame(table).repartition(2).persist()
            df.count()
            model = known(df, COST_US / turns)
            say(f"  {costs}: {model!r}, constant: {model.constant}")

            def placed(df: DataFrame, model: CostModel = model) -> DataFrame:
                watch = evenly.CostWatch()  # so that reports are made too
                return evenly.apply_by_cost(df, CountUp(), COUNTED, cost_key="key", instances=2, costs=model, watch=watch)

            ways: dict[str, Callable[[DataFrame], DataFrame]] = {
                "mapInArrow": lambda df: df.mapInArrow(by_hand, COUNTED),
                "repartition + mapInArrow": lambda df: df.repartition(2).mapInArrow(by_hand, COUNTED),
                "evenly": placed,
            }
            few = df.limit(200).persist()
            for way in [*ways.values()] * WARM_UPS:
                _drained(way, few)
            fixed = _least(ways, few)
            few.unpersist()
            least = _least(ways, df)
            df.unpersist()
            base = least["mapInArrow" if costs == "varying" else "repartition + mapInArrow"]
            for name, (seconds, cpu) in least.items():
                results.append(
                    {
                        "costs": costs,
                        "series": name,
                        "instances": 2,
                        "cost_us": COST_US,
                        "seconds": seconds,
                        "cpu_s": cpu,
                        "fixed_s": fixed[name][0],
                        "fixed_cpu_s": fixed[name][1],
                        "row_us": cpu / rows * 1e6,
                        "overhead_pct": _added_pct(costs, base[0], seconds),
                        "cpu_overhead_pct": _added_pct(costs, base[1], cpu),
                    }
                )
    return results


def _added_pct(costs: str, base: float, measured: float) -> float:
    """What was added: as a share of the whole job where costs vary, else of the job without it, as the bars have it."""
    return 100.0 * (measured - base) / (measured if costs == "varying" else base)


def known(df: DataFrame, turn_us: float) -> CostModel:
    """What a quiet machine would have learnt of these rows, so that other work on this one does not decide what is measured."""
    rows = df.selectExpr("xxhash64(key) as id", "turns").toArrow()
    meter = CostMeter()
    meter.add(rows["id"].to_numpy(), rows["turns"].to_numpy() * turn_us * 1e-6)
    return CostModel(["key"]).learn(meter.report(instance=0))


def _least(ways: dict[str, Callable[[DataFrame], DataFrame]], df: DataFrame) -> dict[str, tuple[float, float]]:
    """Wall and cpu seconds of each way, which take turns: the least of the rounds, since other work only adds to them."""
    found = [{name: _drained(way, df) for name, way in ways.items()} for _ in range(ROUNDS)]
    return {name: (min(one[name][0] for one in found), min(one[name][1] for one in found)) for name in ways}


def _drained(way: Callable[[DataFrame], DataFrame], df: DataFrame) -> tuple[float, float]:
    cpu, started = cpu_s(), time.perf_counter()
    way(df).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started, cpu_s() - cpu


def memory(rows: int) -> Rows:
    """Reports of a million rows each, as eight instances would send them, on keys that go on appearing."""
    say(f"memory: {rows:,} rows")
    model = CostModel(["key"])
    rng = np.random.default_rng(0)
    started = time.perf_counter()
    meter_bytes = report_bytes = most = 0
    for number in range(0, rows, STREAM_BATCH):
        count = min(STREAM_BATCH, rows - number)
        # Ranks whose logarithm is even are close to Zipf-1; each batch brings new keys at its end.
        ids = (STREAM_KEYS ** rng.random(count, np.float32)).astype(np.int64)
        ids[-count // 10 :] += STREAM_KEYS + number
        meter = CostMeter()
        meter.add(ids, 1e-3 * (1 + ids % 64))
        told = meter.report(instance=number // STREAM_BATCH % 8)
        report_bytes, meter_bytes = max(report_bytes, len(told.to_bytes())), max(meter_bytes, meter.memory_bytes)
        model.learn(told)
        model.estimate(ids[:1000])
        most = max(most, model.memory_bytes)
    return [
        {
            "tuples": rows,
            "keys": STREAM_KEYS + rows // 10,
            "memory_bytes": most,
            "saved_bytes": len(model.to_json()),
            "meter_bytes": meter_bytes,
            "report_bytes": report_bytes,
            "seconds": time.perf_counter() - started,
        }
    ]
