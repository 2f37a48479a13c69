"""Options under which Spark's JSON tells all of a value: by itself it cuts microseconds and leaves null fields out."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    CharType,
    DataType,
    MapType,
    NumericType,
    StringType,
    StructType,
    VarcharType,
)

_EXACTLY = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_LEGACY = {**_EXACTLY, "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""What Spark's older way with times (spark.sql.legacy.timeParserPolicy) understands: it knows of no seconds in an offset."""


def exact_json(df: DataFrame) -> dict[str, str]:
    """The options for `to_json`, under the settings of the session of `df`."""
    policy = str(df.sparkSession.conf.get("spark.sql.legacy.timeParserPolicy", "EXCEPTION"))
    return _LEGACY if policy.upper() == "LEGACY" else _EXACTLY


_KEYS_OF_MAPS = (StringType, CharType, VarcharType, NumericType, BooleanType)
"""Of all others Spark writes what it has inside: an address in memory for binary, days since 1970 for a date."""


def garbles_keys(kind: DataType) -> bool:
    """Whether a type has maps whose keys are not told by JSON."""
    if isinstance(kind, MapType):
        return not isinstance(kind.keyType, _KEYS_OF_MAPS) or garbles_keys(kind.valueType)
    if isinstance(kind, ArrayType):
        return garbles_keys(kind.elementType)
    return isinstance(kind, StructType) and any(garbles_keys(field.dataType) for field in kind.fields)
