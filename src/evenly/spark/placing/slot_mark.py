"""The mark on a slot column by which it is known in plans: column metadata, which renamed and copied columns keep."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from evenly.keys.mapping import Mapping
from evenly.spark.placing.own_columns import own_name

MARK = "evenly.slot"
_PLAIN = own_name("slot")


def marked(
    df: DataFrame, slot: str, key: tuple[str, ...], window: str | None = None, mapping: Mapping | None = None
) -> DataFrame:
    """`df` with its slot column marked, so that plans over it can be read; `mapping` is the one it is of."""
    told: dict[str, object] = {"key": list(key), "window": window}
    if mapping is not None:
        told |= {"mapping": mapping.placing, "instances": mapping.instances}
        told |= {"chosen": mapping.chosen} if mapping.chosen else {}
    mark = {MARK: json.dumps(told)}
    if "." not in slot and "`" not in slot:
        return df.withMetadata(slot, mark)
    # Spark would look for a field here.
    return df.withColumnRenamed(slot, _PLAIN).withMetadata(_PLAIN, mark).withColumnRenamed(_PLAIN, slot)


def slot_names(fields: StructType, slot: str) -> tuple[str, ...]:
    """The fields of a schema that hold the slot: those with its mark, whatever they are called now; without a mark the name."""
    found = tuple(field.name for field in fields.fields if MARK in (field.metadata or {}))
    return found or tuple(name for name in fields.names if name.lower() == slot.lower())


def has_mark(kind: DataType) -> bool:
    """Whether a type is a struct of which a field is a marked slot."""
    return isinstance(kind, StructType) and any(MARK in (field.metadata or {}) for field in kind.fields)


def placing_key(fields: StructType, slot: str) -> tuple[str, ...]:
    """The key that the slot of this name was made for, as its mark says; none without a mark."""
    mark = (fields[slot].metadata or {}).get(MARK)
    return tuple(json.loads(mark)["key"]) if mark else ()


def why_chosen(mark: str) -> str:
    """Why there are so many instances, as a mark says it."""
    return str(json.loads(mark).get("chosen", ""))
