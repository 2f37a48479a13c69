"""A recorded or generated stream through the drift controller, batch by batch, without Spark: what each change was worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenly.errors import InvalidParameter
from evenly.kernels.types import F64, U64
from evenly.keys.controller import BatchLoad, DriftController
from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.keys.told import Told
from evenly.measures.load import imbalance_pct, instance_loads

AFTER = 10
"""In how many batches after a change it is judged."""


class KeyedBatch(NamedTuple):
    """The different keys of a batch, and how many rows each has."""

    ids: U64
    counts: F64

    @classmethod
    def of(cls, ids: U64) -> KeyedBatch:
        """A batch of rows with these ids of keys."""
        keys, counts = np.unique(ids, return_counts=True)
        return cls(keys, counts.astype(np.float64))

    def imbalance_pct(self, mapping: Mapping) -> float:
        """λ of the batch under a mapping, of every row."""
        return imbalance_pct(self.loads(mapping))

    def loads(self, mapping: Mapping) -> F64:
        """The rows of each instance."""
        return instance_loads(mapping.assign_ids(self.ids), mapping.instances, self.counts)


@dataclass(frozen=True)
class JudgedChange:
    """A change after batch `batch`: mean λ before it, as promised, and in the ten batches after it (`batches`, if fewer came).

    `kept_pct` is what the mapping before would have had in these, `ideal_pct` what one that was learnt from them has.
    """

    batch: int
    before_pct: float
    promised_pct: float
    after_pct: float
    kept_pct: float
    ideal_pct: float
    moved_load_pct: float
    batches: int

    @property
    def gain(self) -> float:
        """By how many points it has lowered λ, against the mapping before."""
        return self.kept_pct - self.after_pct


@dataclass(frozen=True)
class Controlled:
    """What the controller did: λ of each batch with it, and with the first mapping kept, and each change.

    A change that no batch followed is in no list: there is nothing to judge it by. `last` says how many such there are.
    """

    imbalances_pct: F64
    kept_pct: F64
    changes: tuple[JudgedChange, ...]
    last: int


def learnt_from(batches: Sequence[KeyedBatch], instances: int) -> Mapping:
    """A mapping learnt from all rows of these batches."""
    learner = DKG.automatic(instances, ids="xxhash64")
    for batch in batches:
        learner.fit_ids(batch.ids, batch.counts)
    return learner.mapping()


def controlled(
    batches: Sequence[KeyedBatch], instances: int, *, first: int = 2, batch_s: float | None = None, budget_pct: float = 5.0
) -> Controlled:
    """Replay batches through a new controller, told as much of each as it is told on Spark.

    The first mapping is learnt from the first `first` batches; 0 begins by hash. A change comes into force at once.
    `batch_s` is how long a batch takes, if that is to be weighed.
    """
    if not 0 <= first < len(batches):
        raise InvalidParameter(f"first must be from 0 to {len(batches) - 1}, of {len(batches)} batches, got {first}")
    begun = learnt_from(batches[:first], instances)
    controller = DriftController(begun, budget_pct=budget_pct)
    learner, changes, last = controller.learner, [], 0
    told = Told.of(learner, instances=instances)
    found, kept = [], []
    for number, batch in enumerate(batches[first:], first):
        in_force = controller.mapping
        found.append(batch.imbalance_pct(in_force))
        kept.append(batch.imbalance_pct(begun))
        load = BatchLoad(batch.loads(in_force), told.counts(batch.ids, batch.counts, learner), batch_s)
        decision = controller.observe(load)
        if decision.mapping is None:
            continue
        controller.changed(decision.mapping, expected_pct=decision.expected_pct)
        following = batches[number + 1 : number + 1 + AFTER]
        last += not following
        if following:
            ways = (decision.mapping, in_force, learnt_from(following, instances))
            after, before, ideal = (float(np.mean([it.imbalance_pct(way) for it in following])) for way in ways)
            changes.append(
                JudgedChange(
                    number,
                    decision.now_pct,
                    decision.expected_pct,
                    after,
                    before,
                    ideal,
                    decision.moved_load_pct,
                    len(following),
                )
            )
    return Controlled(np.array(found), np.array(kept), tuple(changes), last)
