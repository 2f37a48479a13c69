"""When keys change: has the mapping in force become bad, and which few moves would fix it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evenly.errors import InvalidParameter
from evenly.kernels.types import F64, I32, U64
from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.measures.load import imbalance_pct, instance_loads


@dataclass(frozen=True)
class Drift:
    """What the mapping in force gives now, and what a fresh one would."""

    now_pct: float
    fresh_pct: float
    threshold_pct: float

    @property
    def rebuild(self) -> bool:
        """Whether a fresh mapping would gain at least the threshold."""
        return self.now_pct - self.fresh_pct >= self.threshold_pct


@dataclass(frozen=True)
class Move:
    """One heavy key (by its id) or one bucket (by its number) that changes its instance, and the load that goes with it."""

    kind: str
    item: int
    source: int
    target: int
    load: float


@dataclass(frozen=True)
class Rebuild:
    """The next version of a mapping, and how it differs from the one before."""

    mapping: Mapping
    moves: tuple[Move, ...]
    moved_load_pct: float


@dataclass(frozen=True)
class _Items:
    """All that can be moved, where it is now, and what it weighs."""

    keys: U64
    weights: F64
    places: I32


def detect(learner: DKG, mapping: Mapping, *, threshold_pct: float = 5.0) -> Drift:
    """Compare the mapping in force with a fresh one, both for what the learner holds now.

    Give the learner a `half_life`, so that it holds the recent tuples. `threshold_pct` is in percentage points of λ.
    """
    if not threshold_pct >= 0.0:
        raise InvalidParameter(f"threshold_pct must be at least 0, got {threshold_pct}")
    items = _items(learner, mapping)
    now = imbalance_pct(instance_loads(items.places, mapping.instances, items.weights), mapping.capacities)
    fresh = learner.mapping(mapping.instances, capacities=mapping.capacities).fitted_imbalance_pct
    return Drift(now, fresh, threshold_pct)


def rebuild(learner: DKG, mapping: Mapping, *, budget_pct: float = 5.0, slack_pct: float = 1.0) -> Rebuild:
    """A mapping for what the learner holds now that moves at most `budget_pct` of the load from the one in force.

    A key that has become heavy gets an entry of its own where it is, which moves nothing. Then, as long as the
    most loaded instance exceeds the mean by `slack_pct`, the item that helps most is moved from it to the least
    loaded one. Every key that is not listed in `moves` stays where it was.
    """
    if not 0.0 <= budget_pct <= 100.0:
        raise InvalidParameter(f"budget_pct must be from 0 to 100, got {budget_pct}")
    if not slack_pct >= 0.0:
        raise InvalidParameter(f"slack_pct must be at least 0, got {slack_pct}")
    items = _items(learner, mapping)
    room = np.ones(mapping.instances) if mapping.capacities is None else mapping.capacities
    total = float(items.weights.sum())
    places = _moved(items, room, budget=total * budget_pct / 100.0, slack_pct=slack_pct)
    changed = np.flatnonzero(places != items.places)
    heavy = items.keys.size
    moves = tuple(
        Move(
            kind="key" if at < heavy else "bucket",
            item=int(items.keys[at]) if at < heavy else int(at - heavy),
            source=int(items.places[at]),
            target=int(places[at]),
            load=float(items.weights[at]),
        )
        for at in changed
    )
    moved = float(items.weights[changed].sum())
    own, buckets = places[:heavy], places[heavy:]
    # An entry that says what the bucket says anyway, of a key that is no longer heavy, is dropped: nothing moves.
    needed = (own != buckets[learner.buckets_of(items.keys)]) | np.isin(items.keys, learner.heavy_keys()[0])
    renewed = replace(
        mapping,
        buckets=buckets,
        bucket_weights=items.weights[heavy:],
        heavy_keys=items.keys[needed],
        heavy_instances=own[needed],
        heavy_weights=items.weights[:heavy][needed],
        version=mapping.version + 1,
        expectation=None,
    )
    return Rebuild(renewed, moves, 100.0 * moved / total if total else 0.0)


def _items(learner: DKG, mapping: Mapping) -> _Items:
    """Keys with an entry now or heavy now, then buckets, each where the mapping in force has it."""
    if (learner.a, learner.b, learner.bucket_count) != (mapping.a, mapping.b, mapping.buckets.size):
        raise InvalidParameter(
            f"the learner has {learner.bucket_count} buckets and the mapping {mapping.buckets.size}, or their hashes differ: "
            "use a learner with the parameters and the seed that the mapping was learnt with"
        )
    keys = np.union1d(mapping.heavy_keys, learner.heavy_keys()[0])
    weights = learner.guaranteed(keys)
    buckets = learner.sparse_loads(keys, weights)
    places = np.concatenate([mapping.assign_ids(keys), mapping.buckets])
    return _Items(keys, np.concatenate([weights, buckets]), places)


def _moved(items: _Items, room: F64, *, budget: float, slack_pct: float) -> I32:
    places = items.places.copy()
    loads = instance_loads(places, room.size, items.weights)
    mean = loads.sum() / room.sum()
    untouched = np.ones(places.size, np.bool_)
    while True:
        relative = loads / room
        source, target = int(relative.argmax()), int(relative.argmin())
        if relative[source] <= mean * (1.0 + slack_pct / 100.0):
            return places
        here = np.flatnonzero((places == source) & untouched & (items.weights > 0.0) & (items.weights <= budget))
        after = np.maximum(
            (loads[source] - items.weights[here]) / room[source], (loads[target] + items.weights[here]) / room[target]
        )
        helping = here[after < relative[source]]
        if helping.size == 0:
            return places
        best = helping[int(after[after < relative[source]].argmin())]
        weight = items.weights[best]
        places[best], untouched[best] = target, False
        loads[source] -= weight
        loads[target] += weight
        budget -= weight
