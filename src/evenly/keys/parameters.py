"""Parameters of DKG for a wanted imbalance or within a memory budget, and what to expect of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenly.checks import checked_instances
from evenly.errors import InvalidParameter

_FINE_PCT = 100.0 / 64.0
_MOST_BUCKETS = 65_536
_MOST_COUNTERS = 8_192
_BYTES_PER_COUNTER = 4 * 24 + 4 * 16
_BYTES_PER_BUCKET = 8


@dataclass(frozen=True)
class Parameters:
    """theta, epsilon and mu of DKG for a number of instances."""

    instances: int
    counters: int
    buckets: int

    @property
    def theta(self) -> float:
        """A key is heavy from this share of the total on."""
        return 2.0 / self.counters

    @property
    def epsilon(self) -> float:
        """The error of a counter, as a share of the total: half of theta."""
        return 1.0 / self.counters

    @property
    def mu(self) -> float:
        """Buckets an instance."""
        return self.buckets / self.instances

    @property
    def memory_bytes(self) -> int:
        """The most that the learner holds."""
        return self.counters * _BYTES_PER_COUNTER + self.buckets * _BYTES_PER_BUCKET

    def expected_imbalance_pct(self, tuples: float = math.inf) -> float:
        """What λ may exceed the least possible one by, for keys like those learnt from.

        The first part is the largest item that is not placed by itself, a key just below theta, in percent of
        an instance's load: the greedy schedule leaves no more than the last item it places. The second is
        chance: `tuples` learnt from say that much too little about those to come.
        """
        item = 100.0 * self.theta * self.instances
        chance = 100.0 * math.sqrt(2.0 * math.log(max(self.instances, 2)) * self.instances / tuples)
        return item + chance


def choose(instances: int, *, memory_bytes: int | None = None, imbalance_pct: float | None = None) -> Parameters:
    """The coarsest parameters that promise `imbalance_pct`, or the finest within `memory_bytes`.

    With neither, an item is about a 64th of an instance's load, and no more than 8,192 counters and 65,536
    buckets are used. With both, the imbalance is met if the memory allows it, and is refused otherwise.
    """
    instances = checked_instances(instances)
    if imbalance_pct is not None and not 0.0 < imbalance_pct < math.inf:
        raise InvalidParameter(f"imbalance_pct must be above 0, got {imbalance_pct}")
    if imbalance_pct is None and memory_bytes is None:
        return _capped(instances, _FINE_PCT, _MOST_COUNTERS, _MOST_BUCKETS)
    if imbalance_pct is not None:
        wanted = _for_item(instances, imbalance_pct)
        if memory_bytes is not None and wanted.memory_bytes > memory_bytes:
            raise InvalidParameter(
                f"imbalance_pct={imbalance_pct} takes {wanted.memory_bytes:,} bytes, and memory_bytes is {memory_bytes:,}: "
                "allow more of one of them"
            )
        return wanted
    return _for_memory(instances, memory_bytes or 0)


def _for_item(instances: int, item_pct: float) -> Parameters:
    counters = math.ceil(200.0 * instances / item_pct)
    return Parameters(instances, counters, max(instances, math.ceil(100.0 * instances / item_pct)))


def _capped(instances: int, item_pct: float, most_counters: int, most_buckets: int) -> Parameters:
    wanted = _for_item(instances, item_pct)
    return Parameters(instances, min(wanted.counters, most_counters), max(instances, min(wanted.buckets, most_buckets)))


def _for_memory(instances: int, memory_bytes: int) -> Parameters:
    """Two counters for each bucket, as many as fit."""
    pairs = memory_bytes // (2 * _BYTES_PER_COUNTER + _BYTES_PER_BUCKET)
    if pairs < instances:
        least = instances * (2 * _BYTES_PER_COUNTER + _BYTES_PER_BUCKET)
        raise InvalidParameter(f"memory_bytes must be at least {least:,} for {instances} instances, got {memory_bytes:,}")
    return Parameters(instances, 2 * pairs, pairs)
