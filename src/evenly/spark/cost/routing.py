"""Rows to instances by what they are expected to cost.

A task that is run again must send every row where it went before: some of the instances that it feeds may have finished.
What a router decides depends on the order of its rows, and after a shuffle that order is chance. So rows are
sorted before they are routed, by a hash of their content (or, for the rule in arrival order, by where they were read).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, IntegerType, StructType

from evenly.errors import InvalidKeys, InvalidParameter, UnknownColumn
from evenly.grouping.cost.dealing import BatchDealer, Rule
from evenly.grouping.cost.table import CostTable
from evenly.kernels.types import F64, I32
from evenly.spark import murmur3
from evenly.spark.cost.executing import ESTIMATE, ID, numbers, settle_worker
from evenly.spark.groups.layout import quoted
from evenly.spark.keys import key_names
from evenly.spark.placement import INSTANCE

Order = Literal["content", "arrival"]
ORDER = "__evenly_order"
_CHUNK_ROWS, _CHUNK_BYTES = 65_536, 64 * 2**20
_SPARK_SEED = 42


@dataclass(frozen=True, eq=False)
class Routing:
    """What a router decides by. `shares` has a part of the work for each partition."""

    table: CostTable
    shares: F64
    rule: Rule = "longest-first"


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
        if not hasattr(df, "_jdf"):
            _ = keyed.schema  # Connect looks at an expression only when it must
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
        return F.to_json(F.struct(column))
    return column


def route(df: DataFrame, routing: Routing, *, routers: int | None) -> DataFrame:
    """The rows of `df` (with id and order), each in the partition of its instance, with its estimate.

    `routers` are as many tasks that each see a part of the rows; None: as many as `df` has partitions.
    """
    gathered = df if routers is None else df.repartition(1) if routers == 1 else df.repartition(routers, ORDER)
    rows = gathered.sortWithinPartitions(ORDER).drop(ORDER)
    partitions = routing.shares.size
    by_id = hasattr(type(df), "repartitionById")  # Spark 4.1 and later
    labels = np.arange(partitions, dtype=np.int32) if by_id else slots(partitions)
    schema = StructType([*rows.schema.fields]).add(INSTANCE, IntegerType()).add(ESTIMATE, DoubleType())
    routed = rows.mapInArrow(router(routing, labels), schema)
    return routed.repartitionById(partitions, INSTANCE) if by_id else routed.repartition(partitions, INSTANCE)


def router(routing: Routing, labels: I32) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A router for `mapInArrow`: each row with its instance and its estimate."""
    return partial(_routed, routing, labels)


def _routed(routing: Routing, labels: I32, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    settle_worker()
    context = TaskContext.get()
    start = 0 if context is None else context.partitionId()
    dealer = BatchDealer(routing.table, labels.size, shares=routing.shares, start=start, rule=routing.rule)
    for chunk in _gathered(batches):
        instances, estimates_s = dealer.route(np.concatenate([numbers(batch, ID, np.int64) for batch in chunk]))
        begin = 0
        for batch in chunk:
            end = begin + batch.num_rows
            added = [pa.array(labels[instances[begin:end]]), pa.array(estimates_s[begin:end])]
            yield pa.RecordBatch.from_arrays([*batch.columns, *added], names=[*batch.schema.names, INSTANCE, ESTIMATE])
            begin = end


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches that are dealt out together."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
            yield held
            held, rows, size = [], 0, 0
    if held:
        yield held


def slots(partitions: int) -> I32:
    """For each partition the INT that Spark's own hash sends there."""
    wanted = murmur3.partition_constants(partitions).view(np.uint32) ^ np.uint32(_SPARK_SEED)
    mixed = wanted * np.uint32(murmur3.UNMIX_FIRST)
    bits = np.uint32(murmur3.UNMIX_ROTATION)
    turned = (mixed >> bits) | (mixed << (np.uint32(32) - bits))
    return (turned * np.uint32(murmur3.UNMIX_SECOND)).view(np.int32)
