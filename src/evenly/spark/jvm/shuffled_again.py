"""Where a physical plan shuffles placed rows once more, told by the mark on the slot.

By their key alone, for the slot was forgotten; or by key and slot to another number of partitions than slots are made for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from evenly.spark.jvm.plan_roles import column_name
from evenly.spark.keyed.keys import spelled
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
    """A second shuffle of placed rows by their key: what it hashes by, and what the placement hashed by.

    Where that is the same, slots are for so many `instances`, and it is to so many `partitions` (else both are 0).
    """

    by: tuple[str, ...]
    placed_by: tuple[str, ...]
    partitions: int = 0
    instances: int = 0

    def __str__(self) -> str:
        if self.partitions:
            return (
                f"rows with slots for {self.instances} instances are shuffled by ({', '.join(self.by)}) to {self.partitions} "
                "partitions, where slots lead anywhere: they are as uneven as by Spark's hash. Group, join or partition them "
                "right behind by_key, with no repartition, checkpoint or function in Python between, or "
                f"spark.conf.set('spark.sql.shuffle.partitions', {self.instances})"
            )
        return (
            f"rows that were placed by ({', '.join(self.placed_by)}) are shuffled again by ({', '.join(self.by)}), to where "
            f"Spark's hash puts them: group, join or partition by ({', '.join(self.placed_by)})"
        )


@dataclass(frozen=True)
class _ShuffledBy:
    """The columns of a shuffle, and whether a slot is among them. `of_results`: what is shuffled are the results of groups that
    were found where they are."""

    names: tuple[str, ...]
    by_slot: bool
    of_results: bool = False


def executed_plan(df: DataFrame) -> Any:
    """The physical plan that an action would run."""
    return df._jdf.queryExecution().executedPlan()


def shuffled_again(plan: Any) -> tuple[ShuffledAgain, ...]:
    """What is found in a physical plan (a Java object), each once: of a finished adaptive plan, in what has run."""
    return tuple(dict.fromkeys(_found(plan, ())))


def _found(plan: Any, above: tuple[_ShuffledBy, ...]) -> Iterator[ShuffledAgain]:
    """`above` are the columns of the shuffles above a part of a plan, from the top, as far as they move its rows."""
    kind = plan.getClass().getSimpleName()
    if kind == "ShuffleExchangeExec":
        columns = _hashed_by(plan)
        if columns and is_slot(columns[-1]) and plan.shuffleOrigin().toString() == _BY_KEY:
            placed_by = tuple(column_name(column) for column in columns)
            for shuffle in above:
                by = shuffle.names
                # By a part of the key, by other columns, or by more than key and slot another question is asked.
                asks_for_less = set(placed_by[:-1]) <= set(by) and by != placed_by and not set(placed_by) < set(by)
                if asks_for_less and not shuffle.of_results:
                    yield ShuffledAgain(by, placed_by)
            return
        if columns and is_slot(columns[-1]):
            yield from _elsewhere(plan, columns)
        if columns:
            above = (*above, _ShuffledBy(tuple(map(column_name, columns)), any(map(is_slot, columns))))
    elif any(word in kind for word in _CONSUMERS) and _groups_by_slot(plan):
        # What is shuffled above are the results of groups that were found where they are.
        above = tuple(replace(it, of_results=True) for it in above if it.by_slot)
    for child in below(plan, kind):
        yield from _found(child, above)
    for query in each(plan.subqueries()):
        yield from _found(query, ())


def _elsewhere(shuffle: Any, columns: list[Any]) -> Iterator[ShuffledAgain]:
    """A shuffle by key and slot, to another number of partitions than the slots are made for."""
    instances, names = instances_of(columns[-1]), tuple(map(column_name, columns))
    key = [name.lower() for name in json.loads(columns[-1].metadata().getString(MARK))["key"]]
    partitions = int(shuffle.outputPartitioning().numPartitions())
    # By the slot and other columns another question is asked.
    asked = [spelled(name).lower() for name in names[:-1]]
    if instances not in (0, partitions) and asked == key and not _is_another_matter(shuffle):
        yield ShuffledAgain(names, names, partitions, instances)


def _is_another_matter(plan: Any) -> bool:
    """Whether what is below is to be cached first: then Spark knows where rows are, and may plan without the shuffle. Or it is
    a union, whose parts may have slots of several mappings (`slots_united`)."""
    while True:
        kind = plan.getClass().getSimpleName()
        if kind == "InMemoryTableScanExec":
            return not plan.relation().cacheBuilder().isCachedColumnBuffersLoaded()
        inputs = list(below(plan, kind))
        if len(inputs) != 1:
            return bool(kind == "UnionExec")
        plan = inputs[0]


def instances_of(slot: Any) -> int:
    """How many instances the slots of a column, which is one, lead to; 0 if that is not known."""
    return int(json.loads(slot.metadata().getString(MARK)).get("instances", 0))


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
