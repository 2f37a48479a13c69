"""The schema of what leaves an operator, as its description has it."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from evenly.dataflow.graph import Dataflow, Operator
from evenly.errors import EvenlyError
from evenly.spark.arrow_schema import arrow_schema
from evenly.spark.costs.options import checked_schema


def parsed(flow: Dataflow, one: Operator, rows: DataFrame) -> tuple[StructType, frozenset[str]]:
    """The schema of what leaves an operator, all of it nullable, and the fields that are not."""
    try:
        found = checked_schema(rows, one.schema, skip=False)
        nullable = StructType([StructField(it.name, it.dataType, nullable=True) for it in found.fields])
        arrow_schema(rows.sparkSession, nullable)
    except (EvenlyError, PySparkException) as error:
        raise flow.error(f"the schema of {one.name!r} cannot be used: {error}", one) from error
    return nullable, frozenset(it.name for it in found.fields if not it.nullable)
