"""Options under which Spark's JSON tells all of a value: by itself it cuts microseconds and leaves null fields out."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BooleanType,
    CharType,
    DataType,
    MapType,
    NumericType,
    StringType,
    VarcharType,
)

from evenly.spark.nested_types import parts_of

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
    return any(isinstance(part, MapType) and not isinstance(part.keyType, _KEYS_OF_MAPS) for part in parts_of(kind))
