"""A mapping from what partitions have learnt, each apart, and what to expect of it, from rows that were held back once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from evenly.kernels.types import F64, U64
from evenly.keys.dkg import DKG, KeyCounts
from evenly.keys.expectation import Weighed, expectation
from evenly.keys.mapping import Mapping
from evenly.measures.load import instance_loads

_MOST_KEYS_HELD_BACK = 500_000


@dataclass(frozen=True)
class Squares:
    """The sums of the squares of rows' weights: of all rows, and of the later ones. What they stand for is in the weights."""

    whole: float
    later: float


class LearntPartition(Protocol):
    """The rows of a partition, earlier and later ones apart."""

    @property
    def squares(self) -> Squares:
        """How many rows that was learnt from, in effect."""

    @property
    def weight(self) -> float:
        """How many rows there are."""

    @property
    def keys(self) -> int:
        """How many keys are counted one by one."""

    def teach(self, learner: DKG, *, earlier: bool = False) -> None:
        """All rows, or the earlier ones."""

    def loads(self, mapping: Mapping, *, later: bool = False) -> F64:
        """What all rows, or the later ones, are to each instance."""


@dataclass(frozen=True)
class CountedPartition:
    """Each key once: the weight of its rows, and the share of that which came later."""

    ids: U64
    weights: F64
    later: F64
    squares: Squares

    @property
    def weight(self) -> float:
        """How many rows there are."""
        return float(self.weights.sum())

    @property
    def keys(self) -> int:
        """How many keys are counted one by one."""
        return self.ids.size

    def teach(self, learner: DKG, *, earlier: bool = False) -> None:
        """All rows, or the earlier ones."""
        weights = self.weights * (1.0 - self.later) if earlier else self.weights
        heaviest_first = np.argsort(-weights, kind="stable")  # so that they are counted from their first row on
        learner.fit_ids(self.ids[heaviest_first], weights[heaviest_first])

    def loads(self, mapping: Mapping, *, later: bool = False) -> F64:
        """What all rows, or the later ones, are to each instance."""
        return instance_loads(
            mapping.assign_ids(self.ids), mapping.instances, self.weights * self.later if later else self.weights
        )


@dataclass(frozen=True)
class SketchedPartition:
    """A learner with the parameters of those that it is to teach, and what of its rows came later."""

    learner: DKG
    later: KeyCounts
    squares: Squares

    @property
    def weight(self) -> float:
        """How many rows there are."""
        return self.learner.total

    @property
    def keys(self) -> int:
        """How many keys are counted one by one."""
        return self.learner.counters

    def teach(self, learner: DKG, *, earlier: bool = False) -> None:
        """All rows, or the earlier ones."""
        if not earlier:
            learner.merge(self.learner)
            return
        whole = self.learner.counts()
        ids, at = np.unique(np.concatenate([whole.ids, self.later.ids]), return_inverse=True)
        counts = instance_loads(at, ids.size, np.concatenate([whole.counts, -self.later.counts]))
        buckets = np.maximum(whole.buckets - self.later.buckets, 0.0)
        left = counts > 0.0
        learner.fit_counts(KeyCounts(buckets, ids[left], counts[left]))

    def loads(self, mapping: Mapping, *, later: bool = False) -> F64:
        """What all rows, or the later ones, are to each instance."""
        counts = self.later if later else self.learner.counts()
        own = np.minimum(counts.counts, counts.buckets[self.learner.buckets_of(counts.ids)])
        of_keys = instance_loads(mapping.assign_ids(counts.ids), mapping.instances, own)
        left = counts.buckets - instance_loads(self.learner.buckets_of(counts.ids), counts.buckets.size, own)
        return of_keys + instance_loads(mapping.buckets, mapping.instances, np.maximum(left, 0.0))


def learnt_mapping(
    partitions: Sequence[LearntPartition], learner: Callable[[], DKG], *, columns: tuple[str, ...] = ()
) -> Mapping:
    """The mapping that all rows make, with what to expect of new rows.

    Nothing says which rows came first. So rows are held back in both orders there are: the later rows of every partition
    against the earlier ones, and the last partitions against the first.
    """
    whole = learner()
    cut = _middle([one.weight for one in partitions])
    of_first: Mapping | None = None
    for number, one in enumerate(partitions):
        if number == cut > 0:
            of_first = whole.mapping()
        one.teach(whole)
    mapping = whole.mapping(columns=columns)
    if not partitions:
        return mapping
    seen = Weighed.of(mapping.fitted_loads, sum(one.squares.whole for one in partitions))
    held_back = [_later(_some(partitions), learner())]
    if of_first is not None:
        last = _some(partitions[cut:])
        loads = np.sum([one.loads(of_first) for one in last], axis=0)
        held_back.append(Weighed.of(loads, sum(one.squares.whole for one in last)))
    return replace(mapping, expectation=expectation(seen, held_back, new_rows=whole.total))


def _later(partitions: Sequence[LearntPartition], learner: DKG) -> Weighed:
    """The later rows of all partitions, under the mapping of the earlier ones."""
    for one in partitions:
        one.teach(learner, earlier=True)
    mapping = learner.mapping()
    loads = np.sum([one.loads(mapping, later=True) for one in partitions], axis=0)
    return Weighed.of(loads, sum(one.squares.later for one in partitions))


def _some(partitions: Sequence[LearntPartition]) -> list[LearntPartition]:
    """Those whose rows are held back, at even distances: enough to tell by, so that not all is learnt twice."""
    return list(partitions[:: 1 + sum(one.keys for one in partitions) // _MOST_KEYS_HELD_BACK])


def _middle(weights: Sequence[float]) -> int:
    """Where the last partitions begin, so that both sides are as near to a half as they can be. 0 if there is one partition."""
    passed = np.cumsum(weights)
    return 0 if len(weights) < 2 else 1 + int(np.abs(passed[:-1] - passed[-1] / 2.0).argmin())
