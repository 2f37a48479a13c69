"""What the batches of a query held, kept in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenly.measures.load import imbalance_pct

MOST_BATCHES = 10_000
MOST_BYTES = 32 * 2**20

_Counts = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch of a query: its number, and the version of the mapping it ran under.

    `read_rows` are the rows that each partition of the keyed stage has read from its shuffle, as Spark's own task metrics
    tell: what the instances really had to do. Rows that Spark combines before the shuffle (`count`, `sum`, …) are counted as
    combined. None where Spark does not tell: shuffles that cannot be told apart, no shuffle, or tasks that are forgotten.

    `mapped_rows` are the rows of the input by the instance that the mapping gives them.
    """

    number: int
    version: int
    mapped: _Counts
    read: _Counts | None = None

    @property
    def mapped_rows(self) -> tuple[int, ...]:
        return tuple(int(count) for count in self.mapped)

    @property
    def read_rows(self) -> tuple[int, ...] | None:
        return None if self.read is None else tuple(int(count) for count in self.read)

    @property
    def imbalance_pct(self) -> float | None:
        """λ of what the partitions have read; None where that is not known."""
        return None if self.read is None else imbalance_pct(self.read)

    @property
    def mapped_imbalance_pct(self) -> float:
        """λ of the input's rows as the mapping places them, whether or not the pipeline leaves them there."""
        return imbalance_pct(self.mapped)

    @property
    def bytes(self) -> int:
        return int(self.mapped.nbytes) + (0 if self.read is None else int(self.read.nbytes))


class BatchLog:
    """The last batches: at most 10,000, and at most 32 MiB of counts, whichever is less.

    A count takes as many bytes as the largest of its batch needs: with 1,000 instances and up to 65,535 rows in each, 32 MiB
    are 8,388 batches.
    """

    def __init__(self, *, most_batches: int = MOST_BATCHES, most_bytes: int = MOST_BYTES) -> None:
        self._most_batches, self._most_bytes = most_batches, most_bytes
        self._batches: deque[Batch] = deque()
        self.bytes = 0

    def add(self, number: int, version: int, mapped: Sequence[int] | NDArray[Any], read: Sequence[int] | None) -> Batch:
        """Remember a batch, and forget the oldest where there is no room."""
        batch = Batch(number, version, _compact(mapped), None if read is None else _compact(read))
        self._batches.append(batch)
        self.bytes += batch.bytes
        while len(self._batches) > self._most_batches or (self.bytes > self._most_bytes and len(self._batches) > 1):
            self.bytes -= self._batches.popleft().bytes
        return batch

    def all(self) -> tuple[Batch, ...]:
        """Those remembered, in order."""
        while True:
            try:
                return tuple(self._batches)
            except RuntimeError:  # another thread has added one meanwhile
                continue


def _compact(counts: Sequence[int] | NDArray[Any]) -> _Counts:
    whole = np.asarray(counts, np.uint64)
    return whole.astype(np.min_scalar_type(int(whole.max(initial=0))))
