"""What a type of Spark is made of."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def parts_of(kind: DataType) -> Iterator[DataType]:
    """The type itself, and all that its arrays, maps and structs hold."""
    yield kind
    inner: list[DataType] = []
    if isinstance(kind, ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, MapType):
        inner = [kind.keyType, kind.valueType]
    elif isinstance(kind, StructType):
        inner = [field.dataType for field in kind.fields]
    for part in inner:
        yield from parts_of(part)
