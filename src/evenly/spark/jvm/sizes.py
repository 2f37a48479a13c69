"""How large a batch is, as far as that is known without running anything."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from evenly.spark.features import Feature, has

_PLAIN = frozenset({"Project", "SubqueryAlias", "Sort", "Repartition", "RepartitionByExpression", "View", "ResolvedHint"})
"""Operators that give as many rows as they get."""
_COUNTED = frozenset({"InMemoryRelation", "LocalRelation", "Range"})
"""Leaves that know how many rows they have."""

_NOBODY_KNOWS = 2**50


@dataclass(frozen=True)
class Size:
    """Rows of a batch, their bytes each, the tasks that can run at once, and the bytes of all rows; None: not known."""

    rows: int | None = None
    row_bytes: float | None = None
    slots: int | None = None
    size_bytes: int | None = None


def size_of(df: DataFrame, *, last_rows: int = 0) -> Size:
    """From the statistics that Spark has of what `df` reads (counts of tables and of what is persisted, bytes of files).

    Where there is no count, `last_rows` stand in: the rows of the last batch.
    """
    if not has(df.sparkSession, Feature.PLANS):
        return Size(rows=last_rows or None)
    slots = _slots(df)
    try:
        rows, size = _counted(df._jdf.queryExecution().withCachedData())
    except Py4JError:
        rows = size = None
    known = rows if rows is not None else last_rows or None
    return Size(known, size / known if known and size is not None else None, slots, size)


def _counted(plan: Any) -> tuple[int | None, int | None]:
    """The rows that are read, if nothing above changes their number; and their bytes."""
    while plan.nodeName() in _PLAIN:
        plan = plan.children().apply(0)
    told = plan.stats()
    size = int(str(told.sizeInBytes()))
    rows = told.rowCount()
    return int(str(rows.get())) if rows.isDefined() else None, size if size < _NOBODY_KNOWS else None


def rows_known(df: DataFrame) -> tuple[int | None, bool]:
    """How many rows a batch has at the most, and whether exactly so many: of what is held in memory, and of ranges.

    Counts that a catalog has of its tables are left alone: they may be old.
    """
    if not has(df.sparkSession, Feature.PLANS):
        return None, False
    exactly = True
    try:
        plan = df._jdf.queryExecution().withCachedData()
        while (name := plan.nodeName()) in _PLAIN or name == "Filter":
            exactly = exactly and name != "Filter"
            plan = plan.children().head()
        if name not in _COUNTED or (name == "InMemoryRelation" and not plan.cacheBuilder().isCachedColumnBuffersLoaded()):
            return None, False
        rows = plan.stats().rowCount()
        return (int(str(rows.get())), exactly) if rows.isDefined() else (None, False)
    except Py4JError:
        return None, False


def _slots(df: DataFrame) -> int | None:
    context = df.sparkSession.sparkContext
    slots = int(context.defaultParallelism)
    # On this machine slots may be more than cores, for functions that wait; routing does not wait.
    return min(slots, os.cpu_count() or slots) if str(context.master).startswith("local") else slots
