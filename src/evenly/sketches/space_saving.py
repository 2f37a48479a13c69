"""Space Saving: the heavy keys of a stream and how much each weighs, in bounded memory."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from evenly.errors import IncompatibleMerge, InvalidParameter
from evenly.kernels import space_saving as kernels
from evenly.kernels.types import F64, U64
from evenly.sketches import codec
from evenly.sketches.hashing import Keys, key_ids
from evenly.sketches.weights import ONE, checked_weights

KIND = "space-saving"
_PLACES_PER_COUNTER = 4
_LEAST_PLACES = 256


class SpaceSaving:
    """Counts with their errors for the keys that weigh most (Metwally, Agrawal, El Abbadi, 2005).

    With `total` the weight of all tuples seen, here or in summaries merged in:

    - true <= estimate <= true + total / capacity, for every key;
    - every key with true > total / capacity has a counter;
    - estimate - error <= true.

    `tests/property/test_space_saving.py` proves each of them, also across merges. Counters are let go
    many at a time, so there are between `capacity` and 4 x `capacity` of them (256 at least); how the
    stream is cut into calls of `update` makes no difference.

    Parameters: `capacity`, at least 1. Weights are positive floats; a weight of 0 changes nothing.

    >>> summary = SpaceSaving(2)
    >>> summary.update(np.array([7, 7, 8]))
    >>> summary.heavy(2)[0].tolist()
    [7]
    """

    def __init__(self, capacity: int) -> None:
        if not isinstance(capacity, int) or capacity < 1:
            raise InvalidParameter(f"capacity must be a whole number from 1 on, got {capacity}")
        places = max(_PLACES_PER_COUNTER * capacity, _LEAST_PLACES)
        bits = (2 * places - 1).bit_length()
        self.capacity = capacity
        self._keys = np.zeros(places, np.uint64)
        self._counts = np.zeros(places)
        self._errors = np.zeros(places)
        self._index = np.zeros(1 << bits, np.int32)
        self._shift = np.uint64(64 - bits)
        self._state = np.zeros(3)

    @property
    def total(self) -> float:
        """The weight of all tuples seen."""
        return float(self._state[kernels.TOTAL])

    @property
    def floor(self) -> float:
        """An upper bound on the weight of any key without a counter: at most total / capacity."""
        return float(self._state[kernels.FLOOR])

    @property
    def memory_bytes(self) -> int:
        return self._keys.nbytes + self._counts.nbytes + self._errors.nbytes + self._index.nbytes

    def __len__(self) -> int:
        return int(self._state[kernels.ENTRIES])

    def update(self, keys: Keys, weights: ArrayLike | None = None) -> None:
        """Add tuples, each with weight 1 or with its own."""
        ids = key_ids(keys)
        added = ONE
        if weights is not None:
            added = checked_weights(weights, ids.size, what="weights")
            if not added.all():
                ids, added = ids[added > 0.0], added[added > 0.0]
        kernels.update(ids, added, self.capacity, self._keys, self._counts, self._errors, self._index, self._state, self._shift)

    def estimate(self, keys: Keys) -> tuple[F64, F64]:
        """For each key an upper bound of its weight, and by how much that may be too high."""
        return kernels.look_up(key_ids(keys), self._keys, self._counts, self._errors, self._index, self._state, self._shift)

    def counters(self) -> tuple[U64, F64, F64]:
        """Key ids, estimates and errors of all counters: largest estimate first, ties by id."""
        used = len(self)
        keys, counts, errors = self._keys[:used], self._counts[:used], self._errors[:used]
        order = np.lexsort((keys, -counts))
        return keys[order], counts[order], errors[order]

    def heavy(self, threshold: float, *, certain: bool = True) -> tuple[U64, F64, F64]:
        """The counters of keys that weigh at least `threshold`.

        `certain=True` gives only keys that surely do (estimate - error reaches it); `certain=False`
        gives every key that may, and so misses none when the threshold is above total / capacity.
        """
        keys, counts, errors = self.counters()
        chosen = counts - errors >= threshold if certain else counts >= threshold
        return keys[chosen], counts[chosen], errors[chosen]

    def merge(self, other: SpaceSaving) -> Self:
        """Take in a summary of other tuples: the bounds then hold for both streams together."""
        if other.capacity != self.capacity:
            raise IncompatibleMerge(
                f"capacities {self.capacity} and {other.capacity} differ: summaries to be merged need the same"
            )
        if len(other) == 0:
            return self
        union = np.union1d(self._keys[: len(self)], other._keys[: len(other)])
        mine, my_errors = self.estimate(union)
        theirs, their_errors = other.estimate(union)
        self._replace(union, mine + theirs, my_errors + their_errors, self.floor + other.floor, self.total + other.total)
        return self

    def _replace(self, keys: U64, counts: F64, errors: F64, floor: float, total: float) -> None:
        if keys.size > self._keys.size:
            order = np.lexsort((keys, -counts))
            kept = np.sort(order[: self.capacity])
            floor = max(floor, float(counts[order[self.capacity]]))
            keys, counts, errors = keys[kept], counts[kept], errors[kept]
        self._keys[: keys.size] = keys
        self._counts[: keys.size] = counts
        self._errors[: keys.size] = errors
        self._state[:] = keys.size, floor, total
        kernels.rebuild(keys.size, self._keys, self._index, self._shift)

    def scale(self, factor: float) -> None:
        """Multiply all weights by a positive factor: the bounds hold for the scaled stream."""
        if not 0.0 < factor < math.inf:
            raise InvalidParameter(f"factor must be above 0 and finite, got {factor}")
        self._counts *= factor
        self._errors *= factor
        self._state[[kernels.FLOOR, kernels.TOTAL]] *= factor

    def scaled(self, factor: float) -> Self:
        """A copy with all weights multiplied by a positive factor."""
        copy = type(self).from_bytes(self.to_bytes())
        copy.scale(factor)
        return copy

    def to_bytes(self) -> bytes:
        """The summary as bytes that do not depend on Python's pickle."""
        used = len(self)
        return codec.pack(
            KIND,
            capacity=self.capacity,
            state=self._state,
            keys=self._keys[:used],
            counts=self._counts[:used],
            errors=self._errors[:used],
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The summary that `to_bytes` was called on; it goes on from there."""
        parts = codec.unpack(KIND, data, "capacity", "state", "keys", "counts", "errors")
        summary = cls(int(parts["capacity"]))
        _, floor, total = parts["state"]
        summary._replace(parts["keys"], parts["counts"], parts["errors"], float(floor), float(total))
        return summary
