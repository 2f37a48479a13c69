"""How much of a batch is told beside a query, in a bounded number of characters: the heaviest, and the rest as their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from evenly.kernels.types import F64, I64, U64
from evenly.keys.dkg import DKG, KeyCounts
from evenly.measures.load import instance_loads

_CHARACTERS = 7_200
"""What the observation of a batch may add to its progress event, names and punctuation apart."""
_CHARACTERS_OF_A_SIDE = 700
"""What Spark itself tells of each further DataFrame in such an event (a source, its state), and names and punctuation of its
observation: all of them share what is left. So the event of a join stays below 10 kB too."""
_MOST_INSTANCES_TOLD = 128
_BUCKETS_PART = 0.6
_CHARACTERS_PER_DIGIT = 2.0 / 3.0  # two hexadecimal digits are a byte, three bytes are four characters


@dataclass(frozen=True)
class Digits:
    """Hexadecimal digits of a value, and of its count."""

    value: int
    count: int

    @property
    def characters(self) -> float:
        """What an entry takes."""
        return (self.value + self.count) * _CHARACTERS_PER_DIGIT


INSTANCE_DIGITS, KEY_DIGITS = Digits(4, 10), Digits(16, 4)


@dataclass(frozen=True)
class Told:
    """How many of the heaviest instances, buckets and keys of a batch are told, and the digits of a bucket."""

    instances: int
    buckets: int
    keys: int
    bucket_digits: Digits

    @classmethod
    def of(cls, learner: DKG, *, instances: int, sides: int = 1) -> Self:
        """What there is room for, of each of `sides` DataFrames."""
        room = (_CHARACTERS - _CHARACTERS_OF_A_SIDE * (sides - 1)) / sides
        told = min(instances, max(1, _MOST_INSTANCES_TOLD // sides))
        room -= 2 * told * INSTANCE_DIGITS.characters
        digits = Digits(3, 3) if learner.bucket_count <= 16**3 else Digits(4, 4)
        buckets = min(learner.bucket_count, max(1, int(room * _BUCKETS_PART / digits.characters)))
        room -= buckets * digits.characters
        return cls(told, buckets, min(learner.counters, max(1, int(room / KEY_DIGITS.characters))), digits)

    def counts(self, ids: U64, counts: F64, learner: DKG) -> KeyCounts:
        """What would be told of a batch with so many rows of each of these different keys."""
        exact = instance_loads(learner.buckets_of(ids), learner.bucket_count, counts)
        heaviest = np.argsort(-exact, kind="stable")[: self.buckets]
        keys = np.argsort(-counts, kind="stable")[: self.keys]
        return merged_counts(learner, heaviest, exact[heaviest], ids[keys], counts[keys], float(counts.sum()))


def merged_counts(learner: DKG, at: I64, bucket_counts: F64, ids: U64, counts: F64, total: float) -> KeyCounts:
    """The counts of a batch from the buckets and keys that were told, and the number of all rows."""
    bucket_counts = bucket_counts * min(1.0, total / max(float(bucket_counts.sum()), 1.0))
    buckets = with_the_rest(at, bucket_counts, total, learner.bucket_count)
    # A key that is told may be in a bucket that is not: there is at least the key in it.
    least = instance_loads(learner.buckets_of(ids), buckets.size, counts)
    least[at] = 0.0
    return KeyCounts(np.maximum(buckets, least), ids, counts)


def with_the_rest(at: I64, counts: F64, total: float, size: int) -> F64:
    """`size` counts of which some are known, and their total: what is left, in whole rows, evenly over the others."""
    filled = np.zeros(size)
    filled[at] = counts
    others = np.setdiff1d(np.arange(size), at)
    if others.size:
        left = max(0.0, total - float(counts.sum()))
        filled[others] = left // others.size
        filled[others[: int(left % others.size)]] += 1.0
    return filled
