"""Batches of a known number of rows through a dataflow as a streaming query, and how long each took."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from evenly.dataflow.graph import Dataflow
from evenly.errors import InvalidModel, InvalidParameter
from evenly.spark.flows.run import run
from evenly.spark.flows.watch import FlowWatch
from evenly.spark.jvm.hadoop_files import Folder

SCHEMA = "id long"
_PATIENCE_S = 600.0


@contextmanager
def scratch(spark: SparkSession, folder: str | None) -> Iterator[str]:
    """A folder that all of Spark's machines reach, removed at the end: within `folder`, or a temporary one of this machine."""
    if folder is None:
        master = str(spark.sparkContext.master)
        if not master.startswith("local"):
            raise InvalidParameter(
                f"{master} has other machines: name a folder that all of them reach (--folder), "
                "in the file system that queries will have their checkpoints in"
            )
        folder = Path(tempfile.gettempdir()).as_uri()
    name = f"evenly-measured-{os.getpid()}-{time.time_ns()}"
    try:
        yield f"{folder.rstrip('/')}/{name}"
    finally:
        Folder(spark, folder).remove(name)


def prepare(spark: SparkSession, path: str, *, rows: int, batches: int, slots: int) -> dict[str, str]:
    """Write `batches` batches of `rows` numbers to `path`, each a file for every slot; the options with which a stream reads
    one batch at a time."""
    spark.range(0, rows * batches, 1, slots * batches).write.parquet(path)
    return {"maxFilesPerTrigger": str(slots)}


def batch_seconds(spark: SparkSession, flow: Dataflow, checkpoint: str, watch: FlowWatch | None = None) -> list[float]:
    """Run a dataflow until all that is there is read: how long each of its batches took, as Spark tells."""
    return [seconds_of(one) for one in batches_of(spark, flow, checkpoint, watch)]


def seconds_of(batch: StreamingQueryProgress) -> float:
    """How long a batch took."""
    return float(batch.durationMs["triggerExecution"]) / 1e3


def batches_of(
    spark: SparkSession, flow: Dataflow, checkpoint: str, watch: FlowWatch | None = None
) -> list[StreamingQueryProgress]:
    """Run a dataflow until all that is there is read: what Spark tells of each batch that had rows."""
    query = run(flow, spark=spark, checkpoint=checkpoint, trigger={"availableNow": True}, watch=watch or FlowWatch())
    if query is None:
        raise InvalidModel(f"{flow.name} is no stream: its batches cannot be timed")
    try:
        if not query.awaitTermination(_PATIENCE_S):
            raise InvalidModel(f"{flow.name} has not ended after {_PATIENCE_S:g} s: Spark is too busy to be measured")
        told = {one.batchId: one for one in query.recentProgress if one.numInputRows}
    finally:
        query.stop()
    return [told[number] for number in sorted(told)]
