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
from evenly.worker.clocking import BURNT, burning, same

_FEW, _MANY = 100, 100_000
_WARMING, _BURN_S = 2, 1.0


@dataclass(frozen=True)
class _Shape:
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


_SHAPES = (
    _Shape(0),
    _Shape(1),
    _Shape(3),
    _Shape(1, turns=8),
    _Shape(1, sinks=3),
    _Shape(1, files=True),
    _Shape(0, rows=_MANY),
    _Shape(3, rows=_MANY),
    _Shape(1, rows=_MANY, sinks=2),
    _Shape(2),
)


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
            rows: _source(spark, f"{base}/rows-{rows}", rows=rows, batches=batches + _WARMING, slots=slots)
            for rows in (_FEW, _MANY)
        }
        timed = []
        for number, shape in enumerate(_SHAPES):
            flow = _flow(shape, sources[shape.rows], slots, f"{base}/out-{number}").dataflow()
            seconds = statistics.median(batch_seconds(spark, flow, f"{base}/checkpoint-{number}")[_WARMING:])
            timed.append(TimedBatches(Steps(flow).counts(slots), shape.rows, shape.called, seconds))
            if told is not None:
                told(shape.told(slots), seconds)
    about = f"{spark.sparkContext.master}, Spark {spark.version}"
    return fit_engine(timed, slots=slots, cores_per_slot=_cores_per_slot(spark, slots), about=about)


@dataclass(frozen=True)
class _Source:
    path: str
    options: dict[str, str]


def _source(spark: SparkSession, path: str, *, rows: int, batches: int, slots: int) -> _Source:
    return _Source(path, prepare(spark, path, rows=rows, batches=batches, slots=slots))


def _cores_per_slot(spark: SparkSession, slots: int) -> float:
    """What a slot gets of a core while all of them compute."""
    for seconds in (0.1, _BURN_S):  # the first time Python workers start
        told = spark.range(0, slots, 1, slots).mapInArrow(burning(seconds), BURNT).collect()
    return min(1.0, max(0.01, sum(row.cpu for row in told) / sum(row.clock for row in told)))


def _flow(shape: _Shape, source: _Source, slots: int, path: str) -> Flow:
    flow = Flow(f"engine-{shape.shuffles}-{shape.turns}-{shape.sinks}")
    stream = flow.source("rows", format="parquet", path=source.path, schema=SCHEMA, options=source.options)
    for at in range(shape.called):
        before = stream.shuffle(instances=shape.turns * slots) if shape.shuffles else stream
        stream = before.batch(same, schema=SCHEMA, name=f"same {at}")
    for at in range(shape.sinks):
        if shape.files:
            stream.sink(f"sink {at}", format="parquet", path=f"{path}-{at}")
        else:
            stream.sink(f"sink {at}", format="noop", options={"mode": "append"})
    return flow
