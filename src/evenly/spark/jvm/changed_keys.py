"""Where a plan groups or joins by a slot and a key column that was changed after the slot was made of it.

A slot is a function of the key that it was made of. Keys that have become equal since, by `lower` or `fillna`, have different
ones, so their rows are in several groups. Spark has to shuffle such rows again, which is where this is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from evenly.spark.jvm.plan_roles import column_name

_WRAPPED = ("KnownFloatingPointNormalized", "NormalizeNaNAndZero", "KnownNotNull", "KnownNullable")

_MADE_BY = {
    "ProjectExec": "projectList",
    **dict.fromkeys(("HashAggregateExec", "ObjectHashAggregateExec", "SortAggregateExec"), "resultExpressions"),
}
"""Operators that compute columns, and what they call them. (Spark puts into an aggregate what is computed of its results.)"""


@dataclass(frozen=True)
class KeyChanged:
    """Columns by which rows are grouped or joined, and those of them that are other values than the slot was made of."""

    by: tuple[str, ...]
    changed: tuple[str, ...]

    def __str__(self) -> str:
        told = ", ".join(self.changed)
        return (
            f"rows are grouped or joined by ({', '.join(self.by)}), and {told} was computed anew after the slot was made: "
            f"where keys have become equal by that, their slots still differ, so their rows are in several groups. Compute "
            f"{told} first, and place then: df.withColumn(...).transform(evenly.by_key, ...)"
        )


@dataclass(frozen=True)
class ShuffledBy:
    """The columns of a shuffle as they are called in it, and what each is called, by its id, where the plan was followed to.

    `by_slot` says whether a slot is among them; `changed` are those that were found to be computed on the way. `of_results`:
    what is shuffled are the results of groups that were found where they are.
    """

    names: tuple[str, ...]
    ids: dict[int, str]
    by_slot: bool
    changed: frozenset[str] = frozenset()
    of_results: bool = False

    @classmethod
    def of(cls, columns: list[Any], *, by_slot: bool) -> ShuffledBy:
        """The columns that a plan is shuffled by."""
        plain = [it for it in columns if _kind(it) == "AttributeReference"]
        return cls(tuple(map(column_name, columns)), {_id(it): column_name(it) for it in plain}, by_slot)

    def below(self, plan: Any) -> ShuffledBy:
        """The same in what a node of a physical plan reads."""
        columns = _MADE_BY.get(plan.getClass().getSimpleName())
        if not self.by_slot or columns is None:
            return self
        ids, changed = dict(self.ids), set(self.changed)
        for made in _each(getattr(plan, columns)()):
            if _kind(made) != "Alias" or _id(made) not in ids:
                continue
            name, value = ids.pop(_id(made)), _value(made.child())
            if _kind(value) == "AttributeReference":
                ids[_id(value)] = name
            elif not value.references().isEmpty():
                changed.add(name)
        return replace(self, ids=ids, changed=frozenset(changed))

    def found(self, placed_by: tuple[str, ...]) -> Iterator[KeyChanged]:
        """Whether rows that were placed by these columns are shuffled by other values of the same names."""
        changed = tuple(name for name in placed_by[:-1] if name in self.changed)
        if changed and set(placed_by[:-1]) <= set(self.names):
            yield KeyChanged(self.names, changed)


def _value(expression: Any) -> Any:
    """What is below casts that keep every value, and below what makes equal numbers have equal bits."""
    while True:
        kind = _kind(expression)
        keeps = kind == "Cast" and expression.canUpCast(expression.child().dataType(), expression.dataType())
        if not keeps and kind not in _WRAPPED:
            return expression
        expression = expression.child()


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def _id(column: Any) -> int:
    return int(column.exprId().id())


def _each(found: Any) -> Iterator[Any]:
    for at in range(found.size()):
        yield found.apply(at)
