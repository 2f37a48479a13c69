"""Rows to instances in turn, the costliest first, in column arithmetic: no Python before the exchange, and one exchange.

It is what `repartition(n)` does, a sort and a round-robin, with another order: by the estimate of a row, then by a hash of its
content. So a task that is run again deals as before (rows that are equal in all columns are interchangeable).
"""

from __future__ import annotations

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenly.grouping.cost.table import CostTable
from evenly.grouping.cost.turns import COST_BITS, SPREAD, packed
from evenly.spark.cost.executing import ESTIMATE, ID
from evenly.spark.cost.routing import ORDER
from evenly.spark.groups.layout import quoted
from evenly.spark.lookup import ById, lookup_tables
from evenly.spark.placement import INSTANCE

_FOUND, _TURN, _AT = "__evenly_found", "__evenly_turn", "__evenly_at"
_POSITION_BITS = 33
"""Of `monotonically_increasing_id`: the position in the partition; above them is the partition's number."""


def deal_in_turn(df: DataFrame, table: CostTable, instances: int) -> DataFrame:
    """The rows of `df` (with id and order), each in the partition of its instance, with its estimate."""
    kept = [F.col(quoted(name)) for name in df.columns if name != ORDER]
    found = df.withColumn(_FOUND, _estimate(df, table))
    # The rank, then as much of the hash as there is room for: almost always one number tells two rows apart.
    rank = F.shiftleft(F.shiftright(F.col(_FOUND), COST_BITS), COST_BITS)
    turns = found.withColumn(_TURN, rank.bitwiseOR(F.shiftrightunsigned(F.col(ORDER), 64 - COST_BITS)))
    # A column that is not deterministic keeps the sort below it, for whatever follows.
    rows = turns.sortWithinPartitions(_TURN, ORDER).withColumn(_AT, F.monotonically_increasing_id())
    estimate_s = F.col(_FOUND).bitwiseAND(_long((1 << COST_BITS) - 1)).cast("double") * F.lit(1e-9)
    dealt = rows.select(*kept, _instance(F.col(_AT), instances).alias(INSTANCE), estimate_s.alias(ESTIMATE))
    return dealt.repartitionById(instances, INSTANCE)


def _estimate(df: DataFrame, table: CostTable) -> Column:
    """The packed estimate of a row, by its id."""
    values = packed(table)
    otherwise = _long(int(values[-1]))
    if not table.ids.size:
        return otherwise
    by_id = ById.of(table.ids.view(np.uint64), values[:-1])
    return by_id.found(lookup_tables(df, {"costs": by_id.table})["costs"], F.col(ID), otherwise)


def _instance(at: Column, instances: int) -> Column:
    """`turns.in_turn`, of the number that Spark gives a row."""
    part = F.shiftright(at, _POSITION_BITS)
    position = at.bitwiseAND(_long((1 << _POSITION_BITS) - 1))
    many = _long(instances)
    place = position % many
    turn = F.call_function("div", position, many)
    first = F.shiftright((F.shiftright(part, 1) * _long(SPREAD)).bitwiseAND(_long(2**32 - 1)) * many, 32)
    backwards = (turn + part).bitwiseAND(_long(1)) == 1
    return ((F.when(backwards, many - 1 - place).otherwise(place) + first) % many).cast("int")


def _long(value: int) -> Column:
    return F.lit(value).cast("bigint")
