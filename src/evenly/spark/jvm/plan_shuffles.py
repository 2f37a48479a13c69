"""The shuffles of a physical plan as plain data, from the input on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from evenly.diagnosis.spread import PlannedShuffle, ShuffleKind
from evenly.spark.jvm.plan_roles import column_name
from evenly.spark.jvm.shuffled_again import below, each, instances_of, is_slot
from evenly.spark.placing.own_columns import OWN
from evenly.spark.placing.placement import NUMBERED, PIECES
from evenly.spark.placing.slot_mark import MARK, why_chosen

_KINDS: dict[str, ShuffleKind] = {
    "HashPartitioning": "hash",
    "RangePartitioning": "range",
    "RoundRobinPartitioning": "round robin",
    "SinglePartition$": "single",
    "ShufflePartitionIdPassThrough": "id",
}
_PASSED = (
    "WholeStageCodegenExec",
    "InputAdapter",
    "AQEShuffleReadExec",
    "AdaptiveSparkPlanExec",
    "ShuffleQueryStageExec",
    "BroadcastQueryStageExec",
    "ResultQueryStageExec",
    "TableCacheQueryStageExec",
    "ReusedExchangeExec",
    "InMemoryTableScanExec",
    "ProjectExec",
    "FilterExec",
    "SortExec",
    "ColumnarToRowExec",
    "RowToColumnarExec",
    "CollectMetricsExec",
    "SubqueryExec",
)
"""Operators that are no reason for a shuffle below them."""
_OPERATOR_S = "ENSURE_REQUIREMENTS"
_FIXED = ("REPARTITION_BY_NUM", "STATEFUL_OPERATOR")
"""Origins whose number of partitions adaptive execution leaves alone."""


def planned_shuffles(df: DataFrame, plan: Any) -> tuple[PlannedShuffle, ...]:
    """The shuffles of the physical plan of `df`. One that is used twice is told once."""
    conf = df.sparkSession.conf
    merges = all(
        str(conf.get(name, "true")).lower() == "true"
        for name in ("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled")
    )
    return tuple(dict.fromkeys(_found(plan, None, merges=merges)))


def _found(plan: Any, reader: str | None, *, merges: bool) -> Iterator[PlannedShuffle]:
    kind = plan.getClass().getSimpleName()
    shuffles = kind in ("ShuffleExchangeExec", "BroadcastExchangeExec")
    for child in below(plan, kind):
        yield from _found(child, None if shuffles else reader if kind in _PASSED else _called(kind), merges=merges)
    for query in each(plan.subqueries()):
        yield from _found(query, None, merges=merges)
    if kind == "ShuffleExchangeExec":
        yield _shuffle(plan, reader, merges=merges)
    elif kind == "BroadcastExchangeExec":
        yield PlannedShuffle("copy", (), None, reader=reader)


def _shuffle(plan: Any, reader: str | None, *, merges: bool) -> PlannedShuffle:
    partitioning, origin = plan.outputPartitioning(), str(plan.shuffleOrigin().toString())
    kind = _KINDS.get(partitioning.getClass().getSimpleName(), "other")
    number, asked = int(partitioning.numPartitions()), origin != _OPERATOR_S
    adaptive = merges and origin not in _FIXED and kind not in ("single", "id")
    if kind == "id":
        numbered = partitioning.expr().child()
        used = list(each(numbered.references().toSeq()))
        ours = bool(used) and all(column_name(it).startswith(OWN) for it in used)
        marked = any(it.metadata().contains(name) or column_name(it) == NUMBERED for it in used for name in PIECES)
        pieces = ours and marked
        by = () if ours else (column_name(numbered),)
        return PlannedShuffle("id", by, number, ours=ours, asked=True, reader=reader, pieces=pieces)
    if kind not in ("hash", "range"):
        by = (str(partitioning.toString()),) if kind == "other" else ()
        return PlannedShuffle(kind, by, number, asked=asked, reader=reader, merges=adaptive)
    columns = list(each(partitioning.expressions() if kind == "hash" else partitioning.ordering()))
    ours = kind == "hash" and asked and bool(columns) and is_slot(columns[-1])
    names = tuple(column_name(it.child() if kind == "range" else it) for it in columns)
    slotted = kind == "hash" and any(map(is_slot, columns))
    kind = "slot" if slotted else kind
    chosen = why_chosen(str(columns[-1].metadata().getString(MARK))) if ours else ""
    slots = instances_of(columns[-1]) if slotted and is_slot(columns[-1]) else 0
    return PlannedShuffle(
        kind, names, number, ours=ours, asked=asked, reader=reader, merges=adaptive, chosen=chosen, slots_for=slots
    )


def _called(kind: str) -> str:
    return kind.removesuffix("Exec")
