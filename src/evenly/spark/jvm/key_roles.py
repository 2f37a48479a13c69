"""What an expression over placed rows stands for: the slot, a column of the key, or what was computed from one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SLOT = -1
_WRAPPED = ("Alias", "KnownFloatingPointNormalized", "NormalizeNaNAndZero", "KnownNotNull", "KnownNullable")
_STANDS_FOR = {"OuterReference": "e", "Nvl": "replacement"}
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


def roles_of(expression: Any, columns: Columns) -> Roles:
    """The roles of an expression, by those of the columns that it may be made of."""
    value = kept_value(expression)
    kind = kind_of(value)
    if kind == "AttributeReference":
        return columns.get((column_id(value),), NONE)
    if kind == "GetStructField" and (place := place_of(value)) in columns:
        return columns[place]
    if kind == "Coalesce":
        choices = list(_each(value.children()))
        each = {roles_of(it, columns) for it in choices}
        if len(each) == 1:
            return each.pop()
        return computed(_used(value, columns)) | {it for roles in each for it in roles if it.at == SLOT}
    return computed(_used(value, columns))


def values_in(expression: Any, columns: Columns) -> Iterator[Roles]:
    """The roles of an expression, and those of each field of a struct."""
    value = kept_value(expression)
    if kind_of(value) == "CreateNamedStruct":
        for it in _each(value.valExprs()):
            yield from values_in(it, columns)
        return
    yield roles_of(value, columns)
    yield from (roles for _, roles in fields_of(value, columns))


def fields_of(value: Any, columns: Columns) -> list[tuple[Place, Roles]]:
    """The roles of the fields of a struct that is a column or is made here, by the paths to them."""
    if kind_of(value) == "CreateNamedStruct":
        found: list[tuple[Place, Roles]] = []
        for name, made in zip(_each(value.nameExprs()), _each(value.valExprs()), strict=True):
            inner = kept_value(made)
            found += [((str(name.value()),), roles_of(inner, columns))]
            found += [((str(name.value()), *path), roles) for path, roles in fields_of(inner, columns)]
        return [(path, roles) for path, roles in found if roles]
    place = place_of(value)
    if not place:
        return []
    return [(it[len(place) :], roles) for it, roles in columns.items() if len(it) > len(place) and it[: len(place)] == place]


def computed(roles: Roles) -> Roles:
    """What something has that is computed from what has these roles."""
    return frozenset(KeyRole(it.placing, it.at, kept=False) for it in roles if it.at != SLOT)


def kept_value(expression: Any) -> Any:
    """What is below names, below casts that keep every value, and below what makes equal numbers have equal bits."""
    while True:
        kind = kind_of(expression)
        if kind in _STANDS_FOR:
            expression = getattr(expression, _STANDS_FOR[kind])()
        elif kind == "Coalesce" and not expression.children().head().nullable():
            expression = expression.children().head()
        elif kind in _WRAPPED or (kind == "Cast" and _keeps(expression)):
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
    if not cast.canUpCast(given, wanted) or names in _ROUNDED or names[0].startswith("string"):
        return False
    # An hour that comes twice, where clocks are set back, has the same text twice.
    by_zone = names[0] == "timestamp" or names == ("timestamp_ntz", "timestamp")
    return not by_zone or bool(cast.zoneId().getRules().isFixedOffset())


def _used(expression: Any, columns: Columns) -> Roles:
    """The roles of all that an expression is made of."""
    ids = {column_id(it) for it in _each(expression.references().toSeq())}
    if any(len(place) > 1 and place[0] in ids for place in columns):
        return frozenset().union(*_parts(expression, columns))
    return frozenset().union(*(columns.get((it,), NONE) for it in ids))


def _parts(expression: Any, columns: Columns) -> Iterator[Roles]:
    """The same, where fields of one column have roles of their own."""
    place = place_of(expression) if kind_of(expression) in ("GetStructField", "AttributeReference") else ()
    if place:
        yield columns.get(place, NONE)
        yield from (roles for _, roles in fields_of(expression, columns))
        return
    for child in _each(expression.children()):
        yield from _parts(child, columns)


def _each(found: Any) -> Iterator[Any]:
    for at in range(found.size()):
        yield found.apply(at)
