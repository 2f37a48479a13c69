"""Rows to instances in column arithmetic: no Python in the path of rows, no search, no join.

Tables (buckets, heavy keys) become array literals, built from one delimited string each: Spark folds it
to a constant once, whatever the number of entries. All 32- and 64-bit products stay below 2^63, so that
ANSI mode has no overflow to raise. Each value that is used twice is a column of its own for a while (a
"step"): nested expressions would repeat it, and the code that Spark generates would be too long to compile.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenly.grouping.mapping import Mapping
from evenly.grouping.two_choices import in_places, two_choice_tables
from evenly.kernels.types import I32
from evenly.spark import murmur3
from evenly.spark.keys import key_columns, key_id

INSTANCE = "__evenly_instance"


def with_instance(df: DataFrame, mapping: Mapping, names: tuple[str, ...], column: str) -> DataFrame:
    """`df` with the instance of each row, an INT: what `repartitionById` takes."""
    instances = np.arange(mapping.instances, dtype=np.int32)
    return _drop_steps(_routed(df, mapping, names, instances).withColumn(column, _step("routed")))


def with_slot(df: DataFrame, mapping: Mapping, names: tuple[str, ...], column: str) -> DataFrame:
    """`df` with the INT that leads `(key…, slot)` to the key's instance, among `mapping.instances` partitions.

    It is a function of the key and the mapping, so grouping by `(key…, slot)` gives the same groups as
    grouping by the key.
    """
    constants = murmur3.partition_constants(mapping.instances)
    steps = _routed(df, mapping, names, constants)
    mixed = _step("routed").bitwiseXOR(F.hash(*key_columns(names)))
    steps = steps.withColumn(_name("turned"), _product32(mixed, murmur3.UNMIX_FIRST))
    turned, bits = _step("turned"), murmur3.UNMIX_ROTATION
    rotated = F.shiftrightunsigned(turned, bits).bitwiseOR(F.shiftleft(turned, 32 - bits))
    return _drop_steps(steps.withColumn(column, _product32(rotated, murmur3.UNMIX_SECOND)))


def _routed(df: DataFrame, mapping: Mapping, names: tuple[str, ...], value_of: I32) -> DataFrame:
    """`df` with the step "routed": `value_of[instance]` for the instance of each row's key."""
    steps = df.withColumn(_name("id"), key_id(names))
    bucket = F.pmod(_step("id"), _long(mapping.buckets.size)).cast("int")
    routed = _array(value_of[mapping.buckets], "int")[bucket]
    if mapping.heavy_keys.size:
        routed = _heavy_or(routed, mapping, value_of)
    return steps.withColumn(_name("routed"), routed)


def _heavy_or(otherwise: Column, mapping: Mapping, value_of: I32) -> Column:
    """The value of a heavy key's own instance, else `otherwise`. Ids are hashes, so their bits lead to their places."""
    first, second = two_choice_tables(mapping.heavy_keys)
    values = value_of[mapping.heavy_instances]
    bits = first.size.bit_length() - 1
    identity = _step("id")
    routed = otherwise
    for table, place in (
        (second, F.shiftrightunsigned(identity, 64 - bits).cast("int")),
        (first, _low(identity, first.size - 1).cast("int")),
    ):
        known = _array(in_places(table, mapping.heavy_keys).view(np.int64), "bigint")
        routed = F.when(known[place] == identity, _array(in_places(table, values), "int")[place]).otherwise(routed)
    return routed


def _product32(x: Column, factor: int) -> Column:
    """x times a constant modulo 2^32, as a signed INT, without an overflow on the way."""
    product = x.cast("bigint") * _long(murmur3.signed32(factor))
    return F.shiftright(F.shiftleft(product, 32), 32).cast("int")


def _low(x: Column, mask: int) -> Column:
    return x.bitwiseAND(_long(mask))


def _long(value: int) -> Column:
    return F.lit(value).cast("bigint")


def _array(values: NDArray[np.int32] | NDArray[np.int64], kind: str) -> Column:
    return F.split(F.lit(",".join(map(str, values.tolist()))), ",").cast(f"array<{kind}>")


def _name(step: str) -> str:
    return f"__evenly_{step}"


def _step(step: str) -> Column:
    return F.col(_name(step))


def _drop_steps(df: DataFrame) -> DataFrame:
    return df.drop(*(name for name in df.columns if name.startswith("__evenly_") and name != INSTANCE))
