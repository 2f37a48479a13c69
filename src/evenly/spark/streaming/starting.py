"""Starting a pipeline under the mapping in force, without a change to the user's session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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

from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.spark.placing.placement import with_slot_of_window
from evenly.spark.placing.slot_mark import marked
from evenly.spark.state.lineage import current_checkpoint
from evenly.spark.streaming.grouped import Grouped, check_grouping
from evenly.spark.streaming.mapping_store import MappingStore
from evenly.spark.streaming.observing import Observation

Build = Callable[..., DataStreamWriter]
"""From placed rows (one DataFrame, or one for each that was given) to a writer that has not been started."""

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Pipeline:
    """What is started, and started again under another mapping."""

    frames: tuple[DataFrame, ...]
    build: Build
    checkpoint: str

    @property
    def spark(self) -> SparkSession:
        return self.frames[0].sparkSession

    def start(self, store: MappingStore, observation: Observation | None) -> tuple[StreamingQuery, Grouped]:
        """Start the query under the version in force, with as many shuffle partitions as instances."""
        placement, spans = store.placement, store.spans()
        placed = [
            marked(
                with_slot_of_window(
                    df,
                    spans,
                    placement.key,
                    placement.slot,
                    window=placement.window,
                    observe=None if observation is None else observation.of(side),
                ),
                placement.slot,
                placement.key,
                placement.window,
            )
            for side, df in enumerate(self.frames)
        ]
        writer = self.build(*placed)
        if not isinstance(writer, DataStreamWriter):
            raise InvalidParameter(f"build must return a DataStreamWriter that is not started, got {writer!r}")
        built: DataFrame = writer._df  # noqa: SLF001 - it has no other
        grouped = check_grouping(built, key=placement.key, slot=placement.slot, window=placement.window)
        at = current_checkpoint(self.spark, self.checkpoint)
        return _started(built.sparkSession, writer, at, placement.instances), grouped


def _started(spark: SparkSession, writer: DataStreamWriter, checkpoint: str, partitions: int) -> StreamingQuery:
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
        self._session: Any = spark._jsparkSession  # noqa: SLF001 - a query's own session has no public door
        path = spark._jvm.org.apache.hadoop.fs.Path(checkpoint)  # type: ignore[union-attr]  # noqa: SLF001
        files = path.getFileSystem(self._session.sessionState().newHadoopConf())
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
