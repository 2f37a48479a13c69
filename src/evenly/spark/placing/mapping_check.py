"""Whether a mapping is for the keys of a DataFrame: the one check of every call that takes a mapping.

A mapping belongs to the types of key columns and their order, not to their names: two sides of a join may call their keys
differently. What counts is that equal keys have equal hashes, for otherwise two sides look for each other in vain.
"""

from __future__ import annotations

import logging
import re

from pyspark.sql import DataFrame

from evenly.errors import InvalidParameter
from evenly.instances import Auto
from evenly.keys.mapping import Mapping
from evenly.spark.keyed.keys import last_part, type_names

_LOG = logging.getLogger(__name__)
_LONG_DIGITS = 18  # Spark hashes a decimal of up to so many digits as a long integer
_WIDER = ("tinyint", "smallint", "int", "bigint")
_DECIMAL = re.compile(r"\bdecimal\((\d+),(-?\d+)\)")


def check_mapping(mapping: Mapping, df: DataFrame, names: tuple[str, ...], instances: int | Auto) -> None:
    """Refuse a mapping that is not for the key columns `names` of `df`, as `key_names` spells them, or not for `instances`."""
    check_is(mapping, Mapping)
    check_fit(mapping, names, type_names(df, names), instances)


def check_is(mapping: object, *kinds: type) -> None:
    """Refuse what is no mapping of these kinds, such as the path of one."""
    if not isinstance(mapping, kinds):
        told = repr(mapping) if isinstance(mapping, str) else f"a {type(mapping).__name__}"
        wanted = " or a ".join(kind.__name__ for kind in kinds)
        raise InvalidParameter(f"mapping must be a {wanted}, got {told}: {kinds[0].__name__}.load(path) reads a saved one")


def check_fit(mapping: Mapping, names: tuple[str, ...], types: tuple[str, ...], instances: int | Auto) -> None:
    """As `check_mapping`, for key columns of these names and types."""
    if mapping.ids != "xxhash64":
        raise InvalidParameter(
            "this mapping was not learnt on Spark, so its ids are not those of Spark's keys: use learn_mapping(df, ...)"
        )
    if not isinstance(instances, Auto) and mapping.instances != instances:
        raise InvalidParameter(
            f"the mapping is for {mapping.instances} instances, not for {instances}: learn one for {instances}, and use it on "
            "every side of a join"
        )
    known = max(len(mapping.columns), len(mapping.types))
    if known and known != len(names):
        raise InvalidParameter(
            f"the mapping is for {known} key columns ({', '.join(mapping.columns or mapping.types)}), and the key has "
            f"{len(names)} ({', '.join(names)}): name as many, in the same order"
        )
    _check_order(mapping.columns, names)
    if not mapping.types:
        _LOG.info("a mapping does not say which types its key columns have: it is taken to be for %s", ", ".join(types))
        return
    said = mapping.columns or tuple(f"number {at + 1}" for at in range(len(types)))
    for name, here, column, there in zip(names, types, said, mapping.types, strict=True):
        if not hashed_alike(here, there):
            raise InvalidParameter(
                f"key column {name!r} is {here}, and the mapping is for {there} ({column}): Spark hashes equal keys of these "
                f"types differently, so two sides of a join would not find each other. {_remedy(name, here, there)}"
            )


def check_same_types(first: tuple[str, ...], other: tuple[str, ...], names: tuple[str, ...], *, which: int) -> None:
    """Refuse two sides of a join whose key columns are hashed differently. `which` counts the other side, from 2."""
    for name, one, two in zip(names, first, other, strict=True):
        if not hashed_alike(one, two):
            raise InvalidParameter(
                f"key column {name!r} is {one} in the first DataFrame and {two} in DataFrame {which}: Spark hashes equal keys "
                f"of these types differently, so they would not find each other. {_remedy_of_sides(name, one, two, which)}"
            )


def hashed_alike(one: str, other: str) -> bool:
    """Whether Spark gives equal values of two types the same hash; False wherever that is not known."""
    if one == other:
        return True
    if one.startswith("char(") and other.startswith("char("):
        return False  # each is filled up with blanks, which Spark makes good in a comparison and not in a hash
    return _hashed_as(one) == _hashed_as(other)


def common_type(one: str, other: str) -> str | None:
    """A type in which keys of two types are hashed alike, and are equal exactly where a join of Spark's takes them for equal.

    None where that is not known: neither type holds all values of the other.
    """
    if hashed_alike(one, other):
        return one
    if "char(" in one or "char(" in other:
        return None
    return one if _holds(one, other) else other if _holds(other, one) else None


def _hashed_as(kind: str) -> str:
    """One text for all types that are hashed alike. Names of a struct's fields are not hashed."""
    kind = re.sub(r"\b(tinyint|smallint)\b", "int", kind.lower())
    kind = re.sub(r"\b(var)?char\(\d+\)", "string", kind)
    return _DECIMAL.sub(lambda it: f"decimal({_LONG_DIGITS if int(it[1]) <= _LONG_DIGITS else 38},{it[2]})", kind)


def _check_order(columns: tuple[str, ...], names: tuple[str, ...]) -> None:
    ours, theirs = ([name.lower() for name in told] for told in (names, columns))
    if ours != theirs and sorted(ours) == sorted(theirs):
        raise InvalidParameter(
            f"the mapping is for the key columns {', '.join(columns)}, in this order, and they are given as "
            f"{', '.join(names)}: give key={list(columns)!r}"
        )


def _remedy(name: str, here: str, there: str) -> str:
    if _holds(there, here):
        return f"Cast it before: {_cast(name, here, there)}"
    if _holds(here, there):
        return (
            f"Cast the other side's key to {here}, learn the mapping from that, and use it on both sides: a cast of this one "
            f"to {there} might change keys"
        )
    return (
        "Cast the key of both sides to one type that holds the values of both, learn the mapping from that, and use it on both"
    )


def _remedy_of_sides(name: str, one: str, two: str, which: int) -> str:
    if _holds(one, two):
        return f"Cast it in DataFrame {which}: {_cast(name, two, one)}"
    if _holds(two, one):
        return f"Cast it in the first: {_cast(name, one, two)}"
    return "Cast both to one type that holds the values of both"


def _cast(name: str, before: str, after: str) -> str:
    column = last_part(name)
    if after.startswith("char("):
        return f".withColumn({column!r}, functions.rpad({name!r}, {after[5:-1]}, ' '))"
    told = f".withColumn({column!r}, functions.col({name!r}).cast({after!r}))"
    return told if column == name or before.startswith("char(") else f"{told}, with key={column!r}"


def _holds(wide: str, narrow: str) -> bool:
    """Whether a cast to `wide` keeps every value of `narrow`, and keeps different ones apart."""
    if narrow in _WIDER and wide in _WIDER:
        return _WIDER.index(narrow) < _WIDER.index(wide)
    if wide.startswith("char(") and narrow.startswith("char("):
        return int(wide[5:-1]) > int(narrow[5:-1])
    ours, theirs = _DECIMAL.fullmatch(wide), _DECIMAL.fullmatch(narrow)
    if ours and theirs:
        whole = [int(it[1]) - int(it[2]) for it in (ours, theirs)]
        return int(ours[2]) >= int(theirs[2]) and whole[0] >= whole[1]
    if ours and narrow in _WIDER:
        return int(ours[1]) - int(ours[2]) >= {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}[narrow]
    return (narrow, wide) in {("float", "double"), ("int", "double"), ("smallint", "double"), ("tinyint", "double")}
