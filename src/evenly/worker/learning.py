"""The keys of a partition, counted where they are: what a mapping is learnt from.

Compiled code takes a worker a second to load, and many more to compile where nothing keeps it from one worker to the next. A
sample of few different keys is counted key by key, which takes numpy and no more. Where they are many, a sketch bounds what is
kept and sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from evenly.kernels.types import F64, U64

LEARNT = "ids binary, weights binary, sketch binary"
"""The row of a partition, as Spark is told: ids and their weights, or a sketch."""
_ROWS_AT_ONCE = 2**18


@dataclass(frozen=True)
class PartitionLearner:
    """Gets the ids of keys and the weights of their rows, and gives one row for the partition, or none if it has no rows.

    Up to `most_keys` different keys are counted exactly. More go into the sketch of a DKG for `instances`, with this seed.
    """

    instances: int
    seed: int
    most_keys: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ids, weights = np.empty(0, np.uint64), np.empty(0)
        for more_ids, more_weights in _stretches(batches):
            ids, weights = counted(np.concatenate([ids, more_ids]), np.concatenate([weights, more_weights]))
            if ids.size > self.most_keys:
                yield self._sketched(ids, weights, batches)
                return
        if ids.size:
            yield _row(ids.tobytes(), weights.tobytes(), None)

    def _sketched(self, ids: U64, weights: F64, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        from evenly.keys.dkg import DKG  # noqa: PLC0415 - it loads compiled code

        learner = DKG.automatic(self.instances, seed=self.seed, ids="xxhash64").fit_ids(ids, weights)
        for more_ids, more_weights in _stretches(batches):
            learner.fit_ids(more_ids, more_weights)
        return _row(None, None, learner.to_bytes())


def counted(ids: U64, weights: F64) -> tuple[U64, F64]:
    """Each id once, with the weight of its rows."""
    distinct, at = np.unique(ids, return_inverse=True)
    sums: F64 = np.bincount(at, weights, distinct.size).astype(np.float64, copy=False)
    return distinct, sums


def _stretches(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[U64, F64]]:
    """The rows of several batches at a time, so that a sort pays; never all rows of a large partition."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(it.num_rows for it in held) >= _ROWS_AT_ONCE:
            yield _columns(held)
            held = []
    if held:
        yield _columns(held)


def _columns(held: list[pa.RecordBatch]) -> tuple[U64, F64]:
    table = pa.Table.from_batches(held)
    ids, weights = (np.require(column.to_numpy(), requirements=["C", "W"]) for column in table.columns)
    return ids.view(np.uint64), weights


def _row(ids: bytes | None, weights: bytes | None, sketch: bytes | None) -> pa.RecordBatch:
    columns = {"ids": ids, "weights": weights, "sketch": sketch}
    return pa.record_batch({name: pa.array([value], pa.binary()) for name, value in columns.items()})
