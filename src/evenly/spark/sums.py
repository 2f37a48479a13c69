"""Sums by columns, in any session: a setting has Spark leave out of an aggregate what it is grouped by."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_RETAINED = "spark.sql.retainGroupColumns"


def summed(rows: DataFrame, by: Sequence[str], sums: Sequence[Column]) -> DataFrame:
    """`rows` grouped by columns of these names: one line for each, with these and the sums."""
    found = rows.groupBy(*by)
    if str(rows.sparkSession.conf.get(_RETAINED, "true")).lower() == "true":
        return found.agg(*sums)
    return found.agg(*(F.col(name) for name in by), *sums)
