"""Which keys are hotter than an instance, and over which instances to split them so that no instance has more than its share.

The load of a split key can be cut anywhere, like water; other keys and buckets are blocks. Blocks first, then the water:
it fills the instances from the lowest level up, and no other cut of it gives a lower maximum on top of these blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenly.errors import InvalidParameter
from evenly.kernels.types import F64, I32, I64
from evenly.keys.mapping import Mapping
from evenly.keys.scheduling import largest_first
from evenly.keys.split_mapping import SplitMapping, SplitWay
from evenly.measures.load import instance_loads
from evenly.measures.water_level import water_level

_SWEEPS = 8
_NOTHING = 1e-9


@dataclass(frozen=True)
class HotKey:
    """A key (by its id) with more than an instance's fair share: its share of all, and how many instances' worth it is."""

    id: int
    share: float
    instances_worth: float


def hot_keys(mapping: Mapping) -> tuple[HotKey, ...]:
    """The keys that no placement of whole keys can balance, hottest first: each above the largest instance's fair share."""
    total = _total(mapping)
    found = _hot(mapping, 1.0)
    found = found[np.argsort(-mapping.heavy_weights[found], kind="stable")]
    return tuple(
        HotKey(
            id=int(mapping.heavy_keys[at]),
            share=float(mapping.heavy_weights[at]) / total,
            instances_worth=float(mapping.heavy_weights[at] / _fair_share(mapping)),
        )
        for at in found.tolist()
    )


def split_hot_keys(mapping: Mapping, *, way: SplitWay = "dkg+pkg", above: float = 1.0, slack_pct: float = 1.0) -> SplitMapping:
    """Split every key of more than `above` fair shares of an instance, and place all others whole.

    - `way="dkg+pkg"` (Rivetti et al., 2015, there in two halves): over as few instances of equal capacity as hold it, more
      only where more than `slack_pct` of λ would be lost otherwise. Fewest parts to merge.
    - `way="w-choices"` (Nasir et al., 2016): each over all instances that have room. Most parts to merge, but an error in
      what was learnt about the key is spread over all instances.

    The expected λ is never above that of `mapping`, and 0 where blocks leave room for the split keys on every instance.
    With no such key the mapping is kept as it is. `above` is from 0.05 to 1 (below 1 it splits keys that could stay whole
    but are too coarse to balance well), `slack_pct` at least 0.
    """
    if way not in ("dkg+pkg", "w-choices"):
        raise InvalidParameter(f"way must be 'dkg+pkg' or 'w-choices', got {way!r}")
    if not 0.05 <= above <= 1.0:
        raise InvalidParameter(f"above must be from 0.05 to 1, in fair shares of an instance, got {above}")
    if not slack_pct >= 0.0:
        raise InvalidParameter(f"slack_pct must be at least 0, got {slack_pct}")
    hot = _hot(mapping, above)
    if hot.size == 0:
        return SplitMapping(light=mapping, way=way)
    job = _Job(mapping, hot)
    places = job.best_places()
    flat = job.wrapped(places)
    if way == "w-choices":
        return job.mapping(job.everywhere(places), way)
    most = min(job.level(flat) * (1.0 + slack_pct / 100.0), job.level_of(mapping.fitted_loads))
    for extra in (0, *(2**power for power in range(mapping.instances.bit_length()))):
        few = job.few(extra)
        if job.level(few) <= most * (1.0 + _NOTHING):
            return job.mapping(few, way)
    return job.mapping(flat, way)


def split_in_parts(mapping: Mapping, fewest: I64, most: I64, *, slack_pct: float = 1.0) -> SplitMapping:
    """Split each heavy key of `fewest` 2 or more into that many parts of about the same load, and place all others whole.

    Where it lowers λ by more than `slack_pct` there are more parts, at most as many as `most` says for the key. Both have a
    number for each of `mapping.heavy_keys`, whose weights are what all parts of a key weigh together.
    """
    hot = np.flatnonzero((np.minimum(fewest, most) > 1) & (mapping.heavy_weights > 0.0))
    if hot.size == 0 or mapping.instances == 1:
        return SplitMapping(light=mapping)
    job = _Job(mapping, hot)
    hot = job.hot
    enough = job.level(job.wrapped(job.best_places())) * (1.0 + slack_pct / 100.0)
    best = job.cut(fewest[hot])
    for extra in (2**power for power in range(mapping.instances.bit_length())):
        if job.level(best) <= enough:
            break
        more = job.cut(np.minimum(fewest[hot] + extra, most[hot]))
        best = more if job.level(more) < job.level(best) else best
    return job.mapping(best, "dkg+pkg")


@dataclass(frozen=True)
class _Plan:
    """Where each block is, and the parts: which split key, on which instance, how much of its load."""

    places: I32
    numbers: I64
    instances: I32
    loads: F64


class _Job:
    """One mapping's load, as water (the split keys) and blocks (all else), and ways to place them."""

    def __init__(self, mapping: Mapping, hot: I64) -> None:
        self.whole = mapping
        self.kept = np.setdiff1d(np.arange(mapping.heavy_keys.size), hot)
        self.hot = hot[np.argsort(mapping.heavy_keys[hot])]
        self.water = mapping.heavy_weights[self.hot]
        buckets = mapping.bucket_weights if mapping.bucket_weights.size else np.zeros(mapping.buckets.size)
        self.blocks = np.concatenate([mapping.heavy_weights[self.kept], buckets])
        self.room = np.ones(mapping.instances) if mapping.capacities is None else mapping.capacities

    def block_loads(self, places: I32) -> F64:
        return instance_loads(places, self.room.size, self.blocks)

    def level_of(self, loads: F64) -> float:
        return float((loads / self.room).max())

    def level(self, plan: _Plan) -> float:
        return self.level_of(self.block_loads(plan.places) + instance_loads(plan.instances, self.room.size, plan.loads))

    def best_places(self) -> I32:
        """Blocks where the mapping has them, or dealt out anew if that leaves a lower level under the water.

        Water on top of the mapping's own blocks cannot rise above the mapping's highest instance: there the same water
        is a column on a few instances.
        """
        as_they_are = np.concatenate([self.whole.heavy_instances[self.kept], self.whole.buckets])
        dealt = largest_first(self.blocks, self.room.size, self.whole.capacities)
        levels = [self.level(self.wrapped(places)) for places in (as_they_are, dealt)]
        return dealt if levels[1] < levels[0] * (1.0 - _NOTHING) else as_they_are

    def _poured(self, places: I32) -> F64:
        return poured(self.block_loads(places), self.room, float(self.water.sum()))

    def everywhere(self, places: I32) -> _Plan:
        """Each split key over all instances that have room, by the room that they have."""
        gaps = self._poured(places)
        open_instances = np.flatnonzero(gaps > 0.0)
        shares = gaps[open_instances] / gaps.sum()
        plan = _Plan(
            places,
            numbers=np.repeat(np.arange(self.water.size), open_instances.size),
            instances=np.tile(open_instances, self.water.size).astype(np.int32),
            loads=np.outer(self.water, shares).ravel(),
        )
        return _whole_parts(plan, self.water)

    def wrapped(self, places: I32) -> _Plan:
        """The split keys one after the other into the gaps, one after the other: hardly more parts than keys and gaps."""
        gaps = np.cumsum(self._poured(places))
        keys = np.cumsum(self.water)
        gaps *= keys[-1] / gaps[-1]
        cuts = np.union1d(gaps, keys)
        loads = np.diff(cuts, prepend=0.0)
        middle = cuts - loads / 2.0
        numbers = np.minimum(np.searchsorted(keys, middle), keys.size - 1)
        instances = np.minimum(np.searchsorted(gaps, middle), gaps.size - 1)
        return _whole_parts(_Plan(places, numbers, instances.astype(np.int32), loads), self.water)

    def few(self, extra: int) -> _Plan:
        """Each split key in the fewest equal pieces that fit an instance, and `extra` more."""
        fewest = np.ceil(self.water / _fair_share(self.whole) * (1.0 - _NOTHING)).astype(np.int64)
        return self.cut(np.maximum(fewest, 2) + extra)

    def cut(self, pieces: I64) -> _Plan:
        """Each split key in so many equal pieces, at most one for each instance, scheduled with the blocks.

        Then the sizes of the pieces are levelled, each key in turn: that lowers the highest instance or leaves it.
        """
        count = self.room.size
        pieces = np.minimum(pieces, count)
        sizes = np.repeat(self.water / pieces, pieces)
        placed = largest_first(np.concatenate([sizes, self.blocks]), count, self.whole.capacities)
        places, owners = placed[sizes.size :], np.repeat(np.arange(self.water.size), pieces)
        homes = [np.unique(placed[: sizes.size][owners == number]) for number in range(self.water.size)]
        amounts = [water / home.size * np.ones(home.size) for water, home in zip(self.water, homes, strict=True)]
        loads = self.block_loads(places)
        for home, amount in zip(homes, amounts, strict=True):
            loads[home] += amount
        for _ in range(_SWEEPS if self.water.size > 1 else 1):
            for number, home in enumerate(homes):
                loads[home] -= amounts[number]
                amounts[number] = poured(loads[home], self.room[home], float(self.water[number]))
                loads[home] += amounts[number]
        numbers = np.repeat(np.arange(self.water.size), [home.size for home in homes])
        return _whole_parts(_Plan(places, numbers, np.concatenate(homes), np.concatenate(amounts)), self.water)

    def mapping(self, plan: _Plan, way: SplitWay) -> SplitMapping:
        own = self.kept.size
        light = replace(
            self.whole,
            buckets=plan.places[own:],
            heavy_keys=self.whole.heavy_keys[self.kept],
            heavy_instances=plan.places[:own],
            heavy_weights=self.whole.heavy_weights[self.kept],
        )
        order = np.lexsort((plan.instances, plan.numbers))
        starts = np.concatenate([[0], np.cumsum(np.bincount(plan.numbers, minlength=self.water.size))])
        return SplitMapping(
            light=light,
            split=self.whole.heavy_keys[self.hot],
            starts=starts.astype(np.int64),
            parts=plan.instances[order].astype(np.int32),
            part_loads=plan.loads[order],
            way=way,
        )


def poured(loads: F64, room: F64, water: float) -> F64:
    """How much each instance gets when `water` is poured over all: the lowest level, load over room, is filled first."""
    gaps = np.maximum(water_level(loads, room, water) * room - loads, 0.0)
    filled: F64 = gaps * (water / gaps.sum())
    return filled


def _whole_parts(plan: _Plan, water: F64) -> _Plan:
    """Without parts that only rounding has made; what is left of a key is all of it."""
    real = plan.loads > _NOTHING * water[plan.numbers]
    numbers, loads = plan.numbers[real], plan.loads[real]
    whole = np.bincount(numbers, loads, minlength=water.size)
    return _Plan(plan.places, numbers, plan.instances[real], loads * (water / whole)[numbers])


def _total(mapping: Mapping) -> float:
    return float(mapping.heavy_weights.sum() + mapping.bucket_weights.sum())


def _fair_share(mapping: Mapping) -> float:
    """The load of the largest instance if all were balanced."""
    if mapping.capacities is None:
        return _total(mapping) / mapping.instances
    return _total(mapping) * float(mapping.capacities.max() / mapping.capacities.sum())


def _hot(mapping: Mapping, above: float) -> I64:
    """Which heavy keys have more than `above` fair shares; with one instance none."""
    if mapping.instances == 1 or _total(mapping) == 0.0:
        return np.zeros(0, np.int64)
    return np.flatnonzero(mapping.heavy_weights > above * _fair_share(mapping) * (1.0 + _NOTHING))
