"""Rows to instances with keys too hot for one instance split over several, for `DataFrame.transform`.

A row of a split key goes to one of the key's parts by its spread, a 64-bit hash of the row. It is a function of the row,
never a random number: a task that runs again must send its rows where they went before, or rows are lost or doubled when
only some of the tasks that follow run again (SPARK-38388). All of it is column arithmetic; no row passes through Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.instances import AUTO, Instances, asked_instances
from evenly.keys.hot_keys import split_hot_keys
from evenly.keys.mapping import Mapping
from evenly.keys.split_mapping import SplitMapping, SplitWay
from evenly.spark.features import Feature, require
from evenly.spark.frames import check_frame, check_new_column
from evenly.spark.keyed.keys import Key, check_distinct, hashed, key_names, named
from evenly.spark.keyed.learning import Weight, check_not_learnt, learn_mapping
from evenly.spark.keyed.telling_apart import all_that_spreads
from evenly.spark.placing.lookup import Table, entry_or_null, lookup_tables, smallest
from evenly.spark.placing.mapping_check import check_is, check_mapping
from evenly.spark.placing.own_columns import own_name
from evenly.spark.placing.placement import AT, ID, Routes, all_but, routes, with_ids
from evenly.spark.remembering.memory import Memory, memory
from evenly.spark.remembering.store import Where

POSITION = "position"
NUMBER = own_name("number")
_SPREAD, _PLACE = own_name("spread"), own_name("place")


def split_by_key(
    df: DataFrame,
    *,
    key: Key,
    instances: Instances = AUTO,
    part: str = "part",
    mapping: Mapping | SplitMapping | None = None,
    fit_on: DataFrame | None = None,
    weight: Weight | None = None,
    spread_on: str | Sequence[str] | None = None,
    way: SplitWay = "dkg+pkg",
    tolerance_pct: float | None = 2.0,
    seed: int = 0,
    remember: Where | None = None,
) -> DataFrame:
    """Spread the keys of `df` over `instances` partitions, keys too hot for one over several, all others whole.

        parts = evenly.split_by_key(df, key="user").groupBy("user", "part").agg(F.collect_set("item"))

    Adds the INT column `part`, the number of the row's instance. `groupBy("user", "part")` finds each group in its
    partition without another shuffle; a key that is split has a group on each of its instances, so what you compute must
    be merged: `aggregate_by_key` does all of that. For work without groups (`mapInArrow`, a write) drop the column.

    - `spread_on` says what sends a row of a split key to one of its parts. None: a hash of all columns that Spark can
      hash, so rows that are equal in all of them stay together; floats behind sums are left out, and a warning tells if there
      may be others that differ when they are computed again (random numbers, what depends on the order of rows). Column
      names: a hash of these, for wide rows or a column that is unique. "position" (where no column has that name): the row's
      place in its input partition, for rows that are all alike. A retried task must then find its rows in the same order, as
      it does when it reads files or a table, but not after a shuffle or a sample: use it on such an input only.
    - `instances`, `mapping`, `fit_on`, `weight`, `tolerance_pct`, `seed` and `remember` are those of `by_key` (few keys are no
      reason for few instances here); a `Mapping` is planned with
      `way`, see `evenly.keys.hot_keys.split_hot_keys`; a `SplitMapping` is followed as it is.

    A streaming `df` is refused: parts of a key would need a merge of their state. Use it inside foreachBatch.
    """
    names, planned, kept = planned_split(
        df,
        key=key,
        instances=instances,
        mapping=mapping,
        fit_on=fit_on,
        weight=weight,
        way=way,
        tolerance_pct=tolerance_pct,
        seed=seed,
        remember=remember,
        by="split_by_key",
    )
    check_new_column(df, part, "part")
    placed = placed_by_part(df, planned, names, spread_on, kept)
    return placed.withColumnRenamed(AT, part).drop(NUMBER)


def planned_split(
    df: DataFrame,
    *,
    key: Key,
    instances: Instances,
    mapping: Mapping | SplitMapping | None,
    fit_on: DataFrame | None,
    weight: Weight | None,
    way: SplitWay,
    tolerance_pct: float | None,
    seed: int,
    remember: Where | None,
    by: str,
) -> tuple[tuple[str, ...], SplitMapping, Memory]:
    """The key columns, the mapping to follow (learnt, remembered, planned or given), and what is remembered of it."""
    check_frame(df)
    check_not_learnt(mapping, weight)
    asked = asked_instances(instances, may_split=True)
    names = key_names(df, key)
    require(df.sparkSession, Feature.REPARTITION_BY_ID, by="a key that is split", remedy="Keep keys whole with by_key")
    if df.isStreaming:
        raise StreamingMismatch("keys of a streaming DataFrame cannot be split: use it on the batches of foreachBatch")
    kept = memory(df, remember, names, asked, mapping=mapping, weight=weight, by=by)
    if mapping is None:
        learnt_on = df if fit_on is None else fit_on
        check_frame(learnt_on, "df" if fit_on is None else "fit_on")
        mapping = kept.mapping(
            partial(learn_mapping, learnt_on, key=key, instances=asked, weight=weight, tolerance_pct=tolerance_pct, seed=seed)
        )
    check_is(mapping, Mapping, SplitMapping)
    planned = mapping if isinstance(mapping, SplitMapping) else split_hot_keys(mapping, way=way)
    check_mapping(planned.light, df, names, asked)
    return names, planned, kept


def placed_by_part(
    df: DataFrame, mapping: SplitMapping, names: tuple[str, ...], spread_on: str | Sequence[str] | None, kept: Memory
) -> DataFrame:
    """`df` repartitioned, with `AT` and `NUMBER` last, as `with_part` gives them; and what `kept` wants to know of it."""
    routed = with_part(df, mapping, names, spread_on, rows=kept.of(df), tell_number=True)
    return kept.observed(routed, mapping.fitted_loads).repartitionById(mapping.instances, AT)


def split_routes(df: DataFrame, mapping: SplitMapping) -> Routes:
    """To `AT`, the instance of a row's key; for a key that is split the number of instances and, above it, which of them it is.

    Never null by its type: Spark drops rows without what they are joined by, and would compute it once more to find them.
    """
    return {AT: F.nvl(routes(df, {AT: numbered(mapping)})[AT], F.lit(0))}


def with_part(
    df: DataFrame,
    mapping: SplitMapping,
    names: tuple[str, ...],
    spread_on: str | Sequence[str] | None,
    known: Routes | None = None,
    *,
    rows: DataFrame | None = None,
    tell_number: bool = False,
) -> DataFrame:
    """`df` with `AT`, the instance of a row, last. `known` are the mapping's `split_routes`, if there are some already; `rows`
    are those of `df` where they have columns of ours, which tell no rows apart.

    With `tell_number` behind it `NUMBER`: which split key a row is of, or the number of split keys.
    """
    if spread_on is not None:
        named(spread_on, "spread_on")
    # What is wrong with what was named is said now, and not when a key becomes hot.
    spread = _spread(df, names, spread_on) if mapping.needs_merge or spread_on is not None else None
    found = (known or split_routes(df, mapping))[AT]
    steps = with_ids(df if rows is None else rows, names)
    if not mapping.needs_merge:
        return steps.select(all_but(ID), found.alias(AT), *([F.lit(0).alias(NUMBER)] if tell_number else []))
    steps = steps.withColumn(AT, found)
    is_split, number = F.expr(f"{AT} >= {mapping.instances}"), f"{AT} - {mapping.instances}"
    starts, sizes = mapping.starts[:-1], np.diff(mapping.starts)
    cuts, others = mapping.draws
    own: dict[str, Table] = {"starts": starts.astype(np.int32), "sizes": sizes.astype(np.int64), "cuts": cuts.astype(np.int64)}
    tables = lookup_tables(df, {**own, "parts": smallest(mapping.parts), "others": smallest(others)})
    # Each value that is used twice is a column for a while, as in placement.py. Rows that are not split are not hashed.
    if _by_position(df, spread_on):
        steps = steps.withColumn(_SPREAD, F.monotonically_increasing_id())
        spread = hashed("xxhash64", (_SPREAD,))
    steps = steps.withColumn(_SPREAD, F.when(is_split, spread))
    first, many = (entry_or_null(tables[name], number) for name in ("starts", "sizes"))
    steps = steps.withColumn(_PLACE, first + F.call_function("int", F.pmod(F.col(_SPREAD), many)))
    cut, part, another = (entry_or_null(tables[name], _PLACE) for name in ("cuts", "parts", "others"))
    drawn = F.call_function("if", F.expr(f"shiftrightunsigned({_SPREAD}, 33)") < cut, part, another)
    at = F.call_function("int", F.call_function("if", is_split, drawn, F.col(AT)))
    told = F.expr(f"if({AT} >= {mapping.instances}, {number}, {mapping.split.size}) as {NUMBER}")
    placed = F.nvl(at, F.lit(0)).alias(AT)
    return steps.select(all_but(ID, AT, _SPREAD, _PLACE), placed, *([told] if tell_number else []))


def _spread(df: DataFrame, names: tuple[str, ...], spread_on: str | Sequence[str] | None) -> Column:
    """The hash that decides on a part, from the columns that `spread_on` names."""
    if _by_position(df, spread_on):
        return F.lit(None)
    if spread_on is None:
        check_distinct(df)
        chosen = all_that_spreads(df, names)
        if set(chosen) <= set(names):
            raise InvalidParameter(
                "all rows of a key are alike: besides the key there is no column that Spark can hash, so nothing says which "
                "rows of a split key go where. Give spread_on='position' if the input is read from files or a table"
            )
    else:
        chosen = key_names(df, spread_on)
        if set(chosen) <= set(names):
            raise InvalidParameter(
                f"spread_on names the key alone ({', '.join(chosen)}), which cannot split it: name a column that differs "
                "from row to row"
            )
    return hashed("xxhash64", chosen)


def _by_position(df: DataFrame, spread_on: str | Sequence[str] | None) -> bool:
    """Whether a row's place decides. A column of that name is meant where there is one: it is the same whenever it is read."""
    return spread_on == POSITION and POSITION not in (name.lower() for name in df.columns)


def numbered(mapping: SplitMapping) -> Mapping:
    """Instances and split keys in one table, which is looked up once: split keys have the numbers above the instances."""
    if not mapping.needs_merge:
        return mapping.light
    light, count = mapping.light, mapping.split.size
    whole = ~np.isin(light.heavy_keys, mapping.split)
    above = np.arange(light.instances, light.instances + count, dtype=np.int32)
    return replace(
        light,
        instances=light.instances + count,
        heavy_keys=np.concatenate([light.heavy_keys[whole], mapping.split]),
        heavy_instances=np.concatenate([light.heavy_instances[whole], above]),
        heavy_weights=np.concatenate([light.heavy_weights[whole], np.ones(count)]),
        capacities=None,
    )
