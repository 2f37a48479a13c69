"""The keys of a partition, counted where they are: what a mapping is learnt from, and what it is held against.

Compiled code takes a worker a second to load, and many more to compile where nothing keeps it from one worker to the next. A
sample of few different keys is counted key by key, which takes numpy and no more. Where they are many, a sketch bounds what is
kept and sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from evenly.kernels.types import F64, U64
from evenly.keys.later_rows import LaterRows

if TYPE_CHECKING:
    from evenly.keys.dkg import DKG  # it loads compiled code

_COLUMNS = {
    "ids": pa.binary(),
    "weights": pa.binary(),
    "later": pa.binary(),
    "sketch": pa.binary(),
    "squares": pa.float64(),
    "later_squares": pa.float64(),
}
LEARNT = ", ".join(f"{name} {'binary' if kind == pa.binary() else 'double'}" for name, kind in _COLUMNS.items())
"""The row of a partition, as Spark is told: ids, their weights, and the share of each that came later (float32). Or a sketch,
the share of each of its buckets that came later, and ids with what they weighed in later rows. `squares` are sums of the
squares of rows' weights."""
_ROWS_AT_ONCE = 2**18
_TOLD = 0.25
"""Keys below this part of what makes a key heavy are told by their buckets alone."""


@dataclass(frozen=True)
class Counts:
    """Each id once with the weight of its rows, and the sum of the squares of the rows' weights."""

    ids: U64
    weights: F64
    squares: float


_NOTHING = Counts(np.empty(0, np.uint64), np.empty(0), 0.0)


@dataclass(frozen=True)
class Sketched:
    """The same of many keys."""

    learner: DKG
    squares: float


@dataclass(frozen=True)
class PartitionLearner:
    """Gets the ids of keys and the weights of their rows, and gives one row for the partition, or none if it has no rows.

    Up to `most_keys` different keys are counted exactly. More go into the sketches of a DKG for `instances`, with this seed.
    """

    instances: int
    seed: int
    most_keys: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = LaterRows(_joined)
        for ids, weights in _stretches(batches):
            _add(rows, ids, weights)
            if max((part.ids.size for part in rows.parts), default=0) > self.most_keys:
                yield self._sketched(rows, batches)
                return
        earlier, later = rows.cut()
        if earlier is None:
            return
        later = _NOTHING if later is None else later
        whole = _joined(earlier, later)
        if whole.ids.size > self.most_keys:
            yield self._sketched(rows, batches)
            return
        share = np.zeros(whole.ids.size, np.float32)
        at = np.searchsorted(whole.ids, later.ids)
        share[at] = later.weights / whole.weights[at]
        yield _row(
            ids=whole.ids.tobytes(),
            weights=whole.weights.tobytes(),
            later=share.tobytes(),
            squares=whole.squares,
            later_squares=later.squares,
        )

    def _sketched(self, counted: LaterRows[Counts], batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        whole = self._sketch(_NOTHING)
        for part in counted.parts:
            whole = self._added(whole, part)
        rows = counted.mapped(self._sketch, _merged, earliest=False)
        for ids, weights in _stretches(batches):
            for more_ids, more_weights in _fitting(rows, ids, weights):
                part = Counts(more_ids, more_weights, float(np.square(more_weights).sum()))
                whole = self._added(whole, part)
                rows.add(self._sketch(part), float(more_weights.sum()))
        later = rows.cut()[1] or self._sketch(_NOTHING)
        counts = later.learner.counts()
        heavy = counts.counts >= _TOLD * later.learner.theta * later.learner.total
        buckets = whole.learner.counts().buckets
        share = np.divide(counts.buckets, buckets, out=np.zeros(buckets.size), where=buckets > 0.0)
        return _row(
            ids=counts.ids[heavy].tobytes(),
            weights=counts.counts[heavy].tobytes(),
            later=share.astype(np.float32).tobytes(),
            sketch=whole.learner.to_bytes(),
            squares=whole.squares,
            later_squares=later.squares,
        )

    def _added(self, whole: Sketched, part: Counts) -> Sketched:
        return Sketched(whole.learner.fit_ids(part.ids, part.weights), whole.squares + part.squares)

    def _sketch(self, part: Counts) -> Sketched:
        from evenly.keys.dkg import DKG  # noqa: PLC0415 - it loads compiled code

        learner = DKG.automatic(self.instances, seed=self.seed, ids="xxhash64")
        return Sketched(learner.fit_ids(part.ids, part.weights), part.squares)


def _add(rows: LaterRows[Counts], ids: U64, weights: F64) -> None:
    for more_ids, more_weights in _fitting(rows, ids, weights):
        part = Counts(*counted(more_ids, more_weights), float(np.square(more_weights).sum()))
        rows.add(part, float(more_weights.sum()))


def _fitting(rows: LaterRows[Any], ids: U64, weights: F64) -> Iterator[tuple[U64, F64]]:
    """A stretch in pieces that there is room for, each added before the next is asked for; the first ever is a half of it."""
    grown = np.cumsum(weights)
    at = 0
    while at < ids.size:
        before = float(grown[at - 1]) if at else 0.0
        room = rows.room or float(grown[-1]) / 2.0
        end = max(at + 1, int(np.searchsorted(grown, before + room, side="right")))
        yield ids[at:end], weights[at:end]
        at = end


def counted(ids: U64, weights: F64) -> tuple[U64, F64]:
    """Each id once, with the weight of its rows."""
    distinct, at = np.unique(ids, return_inverse=True)
    sums: F64 = np.bincount(at, weights, distinct.size).astype(np.float64, copy=False)
    return distinct, sums


def _joined(earlier: Counts, later: Counts) -> Counts:
    ids, weights = np.concatenate([earlier.ids, later.ids]), np.concatenate([earlier.weights, later.weights])
    return Counts(*counted(ids, weights), earlier.squares + later.squares)


def _merged(earlier: Sketched, later: Sketched) -> Sketched:
    return Sketched(earlier.learner.merge(later.learner), earlier.squares + later.squares)


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


def _row(**values: bytes | float | None) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array([values.get(name)], kind) for name, kind in _COLUMNS.items()})
