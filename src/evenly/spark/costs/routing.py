"""Rows to instances by what they are expected to cost.

A task that is run again must send every row where it went before: some of the instances that it feeds may have finished.
What a router decides depends on the order of its rows, and after a shuffle that order is chance. So rows are
sorted before they are routed, by a hash of their content (or, for the rule in arrival order, by where they were read).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf
from pyspark.sql.types import DataType, DoubleType, IntegerType, StructType

from evenly.errors import ColumnConflict, InvalidKeys, InvalidParameter, UnknownColumn
from evenly.kernels.types import I32
from evenly.spark.features import Feature, has
from evenly.spark.keyed.keys import key_names, quoted
from evenly.spark.placing import murmur3
from evenly.spark.placing.canary import slots_lead
from evenly.spark.placing.placement import INSTANCE
from evenly.worker.executing import ESTIMATE, ID
from evenly.worker.routing import Routing, routed

Order = Literal["content", "arrival"]
Router = Callable[[Column], Column]
ORDER = "__evenly_order"
_TOLD = "__evenly_told"
_SPARK_SEED = 42
_EXACTLY = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
"""JSON that differs wherever values do: by itself Spark writes milliseconds."""


def with_id(df: DataFrame, expressions: tuple[str, ...], *, order: Order | None = None) -> DataFrame:
    """`df` with the 64-bit id of the cost key, which is checked. Null is a key like any other.

    With an `order` also with a number that orders its rows, the same for the same row whenever it is computed: a hash of its
    content, or its place in the input.
    """
    told = f"cost_key {', '.join(map(repr, expressions))}"
    try:
        ordered = [] if order is None else [F.monotonically_increasing_id() if order == "arrival" else content_hash(df)]
        identity = F.xxhash64(*(key_column(df, each) for each in expressions))
        keyed = df.select("*", identity.alias(ID), *(number.alias(ORDER) for number in ordered))
        if not has(df.sparkSession, Feature.ANALYSIS_AT_ONCE):
            _ = keyed.schema
    except ParseException as error:
        raise InvalidParameter(f"{told} is neither a column nor an SQL expression: {_first(error)}") from error
    except AnalysisException as error:
        if "UNRESOLVED_COLUMN" in str(error):
            raise UnknownColumn(f"{told}: {_first(error)} The columns are {', '.join(df.columns)}") from error
        if "HASH_" in str(error):
            raise InvalidKeys(
                f"{told} is of a type that Spark does not hash, a map or variant: use what matters of it"
            ) from error
        raise InvalidParameter(f"{told} cannot be computed: {_first(error)}") from error
    return keyed


def key_column(df: DataFrame, expression: str) -> Column:
    """A column of `df` by its name, else an SQL expression."""
    return F.col(quoted(expression)) if expression in df.columns else F.expr(expression)


def _first(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0]


def content_hash(df: DataFrame) -> Column:
    """A 64-bit hash of all columns. What Spark does not hash goes in as JSON."""
    fields = [field for field in df.schema.fields if not field.name.startswith("__evenly_")]
    if not fields:
        return F.lit(0).cast("bigint")
    try:
        key_names(df, [field.name for field in fields])
    except ColumnConflict:
        return F.expr("xxhash64(*)")  # two columns of one name are told apart by no name
    except InvalidKeys:
        return F.xxhash64(*(_hashable(df, field.name, field.dataType) for field in fields))
    return F.expr(f"xxhash64({', '.join(quoted(field.name) for field in fields)})")


def _hashable(df: DataFrame, name: str, kind: DataType) -> Column:
    column = F.col(quoted(name))
    try:
        key_names(df, name)
    except InvalidKeys:
        if kind.typeName() == "string":  # a collation
            return column.cast("binary")
        return F.to_json(F.struct(column), _EXACTLY)
    return column


def route(df: DataFrame, routing: Routing, *, routers: int | None) -> DataFrame:
    """The rows of `df` (with id and order), each in the partition of its instance, with its estimate.

    `routers` are as many tasks that each see a part of the rows; None: as many as `df` has partitions. A router is a function
    of the id column alone: rows stay in the JVM, however wide they are.
    """
    gathered = df if routers is None else df.repartition(1) if routers == 1 else df.repartition(routers, ORDER)
    rows = gathered.sortWithinPartitions(ORDER).drop(ORDER)
    partitions = routing.shares.size
    by_id = has(df.sparkSession, Feature.REPARTITION_BY_ID)
    labels = np.arange(partitions, dtype=np.int32) if by_id else slots(partitions)
    told = rows.withColumn(_TOLD, router(routing, labels, in_arrow=has(df.sparkSession, Feature.ARROW_UDF))(F.col(ID)))
    answers = [F.col(f"{_TOLD}.{name}").alias(name) for name in (INSTANCE, ESTIMATE)]
    routed = told.select("*", *answers).drop(_TOLD)
    if by_id:
        return routed.repartitionById(partitions, INSTANCE)
    # Where labels do not lead to their partitions, equal numbers of rows do.
    leads = slots_lead(df.sparkSession, by="rows dealt by cost")
    return routed.repartition(partitions, *([INSTANCE] if leads else []))


def router(routing: Routing, labels: I32, *, in_arrow: bool) -> Router:
    """The instance and the estimate of each row, of its id.

    Not a deterministic function, for Spark: else it would take away the sort below for want of a reason, or call it twice.
    """
    kind = StructType().add(INSTANCE, IntegerType()).add(ESTIMATE, DoubleType())
    if in_arrow:

        def of_arrays(columns: Iterator[pa.Array]) -> Iterator[pa.Array]:
            for instances, estimates_s in routed(routing, labels, (np.asarray(ids, np.int64) for ids in columns)):
                yield pa.StructArray.from_arrays([pa.array(instances), pa.array(estimates_s)], [INSTANCE, ESTIMATE])

        return cast("Router", F.arrow_udf(of_arrays, kind).asNondeterministic())  # type: ignore[attr-defined]

    def in_pandas(columns: Iterator[Any]) -> Iterator[Any]:
        import pandas as pd  # noqa: PLC0415 - where a worker needs it, only

        for instances, estimates_s in routed(routing, labels, (ids.to_numpy(np.int64) for ids in columns)):
            yield pd.DataFrame({INSTANCE: instances, ESTIMATE: estimates_s})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # hints are preferred, but they would need pandas here
        made: Any = pandas_udf(in_pandas, kind, PandasUDFType.SCALAR_ITER)  # type: ignore[call-overload]
    return cast("Router", made.asNondeterministic())


def slots(partitions: int) -> I32:
    """For each partition the INT that Spark's own hash sends there."""
    wanted = murmur3.partition_constants(partitions).view(np.uint32) ^ np.uint32(_SPARK_SEED)
    mixed = wanted * np.uint32(murmur3.UNMIX_FIRST)
    bits = np.uint32(murmur3.UNMIX_ROTATION)
    turned = (mixed >> bits) | (mixed << (np.uint32(32) - bits))
    return (turned * np.uint32(murmur3.UNMIX_SECOND)).view(np.int32)
