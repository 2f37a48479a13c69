"""Key columns: which ones, whether Spark can hash them, and their ids.

A key column is named as a user of Spark names it. A name that is exactly a column is that column, dots and all; else it is
the path to a field of a struct, whose parts may be in back-quotes (`` `a.b`.c ``). From then on a name is spelled so that
Spark can only read it in that way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from evenly.errors import ColumnConflict, InvalidKeys, InvalidParameter, UnknownColumn

Key = str | Column | Sequence[str | Column]
"""One key column, or several: names, with dots for fields of structs, or `functions.col` of such a name."""

_DEFAULT_COLLATION = "UTF8_BINARY"
GEOMETRIES = ("geography", "geometry")
"""Types that Spark takes for ones it can hash, and then fails at the first row."""
_UNHASHED = {
    "map": "use map_entries sorted into an array, or the entry that matters",
    "variant": "cast it to the type it holds",
    **dict.fromkeys(GEOMETRIES, "use st_asbinary of it"),
}
"""What to do about a key of a type that Spark does not hash."""
_REFERENCE = re.compile(r"Column<'([\w.`]+)'>")
"""How a column that is only named shows itself, on either kind of session."""
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PART = re.compile(r"`((?:[^`]|``)*)`|([^`.]+)")
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark keeps that a column of strings is one of CHAR(n)."""


def key_names(df: DataFrame, key: Key) -> tuple[str, ...]:
    """The key columns of `df`, checked: they exist, once, and Spark can hash them; spelled as `functions.col` reads them."""
    names = named(key, "key")
    schema, sensitive = df.schema, case_sensitive(df)
    found = []
    for name in names:
        path, field = _found(schema, name, sensitive=sensitive)
        reason = unhashable(field.dataType)
        if reason:
            raise InvalidKeys(f"key column {name!r} {reason}")
        found.append(".".join(map(spelled, path)))
    if len({name if sensitive else name.lower() for name in found}) < len(found):
        raise InvalidParameter(f"key names a column twice ({', '.join(names)}): name each once")
    return tuple(found)


def column_name(df: DataFrame, name: str) -> str:
    """A column of `df` or a struct's field of any type, which is there once; spelled as `functions.col` reads it."""
    return ".".join(map(spelled, _found(df.schema, name, sensitive=case_sensitive(df))[0]))


def named(given: object, what: str) -> tuple[str, ...]:
    """One text or several as a tuple; `what` is what they are called in the error about anything else."""
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else (given,)
    if not names:
        raise InvalidParameter(f"{what} names no column: give one name or a list of names")
    return tuple(_name(name, what) for name in names)


def _name(given: object, what: str) -> str:
    if isinstance(given, str):
        return given
    if not isinstance(given, Column):
        raise InvalidParameter(f"{what} must be a name or a list of names, as texts, got {given!r}")
    reference = _REFERENCE.fullmatch(str(given))
    if reference is None:
        raise InvalidParameter(
            f"{what} must be a column of df, by its name or as F.col(name), got {given!r}: add what is computed by withColumn, "
            "and give its name"
        )
    return reference.group(1)


def key_types(df: DataFrame, names: tuple[str, ...]) -> tuple[DataType, ...]:
    """The types of the key columns that `key_names` gave."""
    schema, sensitive = df.schema, case_sensitive(df)
    return tuple(_at(schema, name, sensitive=sensitive).dataType for name in names)


def type_names(df: DataFrame, names: tuple[str, ...]) -> tuple[str, ...]:
    """The types of the key columns as Spark writes them, with CHAR(n) for strings that are filled up to n characters."""
    schema, sensitive = df.schema, case_sensitive(df)
    return tuple(declared_type(_at(schema, name, sensitive=sensitive)) for name in names)


def declared_type(field: StructField) -> str:
    """The type of a column as Spark writes it, with CHAR(n) for strings that are filled up to n characters."""
    declared = str((field.metadata or {}).get(_CHAR, ""))
    return declared if declared.startswith("char(") else field.dataType.simpleString()


def case_sensitive(df: DataFrame) -> bool:
    """Whether names that differ in case are two names in the session of `df`."""
    return str(df.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def quoted(name: str) -> str:
    """A column's name as Spark takes it literally, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def spelled(name: str) -> str:
    """One part of a name, in back-quotes where Spark would read something else without them."""
    return name if _PLAIN.fullmatch(name) else quoted(name)


def last_part(name: str) -> str:
    """What a column is called that is selected by this spelling: its name, or that of the struct's field."""
    return (name_parts(name) or [name])[-1]


def check_distinct(df: DataFrame) -> None:
    """Refuse a DataFrame with two columns of one name, whose columns cannot be told apart."""
    sensitive = case_sensitive(df)
    seen: set[str] = set()
    for name in df.columns:
        folded = name if sensitive else name.lower()
        if folded in seen:
            raise ColumnConflict(f"there are two columns {name!r}: rename or drop one of them, for example with toDF(...)")
        seen.add(folded)


def _found(schema: StructType, name: str, *, sensitive: bool) -> tuple[list[str], StructField]:
    """The path to a column or a struct's field, and the field."""
    if any(_same(column, name, sensitive=sensitive) for column in schema.names):
        return [name], _field(schema, name, name, sensitive=sensitive)
    path = name_parts(name)
    inside: DataType = schema
    field: StructField | None = None
    for part in path:
        if not isinstance(inside, StructType) or not any(_same(it, part, sensitive=sensitive) for it in inside.names):
            field = None
            break
        field = _field(inside, part, name, sensitive=sensitive)
        inside = field.dataType
    if field is None:
        raise UnknownColumn(f"there is no column {name!r}: the columns are {', '.join(schema.names)}")
    return path, field


def _at(schema: StructType, name: str, *, sensitive: bool) -> StructField:
    """The field of a name that is spelled as `key_names` spells it."""
    path = name_parts(name)
    field = _field(schema, path[0], name, sensitive=sensitive)
    for part in path[1:]:
        field = _field(field.dataType, part, name, sensitive=sensitive)  # type: ignore[arg-type] # key_names has seen it
    return field


def _field(within: StructType, part: str, name: str, *, sensitive: bool) -> StructField:
    fields = [field for field in within.fields if _same(field.name, part, sensitive=sensitive)]
    if len(fields) != 1:
        raise ColumnConflict(
            f"there are {len(fields)} columns {name!r}, so it cannot be told which is meant: rename one of them, for example "
            "with toDF(...)"
        )
    return fields[0]


def _same(one: str, other: str, *, sensitive: bool) -> bool:
    return one == other if sensitive else one.lower() == other.lower()


def name_parts(name: str) -> list[str]:
    """The parts of a name at its dots, without back-quotes; none if it is not written as Spark wants it."""
    parts, at = [], 0
    while match := _PART.match(name, at):
        parts.append(match[2] if match[1] is None else match[1].replace("``", "`"))
        at = match.end()
        if at == len(name):
            return parts
        if name[at] != ".":
            break
        at += 1
    return []


def unhashable(kind: DataType) -> str | None:
    """Why Spark does not hash values of a type; None if it does."""
    if kind.typeName() in _UNHASHED:
        return f"is a {kind.typeName()}, which Spark does not hash: {_UNHASHED[kind.typeName()]}"
    if isinstance(kind, StringType) and getattr(kind, "collation", _DEFAULT_COLLATION) != _DEFAULT_COLLATION:
        return (
            f"has the collation {kind.collation}, under which different texts are equal but hash differently: "
            "make a column that is equal for equal keys, such as lower(...), with the default collation"
        )
    if isinstance(kind, ArrayType):
        return unhashable(kind.elementType)
    if isinstance(kind, StructType):
        return next((reason for field in kind.fields if (reason := unhashable(field.dataType))), None)
    return None


def key_columns(names: Sequence[str]) -> list[Column]:
    """The key columns as expressions."""
    return [F.col(name) for name in names]


def key_id(names: tuple[str, ...]) -> Column:
    """The 64-bit id of the key. Null is a key like any other, and so is NaN."""
    return hashed("xxhash64", names)


def hashed(function: Literal["hash", "xxhash64"], names: Sequence[str]) -> Column:
    """One of Spark's hashes of columns, which are spelled as `key_names` spells them.

    In SQL: every function of a column is some calls of the JVM, and a short job feels them. But only of plain words: in SQL a
    setting makes patterns of names in back-quotes, which match other columns too (`spark.sql.parser.quotedRegexColumnNames`),
    and `${…}` is a variable.
    """
    if not all(map(_PLAIN.fullmatch, names)):
        return F.hash(*key_columns(names)) if function == "hash" else F.xxhash64(*key_columns(names))
    return F.expr(f"{function}({', '.join(map(quoted, names))})")
