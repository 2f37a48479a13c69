"""Where the slot is in the rows of a state store: pure, from the store's schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import IntegerType, StructType

from evenly.errors import ImmovableState
from evenly.spark.keyed.keys import last_part
from evenly.spark.nested_types import parts_of
from evenly.spark.placing.slot_mark import has_mark, placing_key, slot_names
from evenly.spark.state.reading import JOIN
from evenly.worker.unsafe_rows import Path

_AGGREGATION = "stateStoreSave"
_EVENT_TIME = "__event_time"
"""What Spark adds to the key of a join in the fourth format of its state."""
_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
MOVABLE = frozenset(
    {
        _AGGREGATION,
        JOIN,
        "dedupe",
        "dedupeWithinWatermark",
        "flatMapGroupsWithState",
        "applyInPandasWithState",
        "transformWithStateExec",
        "transformWithStateInPandasExec",
        "transformWithStateInPySparkExec",
    }
)
"""Spark's names of the operators whose state can be moved."""


@dataclass(frozen=True)
class KeyLayout:
    """What the fields of an operator's grouping key are: columns before the key, the key, the slot; and where the slot is."""

    fields: tuple[str, ...]
    within: tuple[str, ...]
    key: tuple[str, ...]
    slot: str

    @property
    def place(self) -> int:
        return self.fields.index(self.slot)


def key_layout(operator: str, grouping: StructType, *, key: Sequence[str], slot: str) -> KeyLayout | None:
    """The layout of an operator's grouping key, None if it is not grouped by the slot: then its state stays where it is.

    The slot is known by its mark, whatever it was renamed to; columns of its key that were renamed too are those before it. A
    stream-stream join keeps neither marks nor names of its key, so its key is taken to be `(key…, slot)` in that order. The
    slots that are found there are compared with the mapping's before anything is written.
    """
    names = tuple(grouping.names)
    wanted = [last_part(name).lower() for name in key]
    if operator == JOIN:
        if _EVENT_TIME in names:
            raise ImmovableState(
                f"the state of {operator} is in a format that keeps rows by their time, and does not move to another mapping: "
                f"begin a new checkpoint with {_JOIN_FORMAT}=3 to be able to move it"
            )
        found = names if len(names) == len(wanted) + 1 else ()
    else:
        slots = slot_names(grouping, slot)
        if len(slots) > 1 or any(map(has_mark, parts_of(StructType([it for it in grouping if it.name not in slots])))):
            raise ImmovableState(
                f"the state of {operator} is grouped by ({', '.join(names)}), which has the slot inside a struct or twice: "
                f"group by ({', '.join((*key, slot))}), each a column of its own"
            )
        if not slots:
            return None
        by_name = {name.lower(): name for name in names}
        place = names.index(slots[0])
        named = [by_name[name] for name in wanted if name in by_name]
        if len(named) < len(wanted) and [last_part(name).lower() for name in placing_key(grouping, slots[0])] == wanted:
            named = list(names[max(0, place - len(wanted)) : place])  # the pipeline has renamed them
        found = (*named, slots[0])
    if len(found) != len(wanted) + 1 or not isinstance(grouping[found[-1]].dataType, IntegerType):
        raise ImmovableState(
            f"the state of {operator} is grouped by ({', '.join(names)}), not by ({', '.join((*key, slot))}): "
            "group by the key columns and then the slot"
        )
    if operator not in MOVABLE:
        raise ImmovableState(
            f"state of the operator {operator} cannot be moved to another mapping: keep the mapping, or use a new checkpoint"
        )
    first = names.index(found[0])
    return KeyLayout(fields=names, within=names[:first], key=found[:-1], slot=found[-1])


def key_path(family: str, schema: StructType, layout: KeyLayout) -> Path:
    """Where the slot is in a key row: the grouping key is its beginning, or the first struct in it that is one."""
    path = _found(schema, layout)
    if path is None:
        raise ImmovableState(
            f"state rows {family!r} have the key ({', '.join(schema.names)}), without ({', '.join(layout.fields)}): "
            "keep the mapping, or use a new checkpoint"
        )
    return path


def value_paths(operator: str, schema: StructType, layout: KeyLayout, *, slot: str) -> tuple[Path, ...]:
    """Where the slot is in a value row; none if it is not there.

    A stream-stream join keeps whole rows, with the slot; an aggregation in Spark's first state format repeats the grouping
    key. Values of other operators are the user's own.
    """
    if operator == JOIN:
        found = slot_names(schema, slot)
        places = [place for place, field in enumerate(schema.fields) if field.name in found]
        return tuple(((len(schema), place),) for place in places if isinstance(schema[place].dataType, IntegerType))
    if operator == _AGGREGATION and _begins(schema, layout):
        return (((len(schema), layout.place),),)
    return ()


def _found(schema: StructType, layout: KeyLayout) -> Path | None:
    if _begins(schema, layout):
        return ((len(schema), layout.place),)
    for place, field in enumerate(schema.fields):
        deeper = _found(field.dataType, layout) if isinstance(field.dataType, StructType) else None
        if deeper is not None:
            return ((len(schema), place), *deeper)
    return None


def _begins(schema: StructType, layout: KeyLayout) -> bool:
    return tuple(schema.names[: len(layout.fields)]) == layout.fields
