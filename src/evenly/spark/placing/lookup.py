"""Tables that a plan looks rows up in, without being part of its text or weighing on its tasks.

A table as an array literal is printed whole wherever a plan is (explain, event logs, the message about a column that does
not exist), and Spark folds it to boxed objects, which every task behind the shuffle deserialises again. Here a table is a
constant in the form in which rows hold arrays (`evenly.spark.jvm.held_arrays`): its text is short, no job runs for it, and
tasks get one array of bytes, which generated code reads in place. Where that form cannot be had, through Spark Connect, it is
the value of a scalar subquery over one row that the plan holds itself: the same answers, from a heavier plan.
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
from evenly.spark.features import Feature, has, has_tested
from evenly.spark.jvm.held_arrays import held_arrays

Table = NDArray[np.signedinteger[Any]]

_SPARK_TYPES = {np.dtype(np.int8): "tinyint", np.dtype(np.int16): "smallint", np.dtype(np.int32): "int"}


def lookup_tables(df: DataFrame, tables: dict[str, Table]) -> dict[str, Column]:
    """Each table as a constant array column for expressions over `df`: index it with an INT column."""
    if not has(df.sparkSession, Feature.SCALAR_SUBQUERY):
        return {name: array_literal(table) for name, table in tables.items()}
    if has_tested(df.sparkSession, Feature.HELD_ARRAYS):
        return dict(zip(tables, held_arrays(df.sparkSession, list(tables.values())), strict=True))
    arrays = {
        name: pa.array([table], pa.list_(pa.field("entry", pa.from_numpy_dtype(table.dtype), nullable=False)))
        for name, table in tables.items()
    }
    row = df.sparkSession.createDataFrame(pa.table(arrays))
    return {name: row.select(name).scalar() for name in tables}


@dataclass(frozen=True, eq=False)
class ById:
    """Values by the id of a key, found by two comparisons, whatever the number of keys.

    Ids are hashes: their low bits lead to a place, their high bits to another. Both halves are one table of ids, and what
    belongs to them another, in the smallest type. Every use of a table in a plan is a copy of it in each task, also behind
    the shuffle; so ids are used twice, values once, and the latter are not kept beside ids.
    """

    ids: I64
    values: Table
    bits: int

    @classmethod
    def of(cls, ids: U64, values: Table) -> ById:
        """For at least one id, each with its value, none below 0."""
        halves = two_choice_tables(ids)
        placed, told = (np.concatenate([in_places(half, each) for half in halves]) for each in (ids, values))
        return cls(placed.view(np.int64), smallest(told), halves[0].size.bit_length() - 1)

    def tables(self, name: str, kind: np.dtype[Any] | None = None) -> dict[str, Table]:
        """What `lookup_tables` is to be given for this, under this name; with values of a larger type than they need."""
        values = self.values if kind is None else self.values.astype(kind)
        return {f"{name} ids": self.ids, f"{name} values": values}

    def found(self, known: dict[str, Column], name: str, identity: str, otherwise: Column) -> Column:
        """The value of the id in column `identity`, a BIGINT, or else `otherwise`, which is not null; `known` are the tables
        that `lookup_tables` gave. Written with functions and SQL: a method of a column is ten calls of the JVM, a function two.
        """
        size = 1 << self.bits
        first, second = f"{identity} & {size - 1}L", f"shiftrightunsigned({identity}, {64 - self.bits}) | {size}L"
        there, elsewhere = (F.equal_null(entry(known[f"{name} ids"], place), F.col(identity)) for place in (first, second))
        place = F.call_function("if", there, F.expr(first), F.when(elsewhere, F.expr(second)))
        return F.nvl(F.get(known[f"{name} values"], F.call_function("int", place)), otherwise)


def entry(table: Column, place: str) -> Column:
    """What a table has at a place that it has, told in SQL as a whole number of any type, never null.

    Not `get`, which takes an INT alone: a cast is half a dozen objects in every task behind the shuffle. But null is no place:
    in ANSI mode Spark takes `array[null]` for an entry, if the array has no null in it.
    """
    return table[F.expr(place)]


def entry_or_null(table: Column, place: str) -> Column:
    """What a table has at a place, an INT; null beyond its end, and where the place is null."""
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
