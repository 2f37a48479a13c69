"""What a grouped function must return, by its schema and by the settings that Spark's own grouped functions obey."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from evenly.errors import ColumnConflict
from evenly.spark.arrow_schema import arrow_schema
from evenly.spark.frames import empty_frame

_BY_NAME = "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName"
_SAFELY = "spark.sql.execution.pandas.convertToArrowArraySafely"


@dataclass(frozen=True)
class Results:
    """Results as an empty DataFrame, and whether their columns are found by name and converted safely."""

    empty: DataFrame
    by_name: bool
    safe: bool

    @classmethod
    def of(cls, spark: SparkSession, schema: str | StructType) -> Self:
        """Of a schema as a user gives it, under the settings of a session."""
        empty = empty_frame(spark, schema)
        names = empty.columns
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if twice:
            raise ColumnConflict(
                f"the schema of results names {', '.join(map(repr, twice))} twice: give each column its own name"
            )
        return cls(empty, _is_on(spark, _BY_NAME), _is_on(spark, _SAFELY))

    @property
    def schema(self) -> StructType:
        return self.empty.schema

    @cached_property
    def arrow(self) -> pa.Schema:
        """What Spark makes of the schema in Arrow."""
        return arrow_schema(self.empty.sparkSession, self.schema, self.empty)


def _is_on(spark: SparkSession, setting: str) -> bool:
    """With Spark's own default, which differs between releases: one that is given here would go before it."""
    return str(spark.conf.get(setting)).lower() == "true"
