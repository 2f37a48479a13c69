"""Where a physical plan shuffles placed rows once more by their key, told by the mark on the slot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from evenly.spark.jvm.plan_roles import column_name
from evenly.spark.placing.slot_mark import MARK

_BY_KEY = "REPARTITION_BY_NUM"
"""Why Spark shuffles: because it was asked to, by columns and to a number of partitions."""
_CONSUMERS = ("Aggregate", "Groups")
_LEADS_TO = {
    "ShuffleQueryStageExec": "plan",
    "BroadcastQueryStageExec": "plan",
    "ResultQueryStageExec": "plan",
    "TableCacheQueryStageExec": "plan",
    "ReusedExchangeExec": "child",
}
"""Nodes that have no children in Spark's eyes, and what they stand for."""


@dataclass(frozen=True)
class ShuffledAgain:
    """A second shuffle of placed rows by their key: what it hashes by, and what the placement hashed by."""

    by: tuple[str, ...]
    placed_by: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"rows that were placed by ({', '.join(self.placed_by)}) are shuffled again by ({', '.join(self.by)}), to where "
            f"Spark's hash puts them: group, join or partition by ({', '.join(self.placed_by)})"
        )


def executed_plan(df: DataFrame) -> Any:
    """The physical plan that an action would run."""
    return df._jdf.queryExecution().executedPlan()


def shuffled_again(plan: Any) -> tuple[ShuffledAgain, ...]:
    """What is found in a physical plan (a Java object), each once: of a finished adaptive plan, in what has run."""
    return tuple(dict.fromkeys(_found(plan, ())))


def _found(plan: Any, above: tuple[tuple[str, ...], ...]) -> Iterator[ShuffledAgain]:
    """`above` are the columns of the shuffles above a part of a plan, from the top, as far as they move its rows."""
    kind = plan.getClass().getSimpleName()
    if kind == "ShuffleExchangeExec":
        columns = _hashed_by(plan)
        if columns and is_slot(columns[-1]) and plan.shuffleOrigin().toString() == _BY_KEY:
            placed_by = tuple(column_name(column) for column in columns)
            for by in above:
                # By a part of the key, or by other columns, another question is asked.
                if set(placed_by[:-1]) <= set(by) and by != placed_by:
                    yield ShuffledAgain(by, placed_by)
            return
        if columns:
            above = (*above, tuple(column_name(column) for column in columns))
    elif any(word in kind for word in _CONSUMERS) and _groups_by_slot(plan):
        above = ()  # What is shuffled above are the results of groups that were found where they are.
    for child in below(plan, kind):
        yield from _found(child, above)


def below(plan: Any, kind: str) -> Iterator[Any]:
    """What a node of a physical plan reads, also where Spark shows no children."""
    if kind == "AdaptiveSparkPlanExec":
        yield plan.executedPlan() if plan.isFinalPlan() else plan.initialPlan()
    elif kind == "InMemoryTableScanExec":
        yield plan.relation().cachedPlan()
    elif kind in _LEADS_TO:
        yield getattr(plan, _LEADS_TO[kind])()
    else:
        yield from each(plan.children())


def _hashed_by(shuffle: Any) -> list[Any]:
    partitioning = shuffle.outputPartitioning()
    if "HashPartitioning" not in partitioning.getClass().getSimpleName():
        return []
    return list(each(partitioning.expressions()))


def _groups_by_slot(plan: Any) -> bool:
    for wanted in each(plan.requiredChildDistribution()):
        if wanted.getClass().getSimpleName() == "ClusteredDistribution" and any(map(is_slot, each(wanted.clustering()))):
            return True
    return False


def is_slot(column: Any) -> bool:
    """Whether a column of a plan is a marked slot."""
    return column.getClass().getSimpleName() == "AttributeReference" and bool(column.metadata().contains(MARK))


def each(found: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    for at in range(found.size()):
        yield found.apply(at)
