"""Where the state of a query is that was moved, and proof that it is what the move wrote.

A stopped query is not gone: the state store providers of its run stay loaded on every executor, and with changelog
checkpointing each may still upload a snapshot of the old layout at its next maintenance, minutes later, from whatever
host it is on, into the folder that it was loaded from. Nobody can reach them there. So state that was moved is never put
where an old provider writes: every move makes a checkpoint folder with a name that was never used before, a lineage, and
the query goes on there. Tasks of the move write to a folder of another name, which is renamed when they are done: one that
Spark has given up, because its executor hung or a copy of it was faster, may write later still.

    <checkpoint>/evenly/migrated.json            which lineage is in force, and the length and SHA-256 of each state file in it
    <checkpoint>/evenly/lineages/000002-9f…/     a checkpoint as Spark knows it: metadata, offsets, commits, sources, state

A checkpoint that was never moved is its own first lineage. One that is no longer in force is closed: its `metadata` can no
longer be read by Spark, so a query that is started there, without Evenly, fails at once instead of going on with old state.
"""

from __future__ import annotations

import json
import logging
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from evenly.errors import DamagedData, InvalidCheckpoint, NewerFormat
from evenly.sealed import checksum
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.java_errors import Py4JError

_LOG = logging.getLogger(__name__)

FORMAT_VERSION = 2
RECORD, LINEAGES = "migrated.json", "evenly/lineages"
CLOSED = "Evenly_has_moved_the_state_of_this_query__start_it_with_evenly_stream_by_key_or_at_current_checkpoint"
"""How the metadata of a closed lineage begin: one word, because it is a word that Spark's error message quotes."""
_QUERY = ("offsets", "commits", "sources")
_MOST_DIGESTED_BYTES = 2**30  # a file is one row of the job that digests them
_SNAPSHOT = re.compile(r"^(\d+)\.zip$")
_SCHEMA_PATH = re.compile(rb'"[^"]*/state(/\d+/_stateSchema/[^"]*)"')


@dataclass(frozen=True)
class StateFile:
    """A file of state as a move wrote it."""

    length: int
    sha256: str


@dataclass(frozen=True)
class Record:
    """The mapping version that the state is under, the lineage that it is in, and what a move wrote there after which batch.

    `folder` is a path below the checkpoint, empty for the checkpoint itself; paths of `files` are below the lineage.
    """

    version: int
    folder: str = ""
    batch: int = -1
    files: Mapping[str, StateFile] = field(default_factory=dict)


def current_checkpoint(spark: SparkSession, checkpoint: str | os.PathLike[str]) -> str:
    """The folder that a query must be started with as its `checkpointLocation`, and where its state can be read.

    It is `checkpoint` itself until state has been moved. Call `recover` first where a move may have been cut short.
    """
    path = os.fspath(checkpoint)
    record = read_record(spark, path)
    return location(path, "" if record is None else record.folder)


def location(checkpoint: str, folder: str) -> str:
    return f"{checkpoint.rstrip('/')}/{folder}" if folder else checkpoint


def new_folder(version: int) -> str:
    """A name for a lineage that no process, living or dead, has ever written to."""
    return f"{LINEAGES}/{version:06d}-{uuid.uuid4().hex}"


def check_root(checkpoint: str) -> None:
    """Refuse the folder of a lineage where the checkpoint is meant that it belongs to."""
    root, inside, _ = checkpoint.rstrip("/").rpartition(f"/{LINEAGES}/")
    if inside:
        raise InvalidCheckpoint(
            f"{checkpoint} holds state that Evenly has moved for the query of checkpoint {root}: give {root}"
        )


def read_record(spark: SparkSession, checkpoint: str) -> Record | None:
    """What the last move left; None if state was never moved."""
    folder = Folder(spark, checkpoint).child("evenly")
    if not folder.has(RECORD):
        return None
    content = read_json(folder, RECORD, newest=FORMAT_VERSION)
    # Format 1 had none, and only the version.
    if content.pop("checksum", None) != checksum(content) and content["format_version"] > 1:
        raise _damaged(folder, RECORD, "its checksum does not fit")
    try:
        files = {str(name): StateFile(int(it[0]), str(it[1])) for name, it in content.get("files", {}).items()}
        return Record(int(content["version"]), str(content.get("folder", "")), int(content.get("batch", -1)), files)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(folder, RECORD, repr(error)) from error


def write_record(spark: SparkSession, checkpoint: str, record: Record) -> None:
    """Put a lineage in force: one file is replaced, in one step."""
    content = {
        "format_version": FORMAT_VERSION,
        "version": record.version,
        "folder": record.folder,
        "batch": record.batch,
        "files": {name: [it.length, it.sha256] for name, it in sorted(record.files.items())},
    }
    Folder(spark, checkpoint).child("evenly").write(RECORD, json.dumps({**content, "checksum": checksum(content)}))


def read_json(folder: Folder, name: str, *, newest: int) -> dict[str, Any]:
    """What a file of a move says, or one clear error."""
    try:
        content = json.loads(folder.read(name, checked_by_caller=name == RECORD))
    except ValueError as error:
        raise _damaged(folder, name, str(error)) from error
    version = content.get("format_version") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise _damaged(folder, name, "it has no format_version")
    if version > newest:
        raise NewerFormat(
            f"{folder.path}/{name} was saved in format version {version}, and this release reads up to {newest}: upgrade evenly"
        )
    return dict(content)


def copy_query(files: Folder, old: str, new: str) -> None:
    """Give a lineage all but the state of another one: the query's identity, its offsets and commits, what its sources keep."""
    for name in ("metadata", *_QUERY):
        files.copy(_below(old, name), f"{new}/{name}")


def prepare(spark: SparkSession, path: str, old: str, target: str) -> None:
    """A folder that is the checkpoint of the last finished batch, but for the state rows."""
    files = Folder(spark, path)
    copy_query(files, old, target)
    states = f"{old}/state" if old else "state"
    for operator in files.folders(states):
        source, to = f"{states}/{operator}", f"{target}/state/{operator}"
        for name in files.folders(source):
            if not name.isdecimal():  # what the operator is, and its schemas
                files.copy(f"{source}/{name}", f"{to}/{name}")
        for schema in ("_metadata", *(f"{store}/_metadata" for store in files.folders(f"{source}/0"))):
            files.copy(f"{source}/0/{schema}", f"{to}/0/{schema}")
    describe(spark, path, target)


def written_at(target: str) -> str:
    """Where the state of a lineage is while tasks write it."""
    return f"{target}-written"


def describe(spark: SparkSession, path: str, target: str) -> None:
    """Make the operators of a lineage name their own schema files: transformWithState names them by their whole path."""
    files, states = Folder(spark, path), _below(target, "state")
    for operator in files.folders(states):
        described = Folder(spark, location(path, f"{states}/{operator}/_metadata/v2"))
        for name in described.names():
            text = described.read(name)
            moved = _SCHEMA_PATH.sub(lambda it: b'"' + files.resolved(states).encode() + it[1] + b'"', text)
            if moved != text:
                described.write(name, moved.decode())


def close(spark: SparkSession, lineage: str) -> None:
    """Make Spark refuse to start a query in a lineage; `reopen` takes it back. Both may be repeated."""
    folder = Folder(spark, lineage)
    text = folder.read("metadata").decode()
    if not text.startswith(CLOSED):
        folder.write("metadata", f"{CLOSED}\n{text}")


def reopen(spark: SparkSession, lineage: str) -> None:
    folder = Folder(spark, lineage)
    if is_closed(folder):
        folder.write("metadata", opened(folder.read("metadata").decode()))


def opened(metadata: str) -> str:
    """The metadata of a lineage as Spark wrote them, also where it is closed."""
    return metadata.split("\n", 1)[1] if metadata.startswith(CLOSED) else metadata


def query_id(lineage: Folder) -> str | None:
    """The id of the query of a lineage, also where it is closed; None if none was started there, or Spark cannot read it."""
    if not lineage.has("metadata"):
        return None
    try:
        return str(json.loads(opened(lineage.read("metadata").decode()))["id"])
    except (ValueError, LookupError, TypeError):
        return None


def is_closed(lineage: Folder) -> bool:
    """Whether a folder is a checkpoint whose state was moved to another one."""
    return lineage.has("metadata") and lineage.read("metadata").startswith(CLOSED.encode())


def check_restored(spark: SparkSession, checkpoint: str, record: Record | None) -> None:
    """Refuse a checkpoint that was restored over one whose state has been moved since: which of the two is meant?"""
    root = Folder(spark, checkpoint)
    if record is not None and record.folder and root.has("metadata") and not is_closed(root):
        raise InvalidCheckpoint(
            f"{checkpoint} is as it was before its state was moved, and {root.path}/evenly/{RECORD} says that it is in "
            f"{record.folder}: if a backup was restored over it, delete the whole folder and restore once more; to go on with "
            f"the moved state, delete {root.path}/metadata. Nothing was changed and the query was not started"
        )


def sweep(spark: SparkSession, checkpoint: str, record: Record | None) -> None:
    """Delete what is not in force, also what an old provider or a task of a killed driver has written since the last time.

    Without its offsets a driver that still runs in an old lineage, cut off and believed dead, fails at its next batch.
    """
    files = Folder(spark, checkpoint)
    kept = "" if record is None else record.folder
    late = [f"{LINEAGES}/{name}" for name in files.folders(LINEAGES) if f"{LINEAGES}/{name}" != kept]
    if kept:
        late += [name for name in (*_QUERY, "state") if files.has(name)]
    for name in late:
        files.remove(name)
    if late:
        _LOG.info("deleted %s of checkpoint %s: its state is in %s", ", ".join(late), checkpoint, location(checkpoint, kept))


def written_files(spark: SparkSession, lineage: str) -> dict[str, StateFile]:
    """The length and digest of every file of state in a lineage that no query has run in yet."""
    lengths = {name: length for name, length in _state_files(spark, lineage).items() if _of_a_partition(name)}
    digests = _digests(spark, lineage, lengths)
    return {name: StateFile(length, digests[name]) for name, length in lengths.items()}


def verify(spark: SparkSession, checkpoint: str, record: Record) -> None:
    """Refuse state files that are not those which the move wrote, as long as a query would begin with them."""
    if not record.files:
        return
    lineage = location(checkpoint, record.folder)
    found = _state_files(spark, lineage)
    needed = needed_files(record.files, found, version=record.batch + 1)
    wrong = [
        f"{name} is missing" if name not in found else f"{name} has {found[name]:,} bytes, not {it.length:,}"
        for name, it in record.files.items()
        if found.get(name, it.length if name not in needed else -1) != it.length
    ]
    if not wrong:
        digests = _digests(spark, lineage, {name: found[name] for name in needed})
        wrong = [f"{name} has another checksum" for name in needed if digests[name] != record.files[name].sha256]
    if wrong:
        raise DamagedData(
            f"{len(wrong)} of {len(record.files)} state files in {lineage} are not those that were written when the state was "
            f"moved to mapping version {record.version} ({'; '.join(wrong[:3])}): restore the whole folder {checkpoint} from a "
            "backup. The query was not started, because its keys would have another state"
        )


def needed_files(recorded: Iterable[str], found: Iterable[str], *, version: int) -> set[str]:
    """Those of the recorded files which a query that is started now begins with: all of a store that has no later snapshot."""
    later = {store for store, name in map(_store_of, found) if (it := _SNAPSHOT.match(name)) and int(it.group(1)) > version}
    return {name for name in recorded if _store_of(name)[0] not in later}


def _store_of(path: str) -> tuple[str, str]:
    """The store that a file is of, `state/operator/partition` or `state/operator/partition/name`, and its name there."""
    folder, _, name = path.rpartition("/")
    return folder.removesuffix("/SSTs").removesuffix("/logs"), name


def _of_a_partition(path: str) -> bool:
    parts = path.split("/")
    return parts[2].isdecimal() and "_metadata" not in parts


def _state_files(spark: SparkSession, lineage: str) -> dict[str, int]:
    return Folder(spark, lineage).lengths("state")


def _digests(spark: SparkSession, lineage: str, lengths: Mapping[str, int]) -> dict[str, str]:
    """SHA-256 of files, computed where Spark has its tasks; of a file too large for a row its length has to do."""
    digests = dict.fromkeys(lengths, "")
    names = [name for name, length in lengths.items() if length <= _MOST_DIGESTED_BYTES]
    if not names:
        return digests
    # Paths are meant as they are: a checkpoint may have brackets in its name.
    reader = spark.read.format("binaryFile").option("__globPaths__", "false")
    read = reader.load([f"{lineage.rstrip('/')}/{name}" for name in names])
    try:
        found = read.select("path", F.sha2("content", 256)).collect()
    except (PySparkException, Py4JError) as error:
        raise DamagedData(
            f"the state files in {lineage} cannot be read ({_cause(error)}): restore the whole folder from a backup. "
            "If you have, and it is on a local disk, delete the files .*.crc in it, which are of the files that were there"
        ) from error
    for path, digest in found:
        digests["state/" + path.rpartition(f"{lineage.rstrip('/').rpartition('/')[2]}/state/")[2]] = digest
    return digests


def _cause(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "ChecksumException" in line), lines[0])


def _below(lineage: str, name: str) -> str:
    return f"{lineage}/{name}" if lineage else name


def _damaged(folder: Folder, name: str, why: str) -> DamagedData:
    return DamagedData(f"{folder.path}/{name} is damaged ({why}): restore it from a backup. The query was not started")
