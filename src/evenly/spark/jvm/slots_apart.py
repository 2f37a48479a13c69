"""Where a plan joins, cogroups or compares rows by slots of two mappings, under which equal keys do not meet.

A physical plan has the marks of both slots where rows meet in a join that adds columns, or in a cogroup. Joins that only
filter one side (semi, anti, IN, EXISTS, INTERSECT, EXCEPT) Spark moves to where that side's slot is computed and has no mark
yet: these are read from the plan as it was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from evenly.spark.jvm.plan_roles import column_name
from evenly.spark.jvm.shuffled_again import below, each, is_slot
from evenly.spark.placing.slot_mark import MARK

_FILTERS = ("LEFT_SEMI_OR_ANTI_JOIN", "INTERSECT", "EXCEPT", "IN_SUBQUERY", "EXISTS_SUBQUERY", "OUTER_REFERENCE")
"""What Spark marks plans with in which one side only filters the other."""
_SAME, _OUTER = ("EqualTo", "EqualNullSafe"), "OuterReference"


@dataclass(frozen=True)
class SlotsApart:
    """A join, cogroup or comparison of rows by two slot columns that were made by different mappings."""

    left: str
    right: str
    rows_compared: bool = False

    def __str__(self) -> str:
        what = "a comparison of rows (intersect, except, in)" if self.rows_compared else "a join or cogroup"
        return (
            f"{what} by {self.left} = {self.right} misses rows: these slots are of two mappings, so rows of one key "
            "have different ones. Learn one mapping, learn_mapping(...), and give it to both sides with mapping=, or use "
            "join_by_key"
        )


def slots_apart(df: DataFrame, plan: Any) -> tuple[SlotsApart, ...]:
    """What is found in the plan of `df`, which is physically `plan`, each once. Slots whose mapping is not known are left
    alone."""
    filters = filter_patterns(df.sparkSession._jvm)
    return tuple(
        dict.fromkeys((*apart_where_joined(plan), *apart_where_filtered(df._jdf.queryExecution().analyzed(), filters)))
    )


def filter_patterns(java: Any) -> tuple[Any, ...]:
    """What Spark marks plans with that `apart_where_filtered` is to look at."""
    patterns = java.org.apache.spark.sql.catalyst.trees.TreePattern
    return tuple(getattr(patterns, name)() for name in _FILTERS)


def apart_where_joined(plan: Any) -> Iterator[SlotsApart]:
    """Of a physical plan (a Java object) the joins that add columns, and cogroups."""
    kind = plan.getClass().getSimpleName()
    for left, right in _met(plan, kind):
        yield from _apart(left, right)
    for child in (*below(plan, kind), *each(plan.subqueries())):
        yield from apart_where_joined(child)


def apart_where_filtered(plan: Any, filters: tuple[Any, ...]) -> Iterator[SlotsApart]:
    """Of an analyzed plan (a Java object) what filters one side by the other. Without any this is a call for each pattern."""
    if not any(plan.containsPattern(it) for it in filters):
        return
    for left, right, rows_compared in compared(plan, filters):
        yield from _apart(left, right, rows_compared=rows_compared)
    for child in (*each(plan.children()), *each(plan.subqueries())):
        yield from apart_where_filtered(child, filters)


def compared(plan: Any, filters: tuple[Any, ...]) -> Iterator[tuple[Any, Any, bool]]:
    """The pairs of columns that are to be equal in one node of a plan, and whether whole rows are compared."""
    kind = plan.getClass().getSimpleName()
    if kind in ("Intersect", "Except"):
        for left, right in zip(each(plan.left().output()), each(plan.right().output()), strict=False):
            yield left, right, True
    elif kind == "Join" and plan.condition().isDefined():
        for left, right in equal_pairs(plan.condition().get()):
            yield left, right, False
    elif kind == "Filter":
        for query in _queries_of_in(plan.condition(), filters):
            for left, right in zip(each(query.values()), each(query.query().plan().output()), strict=False):
                yield left, right, True
        for left, right in equal_pairs(plan.condition()):
            if _OUTER in (left.getClass().getSimpleName(), right.getClass().getSimpleName()):
                yield left, right, False


def _queries_of_in(condition: Any, filters: tuple[Any, ...]) -> Iterator[Any]:
    """The `IN (SELECT …)` in a condition."""
    if any(condition.containsPattern(it) for it in filters):
        if condition.getClass().getSimpleName() == "InSubquery":
            yield condition
        for child in each(condition.children()):
            yield from _queries_of_in(child, filters)


def equal_pairs(condition: Any) -> Iterator[tuple[Any, Any]]:
    """What a condition wants to be equal, both sides each."""
    kind = condition.getClass().getSimpleName()
    if kind == "And":
        yield from equal_pairs(condition.left())
        yield from equal_pairs(condition.right())
    elif kind in _SAME:
        yield condition.left(), condition.right()


def _apart(left: Any, right: Any, *, rows_compared: bool = False) -> Iterator[SlotsApart]:
    left, right = (it.e() if it.getClass().getSimpleName() == _OUTER else it for it in (left, right))
    one, other = _mapping(left), _mapping(right)
    if one and other and one != other:
        yield SlotsApart(column_name(left), column_name(right), rows_compared)


def _met(plan: Any, kind: str) -> Iterator[tuple[Any, Any]]:
    """The columns of two sides that are to be equal where rows meet."""
    if "HashJoin" in kind or "SortMergeJoin" in kind:
        return zip(each(plan.leftKeys()), each(plan.rightKeys()), strict=False)
    if "CoGroups" in kind:
        return zip(each(plan.leftGroup()), each(plan.rightGroup()), strict=False)
    return iter(())


def _mapping(column: Any) -> str | None:
    if not is_slot(column):
        return None
    told = json.loads(column.metadata().getString(MARK)).get("mapping")
    return None if told is None else str(told)
