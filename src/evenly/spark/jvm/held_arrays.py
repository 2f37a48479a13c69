"""Arrays that an expression holds as they lie in a row of Spark's: constants that weigh next to nothing in a task.

Whatever runs behind a shuffle takes the plan below it along (Spark's operators hand themselves to their tasks), and a task
reads it object by object. So it is the number of objects and classes that costs, not bytes: a scalar subquery is a small plan
of its own, six operators of dozens of objects; this is one constant, whose text in plans is short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from py4j.java_gateway import JavaClass
from pyspark.sql import Column, SparkSession

_CATALYST = "org.apache.spark.sql.catalyst.expressions"
_COLUMNS = "org.apache.spark.sql.classic.ExpressionUtils"
_PLATFORM = "org.apache.spark.unsafe.Platform"
_TYPES = {np.dtype(np.int8): "byte", np.dtype(np.int16): "short", np.dtype(np.int32): "integer", np.dtype(np.int64): "long"}


def held_arrays(spark: SparkSession, tables: Sequence[NDArray[np.signedinteger[Any]]]) -> list[Column]:
    """A constant column for each table, an array of its type without nulls; nothing is planned and no job runs."""
    session = spark._jsparkSession
    client = session._gateway_client
    array, literal = (JavaClass(f"{_CATALYST}.{name}", client) for name in ("UnsafeArrayData", "Literal"))
    column, start = JavaClass(_COLUMNS, client).column, JavaClass(_PLATFORM, client).BYTE_ARRAY_OFFSET
    found = []
    for table in tables:
        content, held = _in_a_row(table), array()
        held.pointTo(content, start, len(content))
        kind = f'{{"type": "array", "elementType": "{_TYPES[table.dtype]}", "containsNull": false}}'
        found.append(Column(column(literal(held, session.parseDataType(kind)))))
    return found


def _in_a_row(table: NDArray[np.signedinteger[Any]]) -> bytes:
    """As a row holds an array, in words of 8 bytes: its length, a bit for each entry that is null, and the entries."""
    entries = np.ascontiguousarray(table).tobytes()
    nulls = 8 * -(-table.size // 64)
    return np.int64(table.size).tobytes() + bytes(nulls) + entries + bytes(-len(entries) % 8)
