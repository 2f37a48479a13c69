"""A mapping from what was counted of rows, and what to expect of it, from rows that were held back once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenly.kernels.types import F64
from evenly.keys.dkg import DKG, KeyCounts
from evenly.keys.expectation import Weighed, expectation
from evenly.keys.mapping import Mapping
from evenly.measures.load import instance_loads


@dataclass(frozen=True)
class CountedRows:
    """Rows that were counted, in the buckets of a learner, and the sum of the squares of their weights.

    What they stand for is in the weights; the squares say how many rows that was measured on.
    """

    counts: KeyCounts
    squares: float

    @property
    def weight(self) -> float:
        """How many rows there are."""
        return float(self.counts.buckets.sum())

    def loads(self, mapping: Mapping, learner: DKG) -> F64:
        """What these rows are to each instance of a mapping with the learner's buckets."""
        ids, buckets = self.counts.ids, self.counts.buckets
        own = np.minimum(self.counts.counts, buckets[learner.buckets_of(ids)])
        of_keys = instance_loads(mapping.assign_ids(ids), mapping.instances, own)
        left = buckets - instance_loads(learner.buckets_of(ids), buckets.size, own)
        return of_keys + instance_loads(mapping.buckets, mapping.instances, np.maximum(left, 0.0))

    def without(self, later: CountedRows) -> KeyCounts:
        """The counts of those that are not among `later`."""
        ids, at = np.unique(np.concatenate([self.counts.ids, later.counts.ids]), return_inverse=True)
        counts = instance_loads(at, ids.size, np.concatenate([self.counts.counts, -later.counts.counts]))
        left = counts > 0.0
        return KeyCounts(np.maximum(self.counts.buckets - later.counts.buckets, 0.0), ids[left], counts[left])


def learnt_mapping(
    rows: CountedRows,
    later: Sequence[CountedRows],
    learner: Callable[[], DKG],
    *,
    new_rows: float | None = None,
    columns: tuple[str, ...] = (),
    instances: int | None = None,
) -> Mapping:
    """The mapping that all rows make, with what to expect of `new_rows` rows (None: as many as the rows weigh).

    It is over as many instances as the learner is for, or over `instances`.

    Each of `later` is a part of the rows that came after the others, in one of the orders there may be: it is held against
    the mapping that the others make. Where nothing came later nothing is expected.
    """
    whole = learner().fit_counts(rows.counts)
    mapping = whole.mapping(instances, columns=columns)
    seen = Weighed.of(mapping.fitted_loads, rows.squares)
    held_back = []
    for part in later:
        if 0.0 < part.weight < rows.weight:
            earlier = learner().fit_counts(rows.without(part))
            held_back.append(Weighed.of(part.loads(earlier.mapping(instances), whole), part.squares))
    return replace(mapping, expectation=expectation(seen, held_back, new_rows=whole.total if new_rows is None else new_rows))
