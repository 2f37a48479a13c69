"""Move the state of a stopped streaming query to another mapping: nothing lost, nothing twice, whatever happens on the way.

State of a key is kept under `(key…, slot)` in the partition that the slot leads to. Under a new mapping a key may have
another slot, so its state must be found under that one. The state that the last finished batch left is written anew to a
folder beside it, compared with the old, and put in its place by renaming; offsets, commits and batch numbers stay as they
are, so the query goes on where it stopped, also with a batch that it had begun and not finished.

    <checkpoint>/evenly/migration.json   a move that has begun: from and to which mapping, and whether the new state is complete
    <checkpoint>/evenly/migration/       the new state while it is written, then the old one until it is deleted
    <checkpoint>/evenly/migrated.json    the version of the mapping that the state is under, if it was ever moved

Until `migration.json` says "complete" the old state is in force and `recover` throws the new one away; from then on the
new one is, and `recover` finishes the exchange. Both may be repeated.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from evenly.errors import DamagedData, ImmovableState, InvalidParameter
from evenly.grouping.mapping import Mapping
from evenly.spark.hadoop_files import Folder
from evenly.spark.mapping_check import hashed_alike
from evenly.spark.state.files import Files
from evenly.spark.state.reading import committed_batch, operators
from evenly.spark.state.rewriting import Audit, Places, audit, checked, digest_of, places, rewritten
from evenly.spark.state.stores import PROVIDER, ROCKSDB, StateStores, Store

FORMAT_VERSION = 1
_INTENT, _DONE = "migration.json", "migrated.json"
_NEW_STATE, _OLD_STATE, _STAGING = "evenly/migration/state", "evenly/migration/replaced", "evenly/migration"
_RENAME_IN_ONE_STEP = ("file", "hdfs", "viewfs", "abfs", "abfss", "ofs", "o3fs")


def _nothing(step: str) -> None:
    """What happens when a move reaches a step."""


reached: Callable[[str], None] = _nothing
"""Called with the name of each of `STEPS` as a move reaches it. Tests replace it to end the process there."""

STEPS = ("intended", "prepared", "rewriting", "rewritten", "complete", "set aside", "exchanged", "recorded", "cleared")


@dataclass(frozen=True)
class StateMove:
    """What a move did: state rows that went to another instance, of how many, in what time, as of which batch.

    Rows are rows of the state stores; a stream-stream join and transformWithState keep several for a key.
    """

    rows_moved: int
    rows: int
    seconds: float
    batch: int

    @property
    def share_moved(self) -> float:
        return self.rows_moved / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class _Plan:
    """The stores of a checkpoint, and where the slot is in each; None for a store that is not grouped by it."""

    checkpoint: str
    stores: StateStores
    places: dict[tuple[int, str], Places | None]

    def places_of(self, store: Store) -> Places | None:
        return self.places[store.operator, store.name]

    def grouped_by_slot(self) -> list[tuple[Store, Places]]:
        return [(store, at) for store in self.stores.stores if (at := self.places_of(store)) is not None]


def check_movable(spark: SparkSession, checkpoint: str | os.PathLike[str], *, key: tuple[str, ...], slot: str) -> None:
    """Raise `ImmovableState` if the state of a query could not be moved to another mapping. Reads schemas, no state."""
    _planned(spark, os.fspath(checkpoint), key, slot)


def migrate_state(
    spark: SparkSession, checkpoint: str | os.PathLike[str], *, key: tuple[str, ...], slot: str, old: Mapping, new: Mapping
) -> StateMove:
    """Move the state of a stopped query from the mapping `old` to `new`; then start the query with the slot column of `new`.

    Operators whose grouping key has no column `slot` keep their state as it is. What cannot be moved is refused with
    `ImmovableState` before anything is written. Call `recover` before every start of the query.
    """
    started = time.perf_counter()
    path = os.fspath(checkpoint)
    _check_mappings(old, new)
    _check_stopped(spark, path)
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
    if moved:
        _move(spark, plan, before, old, new)
    else:
        _record(Folder(spark, path).child("evenly"), new.version)
    return StateMove(moved, sum(it.rows for it in before.values()), time.perf_counter() - started, plan.stores.batch)


def recover(spark: SparkSession, checkpoint: str | os.PathLike[str]) -> int | None:
    """Finish or undo a move that was cut short; the version of the mapping that the state is under, None if it never moved.

    Call it before every start of the query. It changes nothing where no move was cut short, and may itself be cut short.
    """
    path = os.fspath(checkpoint)
    folder = Folder(spark, path).child("evenly")
    if folder.has(_INTENT):
        intent = _read(folder, _INTENT)
        if intent.get("complete"):
            _exchange(spark, path, int(intent["to"]))
        else:
            _clear(spark, path)
    return int(_read(folder, _DONE)["version"]) if folder.has(_DONE) else None


def _move(spark: SparkSession, plan: _Plan, before: dict[tuple[int, str], Audit], old: Mapping, new: Mapping) -> None:
    """Write the new state beside the old, compare them, and exchange them."""
    path, stores = plan.checkpoint, plan.stores
    folder = Folder(spark, path).child("evenly")
    intent = {
        "format_version": FORMAT_VERSION,
        "from": old.version,
        "to": new.version,
        "batch": stores.batch,
        "complete": False,
    }
    folder.write(_INTENT, json.dumps(intent))
    reached("intended")
    try:
        _prepare(Files(spark, path), stores)
        reached("prepared")

        def rewrite(store: Store, rows: DataFrame) -> DataFrame:
            reached("rewriting")
            return rewritten(rows, store, plan.places_of(store), old=old, new=new)

        stores.write(f"{path.rstrip('/')}/{_STAGING}", rewrite)
        _compare(plan, before, old, new)
    except BaseException:
        _clear(spark, path)
        raise
    reached("rewritten")
    folder.write(_INTENT, json.dumps({**intent, "complete": True}))
    reached("complete")
    _exchange(spark, path, new.version)


def _prepare(files: Files, stores: StateStores) -> None:
    """A folder that is the checkpoint of the last finished batch, but for the state rows."""
    files.delete(_STAGING)
    for name in ("metadata", f"offsets/{stores.batch}", f"commits/{stores.batch}"):
        files.copy(name, f"{_STAGING}/{name}")
    for operator in files.folders("state"):
        within = f"state/{operator}"
        for name in files.folders(within):
            if not name.isdecimal():  # what the operator is, and its schemas
                files.copy(f"{within}/{name}", f"{_STAGING}/{within}/{name}")
        for schema in ("_metadata", *(f"{store}/_metadata" for store in files.folders(f"{within}/0"))):
            files.copy(f"{within}/0/{schema}", f"{_STAGING}/{within}/0/{schema}")


def _compare(plan: _Plan, before: dict[tuple[int, str], Audit], old: Mapping, new: Mapping) -> None:
    """Read the new state and see that it is the old one under the new mapping."""
    for store in plan.stores.stores:
        rows, at = plan.stores.read(store, checkpoint=f"{plan.stores.checkpoint}/{_STAGING}"), plan.places_of(store)
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


def _exchange(spark: SparkSession, path: str, version: int) -> None:
    """Put the new state in the place of the old, from wherever an earlier attempt ended."""
    files = Files(spark, path)
    if files.has(_NEW_STATE):
        if not files.has(_OLD_STATE):
            files.rename("state", _OLD_STATE)
        reached("set aside")
        if files.has("state"):
            raise DamagedData(
                f"the query of {path} was started while its state was being exchanged, and has written to {path}/state. "
                "Delete that folder and recover again: the state itself is safe beside it"
            )
        files.rename(_NEW_STATE, "state")
    reached("exchanged")
    _record(Folder(spark, path).child("evenly"), version)
    reached("recorded")
    _clear(spark, path)


def _clear(spark: SparkSession, path: str) -> None:
    files = Files(spark, path)
    files.delete(_STAGING)
    reached("cleared")
    files.delete(f"evenly/{_INTENT}")


def _record(folder: Folder, version: int) -> None:
    folder.write(_DONE, json.dumps({"format_version": FORMAT_VERSION, "version": version}))


def _read(folder: Folder, name: str) -> dict[str, Any]:
    source = f"{folder.path}/{name}"
    try:
        content = json.loads(folder.read(name))
    except ValueError as error:
        raise DamagedData(f"{source} is damaged ({error}): restore it from a backup. The query was not started") from error
    if not isinstance(content, dict) or content.get("format_version") != FORMAT_VERSION:
        raise DamagedData(f"{source} is not of this release of evenly: use the one that wrote it, or a backup")
    return content


def _planned(spark: SparkSession, path: str, key: tuple[str, ...], slot: str) -> _Plan:
    operators(spark, path)  # one clear error if there is no state
    files, batch = Files(spark, path), committed_batch(spark, path)
    if files.scheme not in _RENAME_IN_ONE_STEP:
        raise ImmovableState(
            f"checkpoint {path} is on {files.scheme}:, which renames a folder in many steps, so a move that is cut short could "
            f"not be finished: keep the checkpoint on one of {', '.join(_RENAME_IN_ONE_STEP)}"
        )
    if b'"stateUniqueIds"' in Folder(spark, path).child("commits").read(str(batch)):
        raise ImmovableState(
            f"checkpoint {path} is in state format 2, whose commits name each state file: begin the query with "
            "spark.sql.streaming.stateStore.checkpointFormatVersion=1 to be able to move its state"
        )
    stores = StateStores(spark, path, batch)
    if stores.provider() != ROCKSDB:
        raise ImmovableState(
            f"the state of {path} is kept by {stores.provider()}, which Spark's offline tools do not read: set {PROVIDER} to "
            f"{ROCKSDB} before the query first starts, with a new checkpoint"
        )
    try:
        found = {(store.operator, store.name): places(stores, store, key=key, slot=slot) for store in stores.stores}
    except (PySparkException, Py4JError) as error:
        raise ImmovableState(f"the state of {path} cannot be read: {str(error).strip().splitlines()[0]}") from error
    if not any(found.values()):
        raise ImmovableState(
            f"no operator of the query of checkpoint {path} is grouped by the column {slot!r}: give the name of its slot column"
        )
    return _Plan(path, stores, found)


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
    folder = Folder(spark, path)
    if folder.has("metadata"):
        identity = json.loads(folder.read("metadata")).get("id")
        running: Any = spark._jsparkSession.sharedState().activeStreamingQueries()  # noqa: SLF001 - of all sessions
        if identity in {str(query.toString()) for query in running.keySet()}:
            raise ImmovableState(f"the query of checkpoint {path} is running: stop it before its state is moved")


def _check_partitions(store: Store, new: Mapping) -> None:
    if store.partitions != new.instances:
        raise ImmovableState(
            f"operator {store.operator} ({store.operator_name}) has {store.partitions} partitions and the mappings have "
            f"{new.instances} instances: use mappings for {store.partitions}"
        )
