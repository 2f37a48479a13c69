"""The start of a streaming query with a number of shuffle partitions of its own."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from evenly.errors import StreamingMismatch
from evenly.spark.jvm.hadoop_files import located

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def frame_of(writer: DataStreamWriter) -> DataFrame:
    """The result that a writer is to write."""
    return writer._df


def sink_and_mode(query: StreamingQuery) -> tuple[str, str]:
    """The class of the sink that a running query writes to, and its output mode."""
    running: Any = query._jsq.streamingQuery()
    return str(running.sink().getClass().getSimpleName()), str(running.outputMode())


def running_query_ids(spark: SparkSession) -> set[str]:
    """The ids of the queries that run in this application, in whichever session."""
    running: Any = spark._jsparkSession.sharedState().activeStreamingQueries()
    return {str(query.toString()) for query in running.keySet()}


def start_with_partitions(spark: SparkSession, writer: DataStreamWriter, checkpoint: str, partitions: int) -> StreamingQuery:
    """Start a query with so many shuffle partitions, whatever its session has.

    A query runs in a session of its own, a copy that Spark makes at the start. Spark calls listeners of a start on the query's
    thread and goes on when they return, so there is a moment for that copy's setting before anything reads it.
    """
    setting = _Partitions(spark, checkpoint, partitions)
    spark.streams.addListener(setting)
    try:
        query = writer.option("checkpointLocation", checkpoint).start()
    finally:
        spark.streams.removeListener(setting)
    if setting.run != str(query.runId):
        query.stop()
        raise StreamingMismatch(
            f"the query's number of partitions could not be set to {partitions} ({setting.error or 'its start was not told'}): "
            f"set {_SHUFFLE_PARTITIONS} to {partitions} in the session, and begin a new checkpoint"
        ) from setting.error
    return query


class _Partitions(StreamingQueryListener):
    """Sets the partitions of the query of one checkpoint when it starts, and of no other."""

    def __init__(self, spark: SparkSession, checkpoint: str, partitions: int) -> None:
        self._session: Any = spark._jsparkSession
        path, files = located(spark, checkpoint)
        self._checkpoint = str(files.makeQualified(path).toString())
        self._partitions = partitions
        self.run: str | None = None
        self.error: Exception | None = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        try:
            started = self._session.streams().get(str(event.id)).streamingQuery()
            if str(started.resolvedCheckpointRoot()) == self._checkpoint:
                started.sparkSessionForStream().conf().set(_SHUFFLE_PARTITIONS, str(self._partitions))
                self.run = str(event.runId)
        except Exception as error:  # noqa: BLE001 - Spark would log it and go on
            self.error = error

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass
