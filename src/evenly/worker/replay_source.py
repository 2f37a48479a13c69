"""The data source behind `format: replay`, in Python: Spark makes it in the process that plans batches and in every worker.

It hands over Arrow: about as many nanoseconds a row as Spark needs to take it, for a worker decodes a row group once and then
slices it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from evenly.dataflow.replay import Offered, Pace, ReplayClock, pace_of
from evenly.errors import CheckpointMismatch, InvalidDataflow
from evenly.worker.replaying import ReplayedFiles, Span, replayed

FORMAT = "evenly_replay"


class Replay(DataSource):
    """Options: `path`, `rate`, `most_rows`, `loop` (or once), `arrival` (a column), `numPartitions`, and `pace`, a file in
    which the driver may set another pace while the query runs."""

    @classmethod
    def name(cls) -> str:
        """As `spark.readStream.format` takes it."""
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's names, here and below
        """The reader of a query."""
        return _Reader({name.lower(): value for name, value in self.options.items()}, schema)


class _Part(InputPartition):
    def __init__(self, spans: list[Span], end: Offered) -> None:
        super().__init__((spans, end))


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Made in the process that plans the batches of a query, and, by its options alone, in every worker."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._files: ReplayedFiles | None = None
        self._clock: ReplayClock | None = None
        self._all_now = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return Offered(0, files=self._known().mark).to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = pace_of(self._options).most_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        if self._options["loop"] == "true":
            raise InvalidDataflow("a replay that begins again and again never ends: give it the option `loop: false`")
        self._all_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        files = self._known()
        if self._clock is None:
            self._clock = ReplayClock(
                pace_of(self._options), None if self._options["loop"] == "true" else files.rows, files.mark
            )
        self._look_at_pace(self._clock)
        limited = not isinstance(limit, ReadAllAvailable) or "pace" in self._options
        begin = self._checked(start)
        return self._clock.latest(begin, time.time_ns() // 1_000, limited=limited, all_now=self._all_now).to_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, to = self._checked(start), self._checked(end)
        if begin.row >= to.row:
            return []
        return [_Part(spans, to) for spans in self._known().spans(begin.row, to.row, int(self._options["numpartitions"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(self._schema, timezone="UTC")
        spans, end = partition.value
        return replayed(spans, end, schema, self._options["arrival"])

    def _known(self) -> ReplayedFiles:
        if self._files is None:
            names = [name for name in self._schema.names if name != self._options["arrival"]]
            self._files = ReplayedFiles.at(self._options["path"], names)
        return self._files

    def _checked(self, told: dict[str, Any]) -> Offered:
        try:
            offered = Offered.from_dict(told)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointMismatch(
                "the checkpoint is of another source, which was no replay: give the source that it was begun with, or begin "
                "with a new checkpoint"
            ) from error
        self._known().check(offered, self._options["path"], loops=self._options["loop"] == "true")
        return offered

    def _look_at_pace(self, clock: ReplayClock) -> None:
        if "pace" not in self._options:
            return
        path = Path(self._options["pace"])
        if path.exists():
            clock.set_pace(Pace.read(path))
