"""What Spark makes of a schema in Arrow, by its public way: it is asked for a table without rows."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from evenly.spark.features import Feature, has

_SETTINGS = ("spark.sql.session.timeZone", "spark.sql.execution.arrow.useLargeVarTypes")
_known: dict[tuple[str | None, ...], pa.Schema] = {}


def arrow_schema(empty: DataFrame) -> pa.Schema:
    """The Arrow schema of a DataFrame without rows, asked once for each schema and each value of the settings that count."""
    spark = empty.sparkSession
    asked = (empty.schema.json(), *(spark.conf.get(setting, None) for setting in _SETTINGS))
    if asked not in _known:
        asks = has(spark, Feature.TO_ARROW)
        _known[asked] = empty.toArrow().schema if asks else to_arrow_schema(empty.schema)
    return _known[asked]
