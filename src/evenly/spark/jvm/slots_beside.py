"""Where a streaming pipeline has rows that something else placed meet its own by the slot: a static side of a join, an initial
state, another part of a union. Read from the analyzed plan, in which the query's own slots have a mark without a mapping, and
are made: what a query has written with its slot has that mark too, where the format keeps it, and is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

from pyspark.sql import DataFrame

from evenly.keys.placed import Beside
from evenly.spark.jvm.plan_roles import column_name, slots_made
from evenly.spark.jvm.shuffled_again import each, is_slot
from evenly.spark.jvm.slots_apart import compared, filter_patterns
from evenly.spark.placing.slot_mark import MARK


def slots_beside(df: DataFrame) -> tuple[Beside, ...]:
    """What is found in the plan of a pipeline, each once."""
    filters, plan = filter_patterns(df.sparkSession._jvm), df._jdf.queryExecution().analyzed()
    return tuple(dict.fromkeys(_beside(plan, filters, slots_made(plan))))


def _beside(plan: Any, filters: tuple[Any, ...], made: frozenset[int]) -> Iterator[Beside]:
    for one, other in _pairs(plan, filters):
        own, placed = _is_own(one, made), _is_own(other, made)
        if own != placed:
            yield _told(other if own else one)
    for child in (*each(plan.children()), *each(plan.subqueries())):
        yield from _beside(child, filters, made)


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


def _is_own(column: Any, made: frozenset[int]) -> bool:
    return is_slot(column) and _mapping(column) is None and int(column.exprId().id()) in made


def _told(column: Any) -> Beside:
    if not is_slot(column):
        return Beside(column_name(column), None)
    mapping = _mapping(column)
    return Beside(column_name(column), mapping, of_a_query=mapping is None)


def _mapping(slot: Any) -> str | None:
    found = json.loads(slot.metadata().getString(MARK)).get("mapping")
    return None if found is None else str(found)
