"""Folders that a streaming query writes its batches to are its own.

A batch that is run again replaces its folder. Another query that wrote its batches 0, 1, 2, … to the same place would replace
the first one's, and so would the same dataflow with a new checkpoint, without a word. So each folder says whose it is:

    <checkpoint>/evenly/flow         the query's own name, drawn when it first starts
    <checkpoint>/evenly/source       what it reads, for Spark goes on with another source in no words of ours
    <sink>/_evenly/owner             the same name
    <sink>/_evenly/writing/…         a batch that is being written, until it is whole and put in its place
"""

from __future__ import annotations

import json
import uuid

from pyspark.sql import SparkSession

from evenly.dataflow.ends import FILES, KAFKA, REPLAY
from evenly.dataflow.graph import Dataflow, Operator
from evenly.dataflow.patterns import finds
from evenly.errors import EvenlyError
from evenly.spark.jvm.hadoop_files import Folder, as_it_is
from evenly.spark.state.lineage import LINEAGES

_OFFSETS = {**dict.fromkeys(FILES, "files"), KAFKA: KAFKA, REPLAY: REPLAY, "rate": "rate", "socket": "socket"}
"""Sources by the kind of offsets that a checkpoint has of them, as far as that is known here."""
_BESIDE = "_evenly"
WRITING = f"{_BESIDE}/writing"
"""The folder in a sink's in which batches are written; readers pass it over."""


def name_of_query(spark: SparkSession, checkpoint: str) -> str:
    """The name of the query of a checkpoint, drawn at its first start."""
    folder = Folder(spark, checkpoint).child("evenly")
    folder.make("flow", uuid.uuid4().hex)
    return folder.read("flow").decode()


def check_source(spark: SparkSession, flow: Dataflow, one: Operator, checkpoint: str) -> None:
    """Refuse another source than that of the batches of a checkpoint: one of another kind, or files where those are not that
    were read before."""
    begun = Folder(spark, checkpoint)
    folder, kind, path = begun.child("evenly"), _OFFSETS.get(one.format, ""), ""
    if kind == "files" and as_it_is(one.path) == one.path:
        path = f"{Folder(spark, one.path).whole_path.rstrip('/')}/"
    now = {"kind": kind, "path": path, "told": f"{one.format} {one.path}".strip()}
    if folder.has("source") and any(begun.child(name).names() for name in ("offsets", LINEAGES)):
        before = json.loads(folder.read("source"))
        if before == now:
            return
        other = kind and before["kind"] and kind != before["kind"]
        if other or (path and before["path"] and not before["path"].startswith(path)):
            raise flow.error(
                f"the checkpoint {checkpoint} is of a query that reads {before['told']}, and the source {one.name!r} is "
                f"{now['told']}: give the source that it was begun with, or begin with a new checkpoint",
                one,
            )
    folder.write("source", json.dumps(now))


def claim(spark: SparkSession, flow: Dataflow, one: Operator, owner: str) -> None:
    """Make the folder of a sink the query's own, or refuse one that is another's."""
    folder = Folder(spark, one.path)
    mark = folder.child(_BESIDE)
    if not mark.has("owner"):
        if there := [name for name in folder.names() if not name.startswith("_")]:
            raise flow.error(
                f"the sink {one.name!r} writes to {one.path}, where {there[0]!r} is already: a query has a folder of its own. "
                "Give another path, or empty that one",
                one,
            )
        mark.make("owner", owner)
    if mark.read("owner").decode() != owner:
        raise flow.error(
            f"the sink {one.name!r} writes to {one.path}, which has the batches of another query (or of this one with another "
            "checkpoint), and would replace them: give another path, or remove that folder",
            one,
        )


def sweep(spark: SparkSession, flow: Dataflow) -> None:
    """Remove what runs that were killed have left half-written. For the newest run of the query."""
    for one in flow.operators:
        if one.kind == "sink" and one.format in FILES:
            Folder(spark, one.path).remove(WRITING)


def check_paths(spark: SparkSession, flow: Dataflow) -> None:
    """Refuse two sinks, or a source and a sink, of one folder, however it is spelt, or one in the other's, or where the pattern
    of a source finds a sink."""
    known: dict[str, Operator] = {}
    for one in flow.operators:
        if not one.path or one.format == "table" or one.kind not in ("source", "sink"):
            continue
        try:
            at = f"{Folder(spark, one.path).whole_path.rstrip('/')}/"
        except EvenlyError as error:
            if one.format in FILES:
                raise flow.error(f"the path of {one.name!r} cannot be used: {error}", one) from error
            continue  # what another format calls a path need not be one
        for there, other in known.items():
            if "sink" not in (one.kind, other.kind):
                continue
            read = (one.kind == "source" and finds(at, there)) or (other.kind == "source" and finds(there, at))
            if not (read or at.startswith(there) or there.startswith(at)):
                continue
            how = "have the same path" if at == there else "have a path in the other's"
            raise flow.error(f"{other.name!r} and {one.name!r} {how}, {one.path}: give each its own", one)
        known[at] = one
