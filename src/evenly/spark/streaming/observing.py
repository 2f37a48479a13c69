"""What each batch of a streaming query shows of its rows: rows per instance, rows per bucket, and the heaviest keys.

All are native aggregates beside the query (`DataFrame.observe`), so no row goes through Python. Each is a summary of frequent
items. That of instances and that of buckets have a counter for every item, so they are exact, at one update a row.
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
from evenly.grouping.keys.dkg import DKG, KeyCounts
from evenly.kernels.types import F64

_LEAST_TRACKED, _MOST_TRACKED = 64, 16_384


class Counted:
    """Rows by key as native aggregates, and what they gave as counts for a learner of these parameters."""

    def __init__(self, learner: DKG) -> None:
        self._buckets, self._keys = learner.bucket_count, min(learner.counters, _MOST_TRACKED // 4)

    def columns(self, identity: Column) -> list[Column]:
        """The aggregates, named `buckets` and `heavy`."""
        bucket = F.pmod(identity, F.lit(self._buckets).cast("bigint")).cast("int")
        # Four counters for each key that is told: those told are then nearly exact.
        return [_counts(bucket, self._buckets).alias("buckets"), _counts(identity, self._keys, spare=4).alias("heavy")]

    def read(self, rows: list[Row]) -> KeyCounts:
        """The counts of one batch, over all that was observed of it."""
        buckets = np.zeros(self._buckets)
        found = []
        for row in rows:
            for entry in row["buckets"] or []:
                buckets[entry["item"]] += entry["count"]
            found += [(entry["item"], entry["count"]) for entry in row["heavy"] or []]
        ids = np.array([item for item, _ in found], np.int64).view(np.uint64)
        return KeyCounts(buckets, ids, np.array([count for _, count in found], np.float64))


def _counts(item: Column, items: int, *, spare: int = 2) -> Column:
    """The most frequent of a column's values, with their counts; exact if there are no more than `items`."""
    tracked = max(_LEAST_TRACKED, 2 ** (spare * items - 1).bit_length())
    return F.call_function("approx_top_k", item, F.lit(items), F.lit(tracked))


class Observation:
    """The observation of one run of a query, under one version of its mapping, for each of its placed DataFrames."""

    def __init__(self, name: str, *, version: int, instances: int, learner: DKG) -> None:
        self._name, self.version, self._counted = name, version, Counted(learner)
        self._instances = instances

    def of(self, side: int) -> Callable[[DataFrame, Column, Column, Column | None], DataFrame]:
        """Adds the observation to the rows of one DataFrame: what `with_slot_of_window` takes."""

        def observe(steps: DataFrame, routed: Column, identity: Column, newest: Column | None) -> DataFrame:
            shown = [_counts(routed, self._instances).alias("rows"), *self._counted.columns(identity)]
            if newest is not None:
                shown.append(_counts(F.when(newest, routed), self._instances).alias("newest"))
            return steps.observe(f"{self._name}_{side}", *shown)

        return observe

    def read(self, metrics: dict[str, Row]) -> tuple[F64, BatchLoad] | None:
        """What a batch showed, over all sides; None if it was not observed."""
        found = [row for name, row in metrics.items() if name.rsplit("_", 1)[0] == self._name]
        if not found:
            return None
        rows = np.sum([self._decoded(row["rows"]) for row in found], axis=0)
        newest = np.sum([self._decoded(row["newest" if "newest" in row else "rows"]) for row in found], axis=0)
        return rows, BatchLoad(newest, self._counted.read(found))

    def _decoded(self, counted: list[Any] | None) -> F64:
        rows = np.zeros(self._instances)
        for entry in counted or []:
            if entry["item"] is not None:
                rows[entry["item"]] = entry["count"]
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
