"""Where a plan groups, joins or compares rows by a slot and by what was computed from the key that the slot was made of.

A slot is a function of the key as it was placed. Keys that become equal later, by `lower` or `fillna`, whether in front of a
grouping or within it, have different ones, so their rows are in several groups. Columns are followed upwards through the plan
as it was asked for, from where rows are placed: Spark may shuffle for such a grouping, copy a side of a join, or do neither.
On the way slots of two mappings are found that meet where they have no mark any more: cast, in a struct, or null-safely.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from evenly.spark.jvm.key_roles import (
    GROUPS_BY,
    NONE,
    SLOT,
    Columns,
    KeyRole,
    Roles,
    TooMuch,
    column_id,
    computed,
    fields_of,
    kept_value,
    kind_of,
    looks,
    made_of_known,
    place_of,
    roles_of,
    taken_of,
    values_in,
    whole_roles,
)
from evenly.spark.jvm.plan_roles import column_name
from evenly.spark.jvm.plan_texts import ids_in, name_and_id, names_and_ids, texts_of
from evenly.spark.jvm.shuffled_again import each, is_slot
from evenly.spark.jvm.slots_apart import SlotsApart, compared, equal_pairs, filter_patterns
from evenly.spark.keyed.keys import name_parts
from evenly.spark.placing.slot_mark import MARK

_COMPARES = ("Join", "Intersect", "Except", "Filter")
_OWN_NAME = re.compile(r"_w\d+$|_groupingexpression|.*\(")
"""What Spark calls columns that it makes of expressions in a grouping."""
_OF_STREAM = "of slot "
_MOST_LOOKS = 2_500
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeyChanged:
    """Columns by which rows are grouped or joined, and those of them that are other values than the slot was made of."""

    by: tuple[str, ...]
    changed: tuple[str, ...]

    def __str__(self) -> str:
        told = ", ".join(self.changed)
        return (
            f"rows are grouped or joined by ({', '.join(self.by)}), and {told} was computed anew after the slot was made: "
            "where keys have become equal by that, their slots still differ, so their rows are in several groups, or do not "
            f"meet. Compute {told} first, and place by that: df.withColumn(...), then by_key or stream_by_key"
        )


def keys_changed(df: DataFrame) -> tuple[KeyChanged | SlotsApart, ...]:
    """What is found in the plan of `df`, each once."""
    return changed_in(df._jdf.queryExecution().analyzed(), filter_patterns(df.sparkSession._jvm))


def changed_in(plan: Any, filters: tuple[Any, ...], only: tuple[Any, ...] = ()) -> tuple[KeyChanged | SlotsApart, ...]:
    """The same, for an analyzed plan (a Java object), or of it what has one of the patterns `only`.

    Nobody waits long for it, and no job fails for it: of a plan of thousands of operators or computed columns what is found
    by then, and nothing of one that cannot be read.
    """
    search = _Search(filters, only)
    try:
        with looks(_MOST_LOOKS):
            search.follow(plan, {})
    except TooMuch:
        _LOG.debug("keys that are computed anew are not looked for in all of a plan, which is too large")
    except Exception:  # noqa: BLE001 - what a plan may have is Spark's matter and that of its extensions
        _LOG.debug("keys that are computed anew cannot be looked for in a plan", exc_info=True)
    return tuple(dict.fromkeys(search.found))


@dataclass
class _Side:
    """What one side of an operator groups or compares by, and the roles of each that has some: of a struct, of its fields."""

    by: Any
    roles: dict[int, list[Roles]]

    def all_roles(self) -> Roles:
        return frozenset(it for values in self.roles.values() for roles in values for it in roles)


@dataclass
class _Placing:
    """What is known of rows that were placed, at one place of a plan: how the columns of their key are called, and the ids of
    all of their columns."""

    mapping: str
    key: list[list[str]]
    columns: frozenset[int]


@dataclass
class _Search:
    filters: tuple[Any, ...]
    only: tuple[Any, ...]
    placings: list[_Placing] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    defined: dict[int, list[Roles]] = field(default_factory=dict)
    found: list[KeyChanged | SlotsApart] = field(default_factory=list)

    def follow(self, plan: Any, outer: Columns) -> Columns:
        """The roles of the columns of a plan; `outer` has those of the plan that it is a subquery of."""
        # A loop where there is one input: plans are deeper than Python's calls may be.
        above: list[tuple[Any, str, list[Any]]] = []
        while not self.only or any(plan.containsPattern(it) for it in self.only):
            above.append((plan, kind_of(plan), list(each(plan.children()))))
            if len(above[-1][2]) != 1:
                break
            plan = above[-1][2][0]
        columns: Columns = {}
        for node, kind, children in reversed(above):
            parts = [columns] if len(children) == 1 else [self.follow(child, outer) for child in children]
            columns = self._columns(node, kind, parts, outer)
        return columns

    def _columns(self, plan: Any, kind: str, parts: list[Columns], outer: Columns) -> Columns:
        """The roles of the columns of one operator, by those of what it reads."""
        if kind == "RepartitionByExpression" and (placed := self._placed(plan)):
            return placed
        if not parts:
            return self._read(plan, kind)
        if kind == "CTERelationDef":
            self.defined[int(plan.id())] = _in_order(plan.child(), parts[0])
        if kind == "WithCTE":
            return parts[-1]
        columns = {place: roles for part in parts for place, roles in part.items()}
        inner: Columns = {}
        for query in each(plan.subqueries()):
            inner |= self.follow(query, outer | columns)
        if kind == "Project" and plan.isStreaming() and (placed := self._made_by_stream(plan)):
            return placed
        if found := tuple(self._wrong(plan, kind, outer | inner | columns, nested=bool(outer))):
            self.found.extend(found)
            columns = {place: roles for place, roles in columns.items() if all(it.at != SLOT for it in roles)}
        if columns:
            self._follow_up(plan, kind, columns, parts)
        return columns

    def _placed(self, plan: Any) -> Columns:
        """The columns of a shuffle that places rows; none of another one."""
        by = list(each(plan.partitionExpressions()))
        if not by or not is_slot(by[-1]):
            return {}
        placing = self._placing(by[-1], names_and_ids(plan.output()))
        roles = [*range(len(by) - 1), SLOT]
        return {place_of(it): frozenset([KeyRole(placing, at)]) for it, at in zip(by, roles, strict=True) if place_of(it)}

    def _made_by_stream(self, plan: Any) -> Columns:
        """Those of the projection of a stream that makes its slot, which is not shuffled by it yet."""
        for made in map(plan.projectList().apply, _marked(plan)):
            if kind_of(made) == "Alias" and made.explicitMetadata().isDefined() and made.metadata().contains(MARK):
                return self._placed_by_names(made, names_and_ids(plan.output()))
        return {}

    def _read(self, plan: Any, kind: str) -> Columns:
        """Those of rows that are read with their slot, or defined elsewhere in the plan."""
        if kind == "CTERelationRef":
            pairs = zip(names_and_ids(plan.output()), self.defined.get(int(plan.cteId()), []), strict=False)
            return {(column,): roles for (_, column), roles in pairs if roles}
        columns: Columns = {}
        if marked := _marked(plan):
            output = plan.output()
            named = names_and_ids(output)
            for slot in filter(is_slot, map(output.apply, marked)):
                columns |= self._placed_by_names(slot, named)
        return columns

    def _placed_by_names(self, slot: Any, named: list[tuple[str, int]]) -> Columns:
        placing, by_name = self._placing(slot, named), {name.lower(): column for name, column in named}
        columns: Columns = {(column_id(slot),): frozenset([KeyRole(placing, SLOT)])}
        for at, (first, *fields) in enumerate(filter(None, self.placings[placing].key)):
            if first in by_name:
                columns[(by_name[first], *fields)] = frozenset([KeyRole(placing, at)])
        return columns

    def _placing(self, slot: Any, named: list[tuple[str, int]]) -> int:
        mark = json.loads(slot.metadata().getString(MARK))
        # A stream's mapping may change: it is that of this slot.
        mapping = str(mark.get("mapping") or f"{_OF_STREAM}{column_id(slot)}")
        key = [[part.lower() for part in name_parts(str(name))] for name in mark["key"]]
        self.placings.append(_Placing(mapping, key, frozenset(it for _, it in named)))
        return len(self.placings) - 1

    def _wrong(self, plan: Any, kind: str, columns: Columns, *, nested: bool) -> Iterator[KeyChanged | SlotsApart]:
        """What is wrong with what an operator groups or compares by, `nested` in a subquery."""
        if not columns:
            return
        if kind in ("Intersect", "Except"):
            sides = [_side(it.output(), columns) for it in (plan.left(), plan.right())]
        elif kind in _COMPARES:
            pairs = list(self._met(plan, kind, nested=nested))
            sides = [
                _Side(list(side), {at: list(values_in(it, columns)) for at, it in enumerate(side)})
                for side in zip(*pairs, strict=True)
            ]
        else:
            sides = [_side(getattr(plan, name)(), columns) for name in GROUPS_BY.get(kind, ())]
        for side in sides:
            yield from self._changed(side)
        left, *right = sides or [_Side([], {})]
        for other in right:
            for at in left.roles.keys() & other.roles.keys():
                if any(self._are_apart(*pair) for pair in zip(left.roles[at], other.roles[at], strict=False)):
                    rows_compared = kind != "Join" and kind in _COMPARES and not nested
                    yield SlotsApart(self._name(left, at), self._name(other, at), rows_compared)

    def _are_apart(self, *sides: Roles) -> bool:
        """Whether two values are slots of different mappings, both known."""
        one, other = ({self.placings[it.placing].mapping for it in side if it.at == SLOT} for side in sides)
        return bool(one and other) and not one & other and not any(it.startswith(_OF_STREAM) for it in one | other)

    def _met(self, plan: Any, kind: str, *, nested: bool) -> Iterator[tuple[Any, Any]]:
        """The pairs of values that are to be equal where rows meet, each side's values at the same place."""
        if kind == "Filter" and nested:
            pairs = [pair for pair in equal_pairs(plan.condition()) if not any(it.foldable() for it in pair)]
            first = plan.child().outputSet()
        else:
            pairs = [(left, right) for left, right, _ in compared(plan, self.filters)]
            first = plan.left().outputSet() if kind == "Join" else None
        for left, right in pairs:
            turned = first is not None and right.references().subsetOf(first) and not left.references().subsetOf(first)
            yield (right, left) if turned else (left, right)

    def _changed(self, side: _Side) -> Iterator[KeyChanged]:
        roles = side.all_roles()
        for placing in sorted({it.placing for it in roles if it.at == SLOT}):
            missing = {at for at in range(len(self.placings[placing].key)) if KeyRole(placing, at) not in roles}
            wrong = {KeyRole(placing, at, kept=False) for at in missing}
            changed = [at for at, values in side.roles.items() if any(wrong & has for has in values)]
            if changed:
                names = self._names(side)
                yield KeyChanged(tuple(dict.fromkeys(names)), tuple(dict.fromkeys(names[at] for at in changed)))

    def _names(self, side: _Side) -> list[str]:
        if isinstance(side.by, list):
            return [self._called(it) for it in side.by]
        told = [name_and_id(text) for text in texts_of(side.by)]
        return [it[0] if it and at not in side.roles else self._name(side, at) for at, it in enumerate(told)]

    def _name(self, side: _Side, at: int) -> str:
        return self._called(side.by[at] if isinstance(side.by, list) else side.by.apply(at))

    def _called(self, expression: Any) -> str:
        expression = expression.e() if kind_of(expression) == "OuterReference" else expression
        if kind_of(expression) not in ("AttributeReference", "Alias"):
            return str(expression.sql())
        name = column_name(expression)
        return self.texts.get(column_id(expression), name) if _OWN_NAME.match(name) else name

    def _follow_up(self, plan: Any, kind: str, columns: Columns, parts: list[Columns]) -> None:
        """Add the columns that a plan makes to those of what it reads."""
        if kind in ("Project", "Aggregate"):
            made = plan.projectList() if kind == "Project" else plan.aggregateExpressions()
            for alias in self._aliases(made, columns):
                self._add(alias, columns, of_groups=kind == "Aggregate")
        elif kind == "Join":
            for pair in self._met(plan, kind, nested=False):
                _join(pair, columns)
        elif kind == "Union":
            columns |= self._united(plan, [_in_order(it, part) for it, part in zip(each(plan.children()), parts, strict=True)])
        elif kind == "Expand":
            columns |= _expanded(plan, columns)
        elif kind == "Generate" and (used := computed(roles_of(plan.generator(), columns))):
            columns |= {(column,): used for _, column in names_and_ids(plan.generatorOutput())}

    def _united(self, plan: Any, rows: list[list[Roles]]) -> Columns:
        """The columns of a union: of parts under one mapping, which are one placing from here on."""
        output, placings = [column for _, column in names_and_ids(plan.output())], self.placings
        some_roles = [at for at in range(len(output)) if any(part[at] for part in rows)]
        columns: Columns = {}
        for mapping in sorted({placings[it.placing].mapping for part in rows for roles in part for it in roles}):
            of_parts = [
                [{it for it in part[at] if placings[it.placing].mapping == mapping} for at in some_roles] for part in rows
            ]
            one = next(it.placing for part in of_parts for has in part for it in has)
            placings.append(_Placing(mapping, placings[one].key, frozenset(output)))
            for at, found in zip(some_roles, zip(*of_parts, strict=True), strict=True):
                kept = frozenset.intersection(*(frozenset(it.at for it in has if it.kept) for has in found))
                some = {it.at for has in found for it in has} - kept - {SLOT}
                roles = frozenset(KeyRole(len(placings) - 1, of, kept=of in kept) for of in kept | some)
                columns[(output[at],)] = columns.get((output[at],), NONE) | roles
        return columns

    def _aliases(self, expressions: Any, columns: Columns) -> Iterator[Any]:
        """Those of many expressions that give what is made of known columns a name, or the name of a key; found by one call."""
        known = {place[0] for place in columns}
        keys = {f" as {'.'.join(name)}#" for placing in self.placings for name in placing.key}
        for at, text in enumerate(texts_of(expressions)):
            if " AS " not in text:
                continue
            used = not known.isdisjoint(ids_in(text)) or any(key in text.lower() for key in keys)
            if (used or " more fields" in text) and kind_of(expressions.apply(at)) == "Alias":
                yield expressions.apply(at)

    def _add(self, alias: Any, columns: Columns, *, of_groups: bool) -> None:
        value, name = kept_value(alias.child()), [column_name(alias).lower()]
        roles = whole_roles(value, columns)
        if kind_of(value) != "AttributeReference":
            if of_groups:  # of a group that has several slots this is another one's
                roles = frozenset(it for it in roles if it.at != SLOT)
            self.texts[column_id(alias)] = str(value.sql())
        known = {it.placing for has in columns.values() for it in has}
        for placing in known:
            key = self.placings[placing].key
            at = key.index(name) if name in key else None
            if at is not None and KeyRole(placing, at) not in roles and self._is_another(value, placing):
                roles |= {KeyRole(placing, at, kept=False)}
        if roles:
            columns[(column_id(alias),)] = roles
        for path, inner in fields_of(value, columns):
            columns[(column_id(alias), *path)] = inner

    def _is_another(self, value: Any, placing: int) -> bool:
        """Whether what is called like a key is something else of the rows that were placed by it."""
        value = taken_of(value)
        kind = kind_of(value)
        if kind == "AttributeReference":
            return column_id(value) in self.placings[placing].columns
        return kind != "AggregateExpression" and not value.references().isEmpty()


def _side(by: Any, columns: Columns) -> _Side:
    return _Side(by, {at: list(values_in(it, columns)) for at, it in made_of_known(by, columns)})


def _marked(plan: Any) -> list[int]:
    """The places of the marked columns of a plan."""
    schema = str(plan.schema().json())
    return [at for at, it in enumerate(json.loads(schema)["fields"]) if MARK in it["metadata"]] if MARK in schema else []


def _in_order(plan: Any, columns: Columns) -> list[Roles]:
    return [columns.get((column,), NONE) for _, column in names_and_ids(plan.output())]


def _join(pair: tuple[Any, Any], columns: Columns) -> None:
    """What is equal where rows meet stands for the same, but for slots: those of two placings are asked for apart."""
    alike = frozenset(it for side in pair for it in roles_of(side, columns) if it.at != SLOT)
    for it in pair if alike else ():
        if kind_of(it) == "AttributeReference":
            columns[(column_id(it),)] = columns.get((column_id(it),), NONE) | alike


def _expanded(plan: Any, columns: Columns) -> Columns:
    """The columns of rows that come several times (rollup, cube), where a total has null."""
    rows, output = list(each(plan.projections())), names_and_ids(plan.output())
    expanded: Columns = {}
    for place in sorted({place for row in rows for place, _ in made_of_known(row, columns)}):
        given = [roles_of(it, columns) for it in (row.apply(place) for row in rows) if not it.foldable()]
        if given:
            expanded[(output[place][1],)] = frozenset.intersection(*given)
    return expanded
