"""The mark on a slot column by which it is known in plans: column metadata, which renamed and copied columns keep."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame

from evenly.spark.placing.own_columns import own_name

MARK = "evenly.slot"
_PLAIN = own_name("slot")


def marked(df: DataFrame, slot: str, key: tuple[str, ...], window: str | None = None) -> DataFrame:
    """`df` with its slot column marked, so that plans over it can be read."""
    mark = {MARK: json.dumps({"key": list(key), "window": window})}
    if "." not in slot and "`" not in slot:
        return df.withMetadata(slot, mark)
    # Spark would look for a field here.
    return df.withColumnRenamed(slot, _PLAIN).withMetadata(_PLAIN, mark).withColumnRenamed(_PLAIN, slot)
