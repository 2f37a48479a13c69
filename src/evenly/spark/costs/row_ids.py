"""The id of a row's cost key, and a number that orders rows: both the same whenever they are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructField, StructType

from evenly.errors import ColumnConflict, InvalidKeys, InvalidParameter, UnknownColumn
from evenly.spark.exact_json import exact_json, garbles_keys
from evenly.spark.features import Feature, has
from evenly.spark.keyed.keys import GEOMETRIES, declared_type, hashed, key_names, quoted, spelled, unhashable
from evenly.worker.executing import ID

Order = Literal["content", "arrival"]
ORDER = "__evenly_order"


def with_id(df: DataFrame, expressions: tuple[str, ...], *, order: Order | None = None) -> DataFrame:
    """`df` with the 64-bit id of the cost key, which is checked. Null is a key like any other.

    With an `order` also with a number that orders its rows, the same for the same row whenever it is computed: a hash of its
    content, or its place in the input.
    """
    with told_errors(df, f"cost_key {', '.join(map(repr, expressions))}"):
        keyed = df.withColumn(ID, key_hash(df, expressions))
        if order is not None:
            keyed = keyed.withColumn(ORDER, F.monotonically_increasing_id() if order == "arrival" else content_hash(df))
        if not has(df.sparkSession, Feature.ANALYSIS_AT_ONCE):
            _ = keyed.schema
    return keyed


def cost_key_types(df: DataFrame, expressions: Sequence[str]) -> tuple[str, ...]:
    """The types in which Spark hashes the expressions of a cost key."""
    by_name = {field.name: field for field in df.schema.fields}
    if set(df.columns).issuperset(expressions):  # most often: nothing is asked of Spark
        return tuple(declared_type(by_name[each]) for each in expressions)
    with told_errors(df, f"cost_key {', '.join(map(repr, expressions))}"):
        computed = df.select(*(F.col(quoted(each)) if each in by_name else F.expr(each) for each in expressions))
        return tuple(map(declared_type, computed.schema.fields))


@contextmanager
def told_errors(df: DataFrame, told: str) -> Iterator[None]:
    """What Spark says of a key of `df` inside, as an error of ours."""
    try:
        yield
    except ParseException as error:
        raise InvalidParameter(f"{told} is neither a column nor an SQL expression: {_first(error)}") from error
    except AnalysisException as error:
        if "UNRESOLVED_COLUMN" in str(error):
            raise UnknownColumn(f"{told}: {_first(error)} The columns are {', '.join(df.columns)}") from error
        if "HASH_" in str(error):
            raise InvalidKeys(
                f"{told} is of a type that Spark does not hash, a map or variant: use what matters of it"
            ) from error
        raise InvalidParameter(f"{told} cannot be computed: {_first(error)}") from error


def key_hash(df: DataFrame, expressions: Sequence[str]) -> Column:
    """The 64-bit hash of what each is: a column of `df` by its name, else an SQL expression."""
    names = set(df.columns)
    if names.issuperset(expressions):
        return hashed("xxhash64", [spelled(each) for each in expressions])
    # Each expression is parsed alone: among others a comment or a comma in it would mean something else.
    return F.xxhash64(*(F.col(quoted(each)) if each in names else F.expr(each) for each in expressions))


def _first(error: Exception) -> str:
    return str(error).strip().split("\n", maxsplit=1)[0]


def content_hash(df: DataFrame) -> Column:
    """A 64-bit hash of all columns, the same whenever it is computed. What Spark does not hash goes in as text.

    Rows of one hash are dealt in the order in which they come, so only rows that are equal may have one. Spark's own hash
    passes over nulls, the sign of a zero and where an array ends: by it (null, 5) and (5, null) are one.
    """
    fields = [field for field in df.schema.fields if not field.name.startswith("__evenly_")]
    if not fields:
        return F.expr("0L")
    try:
        key_names(df, [field.name for field in fields])
    except ColumnConflict:
        return _hash_of_all(df)
    except InvalidKeys:
        columns = [_hashable(df, field.name, field.dataType) for field in fields]
    else:
        if all(spelled(field.name) == field.name and not isinstance(field.dataType, StructType) for field in fields):
            # In SQL, as `hashed` has it.
            told = [_SQL[what].format(quoted(name)) for what, (name,) in _passed_over(fields)]
            return F.expr(f"xxhash64({', '.join([*(quoted(field.name) for field in fields), *told])})")
        columns = [F.col(spelled(field.name)) for field in fields]
    told_of = {"null": F.isnull, "length": F.size, "zero": _zero, "places": _places, "text": _text}
    return F.xxhash64(*columns, *(told_of[what](F.col(".".join(map(quoted, path)))) for what, path in _passed_over(fields)))


_PLACE = 7_046_029_254_386_353_131
"""A number that elements of arrays hardly are: it tells the first place in an array, and those that follow it the others."""
_SQL = {
    "null": "isnull({0})",
    "length": "size({0})",
    "zero": "if({0} = 0, cast({0} as string), '')",
    "places": f"arrays_zip({{0}}, sequence({_PLACE}L, {_PLACE - 1}L + size({{0}})))",
    "text": "cast({0} as string)",
}


def _zero(column: Column) -> Column:
    return F.when(column == 0, column.cast("string")).otherwise("")


def _text(column: Column) -> Column:
    return column.cast("string")


def _places(column: Column) -> Column:
    """Each element with its place: a hash passes over nulls, and then the places beside them tell where they were."""
    return F.arrays_zip(column, F.sequence(F.lit(_PLACE), F.lit(_PLACE - 1) + F.size(column)))


def _passed_over(fields: Sequence[StructField], within: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a hash does not see of columns and fields: which are null, how long arrays are, where they have nulls, what arrays
    inside of arrays have, and which zeros are negative (but not of those in arrays of numbers)."""
    for field in fields:
        path = (*within, field.name)
        if isinstance(field.dataType, StructType):
            if len({name.lower() for name in field.dataType.names}) == len(field.dataType.names):
                yield from _passed_over(field.dataType.fields, path)
        elif isinstance(field.dataType, ArrayType):
            yield "length", path
            if unhashable(field.dataType) is not None:  # that goes in as text
                pass
            elif isinstance(field.dataType.elementType, (ArrayType, StructType)):
                yield "text", path
            elif field.dataType.containsNull:
                yield "places", path
        elif isinstance(field.dataType, (DoubleType, FloatType)):
            yield "zero", path
        if field.nullable and (len(fields) > 1 or within):
            yield "null", path


def _hash_of_all(df: DataFrame) -> Column:
    """Two columns of one name are told apart by no name: the hash of all together, as a text if Spark does not hash one."""
    renamed = df.toDF(*(f"c{at}" for at in range(len(df.columns))))
    try:
        key_names(renamed, renamed.columns)
    except InvalidKeys:
        row = F.struct("*")
        return F.xxhash64(row.cast("string") if garbles_keys(df.schema) else F.to_json(row, exact_json(df)))
    return F.expr("xxhash64(*)")


def _hashable(df: DataFrame, name: str, kind: DataType) -> Column:
    column = F.col(quoted(name))
    try:
        key_names(df, name)
    except InvalidKeys:
        if kind.typeName() == "string":  # a collation
            return column.cast("binary")
        if kind.typeName() in GEOMETRIES:
            return F.call_function("st_asbinary", column)
        told, entries = kind, column
        if isinstance(kind, MapType):
            told, entries = StructType().add("key", kind.keyType).add("value", kind.valueType), F.map_entries(column)
        # Keys of maps inside may be addresses in memory as JSON, other ones whenever it is written.
        return column.cast("string") if garbles_keys(told) else F.to_json(F.struct(entries), exact_json(df))
    return column
