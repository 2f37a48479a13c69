"""What a batch sends, kept beside its checkpoint until it is known to have been sent.

    <checkpoint>/evenly/sending/17/9f…/…  the bodies of batch 17, each with the partition and the number that it is sent under
    <checkpoint>/evenly/sending/17.json   the sender, this place, the folder above, and the name and length of every file in it

Nothing leaves before the second file is there, and everything is sent from the first. So a batch that is run again is sent as
the same rows under the same identities, whatever has changed since: the cores that Spark cuts its input by, settings, the
release of Spark, or an input that gives other rows, or the same in another order, when it is computed again.

Two runs of a batch at the same time (a job that its scheduler starts again while the first still lives) write to folders of
their own. The list is made once and never replaced: whoever makes it says what the batch is, and the other sends that too.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenly.errors import CheckpointMismatch, DamagedData, EvenlyError, UnwritableFile
from evenly.sealed import opened, sealed
from evenly.spark.jvm.hadoop_files import Folder, as_it_is
from evenly.spark.jvm.java_errors import Py4JError, Py4JJavaError
from evenly.spark.jvm.row_order import is_held_at_driver
from evenly.spark.sending.encoding import BODY

_LOG = logging.getLogger(__name__)
IDENTITY = "identity"
"""The column with partition and number of a row in one: partition · 2³³ + number."""
_KIND, _VERSION = "evenly-kept-batch", 1
_SUFFIX = ".json"
_DIGITS = 16
_LONGEST = 2**31 - 1
_NOT_KEPT = (EvenlyError, PySparkException, Py4JError)
_WRITING = {"compression": "lz4", "maxRecordsPerFile": "0"}
"""Spark cuts no file that is compressed in this way, so the rows of a partition are read by one task, in order."""
_NO_ROOM = re.compile(r"No space left on device|[Qq]uota (?:is )?exceeded|QuotaExceeded")
"""As systems say it, and HDFS."""
_READING = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


class KeptBatches:
    """The batches of one sender. `in_turn` says that numbers only grow, and that a batch begins when the one before is done."""

    def __init__(self, spark: SparkSession, checkpoint: str, *, in_turn: bool) -> None:
        self._spark = spark
        root = Folder(spark, checkpoint)
        self._folder = root.child("evenly").child("sending")
        self._at = root.resolved("evenly/sending")
        self._in_turn = in_turn

    def check_alone(self, sender: str) -> None:
        """Refuse a copy of a checkpoint whose original is still there, unless it has another sender.

        Both would send their next batches under the same identities, and a receiver drops what it takes for a double. A
        checkpoint that was moved, or is called by another path, is the same one.
        """
        batches = self._kept(self._folder.names())
        if not batches:
            return
        told = self._told(batches[-1])
        at = str(told.get("at", self._at))
        if told["sender"] != sender or at == self._at or not self._is_another(at, sender):
            return
        raise CheckpointMismatch(
            f"{self._at} is a copy of {at}, and both would send other rows under the identities of the sender {sender!r}, of "
            "which a receiver drops one: give this one a name of its own, sender=, or delete the other if nobody uses it"
        )

    def _is_another(self, at: str, sender: str) -> bool:
        """Whether this sender is still kept at another place, which is not this folder under another path."""
        mark = f"here-{uuid.uuid4().hex}"
        self._folder.write(mark, "")
        try:
            other = KeptBatches(self._spark, at.removesuffix("/evenly/sending"), in_turn=True)
            names = other._folder.names()
            batches = self._kept(names)
            return mark not in names and bool(batches) and other._told(batches[-1])["sender"] == sender
        except (EvenlyError, Py4JJavaError):  # nothing that can be read, so nothing that goes on
            return False
        finally:
            self._folder.remove(mark)

    def has(self, batch: int) -> bool:
        """Whether it is known what a batch sends."""
        return self._folder.has(f"{batch}{_SUFFIX}")

    def rows(self, encoded: DataFrame, sender: str, batch: int) -> DataFrame:
        """What batch `batch` sends, with identities: as it was kept when it was first run, or `encoded` if it never was."""
        run = self.written(encoded, batch, sender)
        try:
            return self.listed(run, sender, batch)
        except _NOT_KEPT:
            self.drop(run, batch)
            raise

    def written(self, encoded: DataFrame, batch: int, sender: str) -> str:
        """Write down what a batch may send: under which name. "" where it is known already what it sends."""
        if not self.has(batch):
            return self._write(encoded, batch)
        if self._in_turn:
            computed(encoded)
        else:
            _LOG.warning(
                "batch %d of %s was kept in %s when it was sent first: those rows are sent again, and not what the DataFrame "
                "has now; give other rows another batch=",
                *(batch, sender, self._path(batch)),
            )
        return ""

    def listed(self, run: str, sender: str, batch: int) -> DataFrame:
        """What a batch sends, with identities: what was written under the name `run`, if nothing else is known."""
        if run and not self.has(batch):
            self._list(run, sender, batch)
        rows = as_it_is(f"{self._path(batch)}/{self._checked(sender, batch)}")
        lines = self._spark.read.schema("value string").options(**_READING).text(rows)
        number = F.conv(F.substring("value", 1, _DIGITS), 16, 10).cast("bigint")
        return lines.select(number.alias(IDENTITY), F.unbase64(F.substring("value", _DIGITS + 1, _LONGEST)).alias(BODY))

    def _write(self, encoded: DataFrame, batch: int) -> str:
        self._in_order(self._folder.names(), batch)
        identity = F.lpad(F.hex(F.monotonically_increasing_id()), _DIGITS, "0")
        body = F.replace(F.base64(BODY), F.lit("\r\n"), F.lit(""))
        if is_held_at_driver(encoded):
            # Spark would give these rows their numbers at the driver, as if of one partition, and then cut them into several.
            encoded = encoded.coalesce(1)
        run = uuid.uuid4().hex[:12]
        try:
            with self._room(batch):
                encoded.select(F.concat(identity, body)).write.options(**_WRITING).text(f"{self._path(batch)}/{run}")
        except _NOT_KEPT:
            self.drop(run, batch)
            raise
        return run

    def _list(self, run: str, sender: str, batch: int) -> None:
        there = self._folder.child(str(batch))
        if not there.has(run):
            raise DamagedData(f"what batch {batch} is to send is not in {there.path}/{run} any more: restore it")
        with self._room(batch):
            told = {"sender": sender, "batch": batch, "at": self._at, "rows": run, "files": _files(there.child(run))}
            made = self._folder.make(f"{batch}{_SUFFIX}", sealed(told, kind=_KIND, version=_VERSION))
        if not made:
            _LOG.warning("another run of batch %d has kept its rows in %s meanwhile: those are sent", batch, there.path)
            there.remove(run)
        names = self._folder.names()
        try:
            kept = self._in_order(names, batch)
        except CheckpointMismatch:
            # Another application has sent this batch and gone on, and then removed what it had kept of it.
            self._folder.remove(f"{batch}{_SUFFIX}")
            self._folder.remove(str(batch))
            raise
        # Folders without a list too: whoever removed the list may have been killed before the rows.
        for older in kept if self._in_turn else ():
            if older < batch:
                self._folder.remove(f"{older}{_SUFFIX}")
        for name in names if self._in_turn else ():
            if name.isdigit() and int(name) < batch:
                self._folder.remove(name)

    @contextmanager
    def _room(self, batch: int) -> Iterator[None]:
        """A full disk is told as such."""
        try:
            yield
        except _NOT_KEPT as error:
            if (full := _NO_ROOM.search(_with_causes(error))) is None:
                raise
            raise UnwritableFile(
                f"the rows of batch {batch} cannot be kept in {self._path(batch)} ({full.group()}), so none of them was sent: "
                "see that there is room for them there, and for Spark's own files"
            ) from error

    def drop(self, run: str, batch: int) -> None:
        """Remove what was written under this name and is not listed: each run that is tried on a full disk would leave it
        fuller."""
        try:
            if run and not self.has(batch):  # else it may be the one that is listed, whatever was said
                self._folder.child(str(batch)).remove(run)
        except (EvenlyError, Py4JError) as error:
            _LOG.debug("%s: rows that are not listed stay: %s", self._path(batch), error)

    def _in_order(self, names: list[str], batch: int) -> list[int]:
        """The batches that are kept, none of them a later one than `batch` where they are sent in turn."""
        kept = self._kept(names)
        if self._in_turn and kept and kept[-1] > batch:
            raise CheckpointMismatch(
                f"batch {batch} is to be sent after batch {kept[-1]}, and how it was cut when it was sent first is not known "
                f"any more ({self._folder.path}): start with a new checkpoint and, if you name it, a new sender"
            )
        return kept

    @staticmethod
    def _kept(names: list[str]) -> list[int]:
        return sorted(int(name.removesuffix(_SUFFIX)) for name in names if re.fullmatch(r"\d+\.json", name))

    def _told(self, batch: int) -> dict[str, Any]:
        """What the list of a batch says."""
        source = f"{self._folder.path}/{batch}{_SUFFIX}"
        try:
            text = self._folder.read(f"{batch}{_SUFFIX}")
        except Py4JJavaError as error:
            raise DamagedData(f"{source} cannot be read: {error.java_exception.toString()}") from error
        return opened(text, kind=_KIND, version=_VERSION, what="batch", source=source)

    def _checked(self, sender: str, batch: int) -> str:
        """The name of the folder that has the rows, which are all there."""
        source = f"{self._folder.path}/{batch}{_SUFFIX}"
        told = self._told(batch)
        if told["sender"] != sender:
            raise CheckpointMismatch(
                f"batch {batch} was begun by the sender {told['sender']!r}, not {sender!r} ({source}): send it under that name "
                "to repeat it, or give other rows another batch or folder"
            )
        rows = str(told.get("rows", ""))
        if told["files"] != _files(self._folder.child(str(batch)).child(rows)):
            raise DamagedData(
                f"the rows of batch {batch} in {self._path(batch)} are not those that were kept there: some may have been "
                "sent, so they are not made anew; restore them"
            )
        return rows

    def _path(self, batch: int) -> str:
        return f"{self._folder.path}/{batch}"


def computed(rows: DataFrame) -> None:
    """Compute rows that nobody takes: a stream's state and its watermark go on from what a run of a batch has seen."""
    rows.write.format("noop").mode("overwrite").save()


def _with_causes(error: BaseException | None) -> str:
    """All that is said, also in the errors of Java that Spark does not print."""
    texts = []
    while error is not None:
        texts.append(str(error))
        error = getattr(error, "_cause", None) or error.__cause__
    return "\n".join(texts)


def _files(folder: Folder) -> dict[str, int]:
    """The files of rows in a folder, and their bytes."""
    return {name: size for name, size in folder.sizes_bytes().items() if not name.startswith("_")}
