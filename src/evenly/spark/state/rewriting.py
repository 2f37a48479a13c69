"""The rows of a state store under another mapping: each slot replaced, each row where Spark will look for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenly.errors import ImmovableState
from evenly.keys.mapping import Mapping
from evenly.spark.jvm.state_stores import StateStores, Store
from evenly.spark.keyed.keys import quoted
from evenly.spark.placing.placement import with_slot
from evenly.spark.python_workers import on_workers
from evenly.spark.state.layout import KeyLayout, key_layout, key_path, value_paths
from evenly.worker.unsafe_rows import Path, slot_replacer

_FAMILY, _KEY, _VALUE, _GROUPING = "column_family_name", "key_bytes", "value_bytes", "partition_key"
_OLD, _NEW = "old_slot", "new_slot"
_DIGITS = 2**31  # digests of rows below this can be added up for as many rows as there can be


@dataclass(frozen=True)
class Places:
    """A store that is grouped by the slot: its grouping key, and where the slot is in the rows of each column family."""

    layout: KeyLayout
    keys: dict[str, tuple[Path, ...]]
    values: dict[str, tuple[Path, ...]]


@dataclass(frozen=True)
class Audit:
    """What is in a store: rows, rows whose key another mapping puts elsewhere, rows whose slot or partition is
    not the mapping's, and a digest of all that a move must not change."""

    rows: int = 0
    moved: int = 0
    wrong: int = 0
    digest: int = 0


def places(stores: StateStores, store: Store, *, key: tuple[str, ...], slot: str) -> Places | None:
    """Where the slot is in a store; None if the store's operator is not grouped by it."""
    grouping = stores.read(store).schema[_GROUPING].dataType
    layout = key_layout(store.operator_name, grouping, key=key, slot=slot)  # type: ignore[arg-type]
    if layout is None:
        return None
    values: dict[str, tuple[Path, ...]] = {
        name: paths
        for name, family in store.families.items()
        if (paths := value_paths(store.operator_name, family.value, layout, slot=slot))
    }
    return Places(layout, {name: (key_path(name, it.key, layout),) for name, it in store.families.items()}, values)


def audit(rows: DataFrame, store: Store, at: Places, *, mapping: Mapping, other: Mapping) -> Audit:
    """Read a whole store once and compare it with the mapping that it should be under."""
    found = _slots(rows.withColumn("partition", F.spark_partition_id()), at.layout, old=mapping, new=other)
    stored = _field(at.layout.slot)
    partition = F.pmod(F.hash(*map(_field, at.layout.fields)), F.lit(store.partitions))
    kept = [_field(name) for name in at.layout.fields if name != at.layout.slot]
    if not at.values:
        kept.append(F.col(_VALUE))
    digest = F.pmod(F.xxhash64(F.col(_FAMILY), *kept), F.lit(_DIGITS))
    right = stored.eqNullSafe(F.col(_OLD)) & (partition == F.col("partition"))
    row = found.agg(
        F.count("*"), F.count_if(F.col(_NEW) != F.col(_OLD)), F.count_if(~right), F.coalesce(F.sum(digest), F.lit(0))
    ).collect()[0]
    return Audit(*(int(value) for value in row))


def checked(found: Audit, store: Store, mapping: Mapping, columns: tuple[str, ...]) -> Audit:
    """Refuse a store that is not under the mapping that it is said to be under: moving it would lose or mix up keys."""
    if found.wrong:
        raise ImmovableState(
            f"{found.wrong:,} of {found.rows:,} state rows of operator {store.operator} ({store.operator_name}) are not where "
            f"mapping version {mapping.version} puts the key ({', '.join(columns)}): give the mapping that the query ran with, "
            "and the key columns in the order in which it groups by them"
        )
    return found


def digest_of(rows: DataFrame) -> tuple[int, int]:
    """The number of rows of a store, and a digest of them and of the partitions that they are in."""
    digest = F.pmod(F.xxhash64(F.spark_partition_id(), F.col(_FAMILY), F.col(_KEY), F.col(_VALUE)), F.lit(_DIGITS))
    count, total = rows.select(digest.alias("digest")).agg(F.count("*"), F.coalesce(F.sum("digest"), F.lit(0))).collect()[0]
    return int(count), int(total)


def rewritten(rows: DataFrame, store: Store, at: Places | None, *, old: Mapping, new: Mapping) -> DataFrame:
    """The rows of a store under the mapping `new`. A store that is not grouped by the slot stays as it is."""
    if at is None:
        return rows
    columns = rows.columns
    where = [F.col(_NEW) if name == at.layout.slot else _field(name) for name in at.layout.fields]
    moved = _slots(rows, at.layout, old=old, new=new).repartition(store.partitions, *where)
    moved = moved.withColumn(_KEY, _replaced(rows.sparkSession, _KEY, at.keys))
    if at.values:
        moved = moved.withColumn(_VALUE, _replaced(rows.sparkSession, _VALUE, at.values))
    return moved.select(*columns)


def _slots(rows: DataFrame, layout: KeyLayout, *, old: Mapping, new: Mapping) -> DataFrame:
    key = tuple(_path(name) for name in layout.key)
    within = tuple(_path(name) for name in layout.within)
    return with_slot(with_slot(rows, old, key, _OLD, within=within), new, key, _NEW, within=within)


def _replaced(spark: SparkSession, column: str, paths: dict[str, tuple[Path, ...]]) -> Column:
    replace: Callable[..., Column] = F.arrow_udf(on_workers(spark, slot_replacer(paths)), "binary")  # type: ignore[attr-defined]
    return replace(F.col(column), F.col(_FAMILY), F.col(_OLD), F.col(_NEW))


def _path(name: str) -> str:
    return f"{_GROUPING}.{quoted(name)}"


def _field(name: str) -> Column:
    return F.col(_path(name))
