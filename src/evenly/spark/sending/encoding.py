"""What is sent of a row: its JSON, or one column as it is; made by Spark, not in Python."""

from __future__ import annotations

import re
from collections import Counter

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, CharType, DataType, StringType, StructType, VarcharType

from evenly.errors import InvalidParameter, UnknownColumn
from evenly.spark.exact_json import exact_json, garbles_keys
from evenly.spark.keyed.keys import case_sensitive, quoted
from evenly.spark.nested_types import parts_of

BODY = "body"
_WITHOUT_JSON = re.compile(r"\b(?:geography|geometry)\b")
"""Types that Spark takes for JSON, and then fails at the first row."""
_AS_IT_IS = (StringType, BinaryType, CharType, VarcharType)


def bodies(df: DataFrame, column: str | None) -> DataFrame:
    """One BINARY column with what is sent of each row; the partitions and the order in them stay.

    A named column, or the only one if it is text or binary, is sent as it is, and null as nothing; otherwise the row as JSON:
    all fields, null ones as null; timestamps with microseconds and the offset of the session's time zone.
    """
    name = _plain_column(df, column)
    if name is not None:
        body = F.coalesce(F.col(quoted(name)).cast("binary"), F.lit(b""))
        return df.select(body.alias(BODY))
    if not df.columns:
        raise InvalidParameter("the rows have no column: select what is to be sent")
    if twice := _twice(df):
        raise _several(twice[0])
    _check_names_and_keys(df)
    refused = [field for field in df.schema.fields if _WITHOUT_JSON.search(field.dataType.simpleString())]
    try:
        encoded = _as_json(df, df.columns)
    except AnalysisException:
        refused += [field for field in df.schema.fields if field not in refused and not _has_json(df, field.name)]
        if not refused:
            raise
    if refused:
        kinds = ", ".join(f"{field.name} ({field.dataType.simpleString()})" for field in refused)
        raise InvalidParameter(f"Spark cannot write as JSON: {kinds}; cast it to string or binary, or drop it")
    return encoded


def _check_names_and_keys(df: DataFrame) -> None:
    """Refuse what JSON can be written of and not be read again as it was."""
    for field in df.schema.fields:
        if any(isinstance(part, StructType) and len(set(part.names)) < len(part.names) for part in parts_of(field.dataType)):
            raise InvalidParameter(
                f"column {field.name!r} is {field.dataType.simpleString()}, with two fields of one name, and readers keep "
                "one: give each a name of its own"
            )
    if unwritten := [field for field in df.schema.fields if garbles_keys(field.dataType)]:
        kinds = ", ".join(f"{field.name} ({field.dataType.simpleString()})" for field in unwritten)
        raise InvalidParameter(
            f"keys of maps are text, numbers or booleans in JSON: {kinds}; make text of them, as in "
            "F.transform_keys(column, lambda key, _: key.cast('string')), or drop it"
        )


def _plain_column(df: DataFrame, column: str | None) -> str | None:
    if column is None:
        only = df.schema.fields[0] if len(df.schema.fields) == 1 else None
        return only.name if only is not None and isinstance(only.dataType, _AS_IT_IS) else None
    if not isinstance(column, str):
        raise InvalidParameter(f"column must be the name of a column, or None, got {column!r}")
    kinds: dict[str, DataType] = {field.name: field.dataType for field in df.schema.fields}
    if column not in kinds:
        raise UnknownColumn(f"there is no column {column!r}: the columns are {', '.join(kinds)}")
    if column in _twice(df):
        raise _several(column)
    if not isinstance(kinds[column], _AS_IT_IS):
        raise InvalidParameter(
            f"column {column!r} is {kinds[column].simpleString()}, and only text and binary are sent as they are: cast it to "
            "string, or leave column= out to send rows as JSON"
        )
    return column


def _twice(df: DataFrame) -> list[str]:
    """Names that Spark cannot tell from another column's."""
    same = str if case_sensitive(df) else str.lower
    counts = Counter(map(same, df.columns))
    return [name for name in df.columns if counts[same(name)] > 1]


def _several(name: str) -> InvalidParameter:
    return InvalidParameter(f"several columns are called {name!r}: give them names of their own")


def _as_json(df: DataFrame, names: list[str]) -> DataFrame:
    row = F.struct(*(F.col(quoted(name)) for name in names))
    return df.select(F.to_json(row, exact_json(df)).cast("binary").alias(BODY))


def _has_json(df: DataFrame, name: str) -> bool:
    try:
        _as_json(df, [name])
    except AnalysisException:
        return False
    return True
