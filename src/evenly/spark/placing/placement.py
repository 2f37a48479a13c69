"""Rows to instances in column arithmetic: no Python in the path of rows, no search, no join.

Tables (buckets, heavy keys) are looked up as `lookup.py` says. Arithmetic is written in SQL: every operator on a column would
be ten calls of the JVM. All 32- and 64-bit products stay below 2^63, so that ANSI mode has no overflow to raise. Each value
that is used twice is a column of its own for a while (a "step"): nested expressions would repeat it, and the code that Spark
generates would be too long to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenly.keys.mapping import Mapping
from evenly.spark.keyed.keys import hashed, key_id, spelled
from evenly.spark.placing import murmur3
from evenly.spark.placing.lookup import ById, Table, entry, lookup_tables, smallest
from evenly.spark.placing.own_columns import own_name

INSTANCE = "__evenly_instance"
"""What rows that are dealt out by their cost have, also in workers."""
AT = own_name("instance")
"""The instance of a row, in the driver's plans alone."""
PIECES = {"evenly.pieces": True}
"""The metadata of a column of instances that are pieces of what instances do: they are not alike."""
NUMBERED = own_name("numbered")
"""The number of a row by which it is dealt into such a piece: a name says as much as metadata, in fewer calls of the JVM."""
ID = own_name("step_id")
"""The id of a row's key, for a while."""


def with_instance(df: DataFrame, mapping: Mapping, names: tuple[str, ...], column: str) -> DataFrame:
    """`df` with the instance of each row, an INT: what `repartitionById` takes."""
    return with_instances(df, routes(df, {column: mapping}), names)


Routes = dict[str, Column]
"""Instances by the columns that are to hold them, each as an expression over the id of a key."""


def routes(df: DataFrame, mappings: dict[str, Mapping]) -> Routes:
    """The instances that keys have under each mapping: for `df`, and for any other frame of its session."""
    known = _Tables.of(df, [Span(mapping) for mapping in mappings.values()])
    return {column: F.call_function("int", known.instance(at)) for at, column in enumerate(mappings)}


def with_instances(df: DataFrame, routes: Routes, names: tuple[str, ...]) -> DataFrame:
    """`df` with the columns of `routes` for the keys in `names`."""
    return with_ids(df, names).withColumns(routes).drop(ID)


def with_ids(df: DataFrame, names: tuple[str, ...]) -> DataFrame:
    """`df` with the step `ID`, of which `routes` are made; whoever adds it drops it."""
    return df.withColumn(ID, key_id(names))


def all_but(*steps: str) -> Column:
    """All columns but these of ours: to add one and drop others at once, for each change of a frame is analysed by itself.
    A Spark before 4.0 cannot."""
    return F.expr(f"* except ({', '.join(steps)})")


@dataclass(frozen=True)
class Span:
    """A mapping, and the first window start that it is for, in microseconds since 1970 (None: from the beginning)."""

    mapping: Mapping
    from_us: int | None = None


def with_slot(
    df: DataFrame, mapping: Mapping, names: tuple[str, ...], column: str, *, within: tuple[str, ...] = ()
) -> DataFrame:
    """`df` with the INT that leads `(within…, key…, slot)` to the key's instance, among `mapping.instances` partitions.

    It is a function of the key, the mapping and the columns `within`, so grouping by `(within…, key…, slot)` gives
    the same groups as grouping by `(within…, key…)`. The mapping sees the key alone: `within=("window",)` is for
    `groupBy("window", "user", "slot")`, where all windows of a user are to be on the user's instance.
    """
    known = _Tables.of(df, (Span(mapping),), slots=True)
    return _slotted(_routed(df, known, names, None), known, (*within, *names), column)


Observe = Callable[[DataFrame, Column, Column, Column | None], DataFrame]
"""Adds an observation to rows, given their instance, their key's id, and whether the last span serves them (None: it
serves all)."""


def with_slot_of_window(
    df: DataFrame,
    spans: Sequence[Span],
    names: tuple[str, ...],
    column: str,
    *,
    window: str | None,
    observe: Observe | None = None,
) -> DataFrame:
    """As `with_slot` with `within=(window,)`, where a window's start decides which of several mappings serves it.

    `window` is a column that `functions.window` made; without one there is one span. `spans` are in order of `from_us`, the
    first from the beginning. All rows of a window are under one mapping, so its groups stay whole while mappings change.
    """
    window = None if window is None else spelled(window)
    known = _Tables.of(df, spans, slots=True)
    steps = _routed(df, known, names, window)
    if observe is not None:
        newest = _begun(df, window, spans[-1]) if len(spans) > 1 else None
        steps = observe(steps, F.expr(f"int({_name('routed')})"), _step("id"), newest)
    return _slotted(steps, known, names if window is None else (window, *names), column)


@dataclass(frozen=True)
class _Tables:
    """The tables of some spans as columns. They are of one frame: to make one is dozens of calls of the JVM."""

    spans: Sequence[Span]
    heavy: list[ById | None]
    columns: dict[str, Column]

    @classmethod
    def of(cls, df: DataFrame, spans: Sequence[Span], *, slots: bool = False) -> Self:
        """For expressions over `df`; with `slots` those that lead to a slot too."""
        mappings = [span.mapping for span in spans]
        heavy = [ById.of(it.heavy_keys, it.heavy_instances) if it.heavy_keys.size else None for it in mappings]
        # All instances in one type: no cast where one table's entry stands in for another's.
        kind = smallest(np.array([it.instances for it in mappings])).dtype
        tables: dict[str, Table] = {f"buckets {at}": it.buckets.astype(kind) for at, it in enumerate(mappings)}
        for at, by_id in enumerate(heavy):
            tables |= {} if by_id is None else by_id.tables(f"heavy {at}", kind)
        if slots:
            tables["constants"] = murmur3.partition_constants(mappings[-1].instances)
        return cls(spans, heavy, lookup_tables(df, tables))

    def instance(self, at: int) -> Column:
        """The instance of a key in a span, a bucket's or its own."""
        routed = entry(self.columns[f"buckets {at}"], f"pmod({_name('id')}, {self.spans[at].mapping.buckets.size}L)")
        heavy = self.heavy[at]
        return routed if heavy is None else heavy.found(self.columns, f"heavy {at}", _name("id"), routed)


def _routed(df: DataFrame, known: _Tables, names: tuple[str, ...], window: str | None) -> DataFrame:
    """`df` with the step "routed": the instance of each row's key."""
    steps = df.withColumn(_name("id"), key_id(names))
    routed = known.instance(0)
    for at, span in enumerate(known.spans[1:], start=1):
        routed = F.when(_begun(df, window, span), known.instance(at)).otherwise(routed)
    return steps.withColumn(_name("routed"), routed)


def _slotted(steps: DataFrame, known: _Tables, hashed_by: tuple[str, ...], column: str) -> DataFrame:
    """`steps`, whose step "routed" is the instance, with the slot; `hashed_by` are the columns that Spark hashes before it."""
    steps = steps.withColumn(_name("constant"), entry(known.columns["constants"], _name("routed")))
    steps = steps.withColumn(_name("seed"), hashed("hash", hashed_by))
    steps = steps.withColumn(_name("turned"), F.expr(turned(f"({_name('constant')} ^ {_name('seed')})")))
    return steps.withColumn(column, F.expr(slot_of(_name("turned")))).drop(*_STEPS)


def turned(mixed: str) -> str:
    """The first half of undoing the mix of a slot, in SQL, a BIGINT of 32 bits; `slot_of` is the second. (A value that is used
    twice is a step.)"""
    return f"({_product(mixed, murmur3.UNMIX_FIRST)} & {2**32 - 1}L)"


def slot_of(turned: str) -> str:
    """The slot, of what `turned` gives, in SQL."""
    bits = murmur3.UNMIX_ROTATION
    rotated = f"(shiftright({turned}, {bits}) | shiftleft({turned} & {2**bits - 1}L, {32 - bits}))"
    return f"cast(shiftright(shiftleft({_product(rotated, murmur3.UNMIX_SECOND)}, 32), 32) as int)"


def _begun(df: DataFrame, window: str | None, span: Span) -> Column:
    """Whether a row's window starts in or after a span."""
    if window is None or span.from_us is None:
        return F.lit(True)  # noqa: FBT003 - a literal
    start = f"{window}.start"
    if df.select(start).schema[0].dataType.typeName() == "timestamp_ntz":
        moment = datetime(1970, 1, 1) + timedelta(microseconds=span.from_us)  # noqa: DTZ001 - it has no zone
        return F.col(start) >= F.lit(str(moment)).cast("timestamp_ntz")
    return F.col(start) >= F.expr(f"timestamp_micros({span.from_us}L)")


def _product(x: str, factor: int) -> str:
    """x of 32 bits, signed or not, times a constant: 64 bits hold it, and the last 32 are the product modulo 2^32; in SQL."""
    return f"({x} * ({murmur3.signed32(factor)}L))"


def _name(step: str) -> str:
    return own_name(f"step_{step}")


def _step(step: str) -> Column:
    return F.col(_name(step))


_STEPS = tuple(_name(step) for step in ("id", "routed", "constant", "seed", "turned"))
