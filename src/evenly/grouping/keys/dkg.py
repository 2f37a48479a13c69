"""DKG: heavy keys placed one by one, the rest in buckets, all by one greedy schedule."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from evenly.errors import IncompatibleMerge, InvalidParameter
from evenly.grouping.base import checked_instances
from evenly.grouping.mapping import KeyIds, Mapping
from evenly.grouping.scheduling import largest_first
from evenly.kernels import hashing
from evenly.kernels.types import F64, U64
from evenly.sketches import codec
from evenly.sketches.hashing import Keys, UniversalHash, key_ids
from evenly.sketches.space_saving import SpaceSaving
from evenly.sketches.weights import checked_weights

KIND = "dkg"
_ABSURD = 10**8
_FINE = 64
_MOST_BUCKETS = 65_536
_MOST_COUNTERS = 8_192


class DKG:
    """Distribution-aware key grouping (Rivetti, Querzoni, Anceaume, Busnel, Sericola, DEBS 2015).

    Learning counts tuples in ⌈instances x mu⌉ buckets of a universal hash and finds heavy keys with a
    Space Saving of ⌈1/epsilon⌉ counters. Building takes each key whose guaranteed weight reaches theta of
    the total out of its bucket, and gives heavy keys and buckets, heaviest first, to the least loaded
    instance. A key is always on one instance; memory does not grow with the number of keys.

    Parameters: `theta` and `epsilon` with 0 < epsilon < theta <= 1 (epsilon is theta / 2 if not given);
    `mu` at least 1; `seed`; `ids="xxhash64"` for keys of Spark, whose ids are hashes already, so that buckets
    are the id modulo their number. The defaults are the paper's. `DKG.automatic(instances)` chooses finer ones
    for better balance. What is learnt serves any number of instances up to the number of buckets.

    >>> grouping = DKG(2).fit(np.array([1, 1, 1, 2, 3, 4]))
    >>> mapping = grouping.mapping(2)
    >>> int(mapping.assign(np.array([1]))[0]) == int(mapping.assign(np.array([1]))[0])
    True
    """

    name = "dkg"

    def __init__(
        self,
        instances: int,
        *,
        theta: float = 0.1,
        epsilon: float | None = None,
        mu: float = 2.0,
        seed: int = 0,
        ids: KeyIds = "integer",
    ) -> None:
        instances = checked_instances(instances)
        epsilon = theta / 2.0 if epsilon is None else epsilon
        if not 0.0 < theta <= 1.0:
            raise InvalidParameter(f"theta must be above 0 and at most 1, got {theta}")
        if not 0.0 < epsilon < theta:
            raise InvalidParameter(f"epsilon must be above 0 and below theta ({theta}), got {epsilon}")
        if epsilon < 1.0 / _ABSURD:
            raise InvalidParameter(f"epsilon must be at least {1.0 / _ABSURD:g}, one counter each, got {epsilon}")
        if not 1.0 <= mu <= _ABSURD / instances:
            raise InvalidParameter(f"mu must be from 1 to {_ABSURD / instances:g} for {instances} instances, got {mu}")
        self.instances, self.theta, self.epsilon, self.mu, self.seed, self.ids = instances, theta, epsilon, mu, seed, ids
        drawn = UniversalHash(math.ceil(instances * mu), seed=seed)
        self._a, self._b = (drawn.a, drawn.b) if ids == "integer" else (0, 0)
        self._buckets = np.zeros(drawn.buckets)
        self._heavy = SpaceSaving(math.ceil(1.0 / epsilon))

    @classmethod
    def automatic(cls, instances: int, *, seed: int = 0, ids: KeyIds = "integer") -> Self:
        """Parameters fine enough that one item is about a 64th of an instance's load.

        A key is heavy from 1/64 of the mean load of an instance on and there are 64 buckets an instance,
        up to 8,192 counters and 65,536 buckets in all.
        """
        instances = checked_instances(instances)
        counters = min(2 * _FINE * instances, _MOST_COUNTERS)
        mu = max(1.0, min(float(_FINE), _MOST_BUCKETS / instances))
        return cls(instances, theta=2.0 / counters, mu=mu, seed=seed, ids=ids)

    @property
    def total(self) -> float:
        """The weight of all tuples seen."""
        return self._heavy.total

    @property
    def memory_bytes(self) -> int:
        return self._buckets.nbytes + self._heavy.memory_bytes

    def fit(self, keys: Keys, weights: ArrayLike | None = None) -> Self:
        """Learn from tuples; each weighs 1, or what `weights` says."""
        return self.fit_ids(key_ids(keys, hash_integers=self.ids == "xxhash64"), weights)

    def fit_ids(self, ids: U64, weights: ArrayLike | None = None) -> Self:
        """Learn from tuples whose 64-bit ids are known already."""
        loads = np.ones(ids.size) if weights is None else checked_weights(weights, ids.size, what="weights")
        hashing.add_to_buckets(ids, loads, np.uint64(self._a), np.uint64(self._b), self._buckets)
        self._heavy.update(ids, None if weights is None else loads)
        return self

    def merge(self, other: DKG) -> Self:
        """Take in what another learner with the same parameters has seen."""
        mine = (self.instances, self.theta, self.epsilon, self.mu, self.seed, self.ids)
        theirs = (other.instances, other.theta, other.epsilon, other.mu, other.seed, other.ids)
        if mine != theirs:
            raise IncompatibleMerge(
                f"learners with (instances, theta, epsilon, mu, seed, ids) {mine} and {theirs} "
                "cannot be merged: make them alike"
            )
        self._buckets += other._buckets
        self._heavy.merge(other._heavy)
        return self

    def mapping(self, instances: int | None = None, *, columns: tuple[str, ...] = ()) -> Mapping:
        """The mapping for what has been seen. Nothing seen gives buckets dealt out evenly."""
        instances = self.instances if instances is None else checked_instances(instances)
        if instances > self._buckets.size:
            raise InvalidParameter(
                f"{instances} instances need as many buckets, and this learner has {self._buckets.size}: "
                f"learn with DKG({instances}, ...)"
            )
        keys, weights = self._heavy_keys()
        buckets = self._sparse_loads(keys, weights)
        placed = largest_first(np.concatenate([weights, buckets]), instances)
        return Mapping(
            instances=instances,
            buckets=placed[keys.size :],
            a=self._a,
            b=self._b,
            heavy_keys=keys,
            heavy_instances=placed[: keys.size],
            heavy_weights=weights,
            bucket_weights=buckets,
            grouping=self.name,
            ids=self.ids,
            columns=columns,
        )

    def _heavy_keys(self) -> tuple[U64, F64]:
        """Keys whose guaranteed weight reaches theta of the total, by id."""
        if self.total == 0.0:
            return np.zeros(0, np.uint64), np.zeros(0)
        keys, counts, errors = self._heavy.heavy(self.theta * self.total)
        order = np.argsort(keys)
        return keys[order], (counts - errors)[order]

    def _sparse_loads(self, heavy: U64, weights: F64) -> F64:
        """What is left in the buckets without the heavy keys; rounding must not leave less than nothing."""
        own = hashing.to_buckets(heavy, np.uint64(self._a), np.uint64(self._b), np.uint64(self._buckets.size))
        left = self._buckets - np.bincount(own, weights, self._buckets.size)
        return np.where(left > 1e-9 * self.total, left, 0.0)

    def to_bytes(self) -> bytes:
        """The learner as bytes that do not depend on Python's pickle."""
        parameters = np.array([self.theta, self.epsilon, self.mu])
        return codec.pack(
            KIND,
            instances=self.instances,
            parameters=parameters,
            seed=np.array(str(self.seed)),
            buckets=self._buckets,
            ids=np.array(self.ids),
            heavy=np.frombuffer(self._heavy.to_bytes(), np.uint8),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The learner that `to_bytes` was called on; it goes on from there."""
        parts = codec.unpack(KIND, data, "instances", "parameters", "seed", "ids", "buckets", "heavy")
        theta, epsilon, mu = parts["parameters"].tolist()
        ids: KeyIds = "integer" if str(parts["ids"]) == "integer" else "xxhash64"
        seed = int(str(parts["seed"]))
        learner = cls(int(parts["instances"]), theta=theta, epsilon=epsilon, mu=mu, seed=seed, ids=ids)
        learner._buckets[:] = parts["buckets"]
        learner._heavy = SpaceSaving.from_bytes(parts["heavy"].tobytes())
        return learner
