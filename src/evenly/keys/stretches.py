"""Rows of one batch, or of several in a row, by key: λ that any mapping would give them, and what of them was no burst."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evenly.kernels import hashing
from evenly.kernels.types import F64, I32, U64
from evenly.keys.dkg import DKG, KeyCounts
from evenly.keys.mapping import Mapping
from evenly.measures.load import imbalance_pct, instance_loads

_BURST_DEVIATIONS = 3.0
_BURST_SHARE = 0.25


def sample_for(instances: int, imbalance_pct: float) -> float:
    """How many rows have a λ of about `imbalance_pct` by chance alone, though every instance is as likely as any other."""
    return 2.0 * math.log(max(instances, 2)) * instances / (imbalance_pct / 100.0) ** 2


def chance_pct(instances: int, rows: float) -> float:
    """The λ that so many rows have by chance alone, though every instance is as likely as any other."""
    return math.sqrt(sample_for(instances, 1.0) / max(rows, 1.0))


@dataclass(frozen=True, eq=False)
class Stretch:
    """What was counted of batches in a row. `seconds` is how long they took together; None where that is not known.

    Of a key that was not counted by itself λ is told as if it were where its bucket is.
    """

    counts: KeyCounts
    batches: int = 1
    seconds: float | None = None

    @cached_property
    def rows(self) -> float:
        """How many rows there were."""
        return float(self.counts.buckets.sum())

    def with_next(self, other: Stretch) -> Stretch:
        """This one and the one after it as one."""
        ids, at = np.unique(np.concatenate([self.counts.ids, other.counts.ids]), return_inverse=True)
        counts = instance_loads(at, ids.size, np.concatenate([self.counts.counts, other.counts.counts]))
        known = self.seconds is not None and other.seconds is not None
        return Stretch(
            KeyCounts(self.counts.buckets + other.counts.buckets, ids, counts),
            self.batches + other.batches,
            (self.seconds or 0.0) + (other.seconds or 0.0) if known else None,
        )

    def least_pct(self, instances: int) -> float:
        """The least λ of these rows that any mapping of whole keys can have: the heaviest key needs an instance to itself."""
        heaviest = float(self.counts.counts.max(initial=0.0))
        return max(0.0, 100.0 * (heaviest * instances / max(self.rows, 1.0) - 1.0))

    def imbalance_pct(self, mapping: Mapping) -> float:
        """λ of these rows under a mapping with the buckets that they were counted in."""
        own, left = self._parted(mapping)
        loads = instance_loads(mapping.assign_ids(self.counts.ids), mapping.instances, own)
        loads += instance_loads(mapping.buckets, mapping.instances, left)
        return imbalance_pct(loads, mapping.capacities)

    def _parted(self, mapping: Mapping) -> tuple[F64, F64]:
        """The rows of each key that was counted by itself, and what is left in the buckets."""
        parted: tuple[F64, F64] | None = self.__dict__.get("_parts")
        if parted is None:
            at = _buckets_of(self.counts.ids, mapping)
            own = np.minimum(self.counts.counts, self.counts.buckets[at])
            left = np.maximum(self.counts.buckets - instance_loads(at, self.counts.buckets.size, own), 0.0)
            parted = self.__dict__["_parts"] = (own, left)
        return parted


def steady_counts(stretches: Sequence[Stretch], learner: DKG) -> KeyCounts:
    """The rows of all stretches, each weighing the same, without what came in bursts; as many keys as `learner` counts.

    A key came in bursts if its mean exceeds its (lower) median by more than a quarter, and by more than chance explains. Then
    it counts for its median, and the rest is in no bucket: a key that comes and goes gets no place by what it had when it
    came. Of a key that was not told of a stretch nothing is known but that it had less than the least that was told.
    """
    mean = float(np.mean([it.rows for it in stretches]))
    scale = np.array([mean / max(it.rows, 1.0) for it in stretches])
    ids = np.unique(np.concatenate([it.counts.ids for it in stretches]))
    told = np.zeros((len(stretches), ids.size))
    most = np.zeros((len(stretches), ids.size))
    for row, stretch in enumerate(stretches):
        at = np.searchsorted(ids, stretch.counts.ids)
        told[row] = np.bincount(at, stretch.counts.counts, ids.size) * scale[row]
        least = float(stretch.counts.counts.min(initial=math.inf)) if stretch.counts.ids.size else 0.0
        most[row] = np.where(told[row] > 0.0, told[row], least * scale[row])
    weights = told.mean(axis=0)
    middle = np.sort(most, axis=0)[(len(stretches) - 1) // 2]
    beyond = np.maximum(_BURST_DEVIATIONS * np.sqrt(np.maximum(weights, 1.0)), _BURST_SHARE * weights)
    bursts = np.where(weights - middle > beyond, weights - middle, 0.0)
    buckets = np.mean([it.counts.buckets * by for it, by in zip(stretches, scale, strict=True)], axis=0)
    buckets = np.maximum(buckets - np.bincount(learner.buckets_of(ids), bursts, buckets.size), 0.0)
    heaviest = np.argsort(-(weights - bursts), kind="stable")[: learner.counters]
    return KeyCounts(buckets * len(stretches), ids[heaviest], (weights - bursts)[heaviest] * len(stretches))


def _buckets_of(ids: U64, mapping: Mapping) -> I32:
    return hashing.to_buckets(ids, np.uint64(mapping.a), np.uint64(mapping.b), np.uint64(mapping.buckets.size))
