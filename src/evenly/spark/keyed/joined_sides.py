"""The two sides of a join on their instances: what is split, what is copied, and what has no key.

Both sides get the number of an instance, `AT`, are shuffled by it, and are joined by it and their keys. Equal keys have equal
hashes, so they meet: a row that is split on one instance, where all rows of its key on the other side are; any other on one.
The join itself is Spark's, with Spark's idea of which keys are equal: placement decides where rows meet, never whether.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenly.keys.joins import JoinHow, JoinPlan, Side, comes_out_alone, copied
from evenly.keys.split_mapping import SplitMapping
from evenly.spark.keyed.keys import hashed, quoted
from evenly.spark.keyed.split import POSITION, split_routes, with_part
from evenly.spark.keyed.telling_apart import hashable
from evenly.spark.placing.lookup import Table, entry_or_null, lookup_tables
from evenly.spark.placing.own_columns import own_name
from evenly.spark.placing.placement import AT, ID, Routes, all_but, with_ids
from evenly.spark.remembering.memory import Memory

_FOUND = own_name("found")


@dataclass(frozen=True)
class JoinKey:
    """The key columns of one side, as `key_names` spells them, and the type to hash each in (None: its own)."""

    names: tuple[str, ...]
    hash_as: tuple[str | None, ...]

    def cast(self, df: DataFrame) -> tuple[DataFrame, tuple[str, ...], tuple[str, ...]]:
        """`df` with a column for each key that is hashed in another type; what to hash; and which columns were added."""
        added = {
            own_name(f"hashed_{at}"): (name, kind)
            for at, (name, kind) in enumerate(zip(self.names, self.hash_as, strict=True))
            if kind
        }
        cast = df.withColumns({own: F.col(name).cast(kind) for own, (name, kind) in added.items() if kind}) if added else df
        by_name = {name: own for own, (name, _) in added.items()}
        return cast, tuple(by_name.get(name, name) for name in self.names), tuple(added)

    @property
    def has_null(self) -> Column:
        """Whether one of the columns is null: such a row meets nobody."""
        return reduce(or_, (F.isnull(F.col(name)) for name in self.names))


@dataclass(frozen=True)
class Joining:
    """A join of Spark's by columns that both sides have: `by`, or where these are ours, copies of the keys that go again."""

    how: JoinHow
    by: tuple[str, ...]
    ours: bool

    def plain(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """Spark's own join."""
        joined = left.join(right, list(self.by), self.how)
        return joined.drop(*self.by) if self.ours else joined

    def placed(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """The join of two sides that are on their instances.

        Spark would move a semi or an anti join below the shuffle of its left side. So these are an inner and a left join with
        the other side's keys, each once: rows on an instance are grouped there without another shuffle.
        """
        by = [*self.by, AT]  # keys lead where rows are sorted: all rows of a task have one instance, which tells none apart
        if self.how in ("inner", "left", "right", "full"):
            joined = left.join(right, by, self.how)
        else:
            once = right.select(*map(quoted, by)).dropDuplicates()
            if self.how == "semi":
                joined = left.join(once, by, "inner")
            else:
                joined = left.join(once.withColumn(_FOUND, F.lit(1)), by, "left").where(f"{_FOUND} is null").drop(_FOUND)
        return joined.drop(AT, *self.by) if self.ours else joined.drop(AT)


def routes_of(df: DataFrame, plan: JoinPlan) -> Routes:
    """What leads keys of either side to instances, made once for both: a table is dozens of calls of the JVM."""
    return {} if plan.mapping is None else split_routes(df, plan.mapping)


def placed_side(
    df: DataFrame,
    side: Side,
    key: JoinKey,
    how: JoinHow,
    plan: JoinPlan,
    known: Routes,
    spread_on: str | Sequence[str] | None,
    kept: Memory,
) -> DataFrame:
    """`df` on its instances, with `AT` last. Rows without a key are dropped or, where they come out, spread.

    `known` is what `routes_of` gave. `kept` is told where rows that have a key went; without a mapping an even spread was
    promised. `AT` is never null by its type: Spark drops rows without what they are joined by, and would compute it once more
    to find them. Each change of a frame is analysed by itself, which is most of what a short join pays, so there are few.
    """
    alone = comes_out_alone(how, side)
    has_null = key.has_null
    if not alone:
        df = df.where(~has_null)
    steps, names, added = key.cast(df)
    if plan.mapping is None:
        steps = steps.withColumn(AT, F.nvl(F.pmod(hashed("xxhash64", names), F.lit(plan.instances)).cast("int"), F.lit(0)))
    elif plan.side in (None, side) or not plan.mapping.needs_merge:
        steps = with_part(steps, plan.mapping, names, spread_on if plan.side == side else None, known)
    else:
        steps = _with_copies(steps, plan.mapping, names, known)
    if alone and spread_on is not None:
        apart = F.monotonically_increasing_id() if spread_on == POSITION else hashed("xxhash64", _spelled(df, spread_on))
        any_instance = F.pmod(apart, F.lit(plan.instances)).cast("int")
        steps = steps.withColumn(AT, F.nvl(F.when(has_null, any_instance).otherwise(F.col(AT)), F.lit(0)))
    promised = np.zeros(plan.instances) if plan.mapping is None else plan.mapping.fitted_loads
    steps = kept.observed(steps, promised, F.when(~has_null, F.col(AT)))
    return (steps.drop(*added) if added else steps).repartitionById(plan.instances, AT)


def _spelled(df: DataFrame, spread_on: str | Sequence[str]) -> tuple[str, ...]:
    given = (spread_on,) if isinstance(spread_on, str) else spread_on
    return tuple(found for name in given if (found := hashable(df, name)))


def _with_copies(df: DataFrame, mapping: SplitMapping, names: tuple[str, ...], known: Routes) -> DataFrame:
    """`df` with `AT`: a row of a split key once for each of the key's instances, any other once."""
    starts, counts, parts = copied(mapping)
    own: dict[str, Table] = {"starts": starts.astype("int32"), "counts": counts.astype("int32"), "parts": parts}
    tables = lookup_tables(df, own)
    steps = with_ids(df, names).withColumn(AT, known[AT])
    number = f"{AT} - {mapping.instances}"
    first, many = (entry_or_null(tables[name], number) for name in ("starts", "counts"))
    homes = F.slice(tables["parts"], first + F.lit(1), many)
    at = F.when(F.expr(f"{AT} >= {mapping.instances}"), homes).otherwise(F.array(F.col(AT)))
    return steps.select(all_but(ID, AT), F.explode(at).alias(AT))
