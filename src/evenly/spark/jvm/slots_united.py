"""Where a plan groups or joins by the slot of a union whose parts were placed by different mappings, or one by none: a slot
that `unionByName(allowMissingColumns=True)` fills with nulls.

A slot is a function of the key and the mapping. So a key that two parts of such a union have is there under two slots, in two
groups. Columns are followed through the logical plan, from unions upwards: a physical one has the mark of the first part alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from evenly.spark.jvm.key_roles import GROUPS_BY
from evenly.spark.jvm.plan_roles import column_name
from evenly.spark.jvm.plan_texts import texts_of
from evenly.spark.jvm.shuffled_again import each
from evenly.spark.placing.slot_mark import MARK

_TOLD_ID = re.compile(r"#(\d+)[A-Za-z]*$")
_UNPLACED = "no mapping: a null or another constant"
_Mappings = dict[int, frozenset[str]]
"""The mappings of slots by the ids of their columns, of those that have several."""


@dataclass(frozen=True)
class SlotsUnited:
    """Columns by which a union of rows that were placed by several mappings is grouped or joined, the slot among them."""

    by: tuple[str, ...]

    def __str__(self) -> str:
        return (
            "a union of rows that were placed by different mappings, or some of them by none, is grouped or joined by "
            f"({', '.join(self.by)}): a key that is in several of its parts has several slots, so its rows are in several "
            "groups. Place the union, "
            "one.union(other).transform(evenly.by_key, ...), or learn one mapping, learn_mapping(...), and give it to each "
            "part with mapping="
        )


def slots_united(df: DataFrame) -> tuple[SlotsUnited, ...]:
    """What is found in the plan of `df`, each once. Slots whose mapping is not known are left alone."""
    return united_in(df._jdf.queryExecution().analyzed(), *union_patterns(df.sparkSession._jvm))


def union_patterns(java: Any) -> tuple[Any, Any]:
    """What Spark marks plans with that have a union, and those that refer to a common table expression."""
    patterns = java.org.apache.spark.sql.catalyst.trees.TreePattern
    return patterns.UNION(), patterns.CTE()


def united_in(plan: Any, union: Any, common: Any) -> tuple[SlotsUnited, ...]:
    """The same, for an analyzed plan (a Java object). Without a union in it this is one call."""
    if not plan.containsPattern(union):
        return ()
    search = _Search((union, common))
    search.follow(plan)
    return tuple(dict.fromkeys(search.found))


class _Search:
    def __init__(self, patterns: tuple[Any, Any]) -> None:
        self._patterns = patterns
        self._defined: dict[int, list[frozenset[str] | None]] = {}
        self.found: list[SlotsUnited] = []

    def follow(self, plan: Any) -> _Mappings:
        """The slots of several mappings among the columns of a plan and of what is below it."""
        if not any(plan.containsPattern(pattern) for pattern in self._patterns):
            return {}
        kind = str(plan.getClass().getSimpleName())
        if kind == "CTERelationRef":
            pairs = zip(each(plan.output()), self._defined.get(int(plan.cteId()), []), strict=False)
            return {_id(column): mappings for column, mappings in pairs if mappings}
        children = list(each(plan.children()))
        slots = {column: mappings for child in children for column, mappings in self.follow(child).items()}
        if kind == "CTERelationDef":
            self._defined[int(plan.id())] = [slots.get(_id(column)) for column in each(plan.child().output())]
        elif kind == "Union":
            slots |= dict(_united(plan, children, slots))
        elif slots:
            self._list(plan, kind, slots)
            if kind == "Aggregate":
                return {}  # its results are no slots any more, or groups by them were told
            if kind == "Project":
                slots |= {_id(it): mappings for it in _named_of(plan.projectList(), slots) if (mappings := _used(it, slots))}
        return slots

    def _list(self, plan: Any, kind: str, slots: _Mappings) -> None:
        if kind == "Join" and plan.condition().isDefined():
            sides = [list(each(plan.condition().get().references().toSeq()))]
        else:
            sides = [list(each(getattr(plan, name)())) for name in GROUPS_BY.get(kind, ())]
        for columns in sides:
            of_slots = [bool(_used(column, slots)) for column in columns]
            # An aggregate by slots alone is of instances, not of keys: how many rows each has.
            if any(of_slots) and not (kind == "Aggregate" and all(of_slots)):
                self.found.append(SlotsUnited(tuple(dict.fromkeys(map(column_name, columns)))))


def _united(union: Any, parts: list[Any], slots: _Mappings) -> Iterator[tuple[int, frozenset[str]]]:
    """The columns of a union whose slots are of several mappings, or in one part of none."""
    of_parts = [dict(_marked(part)) for part in parts]
    if slots:
        for of_part, part in zip(of_parts, parts, strict=True):
            of_part |= {at: slots[column] for at, column in enumerate(_ids(part.output())) if column in slots}
    for at in dict.fromkeys(at for of_part in of_parts for at in of_part):
        mappings = frozenset().union(*(of_part.get(at, frozenset()) for of_part in of_parts))
        if any(at not in of_part and _is_constant(part, at) for of_part, part in zip(of_parts, parts, strict=True)):
            mappings |= {_UNPLACED}
        if len(mappings) > 1:
            yield _id(union.output().apply(at)), mappings


def _is_constant(part: Any, at: int) -> bool:
    """Whether a column of a part of a union has one value in all rows, as one has that `unionByName` has filled with nulls."""
    wanted = _id(part.output().apply(at))
    while (ids := _ids(part.output())).count(wanted):
        if part.getClass().getSimpleName() == "Project":
            made = part.projectList().apply(ids.index(wanted))
            while made.getClass().getSimpleName() in ("Alias", "Cast"):
                made = made.child()
            if made.foldable():
                return True
            if made.getClass().getSimpleName() != "AttributeReference":
                return False
            wanted = _id(made)
        if part.children().size() != 1:
            return False
        part = part.children().head()
    return False


def _marked(part: Any) -> Iterator[tuple[int, frozenset[str]]]:
    """The mappings of the slots that a part of a union has, by their places."""
    for at, field in enumerate(json.loads(part.schema().json())["fields"]):
        mark = field.get("metadata", {}).get(MARK)
        mapping = None if mark is None else json.loads(mark).get("mapping")
        if mapping is not None:
            yield at, frozenset([str(mapping)])


def _used(expression: Any, slots: _Mappings) -> frozenset[str]:
    """The mappings of the slots that an expression is made of."""
    used = [slots.get(_id(it), frozenset()) for it in each(expression.references().toSeq())]
    return frozenset().union(*used)


def _named_of(expressions: Any, slots: _Mappings) -> Iterator[Any]:
    """Those of many expressions that give something made of slots a name of its own, found by one call."""
    texts = texts_of(expressions)
    for at, text in enumerate(texts):
        if " AS " in text and (" more fields" in text or any(f"#{column}" in text for column in slots)):
            yield expressions.apply(at)


def _ids(columns: Any) -> list[int]:
    """The ids of many columns, by one call where their texts tell them."""
    told = [_TOLD_ID.search(text) for text in texts_of(columns)]
    found = [int(it.group(1)) for it in told if it]
    return found if len(found) == len(told) else [_id(column) for column in each(columns)]


def _id(column: Any) -> int:
    return int(column.exprId().id())
