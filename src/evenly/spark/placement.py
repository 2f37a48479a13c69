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
from evenly.kernels.types import I32, U64
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
    """The value of a heavy key's own instance, else `otherwise`.

    A place of a table that holds no heavy key holds an id that belongs elsewhere, so no row matches it.
    """
    first, second = two_choice_tables(mapping.heavy_keys)
    bits = first.size.bit_length() - 1
    identity = _step("id")
    routed = otherwise
    for table, place, shift in (
        (second, F.shiftrightunsigned(identity, 64 - bits).cast("int"), 64 - bits),
        (first, _low(identity, first.size - 1).cast("int"), 0),
    ):
        elsewhere = (np.arange(table.size, dtype=np.uint64) ^ np.uint64(1)) << np.uint64(shift)
        known = np.where(table >= 0, mapping.heavy_keys[table], elsewhere).view(np.int64)
        values = np.where(table >= 0, value_of[mapping.heavy_instances[table]], 0)
        routed = F.when(_array(known, "bigint")[place] == identity, _array(values, "int")[place]).otherwise(routed)
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


def two_choice_tables(ids: U64) -> tuple[I32, I32]:
    """Two tables of equal size (a power of 2) that hold the place of every id, -1 where empty.

    Each id is in the first table at its low bits or in the second at its high bits, so a look-up is two
    comparisons whatever the number of ids. Sizes double until every id has found its place.
    """
    bits = max(1, (2 * ids.size - 1).bit_length())
    while True:
        tables = _filled(ids, bits)
        if tables is not None:
            return tables
        bits += 1


def _filled(ids: U64, bits: int) -> tuple[I32, I32] | None:
    places = (ids & np.uint64((1 << bits) - 1)).tolist(), (ids >> np.uint64(64 - bits)).tolist()
    tables = [-1] * (1 << bits), [-1] * (1 << bits)
    for start in range(ids.size):
        item, side = start, 0
        for _ in range(64):
            place = places[side][item]
            item, tables[side][place] = tables[side][place], item
            if item < 0:
                break
            side = 1 - side
        else:
            return None
    return np.array(tables[0], np.int32), np.array(tables[1], np.int32)
