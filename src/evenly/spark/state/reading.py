"""How much state each instance of a streaming query's stateful operators holds, read from the query's checkpoint.

A checkpoint may be given as the query got it, also after its state was moved: the lineage in force is read.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenly.errors import InvalidCheckpoint, InvalidParameter
from evenly.spark.features import Feature, require
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.java_errors import Py4JError
from evenly.spark.jvm.readable_state import readable
from evenly.spark.state.lineage import current_checkpoint
from evenly.spark.sums import summed

JOIN = "symmetricHashJoin"
"""Spark's name of the stream-stream join."""

_INTERNAL = "$"  # how Spark's own state variables (timers, times to live) begin


@dataclass(frozen=True)
class Operator:
    """A stateful operator: Spark's number and name for it, what state it keeps, and the last batch that it finished.

    `stores` are what `rows_per_partition` counts: `default`; for a stream-stream join its sides `left` and `right`;
    for transformWithState its state variables. `partitions` is the number of its instances.
    """

    operator: int
    name: str
    stores: tuple[str, ...]
    partitions: int
    batch: int


@dataclass(frozen=True)
class StoreRows:
    """The state rows of one store of an operator, for each partition from 0."""

    operator: int
    name: str
    store: str
    partitions: int
    batch: int
    rows: tuple[int, ...]


def committed_batch(spark: SparkSession, checkpoint: str | os.PathLike[str]) -> int:
    """The last batch that a query finished; its state is what a restart begins with."""
    folder = Folder(spark, current_checkpoint(spark, checkpoint))
    if not folder.has("metadata") or not folder.has("offsets"):
        raise InvalidCheckpoint(
            f"{folder.path} is not the checkpoint of a streaming query: it has no metadata and offsets. "
            "Give the folder that the query got as its option checkpointLocation"
        )
    batches = [int(name) for name in folder.child("commits").names() if name.isdecimal()]
    if not batches:
        raise InvalidCheckpoint(f"the query of checkpoint {folder.path} has not finished a batch yet: let it finish one")
    return max(batches)


def operators(spark: SparkSession, checkpoint: str | os.PathLike[str]) -> tuple[Operator, ...]:
    """The stateful operators of a query, by Spark's number. Works while the query runs; it reads the last finished batch."""
    require(spark, Feature.STATE_READER, by="reading state", remedy="Use a classic session of a later Spark")
    batch = committed_batch(spark, checkpoint)
    path = current_checkpoint(spark, checkpoint)
    if not Folder(spark, path).child("state").names():
        raise _stateless(path)
    try:
        session, readable_path = readable(spark, path)
        entries = session.read.format("state-metadata").load(readable_path).collect()
    except (PySparkException, Py4JError) as error:
        raise InvalidCheckpoint(f"the state of checkpoint {path} cannot be read: {_first_line(error)}") from error
    if not entries:
        raise _stateless(path)
    by_number = {entry.operatorId: entry for entry in entries}
    return tuple(
        Operator(number, entry.operatorName, _stores(entry), entry.numPartitions, batch)
        for number, entry in sorted(by_number.items())
    )


def rows_per_partition(
    spark: SparkSession, checkpoint: str | os.PathLike[str], *, operator: int | None = None
) -> tuple[StoreRows, ...]:
    """State rows per partition, for every store of every stateful operator of a query, or of `operator` alone.

    Each thing that is kept is counted once: groups of an aggregation or of applyInPandasWithState, distinct values of a
    deduplication, the buffered rows of each side of a stream-stream join (not its internal counters), and values,
    list elements and map entries of transformWithState's state variables (not its timers).
    """
    known = operators(spark, checkpoint)
    wanted = known if operator is None else tuple(it for it in known if it.operator == operator)
    if not wanted:
        numbers = ", ".join(str(it.operator) for it in known)
        raise InvalidParameter(f"there is no stateful operator {operator} in {os.fspath(checkpoint)}: there are {numbers}")
    return tuple(_counted(spark, os.fspath(checkpoint), it, store) for it in wanted for store in it.stores)


def read_state(spark: SparkSession, checkpoint: str, of: Operator, store: str) -> DataFrame:
    """The state rows of one of an operator's `stores`, with their `partition_id`."""
    session, path = readable(spark, current_checkpoint(spark, checkpoint))
    reader = session.read.format("statestore").option("operatorId", of.operator).option("batchId", of.batch)
    if of.name == JOIN:
        reader = reader.option("joinSide", store)
    elif of.stores != ("default",):
        reader = reader.option("stateVarName", store)
    return reader.load(path)


def _counted(spark: SparkSession, checkpoint: str, of: Operator, store: str) -> StoreRows:
    try:
        found = summed(read_state(spark, checkpoint, of, store), ["partition_id"], [F.count(F.lit(1))]).collect()
    except (PySparkException, Py4JError) as error:
        raise InvalidCheckpoint(
            f"the state of operator {of.operator} ({of.name}) in {checkpoint} cannot be read: {_first_line(error)}"
        ) from error
    rows = [0] * of.partitions
    for partition, count in found:
        rows[partition] = count
    return StoreRows(of.operator, of.name, store, of.partitions, of.batch, tuple(rows))


def _stores(entry: Any) -> tuple[str, ...]:
    if entry.operatorName == JOIN:
        return ("left", "right")
    properties = json.loads(entry.operatorProperties) if entry.operatorProperties else {}
    names = [variable["stateName"] for variable in properties.get("stateVariables", [])]
    return tuple(name for name in names if not name.startswith(_INTERNAL)) or ("default",)


def _stateless(path: str) -> InvalidCheckpoint:
    return InvalidCheckpoint(
        f"the query of checkpoint {path} keeps no state: only aggregations, deduplications, stream-stream joins and "
        "operators with state of their own do"
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
