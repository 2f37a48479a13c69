"""Trials: the same rows through the same function, grouped by Spark and by Evenly, all measured alike.

The function is wrapped to say when each row began and ended and on which instance, so what is compared does not depend on
anything that either way reports of itself. A row's completion time counts from the moment its batch is submitted: all rows of
a micro-batch arrive then.
"""

from __future__ import annotations

import time
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenly.costs.model import CostModel
from evenly.kernels.types import F64, I64
from evenly.spark.arrow_schema import arrow_schema
from evenly.spark.costs.apply_by_cost import apply_by_cost
from evenly.spark.costs.options import Objective
from evenly.spark.costs.watch import CostWatch

RowFunction = Callable[[Any], tuple[Any, ...]]
_STAMPS = "instance int, started_s double, ended_s double"


class Stamped:
    """A function that adds to its results which instance ran it, when it began and when it ended (clock of the machine).

    `slowness` makes instance i slower by a factor of at least 1: it waits as much longer as the call took. Partitions beyond
    the factors begin at the first again.
    """

    def __init__(self, function: RowFunction, slowness: Sequence[float] = ()) -> None:
        self.function = function
        self.slowness = tuple(slowness)
        # Asked once per task: a function is unpickled for each.
        self._instance: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_instance": None}

    def __call__(self, row: Any) -> tuple[Any, ...]:
        if self._instance is None:
            context = TaskContext.get()
            self._instance = context.partitionId() if context else -1
        started_s = time.time()
        result = self.function(row)
        if self.slowness:
            time.sleep((self.slowness[self._instance % len(self.slowness)] - 1.0) * (time.time() - started_s))
        return *result, self._instance, started_s, time.time()


def in_arrow(function: RowFunction, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function of a row as one writes it by hand for `mapInArrow`."""

    def mapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named: Callable[..., Any] | None = None
        for batch in batches:
            named = named or namedtuple("row", batch.schema.names)  # noqa: PYI024 - the columns are not known before
            columns = [column.to_pylist() for column in batch.columns]
            results = [function(named(*values)) for values in zip(*columns, strict=True)]
            if results:
                arrays = [
                    pa.array(values, field.type) for values, field in zip(zip(*results, strict=True), schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return mapped


@dataclass(frozen=True, eq=False)
class TimedBatch:
    """What happened to a batch, row by row in no order: seconds since it was submitted, and the instance.

    `seconds` is the whole job as its caller sees it.
    """

    instance: I64
    started_s: F64
    ended_s: F64
    seconds: float

    @property
    def rows(self) -> int:
        return self.instance.size

    @property
    def costs_s(self) -> F64:
        """How long each row took."""
        return self.ended_s - self.started_s

    @property
    def stage_s(self) -> float:
        """From the first row's start to the last row's end."""
        return float(self.ended_s.max() - self.started_s.min())

    @property
    def completion_ms_mean(self) -> float:
        return float(self.ended_s.mean()) * 1e3

    @property
    def completion_ms_p99(self) -> float:
        return float(np.quantile(self.ended_s, 0.99)) * 1e3

    def bound_s(self, instances: int) -> float:
        """No way to spread these costs over the instances takes less: max(sum / instances, largest)."""
        return float(max(self.costs_s.sum() / instances, self.costs_s.max()))


class Trial:
    """One function on batches of rows, grouped in several ways.

    `schema` is what the function returns, in Spark's notation; `cost_key` the expression that its cost depends on.
    """

    def __init__(self, spark: SparkSession, function: RowFunction, schema: str, cost_key: str) -> None:
        self.spark = spark
        self.function = function
        self.schema = f"{schema}, {_STAMPS}"
        self.cost_key = cost_key

    def frame(self, table: pa.Table, *, partitions: int = 4) -> DataFrame:
        """Rows in memory, so that no run pays for reading them. Call `unpersist` when done."""
        df = self.spark.createDataFrame(table).repartition(partitions).persist()
        df.count()
        return df

    def mapped(self, df: DataFrame, slowness: Sequence[float] = ()) -> DataFrame:
        """The function on the partitions that there are."""
        returned = arrow_schema(self.spark, self.spark.createDataFrame([], self.schema).schema)
        return df.mapInArrow(in_arrow(Stamped(self.function, slowness), returned), self.schema)

    def round_robin(self, df: DataFrame, partitions: int, slowness: Sequence[float] = ()) -> TimedBatch:
        """As Spark does it: the same number of rows to each partition."""
        return self.measured(lambda: self.mapped(df.repartition(partitions), slowness))

    def at_random(self, df: DataFrame, partitions: int, *, seed: int = 0) -> TimedBatch:
        """Each row to a partition drawn at random."""
        drawn = F.floor(F.rand(seed) * partitions).cast("int")
        placed = df.withColumn("drawn", drawn).repartitionById(partitions, F.col("drawn")).drop("drawn")
        return self.measured(lambda: self.mapped(placed))

    def by_evenly(
        self,
        df: DataFrame,
        instances: int,
        *,
        costs: CostModel | None,
        objective: Objective = "completion",
        slowness: Sequence[float] = (),
    ) -> tuple[TimedBatch, CostModel]:
        """By cost, never in pieces; with what is known of the costs afterwards. Without `costs` rows go out evenly."""
        watch = CostWatch()

        def grouped() -> DataFrame:
            return apply_by_cost(
                df,
                Stamped(self.function, slowness),
                self.schema,
                cost_key=self.cost_key,
                instances=instances,
                costs=costs,
                objective=objective,
                pieces=False,
                watch=watch,
            )

        return self.measured(grouped), watch.costs

    def measured(self, grouped: Callable[[], DataFrame]) -> TimedBatch:
        """Run it. What `grouped` does by itself (planning) counts too."""
        submitted_s, started = time.time(), time.perf_counter()
        stamps = grouped().select("instance", "started_s", "ended_s").toArrow()
        seconds = time.perf_counter() - started
        instance, started_s, ended_s = (column.to_numpy() for column in stamps.columns)
        return TimedBatch(instance.astype(np.int64), started_s - submitted_s, ended_s - submitted_s, seconds)
