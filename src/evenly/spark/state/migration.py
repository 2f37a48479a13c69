"""Move the state of a stopped streaming query to another mapping: nothing lost, nothing twice, whatever happens on the way.

State of a key is kept under `(key…, slot)` in the partition that the slot leads to. Under a new mapping a key may have
another slot, so its state must be found under that one. The state that the last finished batch left is written anew to a
checkpoint folder of its own, a lineage (`lineage.py` says why), compared with the old, and put in force by replacing one small
file. Identity, offsets, commits and batch numbers are carried over as they are, so the query goes on where it stopped, also
with a batch that it had begun and not finished.

    <checkpoint>/evenly/migration.json   a move that has begun: from and to which mapping, and its lineage
    <checkpoint>/evenly/migrated.json    the version of the mapping that the state is under and the lineage in force

Until `migrated.json` names the new lineage the old one is in force and `recover` throws the new one away; from then on the
new one is, and `recover` deletes the old. Both may be repeated.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from evenly.errors import DamagedData, ImmovableState, InvalidParameter
from evenly.keys.mapping import Mapping
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.java_errors import Py4JError
from evenly.spark.jvm.starting import running_query_ids
from evenly.spark.jvm.state_stores import PROVIDER, ROCKSDB, StateStores, Store, check_rewritable
from evenly.spark.placing.mapping_check import hashed_alike
from evenly.spark.state import lineage
from evenly.spark.state.lineage import Record, current_checkpoint, location
from evenly.spark.state.reading import committed_batch, operators
from evenly.spark.state.rewriting import Audit, Places, audit, checked, digest_of, places, rewritten

_LOG = logging.getLogger(__name__)

FORMAT_VERSION = 2
_INTENT = "migration.json"
_WRONG_FS = "Wrong FS"
_RENAME_IN_ONE_STEP = ("file", "hdfs", "viewfs", "abfs", "abfss", "ofs", "o3fs")


def _nothing(step: str) -> None:
    """What happens when a move reaches a step."""


reached: Callable[[str], None] = _nothing
"""Called with the name of each of `STEPS` as a move reaches it. Tests replace it to end the process there."""

STEPS = ("intended", "prepared", "rewriting", "rewritten", "closed", "exchanged", "cleared")
"""Before "exchanged" the old state is in force."""


@dataclass(frozen=True)
class StateMove:
    """What a move did: state rows that went to another instance, of how many, in what time, as of which batch.

    Rows are rows of the state stores; a stream-stream join and transformWithState keep several for a key. `checkpoint` is
    the folder that the query must be started with from now on.
    """

    rows_moved: int
    rows: int
    seconds: float
    batch: int
    checkpoint: str

    @property
    def share_moved(self) -> float:
        return self.rows_moved / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class _Plan:
    """The stores of the lineage in force, and where the slot is in each; None for a store that is not grouped by it."""

    stores: StateStores
    places: dict[tuple[int, str], Places | None]

    def places_of(self, store: Store) -> Places | None:
        return self.places[store.operator, store.name]

    def grouped_by_slot(self) -> list[tuple[Store, Places]]:
        return [(store, at) for store in self.stores.stores if (at := self.places_of(store)) is not None]


def check_movable(
    spark: SparkSession, checkpoint: str | os.PathLike[str], *, key: tuple[str, ...], slot: str, by_slot: int = 1
) -> None:
    """Raise `ImmovableState` if the state of a query, `by_slot` operators of which group by the slot, could not be moved to
    another mapping. Reads schemas, no state."""
    path = os.fspath(checkpoint)
    known = {store.operator for store, _ in _planned(spark, path, key, slot).grouped_by_slot()}
    if len(known) < by_slot:
        raise ImmovableState(
            f"{by_slot} operators of the query of checkpoint {path} group by the slot, and the state of {len(known)} says so: "
            "a slot that was renamed, and comes out of a function in Python or of both sides of a join, is not known any more. "
            f"Call it {slot!r} again before you group by it, in a new checkpoint"
        )


def migrate_state(
    spark: SparkSession, checkpoint: str | os.PathLike[str], *, key: tuple[str, ...], slot: str, old: Mapping, new: Mapping
) -> StateMove:
    """Move the state of a stopped query from the mapping `old` to `new`; then start the query with the slot column of `new`,
    at the checkpoint folder that the result names (`current_checkpoint` knows it later).

    Operators whose grouping key has no column `slot` keep their state as it is. What cannot be moved is refused with
    `ImmovableState` before anything is written. Call `recover` before every start of the query.
    """
    started = time.perf_counter()
    path = os.fspath(checkpoint)
    _check_mappings(old, new)
    _check_stopped(spark, current_checkpoint(spark, path))
    under = recover(spark, path)
    if under not in {None, old.version}:
        raise ImmovableState(f"the state of {path} is under mapping version {under}, not {old.version}: give old= that version")
    plan = _planned(spark, path, key, slot)
    before = {}
    for store, at in plan.grouped_by_slot():
        _check_partitions(store, new)
        found = audit(plan.stores.read(store), store, at, mapping=old, other=new)
        before[store.operator, store.name] = checked(found, store, old, key)
    moved = sum(it.moved for it in before.values())
    record = lineage.read_record(spark, path) or Record(old.version)
    if moved:
        record = _move(spark, path, plan, before, record, old, new)
    else:
        record = replace(record, version=new.version)
        lineage.write_record(spark, path, record)
    rows, seconds = sum(it.rows for it in before.values()), time.perf_counter() - started
    _LOG.info(
        "moved %d of %d state rows of checkpoint %s from mapping version %d to %d in %.1f s, as of batch %d: %s is in force",
        moved,
        rows,
        path,
        old.version,
        new.version,
        seconds,
        plan.stores.batch,
        location(path, record.folder),
    )
    return StateMove(moved, rows, seconds, plan.stores.batch, location(path, record.folder))


def recover(spark: SparkSession, checkpoint: str | os.PathLike[str]) -> int | None:
    """Finish or undo a move that was cut short; the version of the mapping that the state is under, None if it never moved.

    Call it before every start of the query, and start it at `current_checkpoint`. It may itself be cut short. State files that
    are not those which the move wrote are refused with `DamagedData`.
    """
    path = os.fspath(checkpoint)
    lineage.check_root(path)
    folder = Folder(spark, path).child("evenly")
    record = lineage.read_record(spark, path)
    intent = _intent(folder)
    if intent is not None and (record is None or record.folder != intent["folder"]):
        _undo(spark, path, record, str(intent["folder"]))
        _LOG.warning(
            "undid a move of the state of checkpoint %s to mapping version %s that was cut short: batch %s is as it was",
            path,
            intent["to"],
            intent["batch"],
        )
    lineage.check_restored(spark, path, record)
    current = Folder(spark, location(path, "" if record is None else record.folder))
    if lineage.is_closed(current):
        raise DamagedData(
            f"the state of checkpoint {path} was moved, and {folder.path}/{lineage.RECORD} does not say where: restore the "
            f"whole folder {path} from a backup. The query was not started"
        )
    if record is not None:
        lineage.verify(spark, path, record)
    lineage.sweep(spark, path, record)
    # The whole checkpoint may have been moved to another place.
    lineage.describe(spark, path, "" if record is None else record.folder)
    if record is None:
        return None
    if intent is not None and folder.has(_INTENT):
        reached("cleared")
        folder.remove(_INTENT)
        _LOG.warning(
            "finished a move of the state of checkpoint %s that was cut short: mapping version %d, %s is in force",
            path,
            record.version,
            current.path,
        )
    return record.version


def _move(
    spark: SparkSession,
    path: str,
    plan: _Plan,
    before: dict[tuple[int, str], Audit],
    record: Record,
    old: Mapping,
    new: Mapping,
) -> Record:
    """Write the new state to a lineage of its own, compare it with the old, and put it in force."""
    stores, target = plan.stores, lineage.new_folder(new.version)
    folder = Folder(spark, path).child("evenly")
    intent = {
        "format_version": FORMAT_VERSION,
        "from": old.version,
        "to": new.version,
        "batch": stores.batch,
        "folder": target,
    }
    folder.write(_INTENT, json.dumps(intent))
    reached("intended")
    try:
        lineage.prepare(spark, path, record.folder, lineage.written_at(target))
        reached("prepared")

        def rewrite(store: Store, rows: DataFrame) -> DataFrame:
            reached("rewriting")
            return rewritten(rows, store, plan.places_of(store), old=old, new=new)

        stores.write(location(path, lineage.written_at(target)), rewrite)
        _check_alone(spark, path, intent, lineage.written_at(target))
        # A task that Spark has given up (its executor hung, a copy of it was faster) may still write. It knows the name that
        # this folder had until now, and no other.
        Folder(spark, path).rename(lineage.written_at(target), target)
        lineage.describe(spark, path, target)
        _compare(plan, Folder(spark, path).resolved(target), before, old, new)
        moved = Record(new.version, target, stores.batch, lineage.written_files(spark, location(path, target)))
        reached("rewritten")
        lineage.close(spark, location(path, record.folder))
        reached("closed")
        _check_alone(spark, path, intent, target)
        lineage.write_record(spark, path, moved)
    except BaseException as error:
        # What is written counts, also where the writing of it failed.
        if current_checkpoint(spark, path) != location(path, target):
            _undo(spark, path, record, target)
            _LOG.warning("undid a move of the state of checkpoint %s to mapping version %d: %r", path, new.version, error)
        raise
    reached("exchanged")
    if not Folder(spark, path).has(f"{target}/metadata"):
        # Thrown away in the moment before it came into force. The old state is still there.
        lineage.write_record(spark, path, record)
        _undo(spark, path, record, target)
        raise _undone_by_another(path)
    lineage.sweep(spark, path, moved)
    reached("cleared")
    folder.remove(_INTENT)
    return moved


def _check_alone(spark: SparkSession, path: str, intent: dict[str, Any], folder: str) -> None:
    """Refuse to go on with state that another start of the query has taken for the rest of a dead driver's move."""
    if _intent(Folder(spark, path).child("evenly")) != intent or not Folder(spark, path).has(f"{folder}/metadata"):
        raise _undone_by_another(path)


def _undone_by_another(path: str) -> ImmovableState:
    return ImmovableState(
        f"the move of the state of checkpoint {path} was undone while it ran, by another start of its query: "
        "run one query on a checkpoint at a time"
    )


def _undo(spark: SparkSession, path: str, record: Record | None, target: str) -> None:
    """Take back whatever a move that did not come into force has done, from wherever it ended."""
    for folder in (target, lineage.written_at(target)):
        Folder(spark, path).remove(folder)  # first, because there may be no room left on the disk
    lineage.reopen(spark, location(path, "" if record is None else record.folder))
    reached("cleared")
    Folder(spark, path).child("evenly").remove(_INTENT)


def _compare(plan: _Plan, target: str, before: dict[tuple[int, str], Audit], old: Mapping, new: Mapping) -> None:
    """Read the new state and see that it is the old one under the new mapping."""
    for store in plan.stores.stores:
        rows, at = plan.stores.read(store, checkpoint=target), plan.places_of(store)
        earlier: Audit | tuple[int, int]
        after: Audit | tuple[int, int]
        if at is None:
            earlier, after = digest_of(plan.stores.read(store)), digest_of(rows)
        else:
            earlier, after = before[store.operator, store.name], audit(rows, store, at, mapping=new, other=old)
        if after != earlier:
            raise DamagedData(
                f"operator {store.operator} ({store.operator_name}) has {earlier} under mapping version {old.version}, and "
                f"would have {after} under {new.version}: the state was left as it was. Please report this"
            )


def _intent(folder: Folder) -> dict[str, Any] | None:
    if not folder.has(_INTENT):
        return None
    content = lineage.read_json(folder, _INTENT, newest=FORMAT_VERSION)
    if content["format_version"] != FORMAT_VERSION or not {"folder", "to", "batch"} <= content.keys():
        raise DamagedData(f"{folder.path}/{_INTENT} is not of this release of evenly: use the one that wrote it, or a backup")
    return content


def _planned(spark: SparkSession, path: str, key: tuple[str, ...], slot: str) -> _Plan:
    check_rewritable(spark)
    operators(spark, path)  # one clear error if there is no state
    at, files, batch = current_checkpoint(spark, path), Folder(spark, path), committed_batch(spark, path)
    if files.scheme not in _RENAME_IN_ONE_STEP:
        raise ImmovableState(
            f"checkpoint {path} is on {files.scheme}:, which replaces a file in several steps, so a move that is cut short "
            f"could leave no state in force: keep the checkpoint on one of {', '.join(_RENAME_IN_ONE_STEP)}"
        )
    if b'"stateUniqueIds"' in Folder(spark, at).child("commits").read(str(batch)):
        raise ImmovableState(
            f"checkpoint {path} is in state format 2, whose commits name each state file: begin the query with "
            "spark.sql.streaming.stateStore.checkpointFormatVersion=1 to be able to move its state"
        )
    stores = StateStores(spark, at, batch)
    if stores.provider() != ROCKSDB:
        raise ImmovableState(
            f"the state of {path} is kept by {stores.provider()}, which Spark's offline tools do not read: set {PROVIDER} to "
            f"{ROCKSDB} before the query first starts, with a new checkpoint"
        )
    try:
        found = {(store.operator, store.name): places(stores, store, key=key, slot=slot) for store in stores.stores}
    except (PySparkException, Py4JError) as error:
        why = str(error).strip().splitlines()[0]
        if _WRONG_FS in why:  # that state names its schemas by whole paths
            why = (
                "Spark does not find state of transformWithState in a folder with a space in its path. Stop the query, "
                "give the checkpoint another path, and start it there: it goes on"
            )
        raise ImmovableState(f"the state of {path} cannot be read: {why}") from error
    if not any(found.values()):
        raise ImmovableState(
            f"no operator of the query of checkpoint {path} is grouped by the column {slot!r}: give the name of its slot column"
        )
    return _Plan(stores, found)


def _check_mappings(old: Mapping, new: Mapping) -> None:
    if old.instances != new.instances:
        raise InvalidParameter(
            f"mappings for {old.instances} and for {new.instances} instances: state moves between equal numbers"
        )
    if old.types and new.types and not (len(old.types) == len(new.types) and all(map(hashed_alike, old.types, new.types))):
        raise InvalidParameter(
            f"a mapping for keys of {', '.join(old.types)} and one for {', '.join(new.types)}: state moves between mappings of "
            "the same keys. Learn the new one from rows whose key columns have the types of the state"
        )
    if old.version == new.version and old != new:
        raise InvalidParameter(f"two different mappings have the version {old.version}: give the new one the next version")


def _check_stopped(spark: SparkSession, path: str) -> None:
    """Refuse a query that runs in this application, in whichever session. One that runs elsewhere cannot be seen from here."""
    if lineage.query_id(Folder(spark, path)) in running_query_ids(spark):
        raise ImmovableState(f"the query of checkpoint {path} is running: stop it before its state is moved")


def _check_partitions(store: Store, new: Mapping) -> None:
    if store.partitions != new.instances:
        raise ImmovableState(
            f"operator {store.operator} ({store.operator_name}) has {store.partitions} partitions and the mappings have "
            f"{new.instances} instances: use mappings for {store.partitions}"
        )
