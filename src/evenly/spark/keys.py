"""Key columns: which ones, whether Spark can hash them, and their ids."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from evenly.errors import InvalidKeys, InvalidParameter, UnknownColumn

Key = str | Sequence[str]
"""One key column, or several: names, with dots for fields of structs."""

_DEFAULT_COLLATION = "UTF8_BINARY"


def key_names(df: DataFrame, key: Key) -> tuple[str, ...]:
    """The key columns of `df`, checked: they exist and Spark can hash them."""
    names = (key,) if isinstance(key, str) else tuple(key)
    if not names:
        raise InvalidParameter("key names no column: give one name or a list of names")
    schema = df.schema
    for name in names:
        reason = _unhashable(_type_of(schema, name))
        if reason:
            raise InvalidKeys(f"key column {name!r} {reason}")
    return names


def key_types(df: DataFrame, names: tuple[str, ...]) -> tuple[DataType, ...]:
    """The types of the key columns."""
    schema = df.schema
    return tuple(_type_of(schema, name) for name in names)


def type_names(df: DataFrame, names: tuple[str, ...]) -> tuple[str, ...]:
    """The types of the key columns as Spark writes them. Equal values of two types have different ids and slots."""
    return tuple(kind.simpleString() for kind in key_types(df, names))


def _type_of(schema: StructType, name: str) -> DataType:
    """The type of a column, or of a struct's field by its dotted name."""
    if name in schema.names:
        return schema[name].dataType
    found: DataType = schema
    for part in name.replace("`", "").split("."):
        match = {field.lower(): field for field in found.names} if isinstance(found, StructType) else {}
        if not isinstance(found, StructType) or part.lower() not in match:
            raise UnknownColumn(f"there is no column {name!r}: the columns are {', '.join(schema.names)}")
        found = found[match[part.lower()]].dataType
    return found


def _unhashable(kind: DataType) -> str | None:
    if isinstance(kind, MapType):
        return "is a map, which Spark does not hash: use map_entries sorted into an array, or the entry that matters"
    if kind.typeName() == "variant":
        return "is a variant, which Spark does not hash: cast it to the type it holds"
    if isinstance(kind, StringType) and getattr(kind, "collation", _DEFAULT_COLLATION) != _DEFAULT_COLLATION:
        return (
            f"has the collation {kind.collation}, under which different texts are equal but hash differently: "
            "make a column that is equal for equal keys, such as lower(...), with the default collation"
        )
    if isinstance(kind, ArrayType):
        return _unhashable(kind.elementType)
    if isinstance(kind, StructType):
        return next((reason for field in kind.fields if (reason := _unhashable(field.dataType))), None)
    return None


def key_columns(names: tuple[str, ...]) -> list[Column]:
    """The key columns as expressions."""
    return [F.col(name) for name in names]


def key_id(names: tuple[str, ...]) -> Column:
    """The 64-bit id of the key. Null is a key like any other, and so is NaN."""
    return F.xxhash64(*key_columns(names))
