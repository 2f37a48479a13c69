"""What each batch of a streaming query shows of its rows: exact rows per instance and a random sample of key ids.

Both are native aggregates beside the query (`DataFrame.observe`), so no row goes through Python. The sample is the
rows with the least random numbers: it is uniform and bounded, and the number of rows need not be known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from evenly.grouping.controller import BatchLoad
from evenly.kernels.types import F64
from evenly.spark import murmur3

_DRAWN = "__evenly_drawn"


class Observation:
    """The observation of one run of a query, under one version of its mapping, for each of its placed DataFrames."""

    def __init__(self, name: str, *, version: int, instances: int, sample: int) -> None:
        self._name, self.version, self._sample = name, version, sample
        self._instance_of = {int(value): at for at, value in enumerate(murmur3.partition_constants(instances))}

    def of(self, side: int) -> Callable[[DataFrame, Column, Column, Column | None], DataFrame]:
        """Adds the observation to the rows of one DataFrame: what `with_slot_of_window` takes."""

        def observe(steps: DataFrame, routed: Column, identity: Column, newest: Column | None) -> DataFrame:
            shown = [
                self._rows_of(routed).alias("rows"),
                F.min_by(identity, F.col(_DRAWN), self._sample).alias("ids"),
            ]
            if newest is not None:
                shown.append(self._rows_of(F.when(newest, routed)).alias("newest"))
            return steps.withColumn(_DRAWN, F.rand()).observe(f"{self._name}_{side}", *shown).drop(_DRAWN)

        return observe

    def _rows_of(self, routed: Column) -> Column:
        # A summary of frequent items with a counter for each instance: its counts are exact, at one update a row.
        instances = len(self._instance_of)
        return F.call_function("approx_top_k", routed, F.lit(instances), F.lit(max(64, 2 * instances)))

    def read(self, metrics: dict[str, Row]) -> tuple[F64, BatchLoad] | None:
        """What a batch showed, over all sides; None if it was not observed."""
        found = [row for name, row in metrics.items() if name.rsplit("_", 1)[0] == self._name]
        if not found:
            return None
        rows = np.sum([self._decoded(row["rows"]) for row in found], axis=0)
        newest = np.sum([self._decoded(row["newest" if "newest" in row else "rows"]) for row in found], axis=0)
        ids = np.concatenate([np.array(row["ids"] or [], np.int64) for row in found])
        return rows, BatchLoad(newest, ids.view(np.uint64))

    def _decoded(self, counted: list[Any] | None) -> F64:
        rows = np.zeros(len(self._instance_of))
        for entry in counted or []:
            if entry["item"] is not None:
                rows[self._instance_of[entry["item"]]] = entry["count"]
        return rows


class ProgressListener(StreamingQueryListener):
    """Hands the observed metrics of every batch of a session's queries on."""

    def __init__(self, receive: Callable[[int, dict[str, Row]], None]) -> None:
        self._receive = receive

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self._receive(event.progress.batchId, event.progress.observedMetrics)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass
