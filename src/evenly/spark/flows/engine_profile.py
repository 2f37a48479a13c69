"""What Spark itself needs for a micro-batch, measured with dataflows of operators that do nothing."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from evenly.dataflow.builder import Flow
from evenly.errors import InvalidParameter
from evenly.planning.micro_batches.engine import EngineCosts
from evenly.planning.micro_batches.fitting import TimedBatches, fit_engine
from evenly.planning.micro_batches.steps import Steps
from evenly.spark.flows.profiling import slots_of
from evenly.spark.flows.timing import SCHEMA, batch_seconds, prepare, scratch
from evenly.spark.python_workers import on_workers
from evenly.worker.clocking import BURNT, burning, same

_FEW, _MANY = 100, 100_000
_WARMING, _BURN_S = 2, 1.0


@dataclass(frozen=True)
class EngineShape:
    """A dataflow to be timed: operators behind each other, each behind a shuffle onto so many instances, then sinks."""

    shuffles: int
    rows: int = _FEW
    turns: int = 1
    sinks: int = 1
    files: bool = False

    @property
    def called(self) -> int:
        """Operators that a row goes through."""
        return max(1, self.shuffles)

    def told(self, slots: int) -> str:
        """For people."""
        sinks = f"{self.sinks} {'file ' * self.files}sink{'s' * (self.sinks > 1)}"
        return f"{self.shuffles} shuffles onto {self.turns * slots} tasks, {self.rows:,} rows, {sinks}"


SHAPES = (
    EngineShape(0),
    EngineShape(1),
    EngineShape(3),
    EngineShape(1, turns=8),
    EngineShape(1, sinks=2),
    EngineShape(1, sinks=3),
    EngineShape(1, files=True),
    EngineShape(0, rows=_MANY),
    EngineShape(3, rows=_MANY),
    EngineShape(1, rows=_MANY, sinks=2),
    EngineShape(2),
)
_FIRST = EngineShape(2, sinks=2)
"""Java runs slowly at first: these batches do not count."""


def profile_engine(
    spark: SparkSession, *, batches: int = 6, folder: str | None = None, told: Callable[[str, float], None] | None = None
) -> EngineCosts:
    """Measured with all slots of a session: batches of one to four stages, of few tasks and many, few rows and many.

    `batches` of each kind count, after two that warm up. `folder`: where checkpoints and files are put while it runs, in the
    file system that queries will use; else a temporary one, where Spark is on this machine. `told` hears of each kind.
    """
    if batches < 1:
        raise InvalidParameter(f"at least 1 batch of each kind is measured, got {batches}")
    slots = slots_of(spark)
    with scratch(spark, folder) as base:
        sources = {
            rows: prepare(spark, f"{base}/rows-{rows}", rows=rows, batches=batches + _WARMING, slots=slots)
            for rows in (_FEW, _MANY)
        }
        timed = []
        for number, shape in enumerate((_FIRST, *SHAPES)):
            source, out = f"{base}/rows-{shape.rows}", f"{base}/out-{number}"
            flow = engine_flow(shape, source, sources[shape.rows], slots, out).dataflow()
            seconds = statistics.median(batch_seconds(spark, flow, f"{base}/checkpoint-{number}")[_WARMING:])
            if number == 0:
                continue
            timed.append(TimedBatches(Steps(flow).counts(slots), shape.rows, shape.called, seconds))
            if told is not None:
                told(shape.told(slots), seconds)
    about = f"{spark.sparkContext.master}, Spark {spark.version}"
    return fit_engine(timed, slots=slots, cores_per_slot=_cores_per_slot(spark, slots), about=about)


def _cores_per_slot(spark: SparkSession, slots: int) -> float:
    """What a slot gets of a core while all of them compute."""
    for seconds in (0.1, _BURN_S):  # the first time Python workers start
        told = spark.range(0, slots, 1, slots).mapInArrow(on_workers(spark, burning(seconds)), BURNT).collect()
    got = float(sum(row.cpu for row in told) / sum(row.clock for row in told))
    return min(1.0, max(0.01, got))


def engine_flow(shape: EngineShape, source: str, options: dict[str, str], slots: int, out: str) -> Flow:
    """A dataflow of this shape, which reads the files of `source` and writes files, if any, to `out`."""
    flow = Flow(f"engine-{shape.shuffles}-{shape.turns}-{shape.sinks}")
    stream = flow.source("rows", format="parquet", path=source, schema=SCHEMA, options=options)
    for at in range(shape.called):
        before = stream.shuffle(instances=shape.turns * slots) if shape.shuffles else stream
        stream = before.batch(same, schema=SCHEMA, name=f"same {at}")
    for at in range(shape.sinks):
        if shape.files:
            stream.sink(f"sink {at}", format="parquet", path=f"{out}-{at}")
        else:
            stream.sink(f"sink {at}", format="noop", options={"mode": "append"})
    return flow
