"""Where a physical plan joins or cogroups by slots of two mappings, under which equal keys do not meet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evenly.spark.jvm.plan_roles import column_name
from evenly.spark.jvm.shuffled_again import below, each, is_slot
from evenly.spark.placing.slot_mark import MARK


@dataclass(frozen=True)
class SlotsApart:
    """A join or cogroup by two slot columns that were made by different mappings."""

    left: str
    right: str

    def __str__(self) -> str:
        return (
            f"a join or cogroup by {self.left} = {self.right} misses rows: these slots are of two mappings, so rows of one key "
            "have different ones. Learn one mapping, learn_mapping(...), and give it to both sides with mapping=, or use "
            "join_by_key"
        )


def slots_apart(plan: Any) -> tuple[SlotsApart, ...]:
    """What is found in a physical plan (a Java object), each once. Slots whose mapping is not known are left alone."""
    return tuple(dict.fromkeys(_found(plan)))


def _found(plan: Any) -> Iterator[SlotsApart]:
    kind = plan.getClass().getSimpleName()
    for left, right in _met(plan, kind):
        one, other = _mapping(left), _mapping(right)
        if one and other and one != other:
            yield SlotsApart(column_name(left), column_name(right))
    for child in below(plan, kind):
        yield from _found(child)


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
