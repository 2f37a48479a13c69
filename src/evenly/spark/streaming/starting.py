"""Starting a pipeline under the mapping in force, without a change to the user's session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from evenly.errors import InvalidParameter
from evenly.spark.jvm.starting import frame_of, start_with_partitions
from evenly.spark.placing.placement import with_slot_of_window
from evenly.spark.placing.slot_mark import marked
from evenly.spark.state.lineage import current_checkpoint
from evenly.spark.streaming.grouped import Grouped, check_grouped
from evenly.spark.streaming.mapping_store import MappingStore
from evenly.spark.streaming.observing import Observation
from evenly.spark.streaming.query_settings import QuerySettings

Build = Callable[..., DataStreamWriter]
"""From placed rows (one DataFrame, or one for each that was given) to a writer that has not been started."""

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Pipeline:
    """What is started, and started again under another mapping."""

    frames: tuple[DataFrame, ...]
    build: Build
    settings: QuerySettings

    @property
    def checkpoint(self) -> str:
        return self.settings.checkpoint

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
        if isinstance(writer, StreamingQuery):
            writer.stop()
            raise InvalidParameter(
                "build must return a DataStreamWriter that is not started, and has started one: leave .start() or .toTable() "
                "out. The query that it started, with a checkpoint of its own, was stopped"
            )
        if not isinstance(writer, DataStreamWriter):
            raise InvalidParameter(f"build must return a DataStreamWriter that is not started, got {writer!r}")
        writer = self.settings.applied(writer)
        built = frame_of(writer)
        grouped = check_grouped(
            built, key=placement.key, slot=placement.slot, window=placement.window, mapping=spans[-1].mapping
        )
        at = current_checkpoint(self.spark, self.checkpoint)
        return start_with_partitions(built.sparkSession, writer, at, placement.instances), grouped
