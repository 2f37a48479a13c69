"""Rows to instances in turn, the costliest first, in column arithmetic: no Python before the exchange, and one exchange.

It is what `repartition(n)` does, a sort and a round-robin, with another order: by the estimate of a row, then by a hash of its
content. So a task that is run again deals as before (rows that are equal in all columns are interchangeable).
"""

from __future__ import annotations

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenly.costs.rounds import BY_PART, BY_TURN, ENDS, ROUNDS, TURNS
from evenly.costs.table import CostTable
from evenly.costs.turns import COST_BITS, SPREAD, packed
from evenly.spark.costs.row_ids import ORDER, content_hash
from evenly.spark.placing.lookup import ById, lookup_tables
from evenly.spark.placing.placement import NUMBERED
from evenly.worker.executing import ESTIMATE, ID

_FOUND, _AT = "__evenly_found", "__evenly_at"
_POSITION_BITS = 33
"""Of `monotonically_increasing_id`: the position in the partition; above them is the partition's number."""


def deal_in_turn(df: DataFrame, table: CostTable, instances: int) -> DataFrame:
    """The rows of `df` (with id and order), each in the partition of its instance, with its estimate.

    In SQL rather than in functions of columns, each of which is a call of the JVM: a job of two seconds would feel them.
    """
    found = df.withColumn(_FOUND, _estimate(df, table))
    # The rank, then as much of the hash as there is room for: almost always one number tells two rows apart.
    turn = f"shiftleft(shiftright({_FOUND}, {COST_BITS}), {COST_BITS}) | shiftrightunsigned({ORDER}, {64 - COST_BITS})"
    rows = found.sortWithinPartitions(F.expr(turn), ORDER).selectExpr(
        f"* except ({ORDER}, {_FOUND})",
        f"cast({_FOUND} & {(1 << COST_BITS) - 1}L as double) * 1e-9D as {ESTIMATE}",
        # Not deterministic: so Spark keeps the sort below, whatever follows.
        f"monotonically_increasing_id() as {_AT}",
    )
    return rows.repartitionById(instances, F.expr(_instance(instances)))


def deal_in_pieces(df: DataFrame, instances: int) -> DataFrame:
    """The rows of `df`, each in the partition of its piece: five for each instance. It is as safe as dealing in turn."""
    # By a column: what an order is called behind each step is worked out operand by operand, one inside the other, and
    # of a hash of thousands of columns that overflows Spark's stack. And not deterministic, by a zero: Spark would set what
    # is computed below into the hash, in all ways that there are, which takes it seconds at hundreds of columns.
    order = content_hash(df) + F.expr("monotonically_increasing_id() * 0L")
    rows = df.withColumn(ORDER, order).sortWithinPartitions(ORDER).drop(ORDER)
    # A column, as Spark would make one: each place of an expression that asks for a number counts by itself.
    numbered = rows.withColumn(NUMBERED, F.expr("monotonically_increasing_id()"))
    return numbered.repartitionById(ROUNDS * instances, F.expr(_piece(instances))).drop(NUMBERED)


def _estimate(df: DataFrame, table: CostTable) -> Column:
    """The packed estimate of a row, by its id."""
    values = packed(table)
    otherwise = F.expr(f"{values[-1]}L")
    if not table.ids.size:
        return otherwise
    by_id = ById.of(table.ids.view(np.uint64), values[:-1])
    return by_id.found(lookup_tables(df, by_id.tables("costs")), "costs", ID, otherwise)


def _instance(instances: int) -> str:
    """`turns.in_turn`, of the number that Spark gives a row."""
    position, part, many = f"({_AT} & {(1 << _POSITION_BITS) - 1}L)", f"shiftright({_AT}, {_POSITION_BITS})", f"{instances}L"
    backwards = f"({position} div {many} + {part}) % 2 = 1"
    place = f"if({backwards}, {instances - 1}L - {position} % {many}, {position} % {many})"
    first = f"shiftright((shiftright({part}, 1) * {SPREAD}L & {2**32 - 1}L) * {many}, 32)"
    return f"cast(({place} + {first}) % {many} as int)"


def _piece(instances: int) -> str:
    """`rounds.piece_of`, of the number that Spark gives a row."""
    many, part = f"{instances}L", f"shiftright({NUMBERED}, {_POSITION_BITS})"
    first = f"shiftright(({part} * {SPREAD}L & {2**32 - 1}L) * {many}, 32)"
    place = f"(({NUMBERED} & {(1 << _POSITION_BITS) - 1}L) + {first})"
    drawn = f"(({place} div {many} & {TURNS}L) * {BY_TURN}L + {part} * {BY_PART}L & {2**32 - 1}L)"
    rounds = " ".join(f"when {drawn} < {end}L then {at}" for at, end in enumerate(ENDS))
    return f"cast({place} % {many} + {many} * case {rounds} else {len(ENDS)} end as int)"
