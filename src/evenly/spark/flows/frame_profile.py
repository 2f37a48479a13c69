"""What an operator of Spark itself takes, measured where it runs: as a batch of a stream runs it, all slots busy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenly.dataflow.graph import Dataflow, Operator
from evenly.dataflow.subjects import subject_of
from evenly.planning.micro_batches.frame_costs import FrameCost
from evenly.spark.flows.frames import called_frame
from evenly.spark.placing.explain import explain

_FEW, _PART, _MOST_ROWS, _MOST_BYTES = 4, 0.1, 4_000_000, 256 << 20
"""Rows for each slot of the first size, of the small size what the large one has of rows, and the most of the large one: an
operator that hardly looks at its rows takes no time, however many and wide they are."""
_MORE, _MOST_FASTER = 0.4, 10.0
_RUNS = 2
_ADAPTIVE, _ALSO_IN_STREAMS = "spark.sql.adaptive.enabled", "spark.sql.adaptive.streaming.stateless.enabled"


def adaptive_in_a_stream(spark: SparkSession, flow: Dataflow) -> bool:
    """Whether Spark plans the batches of a dataflow's stream adaptively: where it has state never, and else where this Spark
    can, and is not told otherwise."""
    if any(one.kind == "state" for one in flow.operators):
        return False
    try:
        return all(spark.conf.get(name) == "true" for name in (_ALSO_IN_STREAMS, _ADAPTIVE))
    except PySparkException:  # it has no such setting
        return False


@contextmanager
def as_in_a_stream(spark: SparkSession, slots: int, *, adaptive: bool) -> Iterator[None]:
    """A batch is planned adaptively or not, and a plan's shuffles have as many partitions as slots."""
    wanted = {_ADAPTIVE: str(adaptive).lower(), "spark.sql.shuffle.partitions": str(slots)}
    before = {name: spark.conf.get(name) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, was or "")


class FrameProfile:
    """One operator of Spark itself, on all slots.

    Copies of the sample are made first and held, so that Spark cannot move the operator before the copying. What the operator
    takes is the time of a write to nowhere, its function's call and the making of its plan with it, less that of the same rows
    without it: what rows more take is the slope between two sizes, and what is left at the small one is fixed.
    """

    def __init__(self, flow: Dataflow, one: Operator, rows: DataFrame, *, slots: int, seconds: float) -> None:
        self._flow, self._one, self._rows = flow, one, rows
        self._slots, self._seconds = slots, seconds
        self._count = rows.count()
        self._names = rows.columns
        numbered = rows.toDF(*(f"c{at}" for at in range(len(self._names)))).coalesce(1)
        self._sample = numbered.withColumn("k", F.monotonically_increasing_id())
        self._most_rows = max(_FEW, min(_MOST_ROWS, int(_MOST_BYTES / _bytes_of(numbered))))

    def cost(self) -> FrameCost:
        """Measured."""
        spark = self._rows.sparkSession
        adaptive = adaptive_in_a_stream(spark, self._flow)
        with as_in_a_stream(spark, self._slots, adaptive=adaptive):
            few, many = self._sizes()
            small_s, large_s = self._longer_s(few), self._longer_s(many)
            wall_row_s = max(0.0, (large_s - small_s) / (self._slots * (many - few)))
            left, left_of_half = self._left()
        with as_in_a_stream(spark, self._slots, adaptive=False):
            shuffles, tasks = self._ends()
        return FrameCost(
            self._one.model_name,
            row_s=wall_row_s * self._slots,
            fixed_s=max(0.0, small_s - wall_row_s * self._slots * few),
            slots=self._slots,
            shuffles=shuffles,
            tasks=tasks,
            sample=self._count,
            left=left,
            left_of_half=left_of_half,
            merges=adaptive and shuffles > 0 and not tasks,
            about=f"copies of {self._count} rows that reached it in {self._flow.name}",
            of=subject_of(self._flow, self._one),
        )

    def _sizes(self) -> tuple[int, int]:
        """Rows for each slot: of the large size so many that they take two fifths of the seconds longer than hardly any, or as
        long in all, where the operator takes hardly anything of that."""
        rows, enough_s = _FEW, _MORE * self._seconds
        least_s = self._took_s(rows, runs=2)[1]  # the first time Spark compiles what it runs
        while rows < self._most_rows:
            rows = min(round(_MOST_FASTER * rows), self._most_rows)
            _, with_s = self._took_s(rows, runs=1)
            if with_s >= least_s + 0.25 * enough_s:
                rows = min(self._most_rows, max(rows // 4, round(rows * enough_s / (with_s - least_s))))
                break
        return max(1, round(_PART * rows)), rows

    def _longer_s(self, rows: int) -> float:
        """How much longer so many rows for each slot take with the operator than without."""
        without_s, with_s = self._took_s(rows, runs=_RUNS)
        return with_s - without_s

    def _took_s(self, rows: int, *, runs: int) -> tuple[float, float]:
        """How long so many rows for each slot take without the operator and with it: of some runs the least disturbed."""
        held = self._again(rows * self._slots).persist()
        try:
            _written(held)  # and held from here on
            without_s = min(_seconds(held, None) for _ in range(runs))
            with_s = min(_seconds(held, self) for _ in range(runs))
        finally:
            held.unpersist()
        return without_s, with_s

    def called(self, rows: DataFrame) -> DataFrame:
        """What the operator makes of rows."""
        return called_frame(self._flow, self._one, rows)

    def _ends(self) -> tuple[int, int]:
        """Shuffles of its own, and the tasks in which it ends, if those are a number of its own."""
        rows = self._again(self._slots)
        found = self.called(rows)

        def shuffles(of: DataFrame) -> int:
            return sum(it.kind != "copy" for it in explain(of).shuffles)

        tasks = found.rdd.getNumPartitions()
        return max(0, shuffles(found) - shuffles(rows)), 0 if tasks == self._slots else tasks

    def _left(self) -> tuple[int, int]:
        """Rows that leave the sample, and its first half."""
        half = self._sample.where(F.col("k") < self._count // 2).drop("k").toDF(*self._names)
        return self.called(self._rows).count(), self.called(half).count()

    def _again(self, rows: int) -> DataFrame:
        """So many rows of the sample, over and over again, the same number on each slot."""
        numbers = self._rows.sparkSession.range(0, rows, 1, self._slots).select((F.col("id") % self._count).alias("k"))
        return numbers.join(F.broadcast(self._sample), "k").drop("k").toDF(*self._names)


def _bytes_of(rows: DataFrame) -> float:
    """About how large a row is, by its text."""
    if not rows.columns:
        return 1.0
    told = rows.select(F.avg(F.octet_length(F.to_json(F.struct(*rows.columns))))).first()
    return max(1.0, float(told[0] or 0.0)) if told is not None else 1.0


def _seconds(rows: DataFrame, profile: FrameProfile | None) -> float:
    begun = time.perf_counter()
    _written(rows if profile is None else profile.called(rows))
    return time.perf_counter() - begun


def _written(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()
