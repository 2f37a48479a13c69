"""Arrays that an expression holds as they lie in a row of Spark's: constants that weigh next to nothing in a task.

Whatever runs behind a shuffle takes the plan below it along (Spark's operators hand themselves to their tasks), and a task
reads it object by object. So it is the number of objects and classes that costs, not bytes: a scalar subquery is a small plan
of its own, six operators of dozens of objects; this is one constant, whose text in plans is short.
"""

from __future__ import annotations

from py4j.java_gateway import JavaClass
from pyspark.sql import Column, DataFrame

_LITERAL = "org.apache.spark.sql.catalyst.expressions.Literal"
_COLUMNS = "org.apache.spark.sql.classic.ExpressionUtils"


def held_arrays(row: DataFrame) -> list[Column]:
    """Every column of a frame of one row, all of arrays, which the plan of that frame holds itself: no job runs."""
    held = row._jdf.queryExecution().executedPlan().executeCollect()[0]
    schema, client = row._jdf.schema(), row._jdf._gateway_client
    literal, columns = (JavaClass(name, client) for name in (_LITERAL, _COLUMNS))
    arrays = [literal(held.getArray(at), schema.apply(at).dataType()) for at in range(len(row.columns))]
    return [Column(columns.column(array)) for array in arrays]
