"""What Spark makes of a schema in Arrow, by its public way: it is asked for a table without rows."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from evenly.spark.features import Feature, has
from evenly.worker.states.layout import in_zone

_ZONE = "spark.sql.session.timeZone"
_SETTINGS = (_ZONE, "spark.sql.execution.arrow.useLargeVarTypes")
_known: dict[tuple[str | None, ...], pa.Schema] = {}


def arrow_schema(spark: SparkSession, schema: StructType, empty: DataFrame | None = None) -> pa.Schema:
    """The Arrow schema of a Spark schema, asked once for each schema and each value of the settings that count.

    Moments are in the session's time zone, as in what Spark gives its functions; schemas it tells with UTC.
    `empty` is a DataFrame of that schema without rows, if there is one; without it all fields may be null.
    """
    asked = (schema.json(), *(spark.conf.get(setting, None) for setting in _SETTINGS))
    if asked not in _known:
        if has(spark, Feature.TO_ARROW):
            found = (_nothing(spark, schema) if empty is None else empty).toArrow().schema
        else:
            found = to_arrow_schema(schema)
        _known[asked] = in_zone(found, str(spark.conf.get(_ZONE)))
    return _known[asked]


def _nothing(spark: SparkSession, schema: StructType) -> DataFrame:
    """A query without tasks."""
    return spark.range(0).select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields))
