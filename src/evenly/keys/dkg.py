"""DKG: heavy keys placed one by one, the rest in buckets, all by one greedy schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_instances
from evenly.errors import IncompatibleMerge, InvalidParameter
from evenly.kernels import hashing
from evenly.kernels.types import F64, I32, U64
from evenly.keys.mapping import KeyIds, Mapping
from evenly.keys.parameters import choose
from evenly.keys.scheduling import checked_capacities, largest_first
from evenly.measures.load import instance_loads
from evenly.sketches import codec
from evenly.sketches.hashing import Keys, UniversalHash, key_ids
from evenly.sketches.space_saving import SpaceSaving
from evenly.sketches.weights import checked_weights

KIND = "dkg"
_ABSURD = 10**8
_MOST_DOUBLINGS = 64


@dataclass(frozen=True)
class KeyCounts:
    """Tuples that were counted: how many came to each bucket of a learner, and how many the heaviest keys had, by their ids."""

    buckets: F64
    ids: U64
    counts: F64


class DKG:
    """Distribution-aware key grouping (Rivetti, Querzoni, Anceaume, Busnel, Sericola, DEBS 2015).

    Learning counts tuples in ⌈instances x mu⌉ buckets of a universal hash and finds heavy keys with a
    Space Saving of ⌈1/epsilon⌉ counters. Building takes each key whose guaranteed weight reaches theta of
    the total out of its bucket, and gives heavy keys and buckets, heaviest first, to the least loaded
    instance. A key is always on one instance; memory does not grow with the number of keys.

    Parameters: `theta` and `epsilon` with 0 < epsilon < theta <= 1 (epsilon is theta / 2 if not given);
    `mu` at least 1; `seed`; `ids="xxhash64"` for keys of Spark, whose ids are hashes already, so that buckets
    are the id modulo their number; `half_life`, the number of tuples after which a tuple counts half (None: for
    ever). The defaults are the paper's. `DKG.automatic(instances)` chooses finer ones for better balance.
    What is learnt serves any number of instances up to the number of buckets.

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
        half_life: float | None = None,
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
        if half_life is not None and not 1.0 <= half_life < math.inf:
            raise InvalidParameter(f"half_life must be at least 1 tuple (or None to forget nothing), got {half_life}")
        self.instances, self.theta, self.epsilon, self.mu, self.seed, self.ids = instances, theta, epsilon, mu, seed, ids
        self.half_life = half_life
        self._age = 0
        drawn = UniversalHash(math.ceil(instances * mu), seed=seed)
        self.a, self.b = (drawn.a, drawn.b) if ids == "integer" else (0, 0)
        self._buckets = np.zeros(drawn.buckets)
        self._heavy = SpaceSaving(math.ceil(1.0 / epsilon))

    @classmethod
    def automatic(
        cls,
        instances: int,
        *,
        memory_bytes: int | None = None,
        imbalance_pct: float | None = None,
        seed: int = 0,
        ids: KeyIds = "integer",
        half_life: float | None = None,
    ) -> Self:
        """Parameters for a wanted imbalance or within a memory budget: see `evenly.keys.parameters.choose`."""
        chosen = choose(instances, memory_bytes=memory_bytes, imbalance_pct=imbalance_pct)
        return cls(
            instances,
            theta=chosen.theta,
            epsilon=chosen.epsilon,
            mu=chosen.mu,
            seed=seed,
            ids=ids,
            half_life=half_life,
        )

    @property
    def total(self) -> float:
        """The weight of all tuples seen; with a half-life, what is left of it."""
        return float(self._buckets.sum()) / self._newest

    @property
    def _newest(self) -> float:
        """What a tuple of weight 1 that came now would weigh in the counters."""
        return 1.0 if self.half_life is None else 2.0 ** (self._age / self.half_life)

    @property
    def bucket_count(self) -> int:
        """How many buckets the light keys are in."""
        return self._buckets.size

    @property
    def counters(self) -> int:
        """How many keys are counted one by one."""
        return self._heavy.capacity

    @property
    def memory_bytes(self) -> int:
        return self._buckets.nbytes + self._heavy.memory_bytes

    def fit(self, keys: Keys, weights: ArrayLike | None = None) -> Self:
        """Learn from tuples; each weighs 1, or what `weights` says."""
        return self.fit_ids(key_ids(keys, hash_integers=self.ids == "xxhash64"), weights)

    def fit_ids(self, ids: U64, weights: ArrayLike | None = None) -> Self:
        """Learn from tuples whose 64-bit ids are known already."""
        if self.half_life is not None:
            loads = np.ones(ids.size) if weights is None else checked_weights(weights, ids.size, what="weights")
            return self._fit_forgetting(ids, loads, self.half_life)
        if weights is None:
            self._add(ids, np.ones(ids.size), None)
        else:
            loads = checked_weights(weights, ids.size, what="weights")
            self._add(ids, loads, loads)
        return self

    def fit_counts(self, counted: KeyCounts) -> Self:
        """Learn from tuples that were counted elsewhere, as tuples that came now.

        Counts of light keys may be missing: they are in their buckets. A count above that of its bucket is lowered to it.
        """
        buckets = checked_weights(counted.buckets, self._buckets.size, what="buckets")
        counts = checked_weights(counted.counts, counted.ids.size, what="counts")
        self._buckets += buckets * self._newest
        self._heavy.update(counted.ids, np.minimum(counts, buckets[self.buckets_of(counted.ids)]) * self._newest)
        return self

    def fade(self, factor: float) -> Self:
        """Let all that was learnt so far weigh `factor` times what it weighed, above 0 and at most 1."""
        if not 0.0 < factor <= 1.0:
            raise InvalidParameter(f"factor must be above 0 and at most 1, got {factor}")
        self._scale(factor)
        return self

    def _fit_forgetting(self, ids: U64, loads: F64, half_life: float) -> Self:
        """Later tuples weigh more instead of earlier ones less; all is scaled back before it grows too large."""
        span = max(1, int(_MOST_DOUBLINGS * half_life))
        at = 0
        while at < ids.size:
            part = slice(at, at + span - self._age)
            grown = loads[part] * np.exp2((self._age + 1 + np.arange(ids[part].size)) / half_life)
            self._add(ids[part], grown, grown)
            self._age += ids[part].size
            at = part.stop
            if self._age >= span:
                self._scale(2.0 ** (-span / half_life))
                self._age -= span
        return self

    def _add(self, ids: U64, loads: F64, weights: F64 | None) -> None:
        hashing.add_to_buckets(ids, loads, np.uint64(self.a), np.uint64(self.b), self._buckets)
        self._heavy.update(ids, weights)

    def _scale(self, factor: float) -> None:
        self._buckets *= factor
        self._heavy.scale(factor)

    def merge(self, other: DKG) -> Self:
        """Take in what another learner with the same parameters has seen."""
        if self._parameters() != other._parameters():
            raise IncompatibleMerge(
                f"learners with (instances, theta, epsilon, mu, seed, ids, half_life) {self._parameters()} and "
                f"{other._parameters()} cannot be merged: make them alike"
            )
        self._scale(1.0 / self._newest)
        factor = 1.0 / other._newest
        self._age = 0
        self._buckets += other._buckets * factor
        self._heavy.merge(other._heavy.scaled(factor))
        return self

    def _parameters(self) -> tuple[object, ...]:
        return (self.instances, self.theta, self.epsilon, self.mu, self.seed, self.ids, self.half_life)

    def mapping(
        self, instances: int | None = None, *, capacities: ArrayLike | None = None, columns: tuple[str, ...] = ()
    ) -> Mapping:
        """The mapping for what has been seen. Nothing seen gives buckets dealt out evenly.

        `capacities` says how much each instance can take, in any unit: an instance of 2 gets about twice the
        load of an instance of 1.
        """
        instances = self.instances if instances is None else checked_instances(instances)
        if instances > self._buckets.size:
            raise InvalidParameter(
                f"{instances} instances need as many buckets, and this learner has {self._buckets.size}: "
                f"learn with DKG({instances}, ...)"
            )
        capacity = checked_capacities(capacities, instances)
        keys, weights = self.heavy_keys()
        weights, buckets = self._costs(keys, weights, self.sparse_loads(keys, weights))
        placed = largest_first(np.concatenate([weights, buckets]), instances, capacity)
        return Mapping(
            instances=instances,
            buckets=placed[keys.size :],
            a=self.a,
            b=self.b,
            heavy_keys=keys,
            heavy_instances=placed[: keys.size],
            heavy_weights=weights,
            bucket_weights=buckets,
            grouping=self.name,
            ids=self.ids,
            columns=columns,
            capacities=capacity,
        )

    def _costs(self, keys: U64, weights: F64, sparse: F64) -> tuple[F64, F64]:  # noqa: ARG002 - others look at the keys
        """What heavy keys and buckets cost an instance: what they weigh."""
        return weights, sparse

    def heavy_keys(self) -> tuple[U64, F64]:
        """Ids of the keys whose guaranteed weight reaches theta of the total, and that weight, by id."""
        if self.total == 0.0:
            return np.zeros(0, np.uint64), np.zeros(0)
        keys, counts, errors = self._heavy.heavy(self.theta * float(self._buckets.sum()))
        order = np.argsort(keys)
        return keys[order], (counts - errors)[order] / self._newest

    def guaranteed(self, ids: U64) -> F64:
        """What each key surely weighs: 0 for a key without a counter."""
        counts, errors = self._heavy.estimate(ids)
        return (counts - errors) / self._newest

    def counts(self) -> KeyCounts:
        """What is held, as `fit_counts` takes it: every key with a counter has what it surely weighs."""
        ids = np.sort(self._heavy.heavy(0.0)[0])
        surely = self.guaranteed(ids)
        return KeyCounts(self._buckets / self._newest, ids[surely > 0.0], surely[surely > 0.0])

    def buckets_of(self, ids: U64) -> I32:
        """The bucket of each key."""
        return hashing.to_buckets(ids, np.uint64(self.a), np.uint64(self.b), np.uint64(self._buckets.size))

    def sparse_loads(self, heavy: U64, weights: F64) -> F64:
        """What is left in the buckets without these keys; rounding must not leave less than nothing."""
        left = self._buckets / self._newest - instance_loads(self.buckets_of(heavy), self._buckets.size, weights)
        return np.where(left > 1e-9 * self.total, left, 0.0)

    def to_bytes(self) -> bytes:
        """The learner as bytes that do not depend on Python's pickle."""
        parameters = np.array([self.theta, self.epsilon, self.mu, self.half_life or 0.0, self._age])
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
        theta, epsilon, mu, half_life, age = parts["parameters"].tolist()
        ids: KeyIds = "integer" if str(parts["ids"]) == "integer" else "xxhash64"
        seed = int(str(parts["seed"]))
        learner = cls(
            int(parts["instances"]), theta=theta, epsilon=epsilon, mu=mu, seed=seed, ids=ids, half_life=half_life or None
        )
        learner._age = int(age)
        learner._buckets[:] = parts["buckets"]
        learner._heavy = SpaceSaving.from_bytes(parts["heavy"].tobytes())
        return learner
