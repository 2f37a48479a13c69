"""The task that sends a partition, or the kept partitions of its files, through a paced queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

import pyarrow as pa

from evenly.emission.destinations.base import Destination
from evenly.emission.destinations.delivery import Pacing, Partition, deliver
from evenly.errors import DamagedData
from evenly.worker.engine import running_task

NUMBER_BITS = 33
"""Of an identity: those of a row's number within its partition."""
ArrowBatches = Iterator[pa.RecordBatch]
_ARROW_COUNTS = pa.schema(
    [
        *(("partition", pa.int32()), ("rows", pa.int64()), ("size_bytes", pa.int64())),
        *(("unasked", pa.int64()), ("most_waiting", pa.int64()), ("attempt", pa.int32())),
    ]
)


def sending_task(
    to: Destination, pacing: Pacing, sender: str, batch: int, *, kept: bool
) -> Callable[[ArrowBatches], ArrowBatches]:
    """Sends bodies in the order that they have or, `kept`, of two columns, the identities and the bodies; yields counts."""
    cut = _as_kept if kept else _as_it_comes

    def task(batches: ArrowBatches) -> ArrowBatches:
        context = running_task()
        at, attempt = (context.partitionId(), context.attemptNumber()) if context is not None else (0, 0)
        for number, bodies in cut(batches, at):
            done = deliver(bodies, to, Partition(sender, batch, number), pacing)
            counts = (number, *done, attempt)
            columns = [pa.array([one], kind) for one, kind in zip(counts, _ARROW_COUNTS.types, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=_ARROW_COUNTS)

    return task


def _as_it_comes(batches: ArrowBatches, at: int) -> Iterator[tuple[int, Iterator[bytes]]]:
    """One partition: that of the task."""
    yield at, (body for batch in batches for body in batch.column(0).to_pylist())


def _as_kept(batches: ArrowBatches, _: int) -> Iterator[tuple[int, Iterator[bytes]]]:
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
