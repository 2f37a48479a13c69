"""The results of `apply_by_cost` with `CallOptions(on_error="skip")`: the good rows, and those on which the function failed."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from evenly.errors import UnknownColumn
from evenly.worker.letters import ERROR

LETTER_TYPE = StructType().add("type", "string").add("message", "string").add("row", "string")


def good_rows(result: DataFrame) -> DataFrame:
    """The rows of a result with `CallOptions(on_error="skip")` on which the function did not fail, without `error`."""
    return _checked(result).where(F.col(ERROR).isNull()).drop(ERROR)


def failed_rows(result: DataFrame) -> DataFrame:
    """The dead letters of a result with `CallOptions(on_error="skip")`: `type` and `message` of the error, `row` as JSON."""
    return _checked(result).where(F.col(ERROR).isNotNull()).select(f"{ERROR}.type", f"{ERROR}.message", f"{ERROR}.row")


def _checked(result: DataFrame) -> DataFrame:
    if ERROR not in result.columns:
        raise UnknownColumn(
            f"there is no column {ERROR!r}: give apply_by_cost call=evenly.CallOptions(on_error='skip'); the columns are "
            f"{', '.join(result.columns)}"
        )
    return result
