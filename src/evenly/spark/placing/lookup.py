"""Tables that a plan looks rows up in, without being part of its text or weighing on its tasks.

A table as an array literal is printed whole wherever a plan is (explain, event logs, the message about a column that does
not exist), and Spark folds it to boxed objects, which every task behind the shuffle deserialises again. Here a table is the
value of a scalar subquery over one row that the plan holds itself: its text is `scalar-subquery#7`, no job runs for it, and
tasks get one array of bytes, which generated code reads in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenly.kernels.types import I64, U64
from evenly.keys.cuckoo import in_places, two_choice_tables
from evenly.spark.features import Feature, has

Table = NDArray[np.signedinteger[Any]]

_SPARK_TYPES = {np.dtype(np.int8): "tinyint", np.dtype(np.int16): "smallint", np.dtype(np.int32): "int"}


def lookup_tables(df: DataFrame, tables: dict[str, Table]) -> dict[str, Column]:
    """Each table as a constant array column for expressions over `df`: index it with an INT column."""
    if not has(df.sparkSession, Feature.SCALAR_SUBQUERY):
        return {name: array_literal(table) for name, table in tables.items()}
    arrays = {
        name: pa.array([table], pa.list_(pa.field("entry", pa.from_numpy_dtype(table.dtype), nullable=False)))
        for name, table in tables.items()
    }
    row = df.sparkSession.createDataFrame(pa.table(arrays))
    return {name: row.select(name).scalar() for name in tables}


@dataclass(frozen=True, eq=False)
class ById:
    """Values by the id of a key, found by two comparisons, whatever the number of keys.

    Ids are hashes: their low bits lead to a place, their high bits to another. One table holds both halves, each place as its
    id and its value: one subquery, whatever is looked up.
    """

    table: I64
    bits: int

    @classmethod
    def of(cls, ids: U64, values: Table) -> ById:
        """For at least one id, each with its value."""
        halves = two_choice_tables(ids)
        pairs = [np.stack([in_places(half, ids).view(np.int64), in_places(half, values)], axis=1) for half in halves]
        return cls(np.concatenate(pairs).astype(np.int64).ravel(), halves[0].size.bit_length() - 1)

    def found(self, known: Column, identity: str, otherwise: Column) -> Column:
        """The value of the id in column `identity`, a BIGINT, or else `otherwise`, which is not null; `known` is this table as
        `lookup_tables` gave it. Written with functions and SQL: a method of a column is ten calls of the JVM, a function two.
        """
        size = 1 << self.bits
        identified = F.col(identity)
        for place in (
            f"(cast(shiftrightunsigned({identity}, {64 - self.bits}) as int) + {size}) * 2",
            f"cast({identity} & {size - 1}L as int) * 2",
        ):
            there = F.equal_null(entry(known, place), identified)
            otherwise = F.nvl(F.when(there, entry(known, f"{place} + 1")), otherwise)
        return otherwise


def entry(table: Column, place: str) -> Column:
    """What a table has at a place, which is told in SQL."""
    return F.get(table, F.expr(place))


def smallest(values: Table) -> Table:
    """The values, none below 0, in the smallest type that holds them."""
    most = int(values.max(initial=0))
    for kind in (np.int8, np.int16, np.int32):
        if most <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype(np.int64)


def array_literal(values: Table) -> Column:
    """A table as one literal, whatever its length."""
    kind = _SPARK_TYPES.get(values.dtype, "bigint")
    return F.split(F.lit(",".join(map(str, values.tolist()))), ",").cast(f"array<{kind}>")
