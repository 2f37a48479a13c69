"""The results of `apply_by_cost` with `CallOptions(on_error="skip")`: the good rows, and those on which the function failed."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from evenly.errors import UnknownColumn
from evenly.spark.frames import check_frame
from evenly.worker.letters import ERROR

LETTER_TYPE = StructType().add("type", "string").add("message", "string").add("row", "string")


def good_rows(result: DataFrame) -> DataFrame:
    """The rows of a result with `CallOptions(on_error="skip")` on which the function did not fail, without `error`.

        result = evenly.apply_by_cost(df, fetch, schema, instances=16, call=evenly.CallOptions(on_error="skip")).persist()
        evenly.good_rows(result).write.parquet("/data/sizes")

    Persist a result that is read twice, as here for `failed_rows`: each action calls the function anew.
    What is lost with an executor is computed again, and with speculation a task and its copy may both leave what they made:
    where a row may fail in one run and not in the next, write the result once and read both of what was written.
    """
    return _checked(result).where(F.col(ERROR).isNull()).drop(ERROR)


def failed_rows(result: DataFrame) -> DataFrame:
    """The dead letters of a result with `CallOptions(on_error="skip")`: `type` and `message` of the error, `row` as JSON.

        evenly.failed_rows(result).write.json("/data/letters")

    `result` is as in `good_rows`.
    """
    return _checked(result).where(F.col(ERROR).isNotNull()).select(f"{ERROR}.type", f"{ERROR}.message", f"{ERROR}.row")


def _checked(result: DataFrame) -> DataFrame:
    check_frame(result, "result")
    if ERROR not in result.columns:
        raise UnknownColumn(
            f"there is no column {ERROR!r}: give apply_by_cost call=evenly.CallOptions(on_error='skip'); the columns are "
            f"{', '.join(result.columns)}"
        )
    return result
