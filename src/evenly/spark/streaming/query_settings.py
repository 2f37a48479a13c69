"""What every streaming form takes: where its query keeps its progress, when its batches begin, and its name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from evenly.checks import checked_path
from evenly.errors import InvalidParameter
from evenly.spark.jvm.hadoop_files import located
from evenly.spark.jvm.java_errors import Py4JError

Trigger = Mapping[str, Any]
"""What `writeStream.trigger` takes, such as {"availableNow": True} or {"processingTime": "10 seconds"}."""


@dataclass(frozen=True)
class QuerySettings:
    """How a query is started, at first and whenever it is started again. None: as Spark does it, or as its writer has it."""

    checkpoint: str
    trigger: Trigger | None = None
    query_name: str | None = None

    @classmethod
    def checked(
        cls, rows: DataFrame, checkpoint: str | os.PathLike[str], trigger: Trigger | None, query_name: str | None
    ) -> QuerySettings:
        """For a query over streaming `rows`. What is wrong is said here, before anything is written or started."""
        path = checked_path(checkpoint, "checkpoint", "a folder that the query keeps")
        located(rows.sparkSession, path)
        if query_name is not None and not (isinstance(query_name, str) and query_name.strip()):
            raise InvalidParameter(f"query_name must be a name, or None, got {query_name!r}")
        if query_name is not None and query_name in (query.name for query in rows.sparkSession.streams.active):
            raise InvalidParameter(
                f"a query with the name {query_name!r} runs in this session: stop it, or give another query_name="
            )
        if trigger is not None:
            _check_trigger(rows, trigger)
            trigger = dict(trigger)  # of now, whatever its owner does with it later
        return cls(path, trigger, query_name)

    def applied(self, writer: DataStreamWriter) -> DataStreamWriter:
        """A writer with what is given here; what is not given stays as the writer has it."""
        if self.trigger is not None:
            writer = writer.trigger(**self.trigger)
        return writer if self.query_name is None else writer.queryName(self.query_name)


def _check_trigger(rows: DataFrame, trigger: Trigger) -> None:
    """Spark itself is asked, by a writer that is thrown away: it knows which triggers there are."""
    for name in ("continuous", "realTime"):
        if isinstance(trigger, Mapping) and name in trigger:
            raise InvalidParameter(
                f"trigger {trigger!r} has no micro-batches, in which these queries work: give {{'processingTime': '1 second'}}"
            )
    try:
        rows.writeStream.trigger(**trigger)
    except (PySparkException, Py4JError, TypeError, ValueError) as error:
        why = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InvalidParameter(
            f"trigger must be what writeStream.trigger takes, such as {{'availableNow': True}}, got {trigger!r}: {why}"
        ) from error
