"""Rows to instances with keys too hot for one instance split over several, for `DataFrame.transform`.

A row of a split key goes to one of the key's parts by its spread, a 64-bit hash of the row. It is a function of the row,
never a random number: a task that runs again must send its rows where they went before, or rows are lost or doubled when
only some of the tasks that follow run again (SPARK-38388). All of it is column arithmetic; no row passes through Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenly.errors import InvalidKeys, InvalidParameter, StreamingMismatch
from evenly.instances import AUTO, Instances, asked_instances
from evenly.keys.hot_keys import split_hot_keys
from evenly.keys.mapping import Mapping
from evenly.keys.split_mapping import SplitMapping, SplitWay
from evenly.spark.features import Feature, require
from evenly.spark.frames import check_frame, check_new_column
from evenly.spark.keyed.keys import Key, check_distinct, hashed, key_names, named
from evenly.spark.keyed.learning import Weight, check_not_learnt, learn_mapping
from evenly.spark.placing.lookup import entry_or_null, lookup_tables, smallest
from evenly.spark.placing.mapping_check import check_is, check_mapping
from evenly.spark.placing.own_columns import own_name
from evenly.spark.placing.placement import AT, Routes, routes, with_instances
from evenly.spark.remembering.memory import Memory, memory
from evenly.spark.remembering.store import Where

POSITION = "position"
NUMBER = own_name("number")
_SPREAD = own_name("spread")
_FROM, _MANY, _PLACE = own_name("from"), own_name("many"), own_name("place")
_DRAWN = {name: own_name(name) for name in ("cuts", "parts", "others")}


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
      hash, so rows that are equal in all of them stay together. Column names: a hash of these, for wide rows or a
      column that is unique. "position" (where no column has that name): the row's place in its input partition, for rows that
      are all alike. A retried
      task must then find its rows in the same order, as it does when it reads files or a table, but not after a
      shuffle or a sample: use it on such an input only.
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
    routed = kept.observed(with_part(df, mapping, names, spread_on), mapping.fitted_loads)
    return routed.repartitionById(mapping.instances, AT)


def split_routes(df: DataFrame, mapping: SplitMapping) -> Routes:
    """To `AT`, the instance of a row's key, and if keys are split to `NUMBER`, which of them it is, or how many they are."""
    return routes(df, {AT: mapping.light, **({NUMBER: numbering(mapping)} if mapping.needs_merge else {})})


def with_part(
    df: DataFrame,
    mapping: SplitMapping,
    names: tuple[str, ...],
    spread_on: str | Sequence[str] | None,
    known: Routes | None = None,
) -> DataFrame:
    """`df` with `AT`, the instance of a row, and `NUMBER` last: which split key it is of, or the number of split keys.

    `known` are the mapping's `split_routes`, if there are some already.
    """
    if spread_on is not None:
        named(spread_on, "spread_on")
    # What is wrong with what was named is said now, and not when a key becomes hot.
    spread = _spread(df, names, spread_on) if mapping.needs_merge or spread_on is not None else None
    steps = with_instances(df, known or split_routes(df, mapping), names)
    if not mapping.needs_merge:
        return steps.withColumn(NUMBER, F.lit(0))
    is_split = f"{NUMBER} < {mapping.split.size}"
    starts, sizes = mapping.starts[:-1], np.diff(mapping.starts)
    cuts, others = mapping.draws
    own = {"starts": smallest(starts), "sizes": sizes.astype(np.int64), "cuts": cuts.astype(np.int64)}
    tables = lookup_tables(df, {**own, "parts": smallest(mapping.parts), "others": smallest(others)})
    # Each value that is used twice is a column for a while, as in placement.py. Rows that are not split are not hashed.
    if _by_position(df, spread_on):
        steps = steps.withColumn(_SPREAD, F.monotonically_increasing_id())
        spread = hashed("xxhash64", (_SPREAD,))
    steps = steps.withColumn(_SPREAD, F.when(F.expr(is_split), spread))
    steps = steps.withColumns({_FROM: entry_or_null(tables["starts"], NUMBER), _MANY: entry_or_null(tables["sizes"], NUMBER)})
    place = f"cast({_FROM} as int) + cast(pmod({_SPREAD}, {_MANY}) as int)"
    steps = steps.withColumn(_PLACE, F.expr(f"if({is_split}, {place}, null)"))
    steps = steps.withColumns({column: entry_or_null(tables[name], _PLACE) for name, column in _DRAWN.items()})
    here = f"shiftrightunsigned({_SPREAD}, 33) < {_DRAWN['cuts']}"
    drawn = f"cast(if({here}, {_DRAWN['parts']}, {_DRAWN['others']}) as int)"
    steps = steps.withColumn(AT, F.expr(f"if({is_split}, {drawn}, {AT})"))
    return steps.drop(_SPREAD, _FROM, _MANY, _PLACE, *_DRAWN.values())


def _spread(df: DataFrame, names: tuple[str, ...], spread_on: str | Sequence[str] | None) -> Column:
    """The hash that decides on a part, from the columns that `spread_on` names."""
    if _by_position(df, spread_on):
        return F.lit(None)
    if spread_on is None:
        check_distinct(df)
        chosen = tuple(found for name in df.columns if (found := hashable(df, name)))
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


def hashable(df: DataFrame, name: str) -> str | None:
    """A column's name as `functions.col` reads it; None if Spark cannot hash it."""
    try:
        return key_names(df, name)[0]
    except InvalidKeys:
        return None


def numbering(mapping: SplitMapping) -> Mapping:
    """Which of the split keys a key is, as a mapping: its number, or their number for any other key."""
    count = mapping.split.size
    return Mapping(
        instances=count + 1,
        buckets=np.full(1, count, np.int32),
        a=0,
        b=0,
        heavy_keys=mapping.split,
        heavy_instances=np.arange(count, dtype=np.int32),
        heavy_weights=np.ones(count),
        ids=mapping.ids,
    )
