"""Whether what a caller gives is what Spark takes: a DataFrame, a session, a schema, a column's name."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenly.errors import ColumnConflict, InvalidParameter
from evenly.spark.jvm.java_errors import Py4JError
from evenly.spark.jvm.stopped import is_stopped

_SHOWN = 200
_OF_A_LENGTH = "char/varchar"
"""What Spark's internal error about a frame with such columns speaks of."""


def check_frame(df: Any, name: str = "df") -> None:
    """Refuse anything but a DataFrame of Spark, of either kind of session."""
    # Of its class: on Spark Connect a look at the value would be a call of the server.
    if not all(hasattr(type(df), it) for it in ("sparkSession", "isStreaming", "schema", "writeTo")):
        told = repr(df)
        kind = f"{type(df).__module__}.{type(df).__qualname__}"
        shown = told if len(told) <= _SHOWN and "\n" not in told else f"one of {kind}"
        raise InvalidParameter(f"{name} must be a DataFrame of Spark, got {shown}{_remedy(df)}")
    if is_stopped(df.sparkSession):
        raise InvalidParameter(f"{name} is of a session that was stopped: make it anew in the session that runs now")


def _remedy(df: Any) -> str:
    """What to give instead of what is often given."""
    if type(df).__module__.startswith(("pandas.", "pyarrow.", "polars.")):
        return ": spark.createDataFrame(...) makes one of it"
    if type(df).__name__ == "GroupedData":
        return ": give what was grouped, and its columns as the key"
    return ""


def check_session(spark: Any) -> None:
    """Refuse anything but a session of Spark, of either kind."""
    if not all(hasattr(type(spark), it) for it in ("createDataFrame", "streams", "conf")):
        raise InvalidParameter(f"spark must be a SparkSession, got {spark!r}")


def check_new_column(df: DataFrame, column: Any, parameter: str) -> None:
    """Refuse a name for a column that is to be added if it is none, or is taken."""
    if not isinstance(column, str) or not column:
        raise InvalidParameter(f"{parameter} must be the name of a column to add, got {column!r}")
    if column.lower() in (name.lower() for name in df.columns):
        raise ColumnConflict(f"there is a column {column!r} already: choose another name, such as {parameter}='{column}_'")


def empty_frame(spark: Any, schema: StructType | str, *, name: str = "schema") -> DataFrame:
    """No rows with the schema of a function's results, or of what it keeps, parsed by Spark if it is a text; `name` is what it
    is called in errors."""
    if not isinstance(schema, (StructType, str)):
        raise InvalidParameter(f"{name} must be a text such as 'user string, score double' or a StructType, got {schema!r}")
    try:
        empty: DataFrame = spark.createDataFrame([], schema)
        _ = empty.schema
    except (PySparkException, Py4JError, ValueError, AssertionError) as error:
        told = getattr(error, "java_exception", None)  # or Spark's only line is which of its methods was called
        lines = str(error if told is None else told.toString()).strip().splitlines()
        why = next((line for line in lines if line.strip()), type(error).__name__)
        if _OF_A_LENGTH in why:
            why = "Spark's functions in Python have no char(n) and varchar(n): write string"
        raise InvalidParameter(f"{name} {schema!r} is not one, such as 'user string, score double': {why}") from error
    if not empty.columns or not isinstance(empty.schema, StructType):
        raise InvalidParameter(f"{name} has no field: name what the function returns, such as 'score double'")
    return empty
