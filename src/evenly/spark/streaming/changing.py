"""Bringing a new mapping in force for a stopped query, so that a driver may die at any point.

Windowed state stays where it is: the new mapping serves windows that start later than any window with state. State
without windows is moved. The new mapping is written first, then what it needs is done, and only then is its version
put in force.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampNTZType

from evenly.errors import CheckpointMismatch
from evenly.keys.mapping import Mapping
from evenly.keys.query_instructions import Change
from evenly.keys.versions import Version
from evenly.spark.described import described
from evenly.spark.keyed.keys import quoted
from evenly.spark.placing.slot_mark import slot_names
from evenly.spark.state.migration import check_movable, migrate_state, recover
from evenly.spark.state.reading import JOIN, operators, read_state
from evenly.spark.streaming import mapping_store
from evenly.spark.streaming.mapping_store import MappingStore

_LOG = logging.getLogger(__name__)

MOST_SPANS = 8
"""How many mappings a plan may hold at a time, for windows of different ages."""


def bring_in_force(spark: SparkSession, checkpoint: str, store: MappingStore, change: Change) -> Exception | None:
    """Bring a mapping in force for a stopped query; or end or undo what was begun, and return what kept it from that.

    Which version is in force then is what `store` says: what is written counts, as after the death of a driver.
    """
    bring = change_by_moving if store.placement.window is None else change_windows
    before, refusal = store.versions[-1].number, None
    figures = {**change.figures, "expected_pct": change.expected_pct}
    try:
        bring(spark, checkpoint, store, change.mapping, reason=change.reason, figures=figures)
    except Exception as error:  # noqa: BLE001 - whatever it is, the query can go on from what is written
        refusal = error
        store.load()
        recover_move(spark, checkpoint, store)
    last = store.versions[-1]
    if last.number != before:
        told = ", ".join(f"{name} {value:.1f}" for name, value in last.figures.items())
        _LOG.info("%s: version %d of the mapping is in force: %s (%s)", checkpoint, last.number, last.reason, told)
    return refusal


def change_windows(
    spark: SparkSession, checkpoint: str, store: MappingStore, mapping: Mapping, *, reason: str, figures: dict[str, float]
) -> Version:
    """Put `mapping` in force from the first window on that has no state yet. The query must be stopped.

    That is known from the state of the last committed batch alone: a batch that was begun and not committed is run
    again from that state. Older mappings stay for as long as windows of theirs have state.
    """
    new = replace(mapping, version=store.versions[-1].number + 1)
    spans = store.versions[-1].spans
    held = _held(spark, checkpoint, store, spans)
    latest = max((last for _, last in held if last is not None), default=None)
    kept = tuple(span for span, last in held if last is not None)
    if len(kept) >= MOST_SPANS:
        raise CheckpointMismatch(
            f"windows of {len(kept)} mappings still have state in {checkpoint}, and each makes the query's plan longer: "
            "give the stream a watermark, so that old windows end"
        )
    store.propose(new)
    spans = (*_from_the_beginning(kept), (new.version, None if latest is None else latest + 1))
    return _enforced(store, Version(new.version, reason, spans, figures=figures))


def check_change(spark: SparkSession, checkpoint: str, store: MappingStore, *, by_slot: int = 1) -> None:
    """Refuse a change that could not be brought in force, while the query still runs; `by_slot` operators use the slot."""
    if store.placement.window is None:
        check_movable(spark, checkpoint, key=store.placement.key, slot=store.placement.slot, by_slot=by_slot)
    else:
        _window_starts(spark, checkpoint, store)


def change_by_moving(
    spark: SparkSession, checkpoint: str, store: MappingStore, mapping: Mapping, *, reason: str, figures: dict[str, float]
) -> Version:
    """Put `mapping` in force at once, and move the state of the keys that change their instance. The query must be stopped."""
    new = replace(mapping, version=store.versions[-1].number + 1)
    old = store.mapping(store.versions[-1].number)
    store.propose(new)
    with described(spark, f"move state of {', '.join(store.placement.key)} to version {new.version} of its mapping"):
        moved = migrate_state(spark, checkpoint, key=store.placement.key, slot=store.placement.slot, old=old, new=new)
    mapping_store.reached("moved")
    told = {**figures, "moved_state_rows": float(moved.rows_moved), "state_rows": float(moved.rows), "move_s": moved.seconds}
    return _enforced(store, Version(new.version, reason, ((new.version, None),), figures=told))


def _enforced(store: MappingStore, version: Version) -> Version:
    store.enforce(version)
    return store.versions[-1]


def _from_the_beginning(spans: tuple[tuple[int, int | None], ...]) -> tuple[tuple[int, int | None], ...]:
    """The first mapping that is left serves whatever is older, too."""
    return ((spans[0][0], None), *spans[1:]) if spans else ()


def _held(
    spark: SparkSession, checkpoint: str, store: MappingStore, spans: tuple[tuple[int, int | None], ...]
) -> list[tuple[tuple[int, int | None], int | None]]:
    """Each span with the latest window start in it that has state (None: no window of it has state)."""
    begins = [from_us for _, from_us in spans]
    ends = [*begins[1:], None]
    latest: list[int | None] = [None] * len(spans)
    for starts in _window_starts(spark, checkpoint, store):
        inside = [_between(begin, end) for begin, end in zip(begins, ends, strict=True)]
        row = starts.agg(*(F.max(F.when(part, F.col("start"))).alias(f"span{at}") for at, part in enumerate(inside))).collect()[
            0
        ]
        latest = [max((it for it in pair if it is not None), default=None) for pair in zip(latest, row, strict=True)]
    return list(zip(spans, latest, strict=True))


def _between(begin: int | None, end: int | None) -> Column:
    start = F.col("start")
    after = F.lit(True) if begin is None else start >= F.lit(begin)  # noqa: FBT003 - a literal
    return after if end is None else after & (start < F.lit(end))


def _window_starts(spark: SparkSession, checkpoint: str, store: MappingStore) -> list[DataFrame]:
    """The window starts, in microseconds, of all state that is placed by slots, whatever its columns were renamed to."""
    window, slot = store.placement.window or "", store.placement.slot
    found, placed = [], False
    for operator in operators(spark, checkpoint):
        for part in operator.stores:
            state = read_state(spark, checkpoint, operator, part)
            fields = state.schema["key"].dataType
            names = fields.names if isinstance(fields, StructType) else []
            by_slot = operator.name == JOIN or (isinstance(fields, StructType) and bool(slot_names(fields, slot)))
            # What is grouped by the slot has the window first. A join calls its key columns field0, field1, … in order.
            column = next((name for name in names if name.lower() == window.lower()), names[0] if by_slot and names else None)
            start = None if column is None else _micros(state, f"key.{quoted(column)}")
            placed = placed or (by_slot and start is not None)
            if start is not None:
                found.append(state.select(start.alias("start")))
            elif by_slot:
                raise CheckpointMismatch(
                    f"the state of {operator.name} in {checkpoint} is keyed by {', '.join(names)}, without {window!r}: "
                    "group by the window, the key and the slot, in this order, or begin a new checkpoint without window="
                )
    if not placed:
        raise CheckpointMismatch(
            f"no state in {checkpoint} is known to be keyed by the column {slot!r}, so nobody can tell which windows have "
            "begun: the mapping stays as it is. Group by the window, the key and the slot without renaming them before"
        )
    return found


def _micros(state: DataFrame, column: str) -> Column | None:
    """The start of a window, in microseconds since 1970 (of a time without zone: as if it were UTC)."""
    window = state.select(column).schema[0].dataType
    if not isinstance(window, StructType) or window.names != ["start", "end"]:
        return None
    start = F.col(f"{column}.start")
    if isinstance(window["start"].dataType, TimestampNTZType):
        start = F.concat(start.cast("string"), F.lit("Z")).cast("timestamp")
    return F.unix_micros(start)


def recover_move(spark: SparkSession, checkpoint: str, store: MappingStore) -> None:
    """After a driver has died: end what it had begun, so that the version in force is the one that the state is under."""
    moved = recover(spark, checkpoint)
    if moved is None or not store.versions or moved == store.versions[-1].number:
        return
    if moved != store.versions[-1].number + 1 or not store.proposed(moved):
        raise CheckpointMismatch(
            f"the state in checkpoint {checkpoint} is under version {moved} of the mapping, and evenly/versions.json "
            f"there ends at version {store.versions[-1].number}: restore that folder from the backup of the state"
        )
    _LOG.warning(
        "put mapping version %d of checkpoint %s in force: its state had been moved when the driver ended", moved, checkpoint
    )
    store.enforce(Version(moved, "the move of its state was complete when the driver ended", ((moved, None),)))
