"""Consistent hashing with the heavy keys pinned: few keys move when instances are added."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evenly.checks import checked_instances, checked_whole
from evenly.errors import InvalidParameter
from evenly.kernels import hashing
from evenly.kernels.types import F64, I32, I64
from evenly.keys.base import LearnsThrough
from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.measures.load import instance_loads
from evenly.sketches.hashing import derive

POINTS = 100
BUCKETS = 16_384
MOST_POINTS = 10_000
MOST_BUCKETS = 1_000_000


def ring(points: I64 | NDArray[np.int64], buckets: int, *, seed: int) -> I32:
    """The instance of each of `buckets` arcs of a consistent-hash ring on which instance i has `points[i]` points.

    An arc belongs to the first point at or after its beginning, and the points of an instance depend on nothing
    but the seed. So a point more takes arcs for its own instance and moves no other.
    """
    instances = np.repeat(np.arange(points.size, dtype=np.uint64), points)
    numbers = np.arange(instances.size, dtype=np.uint64) - np.repeat(np.cumsum(points) - points, points).astype(np.uint64)
    names = (instances << np.uint64(32)) | numbers
    places = hashing.xxh64_words(names, np.uint64(derive(seed, "ring", 2**64))) >> np.uint64(32)
    order = np.lexsort((instances, places))
    beginnings = (np.arange(buckets, dtype=np.uint64) << np.uint64(32)) // np.uint64(buckets)
    after = np.searchsorted(places[order], beginnings) % order.size
    return instances[order][after].astype(np.int32)


class ConsistentHashing(LearnsThrough):
    """Heavy keys by entries of their own, all others on a consistent-hash ring (Gedik).

    An instance more takes about 1 / (instances + 1) of the other keys from the old ones and moves none between
    old ones; `tests/unit/test_key_groupings.py` proves it. Heavy keys go, heaviest first, to the instance with the
    least load, what the ring brings it included. A key is always on one instance.

    Parameters: `theta` and `epsilon` as for DKG (a key is heavy from theta of the total on); `points` of each
    instance on the ring, from 1 to 10,000: the more, the more equal the arcs (their spread is about
    1 / sqrt(points)); `buckets`, into which the ring is cut, from 1 to 1,000,000, best 16 or more for each instance;
    `seed`. What is learnt serves any number of instances up to the number of buckets.

    >>> learnt = ConsistentHashing().fit(np.array([1, 1, 1, 2, 3, 4]))
    >>> four, five = learnt.mapping(4).buckets, learnt.mapping(5).buckets
    >>> set(five[four != five].tolist())
    {4}

    Gedik: Partitioning functions for stateful data parallelism in stream processing, The VLDB Journal 23(4), 2014.
    The paper counts lossily and weighs several costs of moving heavy keys; here they are counted with Space Saving.
    """

    name = "consistent"

    def __init__(
        self,
        *,
        theta: float = 0.1,
        epsilon: float | None = None,
        points: int = POINTS,
        buckets: int = BUCKETS,
        seed: int = 0,
    ) -> None:
        self.points = checked_whole(points, "points", 1, MOST_POINTS)
        self.buckets = checked_whole(buckets, "buckets", 1, MOST_BUCKETS)
        self.seed = seed
        super().__init__(DKG(1, theta=theta, epsilon=epsilon, mu=float(buckets), seed=seed))

    def mapping(self, instances: int) -> Mapping:
        """The mapping for what has been seen."""
        checked_arcs(instances, self.buckets)
        learnt = self._learner.mapping(1)
        arcs = ring(np.full(instances, self.points), self.buckets, seed=self.seed)
        loads = instance_loads(arcs, instances, learnt.bucket_weights)
        return replace(
            learnt,
            instances=instances,
            buckets=arcs,
            heavy_instances=_to_least_loaded(learnt.heavy_weights, loads),
            grouping=self.name,
        )


def checked_arcs(instances: int, buckets: int) -> None:
    """Refuse more instances than there are arcs of the ring to give them."""
    if checked_instances(instances) > buckets:
        raise InvalidParameter(f"{instances} instances need as many buckets, and the ring has {buckets}: learn with more")


def _to_least_loaded(weights: F64, loads: F64) -> I32:
    """Each item, from the heaviest down, to the instance with the least load, given what each has already."""
    heap = [(float(load), instance) for instance, load in enumerate(loads)]
    heapq.heapify(heap)
    placed = np.empty(weights.size, np.int32)
    for item in np.argsort(-weights, kind="stable"):
        load, instance = heap[0]
        placed[item] = instance
        heapq.heapreplace(heap, (load + float(weights[item]), instance))
    return placed
