"""Does a dataflow on Spark carry what its plan predicts: five shapes on 2 slots (operators that compute) and on 8 (that wait),
and three on 2 slots with operators of Spark itself before one that computes.

python benchmarks/flow_peaks.py [--cases linear,star-8] [--trigger 4] [--batches 2] [--json]

Of Spark's own operators one computes a digest of each row (digested), one makes four rows of each, of which an edge takes half
(widened), and one shuffles and sorts its rows to number those of a key (ranked).

For each number of slots Spark itself and the operators are measured, as `evenly profile` does. Then each dataflow is planned:
threads, and the highest rate at a trigger interval. Only then it is run: as a streaming query over batches below, at and above
the predicted peak. The observed peak is the rate at which a batch takes the trigger interval. What is compared is fitted to
nothing that is observed. Where threads help, the same dataflow is run with one thread per task, too (LSA).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import evenly
from arguments import benchmark_parser
from evenly.cli.output import beside, print_json, print_table, say
from evenly.dataflow.builder import Stream
from evenly.dataflow.graph import Dataflow
from evenly.planning.micro_batches import SparkModels, SparkPlan, plan_on_spark
from evenly.spark.flows.engine_profile import profile_engine
from evenly.spark.flows.profiling import ProfileOptions, profile_flow
from evenly.spark.flows.timing import SCHEMA, batch_seconds, scratch
from evenly.spark.session import local_session

BELOW_AT_ABOVE = (0.7, 1.0, 1.3)
WARM = 0.2
BAR_PEAK, BAR_R2, BAR_BATCH, BAR_CASES = 0.10, 0.95, 0.15, 0.9
MOST_THREADS = 16


def compute(loops: int) -> Callable[[Any], tuple[int]]:
    """An operator that computes."""

    def work(row: Any) -> tuple[int]:
        found = 0
        for at in range(loops):
            found += at * at % 7
        return (row.id + (found < 0),)

    return work


def wait(wait_s: float) -> Callable[[Any], tuple[int]]:
    """An operator that waits, as for a service."""

    def work(row: Any) -> tuple[int]:
        time.sleep(wait_s)
        return (row.id,)

    return work


DIGESTS = {"digested": 60, "widened": 40, "ranked": 40}
FRAMED_SLOTS = 2


def digested(rows: DataFrame) -> DataFrame:
    """Spark's own code, for each row."""
    return rows.select(_digest("digested"))


def widened(rows: DataFrame) -> DataFrame:
    """Four rows of each."""
    return (
        rows.select(_digest("widened")).selectExpr("id", "explode(array(0, 1, 2, 3)) as more").selectExpr("4 * id + more as id")
    )


def ranked(rows: DataFrame) -> DataFrame:
    """Rows of a key numbered, which a shuffle brings together."""
    number = F.row_number().over(Window.partitionBy(F.col("id") % 97).orderBy("id"))
    return rows.select(_digest("ranked")).select((F.col("id") + F.least(number, F.lit(0))).alias("id"))


def _digest(name: str) -> Column:
    """The number of a row, which takes so many digests."""
    found = F.col("id").cast("string")
    for _ in range(DIGESTS[name]):
        found = F.sha2(found, 512)
    return (F.col("id") + F.when(F.length(found) == 0, 1).otherwise(0)).alias("id")


LIGHT = compute(300)
FRAMES = {"digested": digested, "widened": widened, "ranked": ranked}
OPERATORS = {
    2: {"a": compute(3_000), "b": compute(8_000), "c": compute(15_000)},
    8: {"a": wait(0.005), "b": wait(0.010), "c": wait(0.020)},
}


class Shapes:
    """Dataflows of the operators a, b and c, which read numbers from a folder."""

    def __init__(self, slots: int, source: Callable[[evenly.Flow], Stream]) -> None:
        self._slots, self._source = slots, source
        self._count = 0

    def all(self) -> dict[str, Callable[[], Dataflow]]:
        """The dataflows by name."""
        shapes = (self.linear, self.diamond, self.star, self.fused, self.filtered)
        found = {f"{shape.__name__}-{self._slots}": shape for shape in shapes}
        return found | {f"{name}-{self._slots}": partial(self.framed, name) for name in FRAMES if self._slots == FRAMED_SLOTS}

    def framed(self, name: str) -> Dataflow:
        """Spark's own operator, and behind it one that computes."""
        flow, stream = self._begun(name)
        made = stream.frame(FRAMES[name], name=name)
        made = made.where("id % 2 = 0") if name == "widened" else made
        self._end(made.row(LIGHT, schema=SCHEMA, name="light"))
        return flow.dataflow()

    def operators(self) -> Dataflow:
        """Every operator beside the others, to measure them."""
        flow, source = self._begun("operators")
        for name in OPERATORS[self._slots]:
            self._end(self._row(source.shuffle(), name), f"sink {name}")
        return flow.dataflow()

    def linear(self) -> Dataflow:
        """One behind the other, a shuffle before each."""
        flow, stream = self._begun("linear")
        for name in "abc":
            stream = self._row(stream.shuffle(), name)
        self._end(stream)
        return flow.dataflow()

    def diamond(self) -> Dataflow:
        """Two ways that part and meet: each row comes twice to the last."""
        flow, stream = self._begun("diamond")
        first = self._row(stream.shuffle(), "a")
        left, right = self._row(first.shuffle(), "b"), self._row(first.shuffle(), "c")
        self._end(self._row(left.shuffle().and_also(right.shuffle()), "a", "last"))
        return flow.dataflow()

    def star(self) -> Dataflow:
        """One in the middle, and a sink behind each of three others."""
        flow, stream = self._begun("star")
        hub = self._row(stream.shuffle(), "b")
        for name in "abc":
            self._end(self._row(hub.shuffle(), name, f"spoke {name}"), f"sink {name}")
        return flow.dataflow()

    def fused(self) -> Dataflow:
        """One behind the other in one Python worker."""
        flow, stream = self._begun("fused")
        stream = stream.shuffle()
        for name in "abc":
            stream = self._row(stream, name)
        self._end(stream)
        return flow.dataflow()

    def filtered(self) -> Dataflow:
        """Half of the rows go on in the same tasks, all of them behind a shuffle."""
        flow, stream = self._begun("filtered")
        first = self._row(stream.shuffle(), "b")
        second = self._row(first.where("id % 2 = 0").selectivity(0.5), "c")
        self._end(self._row(second.shuffle(), "a"))
        return flow.dataflow()

    def _begun(self, name: str) -> tuple[evenly.Flow, Stream]:
        flow = evenly.Flow(f"{name}-{self._slots}")
        return flow, self._source(flow)

    def _row(self, stream: Stream, name: str, called: str = "") -> Stream:
        return stream.row(OPERATORS[self._slots][name], schema=SCHEMA, name=called or name, model=name)

    @staticmethod
    def _end(stream: Stream, name: str = "sink") -> None:
        stream.sink(name, format="noop", options={"mode": "append"})


@dataclass(frozen=True)
class Observed:
    """Batches of growing size: rows and seconds of each, and the rate at which one takes the trigger."""

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    peak_rate: float


def observe(spark: SparkSession, plan: SparkPlan, base: str, *, slots: int, batches: int) -> Observed:
    """Run the planned dataflow for real."""
    trigger_s = plan.trigger_s or 1.0
    sizes = [max(1, round(WARM * plan.peak_rate * trigger_s / slots)) * slots]
    for times in BELOW_AT_ABOVE:
        sizes += [max(1, round(times * plan.peak_rate * trigger_s / slots)) * slots] * batches
    for size in sizes:  # one after the other: a stream reads files by their age
        spark.range(0, size, 1, slots).write.mode("append").parquet(f"{base}/in")
    watch = evenly.FlowWatch()
    took_s = batch_seconds(spark, plan.applied(), f"{base}/checkpoint", watch)
    first = next(iter(plan.threads))
    came = [batch.operators[first].rows_in for batch in watch.batches]
    enters = next(stage.rows_in[first] for stage in plan.stages if first in stage.rows_in)
    if came != [round(enters * size) for size in sizes]:
        raise RuntimeError(f"batches of {sizes} rows were to bring {enters:g} times as many and brought {came}: another order?")
    found = {
        size: statistics.median([s for rows, s in zip(sizes[1:], took_s[1:], strict=True) if rows == size])
        for size in sizes[1:]
    }
    row_s, fixed_s = np.polyfit(list(found), list(found.values()), 1)
    return Observed(tuple(found), tuple(found.values()), float((trigger_s - fixed_s) / row_s / trigger_s))


def r_squared(predicted: Sequence[float], observed: Sequence[float]) -> float:
    """How much of what differs between cases the predictions explain."""
    seen = np.array(observed)
    return float(1.0 - ((seen - np.array(predicted)) ** 2).sum() / ((seen - seen.mean()) ** 2).sum())


def run_slots(slots: int, wanted: Sequence[str], *, trigger_s: float, batches: int, seconds: float) -> list[dict[str, Any]]:
    """All cases with so many slots."""
    spark = local_session("peaks of dataflows", slots=slots)
    told: list[dict[str, Any]] = []
    try:
        with scratch(spark, None) as base:
            places = iter(range(10_000))

            def source(flow: evenly.Flow) -> Stream:
                options = {"maxFilesPerTrigger": str(slots)}
                return flow.source(
                    "numbers", format="parquet", path=f"{base}/{next(places)}/in", schema=SCHEMA, options=options
                )

            shapes = Shapes(slots, source)
            chosen = {name: shape for name, shape in shapes.all().items() if name in wanted}
            if not chosen:
                return []
            models = measured(spark, shapes, slots, seconds, 3 * batches)
            for name, shape in chosen.items():
                if name.rpartition("-")[0] in FRAMES:
                    models = models.with_others(framed_models(spark, shape(), slots, seconds))
                told.append(run_case(spark, name, shape, models, slots=slots, trigger_s=trigger_s, batches=batches))
    finally:
        spark.stop()
    return told


def measured(spark: SparkSession, shapes: Shapes, slots: int, seconds: float, batches: int) -> SparkModels:
    """What plans rest on."""
    begun = time.perf_counter()
    operators = profile_flow(
        spark,
        shapes.operators(),
        options=ProfileOptions(seconds=seconds, most_threads=MOST_THREADS),
        source=spark.range(0, 1_000, 1, slots),
        told=lambda name, point: beside.print(f"{slots} slots, {name}: {point}"),
    )
    engine = profile_engine(spark, batches=batches, told=lambda kind, s: beside.print(f"{slots} slots, {kind}: {s:.3f} s"))
    beside.print(f"{slots} slots, measured in {time.perf_counter() - begun:.0f} s: {engine}")
    return SparkModels(engine, operators.curves)


def framed_models(spark: SparkSession, flow: Dataflow, slots: int, seconds: float) -> SparkModels:
    """What is measured of a dataflow with an operator of Spark itself, the rows on its edges too."""
    options, source = ProfileOptions(seconds=seconds, most_threads=1), spark.range(0, 1_000, 1, slots)
    found = profile_flow(spark, flow, options=options, source=source)
    beside.print(f"{flow.name}: {found.frames}")
    return found


def run_case(
    spark: SparkSession,
    name: str,
    shape: Callable[[], Dataflow],
    models: SparkModels,
    *,
    slots: int,
    trigger_s: float,
    batches: int,
) -> dict[str, Any]:
    """Predict, then observe; the same with one thread per task where the plan has more."""
    begun = time.perf_counter()
    plan = plan_on_spark(shape(), models, slots=slots, trigger_s=trigger_s)
    found = observe(spark, plan, _folder(plan), slots=slots, batches=batches)
    off = [plan.batch_s(rows) / took_s - 1.0 for rows, took_s in zip(found.rows, found.seconds, strict=True)]
    told = {
        "series": "case",
        "x": name,
        "slots": slots,
        "threads": max(plan.threads.values()),
        "binding": plan.first_to_break,
        "predicted_rate": plan.peak_rate,
        "observed_rate": found.peak_rate,
        "ratio": found.peak_rate / plan.peak_rate,
        "batch_off_pct": 100.0 * max(off, key=abs),
        "batches_off_pct": [100.0 * one for one in off],
    }
    lsa = plan_on_spark(shape(), models, slots=slots, trigger_s=trigger_s, allocation="lsa")
    if lsa.threads != dict(plan.threads):
        one = observe(spark, lsa, _folder(lsa), slots=slots, batches=1)
        told |= {"lsa_predicted_rate": lsa.peak_rate, "lsa_rate": one.peak_rate, "times_lsa": found.peak_rate / one.peak_rate}
    beside.print(f"{name} in {time.perf_counter() - begun:.0f} s: {told}")
    return told


def _folder(plan: SparkPlan) -> str:
    """Where the source of a plan's dataflow reads, without its last part."""
    return next(one.path for one in plan.flow.operators if one.kind == "source").removesuffix("/in")


def main() -> None:
    parser = benchmark_parser(__doc__)
    names = [f"{shape}-{slots}" for slots in OPERATORS for shape in ("linear", "diamond", "star", "fused", "filtered")]
    names += [f"{shape}-{FRAMED_SLOTS}" for shape in FRAMES]
    parser.add_argument(
        "--cases", default=",".join(names), help="with commas between; a shape alone means both numbers of slots"
    )
    parser.add_argument("--trigger", type=float, default=4.0)
    parser.add_argument("--batches", type=int, default=2, help="batches of each size")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="for which an operator is measured with each number of threads"
    )
    options = parser.parse_args()
    given = options.cases.split(",")
    wanted = [name for name in names if name in given or name.rpartition("-")[0] in given]
    if not wanted:
        parser.error(f"--cases must be of {', '.join(names)}")
    begun = time.perf_counter()
    told = [
        one
        for slots in OPERATORS
        for one in run_slots(slots, wanted, trigger_s=options.trigger, batches=options.batches, seconds=options.seconds)
    ]
    summary = _summary(told)
    if options.json:
        rows = [{name: value for name, value in one.items() if name != "batches_off_pct"} for one in told]
        print_json("flow_peaks", {"cases": wanted, "trigger": options.trigger, "batches": options.batches}, [*rows, summary])
        return
    _print(told)
    fitted = "of one case is none" if summary["r_squared"] is None else f"{summary['r_squared']:.3f}"
    say(
        f"Observed peak within {100 * BAR_PEAK:.0f} % of the predicted one in {summary['within']} of {len(told)} cases "
        f"(at least {BAR_CASES:.0%}); R² {fitted} (at least {BAR_R2}); batch durations within {100 * BAR_BATCH:.0f} % in "
        f"{summary['batches_within']} of {summary['batches']}; {time.perf_counter() - begun:.0f} s in all"
    )


def _summary(told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    off = [one for case in told for one in case["batches_off_pct"]]
    predicted, observed = [one["predicted_rate"] for one in told], [one["observed_rate"] for one in told]
    return {
        "series": "all",
        "within": sum(abs(one["ratio"] - 1.0) <= BAR_PEAK for one in told),
        "r_squared": r_squared(predicted, observed) if len(told) > 1 else None,
        "batches": len(off),
        "batches_within": sum(abs(one) <= 100.0 * BAR_BATCH for one in off),
    }


def _print(told: Sequence[dict[str, Any]]) -> None:
    lines = [
        (
            one["x"],
            str(one["threads"]),
            one["binding"],
            f"{one['predicted_rate']:,.0f}",
            f"{one['observed_rate']:,.0f}",
            f"{one['ratio']:.2f}",
            f"{one['batch_off_pct']:+.0f}",
            f"{one['lsa_rate']:,.0f}" if "lsa_rate" in one else "",
            f"{one['times_lsa']:.1f}" if "times_lsa" in one else "",
        )
        for one in told
    ]
    headings = ("case", "threads", "first", "predicted", "observed", "ratio", "batch %", "LSA", "times")
    print_table(headings, lines, left=(0, 2), section=lambda line: line[0].rpartition("-")[2])


if __name__ == "__main__":
    main()
