"""The id of a row's cost key, and a number that orders rows: both the same whenever they are computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from evenly.errors import ColumnConflict, InvalidKeys, InvalidParameter, UnknownColumn
from evenly.spark.exact_json import exact_json
from evenly.spark.features import Feature, has
from evenly.spark.keyed.keys import key_names, quoted
from evenly.worker.executing import ID

Order = Literal["content", "arrival"]
ORDER = "__evenly_order"


def with_id(df: DataFrame, expressions: tuple[str, ...], *, order: Order | None = None) -> DataFrame:
    """`df` with the 64-bit id of the cost key, which is checked. Null is a key like any other.

    With an `order` also with a number that orders its rows, the same for the same row whenever it is computed: a hash of its
    content, or its place in the input.
    """
    with told_errors(df, f"cost_key {', '.join(map(repr, expressions))}"):
        ordered = [] if order is None else [F.monotonically_increasing_id() if order == "arrival" else content_hash(df)]
        identity = F.xxhash64(*(key_column(df, each) for each in expressions))
        keyed = df.select("*", identity.alias(ID), *(number.alias(ORDER) for number in ordered))
        if not has(df.sparkSession, Feature.ANALYSIS_AT_ONCE):
            _ = keyed.schema
    return keyed


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


def key_column(df: DataFrame, expression: str) -> Column:
    """A column of `df` by its name, else an SQL expression."""
    return F.col(quoted(expression)) if expression in df.columns else F.expr(expression)


def _first(error: Exception) -> str:
    return str(error).strip().split("\n", maxsplit=1)[0]


def content_hash(df: DataFrame) -> Column:
    """A 64-bit hash of all columns. What Spark does not hash goes in as JSON."""
    fields = [field for field in df.schema.fields if not field.name.startswith("__evenly_")]
    if not fields:
        return F.lit(0).cast("bigint")
    try:
        key_names(df, [field.name for field in fields])
    except ColumnConflict:
        return F.expr("xxhash64(*)")  # two columns of one name are told apart by no name
    except InvalidKeys:
        return F.xxhash64(*(_hashable(df, field.name, field.dataType) for field in fields))
    return F.expr(f"xxhash64({', '.join(quoted(field.name) for field in fields)})")


def _hashable(df: DataFrame, name: str, kind: DataType) -> Column:
    column = F.col(quoted(name))
    try:
        key_names(df, name)
    except InvalidKeys:
        if kind.typeName() == "string":  # a collation
            return column.cast("binary")
        return F.to_json(F.struct(column), exact_json(df))
    return column
