"""Operators whose rows are dealt out by cost: a row gives nothing, one result or many here too.

`apply_by_cost` has one result for each row. So an operator's results of a row are one array of structs on their way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructField, StructType

from evenly.dataflow.graph import Dataflow, Operator
from evenly.spark.arrow_schema import arrow_schema
from evenly.spark.flows.functions import loaded
from evenly.spark.flows.schemas import parsed
from evenly.worker.many_results import many_results
from evenly.worker.results import Shape

_RESULTS = "results"


def costed_call(flow: Dataflow, one: Operator, rows: DataFrame) -> tuple[Callable[[Any], Any], StructType]:
    """The function of an operator for `apply_by_cost`, and the schema of what it gives."""
    nullable, strict = parsed(flow, one, rows)
    shape = Shape(arrow_schema(rows.sparkSession, nullable), strict)
    return many_results(loaded(one), shape), StructType([StructField(_RESULTS, ArrayType(nullable))])


def costed_rows(ran: DataFrame) -> DataFrame:
    """The results as rows."""
    return ran.select(F.inline(_RESULTS))
