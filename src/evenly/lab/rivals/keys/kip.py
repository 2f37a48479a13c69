"""KIP: the heaviest keys kept where they are while they fit, the rest on a ring weighted by what room is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenly.checks import checked_instances, checked_whole
from evenly.errors import InvalidParameter
from evenly.kernels import hashing
from evenly.kernels.types import F64, I32, I64, U64
from evenly.keys.base import LearnsThrough
from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.lab.rivals.keys.consistent_hashing import BUCKETS, MOST_BUCKETS, MOST_POINTS, POINTS, checked_arcs, ring
from evenly.measures.water_level import water_level

_FINE = 10
_MOST_COUNTERS = 8_192


class KIP(LearnsThrough):
    """Key isolator partitioning: balances like DKG and, given the mapping in force, moves little.

    The heaviest keys, at most `heavy_per_instance` for each instance, are placed one by one. An instance has
    room up to max(share of the heaviest key, 1 / instances) + slack. A key stays on the instance that the
    `previous` mapping gave it if there is room, else goes where its hash says if there is room, else to the
    emptiest. All other keys go to a consistent-hash ring on which an instance has points in proportion to what
    lies between its load and the level to which the rest would fill all instances.

    A key is always on one instance. A mapping built again from the same tuples, with the first as `previous`,
    sends every key where the first sent it; `tests/unit/test_key_groupings.py` proves it, and checks the rule.

    Parameters: `instances`; `theta` and `epsilon` as for DKG, which keys have a chance to be placed one by one (by
    default from a tenth of the mean load of an instance on); `heavy_per_instance` from 1 to 100; `slack` from 0 to
    1, a share of the total; `points` for each instance on the ring, on average, from 1 to 10,000; `buckets` into
    which the ring is cut, from 1 to 1,000,000; `seed`. What is learnt serves other numbers of instances too.

    >>> learnt = KIP(2).fit(np.array([1, 1, 1, 2, 2, 2, 3, 4]))
    >>> first = learnt.mapping(2)
    >>> learnt.mapping(2, previous=first).heavy_instances.tolist() == first.heavy_instances.tolist()
    True

    Zvara, Szabó, Lóránt, Benczúr: System-aware dynamic partitioning for batch and streaming workloads,
    arXiv 2105.15023, 2021.
    """

    name = "kip"

    def __init__(
        self,
        instances: int,
        *,
        theta: float | None = None,
        epsilon: float | None = None,
        heavy_per_instance: int = 2,
        slack: float = 0.001,
        points: int = POINTS,
        buckets: int = BUCKETS,
        seed: int = 0,
    ) -> None:
        self.instances = checked_instances(instances)
        self.heavy_per_instance = checked_whole(heavy_per_instance, "heavy_per_instance", 1, 100)
        if not 0.0 <= slack <= 1.0:
            raise InvalidParameter(f"slack must be from 0 to 1, got {slack}")
        self.slack = slack
        self.points = checked_whole(points, "points", 1, MOST_POINTS)
        self.buckets = checked_whole(buckets, "buckets", 1, MOST_BUCKETS)
        self.seed = seed
        fine = max(1.0 / (_FINE * instances), 2.0 / _MOST_COUNTERS)
        super().__init__(DKG(1, theta=fine if theta is None else theta, epsilon=epsilon, mu=float(buckets), seed=seed))

    def mapping(self, instances: int | None = None, previous: Mapping | None = None) -> Mapping:
        """The mapping for what has been seen; `previous` is the mapping in force, which this one follows."""
        instances = self.instances if instances is None else instances
        checked_arcs(instances, self.buckets)
        learnt = self._heaviest(instances)
        placed, room = self._place(learnt, instances, previous)
        return replace(
            learnt,
            instances=instances,
            buckets=ring(self._points(room), self.buckets, seed=self.seed),
            heavy_instances=placed,
            grouping=self.name,
            version=1 if previous is None else previous.version + 1,
            columns=() if previous is None else previous.columns,
        )

    def _heaviest(self, instances: int) -> Mapping:
        """What has been learnt, with no more keys of their own than wanted: the others are back in their buckets."""
        learnt = self._learner.mapping(1)
        order = np.argsort(-learnt.heavy_weights, kind="stable")
        kept = np.sort(order[: self.heavy_per_instance * instances])
        others = order[self.heavy_per_instance * instances :]
        back = np.bincount(
            _buckets_of(learnt, learnt.heavy_keys[others], self.buckets), learnt.heavy_weights[others], self.buckets
        )
        return replace(
            learnt,
            heavy_keys=learnt.heavy_keys[kept],
            heavy_weights=learnt.heavy_weights[kept],
            heavy_instances=learnt.heavy_instances[kept],
            bucket_weights=learnt.bucket_weights + back,
        )

    def _place(self, learnt: Mapping, instances: int, previous: Mapping | None) -> tuple[I32, F64]:
        """The instance of each heavy key, and the share of the total that each instance has left for the rest."""
        total = float(learnt.heavy_weights.sum() + learnt.bucket_weights.sum())
        shares = learnt.heavy_weights / max(total, 1.0e-300)
        most = max(float(shares.max(initial=0.0)), 1.0 / instances) + self.slack
        homes = _buckets_of(learnt, learnt.heavy_keys, instances)
        kept = homes if previous is None else previous.assign_ids(learnt.heavy_keys)
        loads = np.zeros(instances)
        placed = np.empty(shares.size, np.int32)
        for item in np.argsort(-shares, kind="stable"):
            wanted = (instance for instance in (kept[item], homes[item]) if instance < instances)
            fitting = (instance for instance in wanted if loads[instance] + shares[item] <= most)
            placed[item] = next(fitting, np.argmin(loads))
            loads[placed[item]] += shares[item]
        return placed, _room(loads, max(0.0, 1.0 - float(shares.sum())))

    def _points(self, room: F64) -> I64:
        """How many points each instance has on the ring: in proportion to its room, one at least in all."""
        if room.sum() > 0.0:
            points: I64 = np.rint(room / room.sum() * (self.points * room.size)).astype(np.int64)
            if points.any():
                return points
        return np.full(room.size, self.points, np.int64)


def _buckets_of(learnt: Mapping, keys: U64, buckets: int) -> I32:
    return hashing.to_buckets(keys, np.uint64(learnt.a), np.uint64(learnt.b), np.uint64(buckets))


def _room(loads: F64, rest: float) -> F64:
    """What each instance gets when the rest is poured over all, as water over stairs."""
    room: F64 = np.clip(water_level(loads, np.ones(loads.size), rest) - loads, 0.0, None)
    return room
