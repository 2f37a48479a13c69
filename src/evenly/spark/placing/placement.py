"""Rows to instances in column arithmetic: no Python in the path of rows, no search, no join.

Tables (buckets, heavy keys) are looked up as `lookup.py` says. All 32- and 64-bit products stay below 2^63, so that
ANSI mode has no overflow to raise. Each value that is used twice is a column of its own for a while (a
"step"): nested expressions would repeat it, and the code that Spark generates would be too long to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenly.keys.mapping import Mapping
from evenly.spark.keyed.keys import key_columns, key_id, spelled
from evenly.spark.placing import murmur3
from evenly.spark.placing.lookup import ById, Table, lookup_tables, smallest
from evenly.spark.placing.own_columns import is_own, own_name

INSTANCE = "__evenly_instance"
"""What rows that are dealt out by their cost have, also in workers."""
AT = own_name("instance")
"""The instance of a row, in the driver's plans alone."""


def with_instance(df: DataFrame, mapping: Mapping, names: tuple[str, ...], column: str) -> DataFrame:
    """`df` with the instance of each row, an INT: what `repartitionById` takes."""
    return _drop_steps(_routed(df, (Span(mapping),), names, None).withColumn(column, _step("routed")))


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
    return _slotted(_routed(df, (Span(mapping),), names, None), mapping.instances, names, column, within)


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
    steps = _routed(df, spans, names, window)
    if observe is not None:
        newest = _begun(df, window, spans[-1]) if len(spans) > 1 else None
        steps = observe(steps, _step("routed"), _step("id"), newest)
    return _slotted(steps, spans[-1].mapping.instances, names, column, () if window is None else (window,))


def _slotted(steps: DataFrame, instances: int, names: tuple[str, ...], column: str, within: tuple[str, ...]) -> DataFrame:
    """`steps`, whose step "routed" is the instance, with the slot."""
    constants = lookup_tables(steps, {"constants": murmur3.partition_constants(instances)})["constants"]
    mixed = constants[_step("routed")].bitwiseXOR(F.hash(*key_columns(within), *key_columns(names)))
    steps = steps.withColumn(_name("turned"), turned(mixed))
    return _drop_steps(steps.withColumn(column, slot_of(_step("turned"))))


def turned(mixed: Column) -> Column:
    """The first half of undoing the mix of a slot; `slot_of` is the second. (A value that is used twice is a step.)"""
    return _product32(mixed, murmur3.UNMIX_FIRST)


def slot_of(turned: Column) -> Column:
    """The slot, of what `turned` gives."""
    bits = murmur3.UNMIX_ROTATION
    rotated = F.shiftrightunsigned(turned, bits).bitwiseOR(F.shiftleft(turned, 32 - bits))
    return _product32(rotated, murmur3.UNMIX_SECOND)


def _routed(df: DataFrame, spans: Sequence[Span], names: tuple[str, ...], window: str | None) -> DataFrame:
    """`df` with the step "routed": the instance of each row's key, an INT."""
    steps = df.withColumn(_name("id"), key_id(names))
    routed = _routed_by(df, spans[0].mapping)
    for span in spans[1:]:
        routed = F.when(_begun(df, window, span), _routed_by(df, span.mapping)).otherwise(routed)
    return steps.withColumn(_name("routed"), routed.cast("int"))


def _routed_by(df: DataFrame, mapping: Mapping) -> Column:
    """The instance of a key, a bucket's or its own."""
    tables: dict[str, Table] = {"buckets": smallest(mapping.buckets)}
    heavy = ById.of(mapping.heavy_keys, mapping.heavy_instances) if mapping.heavy_keys.size else None
    if heavy is not None:
        tables["heavy"] = heavy.table
    known = lookup_tables(df, tables)
    routed = known["buckets"][F.pmod(_step("id"), _long(mapping.buckets.size)).cast("int")]
    return routed if heavy is None else heavy.found(known["heavy"], _name("id"), routed)


def _begun(df: DataFrame, window: str | None, span: Span) -> Column:
    """Whether a row's window starts in or after a span."""
    if window is None or span.from_us is None:
        return F.lit(True)  # noqa: FBT003 - a literal
    start = f"{window}.start"
    if df.select(start).schema[0].dataType.typeName() == "timestamp_ntz":
        moment = datetime(1970, 1, 1) + timedelta(microseconds=span.from_us)  # noqa: DTZ001 - it has no zone
        return F.col(start) >= F.lit(str(moment)).cast("timestamp_ntz")
    return F.col(start) >= F.timestamp_micros(_long(span.from_us))


def _product32(x: Column, factor: int) -> Column:
    """x times a constant modulo 2^32, as a signed INT, without an overflow on the way."""
    product = x.cast("bigint") * _long(murmur3.signed32(factor))
    return F.shiftright(F.shiftleft(product, 32), 32).cast("int")


def _long(value: int) -> Column:
    return F.lit(value).cast("bigint")


def _name(step: str) -> str:
    return own_name(f"step_{step}")


def _step(step: str) -> Column:
    return F.col(_name(step))


def _drop_steps(df: DataFrame) -> DataFrame:
    return df.drop(*(name for name in df.columns if name.startswith("__evenly_step_") and is_own(name)))
