"""Rows to instances by what they are expected to cost.

A task that is run again must send every row where it went before: some of the instances that it feeds may have finished.
What a router decides depends on the order of its rows, and after a shuffle that order is chance. So rows are
sorted before they are routed, by a hash of their content (or, for the rule in arrival order, by where they were read).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf
from pyspark.sql.types import DoubleType, IntegerType, StructType

from evenly.kernels.types import I32
from evenly.spark.costs.row_ids import ORDER
from evenly.spark.features import Feature, has
from evenly.spark.placing import murmur3
from evenly.spark.placing.canary import slots_lead
from evenly.spark.placing.placement import INSTANCE, PIECES
from evenly.spark.python_workers import on_workers
from evenly.worker.executing import ESTIMATE, ID
from evenly.worker.routing import Routing, routed

Router = Callable[[Column], Column]
_TOLD = "__evenly_told"


def route(df: DataFrame, routing: Routing, *, routers: int | None) -> DataFrame:
    """The rows of `df` (with id and order), each in the partition of its instance, with its estimate.

    `routers` are as many tasks that each see a part of the rows; None: as many as `df` has partitions. A router is a function
    of the id column alone: rows stay in the JVM, however wide they are.
    """
    gathered = df if routers is None else df.repartition(1) if routers == 1 else df.repartition(routers, ORDER)
    rows = gathered.sortWithinPartitions(ORDER).drop(ORDER)
    partitions = routing.shares.size
    by_id = has(df.sparkSession, Feature.REPARTITION_BY_ID)
    labels = np.arange(partitions, dtype=np.int32) if by_id else murmur3.slots(partitions)
    told = rows.withColumn(_TOLD, router(df.sparkSession, routing, labels)(F.col(ID)))
    mark = {} if np.allclose(routing.shares, routing.shares[0]) else PIECES
    instance = F.col(f"{_TOLD}.{INSTANCE}").alias(INSTANCE, metadata=mark)
    routed = told.select("*", instance, F.col(f"{_TOLD}.{ESTIMATE}").alias(ESTIMATE)).drop(_TOLD)
    if by_id:
        return routed.repartitionById(partitions, INSTANCE)
    # Where labels do not lead to their partitions, equal numbers of rows do.
    leads = slots_lead(df.sparkSession, by="rows dealt by cost")
    return routed.repartition(partitions, *([INSTANCE] if leads else []))


def router(spark: SparkSession, routing: Routing, labels: I32) -> Router:
    """The instance and the estimate of each row, of its id.

    Not a deterministic function, for Spark: else it would take away the sort below for want of a reason, or call it twice.
    """
    kind = StructType().add(INSTANCE, IntegerType()).add(ESTIMATE, DoubleType())
    if has(spark, Feature.ARROW_UDF):

        def of_arrays(columns: Iterator[pa.Array]) -> Iterator[pa.Array]:
            for instances, estimates_s in routed(routing, labels, (np.asarray(ids, np.int64) for ids in columns)):
                yield pa.StructArray.from_arrays([pa.array(instances), pa.array(estimates_s)], [INSTANCE, ESTIMATE])

        return cast("Router", F.arrow_udf(on_workers(spark, of_arrays), kind).asNondeterministic())  # type: ignore[attr-defined]

    def in_pandas(columns: Iterator[Any]) -> Iterator[Any]:
        import pandas as pd  # noqa: PLC0415 - where a worker needs it, only

        for instances, estimates_s in routed(routing, labels, (ids.to_numpy(np.int64) for ids in columns)):
            yield pd.DataFrame({INSTANCE: instances, ESTIMATE: estimates_s})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # hints are preferred, but they would need pandas here
        made: Any = pandas_udf(on_workers(spark, in_pandas, pandas=True), kind, PandasUDFType.SCALAR_ITER)  # type: ignore[call-overload]
    return cast("Router", made.asNondeterministic())
