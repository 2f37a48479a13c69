"""What a mapping is learnt from, as an engine counts it in one pass: a bounded number of sums, whatever the rows.

Ids fall into fine buckets, each a part of one bucket of the learner. Of a fine bucket is told what all its rows weigh and what
its heaviest id weighs, each also by the turns that rows came in (`evenly.keys.turns`): in the order within partitions, and in
the order of partitions. A key that is heavy is the heaviest of its fine bucket, but for a heavier one there: then it is placed
with its bucket, whose weight is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evenly.kernels.types import F64, I64, U64
from evenly.keys.dkg import DKG, KeyCounts
from evenly.keys.held_back import CountedRows, learnt_mapping
from evenly.keys.mapping import Mapping
from evenly.keys.turns import TURNS, later_turns
from evenly.measures.load import instance_loads

_FINE_BUCKETS = 8_192
ORDER_BITS = 31
"""Octaves that are told of an order; what is above counts for the last of them."""
ORDERS = ("rows", "partitions")
"""The orders in which rows may have come: within their partitions, and partition after partition."""
_TOLD = 0.5
"""Keys below this part of what makes a key heavy are told by their buckets alone."""
_COARSE_BITS = 20


def fine_buckets(learner: DKG) -> int:
    """How many fine buckets to count in: a multiple of the learner's buckets, about 8,192 or as many as those."""
    return learner.bucket_count * max(1, round(_FINE_BUCKETS / learner.bucket_count))


def octave_bit(order: str) -> int:
    """The first of the bits that say which octaves of an order there were."""
    return ORDERS.index(order) * ORDER_BITS


@dataclass(frozen=True)
class NativeCounts:
    """For each fine bucket that has rows: its number, its rows' weights, its heaviest id and the weights of that one's rows.

    Weights are an array with a line for each fine bucket: the sum, then for each of `ORDERS` the sums of all turns but the
    first. `squares` is the sum of the squares of rows' weights, `octaves` the bits of all octaves that there were. `rows` is
    how many rows of one weight vary as much as all rows there are: their number, where each counts for one.
    """

    fine: I64
    weights: F64
    ids: U64
    own_weights: F64
    squares: float
    octaves: int
    rows: float

    def coarse(self) -> NativeCounts:
        """The same with sums of six digits: sums of fractions in another order differ in their last digits."""
        return replace(self, weights=_coarse(self.weights), own_weights=_coarse(self.own_weights))

    def mapping(self, learner: Callable[[], DKG], *, columns: tuple[str, ...] = (), instances: int | None = None) -> Mapping:
        """The mapping that these rows make, with what to expect of new ones; over the learner's instances, or over others."""
        like = learner()
        told = self.own_weights[:, 0] >= _TOLD * like.theta * self.weights[:, 0].sum()
        heavy = np.flatnonzero(told & (self.own_weights[:, 0] > 0.0))
        buckets = like.buckets_of(self.fine.view(np.uint64))

        def counted(sums: F64, own: F64, squares: float) -> CountedRows:
            in_buckets = instance_loads(buckets, like.bucket_count, np.maximum(sums, 0.0))
            return CountedRows(KeyCounts(in_buckets, self.ids[heavy], np.maximum(own[heavy], 0.0)), squares)

        rows = counted(self.weights[:, 0], self.own_weights[:, 0], self.squares)
        later = []
        for at, order in enumerate(ORDERS):
            by_turn, own_by_turn = _turns(self.weights, at), _turns(self.own_weights, at)
            sums = by_turn.sum(axis=0)
            turns = list(later_turns(sums.tolist(), self._last_octave(order)))
            if turns:
                share = float(sums[turns].sum() / sums.sum())
                # Rows that come later stand for more, in proportion at the most: so much of the squares may be theirs.
                squares = self.squares * share * (2.0 - share)
                later.append(counted(by_turn[:, turns].sum(axis=1), own_by_turn[:, turns].sum(axis=1), squares))
        return learnt_mapping(rows, later, learner, new_rows=self.rows, columns=columns, instances=instances)

    def _last_octave(self, order: str) -> int:
        """-1 if there were no rows."""
        seen = self.octaves >> octave_bit(order) & ((1 << ORDER_BITS) - 1)
        return seen.bit_length() - 1


def _turns(weights: F64, order: int) -> F64:
    """A column for each turn of an order: the first has what the others have not."""
    others = weights[:, 1 + order * (TURNS - 1) :][:, : TURNS - 1]
    return np.column_stack([weights[:, 0] - others.sum(axis=1), others])


def _coarse(sums: F64) -> F64:
    digits, exponents = np.frexp(sums)
    rounded: F64 = np.ldexp(np.round(digits * 2.0**_COARSE_BITS), exponents - _COARSE_BITS)
    return rounded
