"""Where a streaming pipeline has rows that something else placed meet its own by the slot: a static side of a join, an initial
state, another part of a union. Read from the analyzed plan, in which the query's own slots have a mark without a mapping.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

from pyspark.sql import DataFrame

from evenly.keys.placed import Beside
from evenly.spark.jvm.plan_roles import column_name
from evenly.spark.jvm.shuffled_again import each, is_slot
from evenly.spark.jvm.slots_apart import compared, filter_patterns
from evenly.spark.placing.slot_mark import MARK


def slots_beside(df: DataFrame) -> tuple[Beside, ...]:
    """What is found in the plan of a pipeline, each once."""
    filters = filter_patterns(df.sparkSession._jvm)
    return tuple(dict.fromkeys(_beside(df._jdf.queryExecution().analyzed(), filters)))


def _beside(plan: Any, filters: tuple[Any, ...]) -> Iterator[Beside]:
    for one, other in _pairs(plan, filters):
        own, placed = _is_own(one), _is_own(other)
        if own != placed:
            yield _told(other if own else one)
    for child in (*each(plan.children()), *each(plan.subqueries())):
        yield from _beside(child, filters)


def _pairs(plan: Any, filters: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    """The columns that have to be equal in one node of a plan for rows to meet."""
    kind = plan.getClass().getSimpleName()
    if kind.startswith("TransformWithState") and kind != "TransformWithState":
        yield from zip(each(plan.leftAttributes()), each(plan.rightAttributes()), strict=False)
    elif kind == "Union":
        first, *others = (list(each(child.output())) for child in each(plan.children()))
        for columns, (at, column) in product(others, enumerate(first)):
            if is_slot(column) and is_slot(columns[at]):
                yield column, columns[at]
    else:
        yield from ((left, right) for left, right, _ in compared(plan, filters))


def _is_own(column: Any) -> bool:
    return is_slot(column) and _mapping(column) is None


def _told(column: Any) -> Beside:
    return Beside(column_name(column), _mapping(column) if is_slot(column) else None)


def _mapping(slot: Any) -> str | None:
    found = json.loads(slot.metadata().getString(MARK)).get("mapping")
    return None if found is None else str(found)
