"""What the operators of a Spark plan group by, told by what the columns stand for: key, slot and window of placed rows.

The slot carries a mark in its metadata, which survives renamed columns and plans that Spark copies (a join of a stream with
itself). From there columns are followed upwards, through aliases, structs, unions and casts that change nothing. A function
of rows in Python gives new columns: these are taken by their names, if all of the key and the slot are there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from evenly.keys.placed import FROM_SLOT, OTHER, SESSION, SLOT, WINDOW, KeyedOperator, Role, key_role
from evenly.spark.keyed.keys import name_parts
from evenly.spark.placing.slot_mark import MARK

_SESSION = "spark.sessionWindow"
_GROUPING = {
    "Aggregate": "groupingExpressions",
    "Deduplicate": "keys",
    "DeduplicateWithinWatermark": "keys",
    "Distinct": "output",
    "FlatMapGroupsInPandasWithState": "groupingAttributes",
    "FlatMapGroupsWithState": "groupingAttributes",
    "TransformWithState": "groupingAttributes",
    "TransformWithStateInPySpark": "leftAttributes",
    "TransformWithStateInPandas": "leftAttributes",
}
_OF_FUNCTIONS = ("FlatMapGroupsInPandasWithState", "TransformWithStateInPySpark", "TransformWithStateInPandas")
"""Those of the operators with state that call a function in Python, which may keep in it what it wants."""
_STATELESS = {
    "RepartitionByExpression": "partitionExpressions",
    "FlatMapGroupsInPandas": "groupingAttributes",
    "FlatMapGroupsInArrow": "groupingAttributes",
}
_Columns = dict[tuple[int | str, ...], tuple[Role, ...]]
"""Roles by a column's id, or by its id and the path to a field of it."""
_Named = dict[str, Role]


def keyed_operators(df: DataFrame) -> list[KeyedOperator]:
    """The keyed operators of a plan that are fed by placed rows, from the rows upwards."""
    return keyed_plan(df)[0]


def keyed_plan(df: DataFrame) -> tuple[list[KeyedOperator], tuple[str, ...]]:
    """The keyed operators of a plan, and the columns that its rows were placed by, in their order (none: they were not)."""
    seen = _Seen()
    _follow(df._jdf.queryExecution().analyzed(), seen)
    return seen.operators, tuple(seen.named[0]) if seen.named else ()


def slots_made(plan: Any) -> frozenset[int]:
    """The ids of those slots of an analyzed plan (a Java object), and of the queries inside of it, that it makes itself: others
    were read as they are."""
    seen = _Seen()
    for part in (plan, *_each(plan.subqueriesAll())):
        _follow(part, seen)
    return frozenset(seen.slots)


@dataclass
class _Seen:
    """What is found in a plan: its operators, placed columns by their names, and the ids of its slots.

    `common` has the roles of the columns of each common table expression (`WITH name AS …`), which other parts of the plan
    refer to by its number. Definitions are the first children of their plan.
    """

    operators: list[KeyedOperator] = field(default_factory=list)
    named: list[_Named] = field(default_factory=list)
    common: dict[int, list[_Columns]] = field(default_factory=dict)
    slots: set[int] = field(default_factory=set)


def _follow(plan: Any, seen: _Seen) -> _Columns:
    """The roles of a plan's columns, by their ids; what is found on the way is added to `seen`."""
    columns = _followed(plan, seen)
    seen.slots |= {int(place[0]) for place, roles in columns.items() if roles == (SLOT,) and len(place) == 1}
    return columns


def _followed(plan: Any, seen: _Seen) -> _Columns:
    kind, named = plan.getClass().getSimpleName(), seen.named
    if kind == "Project" and (placed := _placed_here(plan, named)) is not None:
        return placed
    if kind == "CTERelationRef":
        return _defined_elsewhere(plan, seen.common)
    below = [_follow(child, seen) for child in _each(plan.children())]
    if kind == "CTERelationDef":
        seen.common[int(plan.id())] = [_below(column, below[0]) for column in _each(plan.child().output())]
    if kind == "WithCTE":
        return below[-1]
    columns = {identity: roles for part in below for identity, roles in part.items()}
    if not columns:
        return columns
    _list_operator(plan, kind, columns, seen.operators)
    if kind in ("Project", "Aggregate"):
        _add_aliases(plan.projectList() if kind == "Project" else plan.aggregateExpressions(), columns)
    elif kind in ("Union", "Expand"):
        rows = (
            [list(_each(child.output())) for child in _each(plan.children())]
            if kind == "Union"
            else [list(_each(projection)) for projection in _each(plan.projections())]
        )
        for column, sources in zip(_each(plan.output()), zip(*rows, strict=True), strict=True):
            _add(columns, column, _united({_roles(source, columns) for source in sources}))
    else:
        _add_new_rows(plan, columns, named)
        if kind in _OF_FUNCTIONS and SLOT not in seen.operators[-1].roles:
            given = any(columns.get(_id(column)) == (SLOT,) for column in _each(plan.output()))
            seen.operators[-1] = replace(seen.operators[-1], gives_slot=given)
    return columns


def _united(roles: set[tuple[Role, ...]]) -> tuple[Role, ...]:
    """What a column stands for that has other columns' values in one row or another."""
    if len(roles) == 1:
        return next(iter(roles))
    return (FROM_SLOT,) if any(role in (SLOT, FROM_SLOT) for each in roles for role in each) else (OTHER,)


def _defined_elsewhere(reference: Any, common: dict[int, list[_Columns]]) -> _Columns:
    pairs = zip(_each(reference.output()), common.get(int(reference.cteId()), []), strict=False)
    return {(*_id(column), *path): roles for column, paths in pairs for path, roles in paths.items()}


def _add_aliases(expressions: Any, columns: _Columns) -> None:
    for expression in _each(expressions):
        if _kind(expression) == "Alias":
            _add(columns, expression, _roles(expression.child(), columns), session=_is_session(expression))


def _below(column: Any, columns: _Columns) -> _Columns:
    """The roles of a column and of the fields in it, by the path from there."""
    return {place[1:]: roles for place, roles in columns.items() if place[:1] == _id(column)}


def _placed_here(plan: Any, named: list[_Named]) -> _Columns | None:
    """The columns of the projection that made the slot; None if this one did not."""
    expressions = list(_each(plan.projectList()))
    for expression in expressions:
        if _kind(expression) != "Alias" or not expression.explicitMetadata().isDefined():
            continue
        metadata = expression.explicitMetadata().get()
        if not metadata.contains(MARK):
            continue
        placement = json.loads(metadata.getString(MARK))
        paths = [] if placement["window"] is None else [([str(placement["window"])], WINDOW)]
        paths += [(name_parts(name), key_role(at)) for at, name in enumerate(placement["key"])]
        by_name = {it.name().lower(): it for it in expressions}
        columns: _Columns = {}
        for (first, *fields), role in paths:
            if first.lower() in by_name:
                columns[(*_id(by_name[first.lower()]), *fields)] = (role,)
        columns[_id(expression)] = (SLOT,)
        named.append({**{".".join(path): role for path, role in paths}, expression.name(): SLOT})
        return columns
    return None


def _list_operator(plan: Any, kind: str, columns: _Columns, found: list[KeyedOperator]) -> None:
    streaming = bool(plan.isStreaming())
    if kind == "Join":
        inputs = list(_each(plan.children()))
        pairs = list(_equal_pairs(plan.condition().get())) if plan.condition().isDefined() else []
        left, right = ([expression for pair in pairs for expression in pair[side : side + 1]] for side in (0, 1))
        stateful = all(child.isStreaming() for child in inputs)
        found.append(
            KeyedOperator(
                "a join of streams",
                tuple(column_name(it) for it in left),
                _all_roles(left, columns),
                _all_roles(right, columns),
                stateful=stateful,
            )
        )
    elif kind in _GROUPING or kind in _STATELESS:
        grouping = list(_each(getattr(plan, _GROUPING.get(kind) or _STATELESS[kind])()))
        stateful = streaming and kind in _GROUPING
        found.append(
            KeyedOperator(kind, tuple(column_name(it) for it in grouping), _all_roles(grouping, columns), stateful=stateful)
        )


def _equal_pairs(condition: Any) -> Iterator[tuple[Any, Any]]:
    kind = _kind(condition)
    if kind == "And":
        yield from _equal_pairs(condition.left())
        yield from _equal_pairs(condition.right())
    elif kind in ("EqualTo", "EqualNullSafe"):
        yield condition.left(), condition.right()


def _all_roles(expressions: list[Any], columns: _Columns) -> tuple[Role, ...]:
    return tuple(role for expression in expressions for role in _roles(expression, columns))


def _roles(expression: Any, columns: _Columns) -> tuple[Role, ...]:  # noqa: PLR0911 - one for each kind of expression
    """What an expression stands for. A struct hashes as its fields one after the other, so it has a role for each."""
    kind = _kind(expression)
    if kind == "AttributeReference":
        return columns.get(_id(expression), (SESSION,) if _is_session(expression) else (OTHER,))
    if kind in ("Alias", "KnownNotNull", "KnownNullable", "KnownFloatingPointNormalized", "NormalizeNaNAndZero"):
        return _roles(expression.child(), columns)
    if kind == "Cast" and expression.dataType().equals(expression.child().dataType()):
        return _roles(expression.child(), columns)
    if kind == "CreateNamedStruct":
        return _all_roles(list(_each(expression.valExprs())), columns)
    if kind == "Coalesce":
        choices = {_roles(child, columns) for child in _each(expression.children())}
        if len(choices) == 1:
            return choices.pop()
    if kind == "GetStructField" and (place := _field(expression)) in columns:
        return columns[place]
    used = [columns.get(_id(it), (OTHER,)) for it in _each(expression.references().toSeq())]
    return (FROM_SLOT,) if any(role in (SLOT, FROM_SLOT) for roles in used for role in roles) else (OTHER,)


def _add(columns: _Columns, named: Any, roles: tuple[Role, ...], *, session: bool = False) -> None:
    columns[_id(named)] = (SESSION,) if session else roles


def _add_new_rows(plan: Any, columns: _Columns, named: list[_Named]) -> None:
    new = [column for column in _each(plan.output()) if _id(column) not in columns]
    called = {column.name(): column for column in new}
    for names in named:
        if set(names) <= set(called):
            # Not those of the other side of a join, which are called alike.
            handed_on = {_id(column) for child in _each(plan.children()) for column in _each(child.output())}
            if any(_id(called[name]) in handed_on for name in names):
                continue
            for name, role in names.items():
                _add(columns, called[name], (role,))


def _is_session(named: Any) -> bool:
    return bool(named.metadata().contains(_SESSION))


def _id(named: Any) -> tuple[int]:
    return (int(named.exprId().id()),)


def _field(expression: Any) -> tuple[int | str, ...]:
    """The place of a struct's field: the id of its column and the path from there."""
    path: list[str] = []
    while _kind(expression) == "GetStructField":
        path.insert(0, str(expression.extractFieldName()))
        expression = expression.child()
    return (*_id(expression), *path) if _kind(expression) == "AttributeReference" else ()


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def column_name(expression: Any) -> str:
    """The name of a column of a plan, or the text of an expression."""
    try:
        name = expression.name()
    except Py4JError:
        name = None
    return name if isinstance(name, str) else str(expression.sql())  # a field of a struct may have a name, or not


def _each(found: Any) -> Iterator[Any]:
    for at in range(found.size()):
        yield found.apply(at)
