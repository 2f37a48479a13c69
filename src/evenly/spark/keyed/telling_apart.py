"""By which columns rows of one key are told apart, where a key is on several instances.

A row that went elsewhere when a task ran again would be lost or doubled. So such columns have to be the same whenever Spark
computes them: nothing random, nothing that depends on the order of rows, and no sums of floats, which depend on it in their
last digits.
"""

from __future__ import annotations

import logging

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, DoubleType, FloatType

from evenly.errors import InvalidKeys
from evenly.spark.jvm.join_sides import adds_up_rows, same_when_computed_again
from evenly.spark.keyed.keys import case_sensitive, key_names
from evenly.spark.nested_types import parts_of

_LOG = logging.getLogger(__name__)


def hashable(df: DataFrame, name: str) -> str | None:
    """A column's name as `functions.col` reads it; None if Spark cannot hash it."""
    try:
        return key_names(df, name)[0]
    except InvalidKeys:
        return None


def what_spreads(df: DataFrame, names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns besides the key by which rows of one key are told apart, the same whenever Spark computes them."""
    return _without_floats(df, names) if same_when_computed_again(df) else ()


def all_that_spreads(df: DataFrame, names: tuple[str, ...]) -> tuple[str, ...]:
    """All columns that Spark can hash, as `functions.col` reads them, but those that are known to differ when they are
    computed again. Where nothing else would be left, and where that is not known, there is a warning.
    """
    every = tuple(found for name in df.columns if (found := hashable(df, name)))
    same = same_when_computed_again(df)
    if same and not adds_up_rows(df):
        return every
    stable = _without_floats(df, names) if same else ()
    if stable:
        return tuple(found for name in stable if (found := hashable(df, name)))
    _LOG.warning(
        "rows of a split key are told apart by all their columns, and some may differ when Spark computes them again: random "
        "ones, such as depend on the order of rows, sums of floats, or any, where nothing tells. If an executor is lost, rows "
        "may be lost or be there twice, or Spark ends the job. Name columns that stay the same: spread_on=[...]"
    )
    return every


def _without_floats(df: DataFrame, names: tuple[str, ...]) -> tuple[str, ...]:
    """Columns besides `names`, of their own name, that Spark can hash and that have no floats."""
    sensitive = case_sensitive(df)
    folded = [name if sensitive else name.lower() for name in df.columns]
    keys = {name if sensitive else name.lower() for name in names}
    chosen = []
    for field, fold in zip(df.schema.fields, folded, strict=True):
        if folded.count(fold) > 1 or _has_floats(field.dataType):
            continue
        found = hashable(df, field.name)
        if found is not None and (found if sensitive else found.lower()) not in keys:
            chosen.append(field.name)
    return tuple(chosen)


def _has_floats(kind: DataType) -> bool:
    return any(isinstance(part, (FloatType, DoubleType)) for part in parts_of(kind))
