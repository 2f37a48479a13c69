"""The job that sends: one task a partition, each through a paced queue, and what they have sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from evenly.emission.destinations.base import Destination
from evenly.emission.destinations.delivery import Pacing, Partition, deliver
from evenly.errors import DamagedData, InvalidParameter
from evenly.spark.sink.kept import IDENTITY, NUMBER_BITS
from evenly.spark.worker_errors import worker_errors

Batches = Iterator[pa.RecordBatch]
_COUNTS = "partition int, rows bigint, size_bytes bigint, unasked bigint, attempt int"
_ARROW_COUNTS = pa.schema(
    [
        *(("partition", pa.int32()), ("rows", pa.int64()), ("size_bytes", pa.int64())),
        *(("unasked", pa.int64()), ("attempt", pa.int32())),
    ]
)
_SENDER = re.compile(r"[!-.0-~]{1,128}")


@dataclass(frozen=True)
class TaskSent:
    """What was sent of one partition, and at which attempt: `unasked` are those that the policy had not asked for."""

    partition: int
    rows: int
    size_bytes: int
    unasked: int
    attempt: int


@dataclass(frozen=True)
class Sent:
    """What `send` has sent: by whom, as which batch, and by which task."""

    sender: str
    batch: int
    tasks: tuple[TaskSent, ...]

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(task.rows for task in self.tasks)


def checked_sender(sender: str) -> str:
    """A name that fits in a line and in a header."""
    if not isinstance(sender, str) or not _SENDER.fullmatch(sender):
        raise InvalidParameter(f"sender must be 1 to 128 characters of ASCII without spaces and slashes, got {sender!r}")
    return sender


def send_bodies(encoded: DataFrame, to: Destination, pacing: Pacing, *, sender: str, batch: int) -> Sent:
    """Send what `encoded` has: bodies in the order that they have, or with a first column the identities that were kept.

    An error of ours in a task is raised as such.
    """
    cut = _as_kept if IDENTITY in encoded.columns else _as_it_comes

    def task(batches: Batches) -> Batches:
        context = TaskContext.get()
        at, attempt = (context.partitionId(), context.attemptNumber()) if context is not None else (0, 0)
        for number, bodies in cut(batches, at):
            done = deliver(bodies, to, Partition(sender, batch, number), pacing)
            counts = (number, *done, attempt)
            columns = [pa.array([one], kind) for one, kind in zip(counts, _ARROW_COUNTS.types, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=_ARROW_COUNTS)

    with worker_errors():
        told = encoded.mapInArrow(task, _COUNTS).collect()
    return Sent(sender, batch, tuple(sorted((TaskSent(*row) for row in told), key=lambda task: task.partition)))


def _as_it_comes(batches: Batches, at: int) -> Iterator[tuple[int, Iterator[bytes]]]:
    """One partition: that of the task."""
    yield at, (body for batch in batches for body in batch.column(0).to_pylist())


def _as_kept(batches: Batches, _: int) -> Iterator[tuple[int, Iterator[bytes]]]:
    """The partitions that the files of this task have, one after the other; a task may read several files."""
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    for partition, own in groupby(rows, lambda row: row[0] >> NUMBER_BITS):
        yield partition, _consecutive(own, partition)


def _consecutive(rows: Iterator[tuple[int, bytes]], partition: int) -> Iterator[bytes]:
    for number, (identity, body) in enumerate(rows):
        if identity != (partition << NUMBER_BITS) + number:
            raise DamagedData(
                f"row {number} of partition {partition} is not in its place in the files that were kept: restore them"
            )
        yield body
