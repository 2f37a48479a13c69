"""What an expression over placed rows stands for: the slot, a column of the key, or what was computed from one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from evenly.spark.jvm.plan_texts import ids_in, names_and_ids, texts_of

GROUPS_BY = {
    "Aggregate": ("groupingExpressions",),
    "Deduplicate": ("keys",),
    "DeduplicateWithinWatermark": ("keys",),
    "Distinct": ("output",),
    "FlatMapGroupsInPandas": ("groupingAttributes",),
    "FlatMapGroupsInArrow": ("groupingAttributes",),
    "FlatMapCoGroupsInPandas": ("leftAttributes", "rightAttributes"),
    "FlatMapCoGroupsInArrow": ("leftAttributes", "rightAttributes"),
    "Window": ("partitionSpec",),
}
"""By which of its columns each kind of a logical plan's operators groups its rows."""
SLOT = -1
_WRAPPED = ("Alias", "KnownFloatingPointNormalized", "NormalizeNaNAndZero", "KnownNotNull", "KnownNullable")
_STANDS_FOR = {"OuterReference": "e", "Nvl": "replacement"}
_ONE_TO_ONE = ("Hex", "Base64", "Md5", "Sha1")
"""Functions that give other values for other ones, as far as anybody has seen."""
_CHOOSES = ("Max", "Min", "First", "Last", "AnyValue", "MaxBy", "MinBy", "Mode")
"""Aggregates that give what one row of a group has."""
_HOLDS = (
    *("CreateArray", "CreateMap", "CreateNamedStruct", "MapFromEntries", "MapFromArrays", "ArraysZip", "Flatten"),
    *("CollectList", "CollectSet", "Explode", "PosExplode", "Inline", "Stack"),
)
"""What puts values together, or takes apart what was, and changes none of them."""
_TAKES = ("GetStructField", "GetArrayItem", "GetMapValue", "ElementAt")
_ROUNDED = {("bigint", "float"), ("bigint", "double"), ("int", "float")}
"""Casts that Spark takes for ones that lose nothing, and that do."""

Place = tuple[int | str, ...]
"""A column's id, or its id and the path to a field of it."""


@dataclass(frozen=True)
class KeyRole:
    """What a column stands for in rows that were placed (by the number of that): the slot (`at` is SLOT) or a column of the
    key; or, not `kept`, what was computed from that."""

    placing: int
    at: int
    kept: bool = True


Roles = frozenset[KeyRole]
Columns = dict[Place, Roles]
NONE: Roles = frozenset()
_left: ContextVar[list[int] | None] = ContextVar("_left", default=None)


class TooMuch(Exception):
    """A plan has more in it than is worth to be looked at."""


@contextmanager
def looks(most: int) -> Iterator[None]:
    """Within this so many nodes of plans and expressions are looked at, and then no more: `TooMuch`."""
    before = _left.set([most])
    try:
        yield
    finally:
        _left.reset(before)


def roles_of(expression: Any, columns: Columns) -> Roles:
    """The roles of an expression, by those of the columns that it may be made of."""
    value = kept_value(expression)
    kind = kind_of(value)
    if kind == "AttributeReference":
        return columns.get((column_id(value),), NONE)
    if kind == "GetStructField" and (place := place_of(value)):
        return columns[place] if place in columns else computed(_around(place, columns))
    if kind == "AggregateExpression" or kind in _HOLDS:
        return _of_group(value.aggregateFunction(), columns) if kind == "AggregateExpression" else _held(value, columns)
    if kind == "Coalesce":
        choices = list(_each(value.children()))
        each = {roles_of(it, columns) for it in choices}
        if len(each) == 1:
            return each.pop()
        return computed(_used(value, columns)) | {it for roles in each for it in roles if it.at == SLOT}
    return computed(_used(value, columns))


def whole_roles(value: Any, columns: Columns) -> Roles:
    """The roles of a value but for those that each field of it has by itself."""
    return NONE if kind_of(value) == "CreateNamedStruct" else roles_of(value, columns)


def values_in(expression: Any, columns: Columns) -> Iterator[Roles]:
    """The roles of an expression, and those of each field of a struct."""
    value = kept_value(expression)
    if kind_of(value) == "CreateNamedStruct":
        for _, it in made_of_known(value.valExprs(), columns):
            yield from values_in(it, columns)
        return
    yield roles_of(value, columns)
    yield from (roles for _, roles in fields_of(value, columns))


def fields_of(value: Any, columns: Columns) -> list[tuple[Place, Roles]]:
    """The roles of the fields of a struct that is a column or is made here, by the paths to them."""
    kind = kind_of(value)
    if kind == "CreateNamedStruct":
        found: list[tuple[Place, Roles]] = []
        names = value.nameExprs()
        for at, made in made_of_known(value.valExprs(), columns):
            name, inner = str(names.apply(at).value()), kept_value(made)
            found += [((name,), whole_roles(inner, columns))]
            found += [((name, *path), roles) for path, roles in fields_of(inner, columns)]
        return [(path, roles) for path, roles in found if roles]
    if kind == "AggregateExpression":
        chosen = value.aggregateFunction()
        if kind_of(chosen) not in _CHOOSES:
            return []
        inside = fields_of(kept_value(chosen.children().head()), columns)
        return [(path, _without_slots(roles)) for path, roles in inside if _without_slots(roles)]
    place = place_of(value)
    if not place:
        return []
    return [(it[len(place) :], roles) for it, roles in columns.items() if len(it) > len(place) and it[: len(place)] == place]


def taken_of(value: Any) -> Any:
    """What a value is a field or an element of, or the value."""
    while kind_of(value) in _TAKES:
        value = value.children().head()
    return value


def made_of_known(expressions: Any, columns: Columns) -> Iterator[tuple[int, Any]]:
    """Those of many expressions that are made of known columns, with their places, found by one call."""
    known = {place[0] for place in columns}
    for at, text in enumerate(texts_of(expressions)):
        if " more fields" in text or not known.isdisjoint(ids_in(text)):
            yield at, expressions.apply(at)


def computed(roles: Roles) -> Roles:
    """What something has that is computed from what has these roles."""
    return frozenset(KeyRole(it.placing, it.at, kept=False) for it in roles if it.at != SLOT)


def kept_value(expression: Any) -> Any:
    """What is below names, below casts that keep every value, and below what makes equal numbers have equal bits."""
    while True:
        kind = kind_of(expression)
        if kind in _STANDS_FOR:
            expression = getattr(expression, _STANDS_FOR[kind])()
        elif kind == "UpdateFields":
            made = expression.evalExpr()
            expression = made.falseValue() if kind_of(made) == "If" else made  # a null stays one
        elif kind == "Concat" and (value := _lengthened(expression)) is not None:
            expression = value
        elif kind == "Sha2" and expression.right().foldable():
            expression = expression.left()
        elif kind == "Coalesce" and not expression.children().head().nullable():
            expression = expression.children().head()
        elif kind in _WRAPPED or kind in _ONE_TO_ONE or (kind == "Cast" and _keeps(expression)):
            expression = expression.child()
        else:
            return expression


def place_of(expression: Any) -> Place:
    """The place of a column or of a field of one; an empty one of anything else."""
    path: list[str] = []
    while kind_of(expression) in ("GetStructField", "Alias"):
        if kind_of(expression) == "GetStructField":
            path.insert(0, str(expression.extractFieldName()))
        expression = expression.child()
    return (column_id(expression), *path) if kind_of(expression) == "AttributeReference" else ()


def kind_of(node: Any) -> str:
    """What an expression or a plan is."""
    if left := _left.get():
        left[0] -= 1
        if left[0] < 0:
            raise TooMuch
    return str(node.getClass().getSimpleName())


def column_id(column: Any) -> int:
    """The number by which Spark knows a column."""
    return int(column.exprId().id())


def _keeps(cast: Any) -> bool:
    """Whether a cast has different values for different values."""
    given, wanted = cast.child().dataType(), cast.dataType()
    if given.equals(wanted):
        return True
    names = (str(given.simpleString()), str(wanted.simpleString()))
    if names == ("string", "binary"):
        return True
    if not cast.canUpCast(given, wanted) or names in _ROUNDED or names[0].startswith("string"):
        return False
    # An hour that comes twice, where clocks are set back, has the same text twice.
    by_zone = names[0] == "timestamp" or names == ("timestamp_ntz", "timestamp")
    return not by_zone or bool(cast.zoneId().getRules().isFixedOffset())


def _lengthened(concat: Any) -> Any:
    """What a text was put before or behind, if that is all."""
    parts = list(_each(concat.children()))
    variable = [it for it in parts if not it.foldable()]
    constant = all(not it.nullable() for it in parts if it.foldable())
    is_text = str(concat.dataType().simpleString()) == "string"
    return variable[0] if len(variable) == 1 and constant and is_text else None


def _of_group(aggregate: Any, columns: Columns) -> Roles:
    """The roles of an aggregate: a key that it chooses is one of the group. Numbers over keys are none."""
    kind = kind_of(aggregate)
    if kind in _CHOOSES:
        return _without_slots(roles_of(aggregate.children().head(), columns))
    return _held(aggregate, columns) if kind in _HOLDS else NONE


def _without_slots(roles: Roles) -> Roles:
    return frozenset(it for it in roles if it.at != SLOT)


def _held(expression: Any, columns: Columns) -> Roles:
    """The roles of an array, or of what is in one: which of its keys as they were placed a value will be is not known."""
    parts = [values_in(it, columns) for _, it in made_of_known(expression.children(), columns)]
    return frozenset(it for values in parts for roles in values for it in roles if not it.kept)


def _around(place: Place, columns: Columns) -> Roles:
    """The roles of what a field is taken of."""
    return frozenset().union(*(columns.get(place[:length], NONE) for length in range(1, len(place))))


def _used(expression: Any, columns: Columns) -> Roles:
    """The roles of all that an expression is made of."""
    ids = {it for _, it in names_and_ids(expression.references().toSeq())}
    if any(len(place) > 1 and place[0] in ids for place in columns):
        return frozenset().union(*_parts(expression, columns))
    return frozenset().union(*(columns.get((it,), NONE) for it in ids))


def _parts(expression: Any, columns: Columns) -> Iterator[Roles]:
    """The same, where fields of one column have roles of their own."""
    place = place_of(expression) if kind_of(expression) in ("GetStructField", "AttributeReference") else ()
    if place:
        yield columns.get(place, NONE) | _around(place, columns)
        yield from (roles for _, roles in fields_of(expression, columns))
        return
    for _, child in made_of_known(expression.children(), columns):
        yield from _parts(child, columns)


def _each(found: Any) -> Iterator[Any]:
    for at in range(found.size()):
        yield found.apply(at)
