"""Rows of many keys as few values of Spark's, and results likewise.

Spark hands rows to a processor one by one, and takes each of their values from Arrow by itself: that takes longer than most
functions do. So before the shuffle the rows of a bucket are made one value, and after the processor its results are made rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from evenly.errors import InvalidResult, SparkFailed
from evenly.worker.settled import settle

PACKED = "packed"
_HELD_BYTES = 4 * 2**20
"""Rows are held until there are so many bytes, so that packs are fewer than batches of Arrow times buckets."""

Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def packing(sent: pa.Schema) -> Batches:
    """For `mapInArrow` over rows with a bucket, a slot and the columns `sent`: bucket, slot, and all rows of that as one value.

    Rows keep their order.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(it.nbytes for it in held) >= _HELD_BYTES:
                yield from _packed(held, sent)
                held = []
        yield from _packed(held, sent)

    return run


def _packed(held: list[pa.RecordBatch], sent: pa.Schema) -> Iterator[pa.RecordBatch]:
    if not sum(it.num_rows for it in held):
        return
    if held[0].schema.names[2:] != sent.names:
        raise SparkFailed(f"Spark gives the columns {held[0].schema.names[2:]} where {sent.names} are to come")
    bucket, slot, *columns = pa.Table.from_batches(held).combine_chunks().columns
    buckets, slots = (it.to_numpy().astype(np.int64) for it in (bucket, slot))
    groups = (buckets << 32) | (slots & 0xFFFFFFFF)
    order = np.argsort(groups, kind="stable")
    sorted_groups = groups[order]
    begins = np.flatnonzero(np.concatenate(([True], sorted_groups[1:] != sorted_groups[:-1])))
    # The session's time zone may be another one by now than that of the start, which counts.
    rows = one_batch(pa.table(columns, names=sent.names).cast(sent).take(pa.array(order)))
    if rows is None:
        raise InvalidResult("rows of one batch take over 2 GiB: set spark.sql.execution.arrow.maxRecordsPerBatch lower")
    ends = [*begins[1:].tolist(), len(order)]
    packs = [rows.slice(begin, end - begin).serialize().to_pybytes() for begin, end in zip(begins.tolist(), ends, strict=True)]
    firsts = order[begins]
    yield pa.record_batch(
        [
            pa.array(buckets[firsts], held[0].schema.types[0]),
            pa.array(slots[firsts], held[0].schema.types[1]),
            pa.array(packs, pa.binary()),
        ],
        names=[*held[0].schema.names[:2], PACKED],
    )


def unpacked(schema: pa.Schema) -> Batches:
    """For `mapInArrow`: the results that were packed for each bucket, as rows."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            for packed in batch.column(0):
                yield pa.ipc.read_record_batch(pa.py_buffer(packed.as_py()), schema)

    return run


def one_batch(table: pa.Table) -> pa.RecordBatch | None:
    """A table as one batch; None if Arrow cannot hold it in one."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if len(batches) == 1 else None
