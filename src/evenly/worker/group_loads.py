"""What groups are expected to take, summed up where their rows are counted: the longest one by one, and all by bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from evenly.costs.group_times import GroupEstimates
from evenly.kernels.types import F64, I64

LOADS = "ids binary, weights binary, rows binary, at binary, buckets binary"
"""The row of a partition, as Spark is told: ids of its longest groups, all their estimates and their rows, the buckets that
have groups, and all sums of each."""
_NAMES = ("ids", "weights", "rows", "at", "buckets")


@dataclass(frozen=True)
class GroupLoads:
    """Gets ids and rows of groups, each group once, and gives one row for the partition, or none if it has no groups.

    By each estimate the `most` longest groups are told. Held at a time: one batch, the longest, and the sums of the buckets.
    """

    estimates: GroupEstimates
    buckets: int
    most: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        guesses = self.estimates.guesses
        sums, groups = np.zeros((guesses, self.buckets)), np.zeros(self.buckets, np.int64)
        longest = np.empty(0, np.int64), np.empty((guesses, 0)), np.empty(0, np.int64)
        for batch in batches:
            if batch.num_rows == 0:
                continue
            ids, rows = (np.asarray(column.to_numpy(zero_copy_only=False), np.int64) for column in batch.columns)
            taken = self.estimates.seconds_of(ids, rows)
            bucket = (ids.view(np.uint64) % np.uint64(self.buckets)).astype(np.int64)
            groups += np.bincount(bucket, minlength=self.buckets)
            for guess in range(guesses):
                sums[guess] += np.bincount(bucket, taken[guess], self.buckets)
            longest = self.longest(
                np.concatenate([longest[0], ids]),
                np.concatenate([longest[1], taken], axis=1),
                np.concatenate([longest[2], rows]),
            )
        at = np.flatnonzero(groups)
        if at.size:
            values: tuple[NDArray[Any], ...] = *longest, at.astype(np.int32), sums[:, at]
            yield pa.record_batch({name: pa.array([value.tobytes()]) for name, value in zip(_NAMES, values, strict=True)})

    def longest(self, ids: I64, taken: F64, rows: I64) -> tuple[I64, F64, I64]:
        """Of these groups, those that are among the `most` longest by one of the estimates."""
        if ids.size <= self.most:
            return ids, taken, rows
        keep = np.zeros(ids.size, np.bool_)
        for row in taken:
            keep[np.argpartition(-row, self.most - 1)[: self.most]] = True
        return ids[keep], taken[:, keep], rows[keep]
