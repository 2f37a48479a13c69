"""Rows written by key, in files of about one size, by instances of about the same load."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from pyspark.sql import DataFrame, DataFrameWriter

from evenly.checks import checked_whole
from evenly.errors import InvalidParameter, StreamingMismatch, UnknownColumn
from evenly.instances import AUTO, Instances, asked_instances
from evenly.keys.file_split import file_split
from evenly.keys.mapping import Mapping
from evenly.keys.split_mapping import SplitMapping
from evenly.spark.features import Feature, require
from evenly.spark.frames import check_frame
from evenly.spark.keyed.keys import Key, key_names, name_parts
from evenly.spark.keyed.learning import learn_mapping
from evenly.spark.keyed.split import NUMBER, placed_by_part
from evenly.spark.keyed.telling_apart import what_spreads
from evenly.spark.placing.mapping_check import check_mapping
from evenly.spark.placing.placement import AT
from evenly.spark.remembering.memory import memory
from evenly.spark.remembering.store import Where

_LOG = logging.getLogger(__name__)
_ROOM = 1.1
"""How much larger than asked a file may become: parts by a hash are not all of one size, and the rest would be tiny files."""


def write_by_key(
    df: DataFrame,
    *,
    key: Key,
    instances: Instances = AUTO,
    rows_per_file: int,
    mapping: Mapping | None = None,
    spread_on: str | Sequence[str] | None = None,
    tolerance_pct: float | None = 2.0,
    seed: int = 0,
    remember: Where | None = None,
) -> DataFrameWriter:
    """A writer of `df` in a folder for each key: a small key in one file, a large one in files of about `rows_per_file` rows.

        evenly.write_by_key(df, key="country", rows_per_file=1_000_000).mode("overwrite").parquet(path)

    It is `df.write.partitionBy(key)` over rows that were placed before, so format, mode, options, tables and what happens on
    failure are Spark's: go on as with any writer. A key of several files' rows is written by several instances, split by a
    hash of the row; all others by one. No file has more than 1.1 times `rows_per_file` rows, and all instances write about
    the same number.

    `mapping` (from `learn_mapping` over all rows of `df`, or as many: its loads are taken for rows) skips learning, which
    reads the key columns of `df` once more. `key` are columns, not fields of structs. `spread_on` is that of `join_by_key`:
    where no column tells the rows of a key apart and stays the same, keys stay whole, and one instance writes all their files.
    `instances` and `remember` are those of `by_key`: its loads are taken for rows too.
    """
    check_frame(df)
    asked = asked_instances(instances, may_split=True)
    rows_per_file = checked_whole(rows_per_file, "rows_per_file", 1, 2**53)
    names = key_names(df, key)
    folders = _folders(df, names)
    if df.isStreaming:
        raise StreamingMismatch("write_by_key writes a batch: use it inside foreachBatch")
    require(df.sparkSession, Feature.REPARTITION_BY_ID, by="write_by_key", remedy="Place whole keys with by_key(slot=None)")
    spread = what_spreads(df, names) if spread_on is None else spread_on
    kept = memory(df, remember, names, asked, mapping=mapping, by="write_by_key")
    if mapping is None:
        learn = partial(learn_mapping, df, key=key, instances=asked, tolerance_pct=tolerance_pct, seed=seed)
        mapping = kept.mapping(learn)
    check_mapping(mapping, df, names, asked)
    if spread:
        planned = file_split(mapping, rows_per_file)
    else:
        planned = SplitMapping(light=mapping)
        _LOG.warning(
            "write_by_key: no column is known to tell rows of a key apart and stay the same: one instance writes all of a key"
        )
    parts = int(planned.parts.size)
    _LOG.info("write_by_key: %d large keys in %d parts, λ %.1f %%", planned.split.size, parts, planned.fitted_imbalance_pct)
    placed = placed_by_part(df, planned, names, spread or None, kept).drop(AT, NUMBER)
    return placed.write.option("maxRecordsPerFile", int(rows_per_file * _ROOM)).partitionBy(*folders)


def _folders(df: DataFrame, names: tuple[str, ...]) -> list[str]:
    """The columns that folders are made of; what Spark cannot make folders of is refused, before anything is read."""
    paths = [name_parts(name) for name in names]
    wrong = next((".".join(path) for path in paths if len(path) > 1), None)
    if wrong is not None:
        raise UnknownColumn(f"{wrong!r} is no column of df but a field: Spark makes folders of columns. Add it with withColumn")
    if len(names) == len(df.columns):
        raise InvalidParameter("the key is all there is: Spark writes no files of folders' names alone. Add a column")
    return [path[0] for path in paths]
