"""How a join with hot keys is dealt out: which side may be split, which is copied, and where every row goes.

Rows of a hot key on one side are split over several instances; the other side's rows of that key are copied to each of them.
A row that is split meets all rows of its key, once. A row that is copied meets some of them on each instance, and none on
an instance that happened to get none. So the side that is copied must be one whose rows never come out alone:

- inner: either side may be split;
- left, semi, anti: the left side, for its rows come out alone (or must not come out twice);
- right: the right side;
- full: neither. Its keys are placed whole.

Rows with a null in their key meet nobody. Where they come out at all they do so alone, so any instance will do.
`tests/property/test_joins.py` proves it for all small tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evenly.errors import InvalidParameter
from evenly.kernels.types import I32, I64
from evenly.keys.hot_keys import split_hot_keys
from evenly.keys.mapping import Mapping
from evenly.keys.scheduling import largest_first
from evenly.keys.split_mapping import SplitMapping
from evenly.measures.load import imbalance_pct, instance_loads
from evenly.notebook import shown

JoinHow = Literal["inner", "left", "right", "full", "semi", "anti"]
Side = Literal["left", "right"]
JoinWay = Literal["split", "whole", "hash", "broadcast", "plain"]

SIDES: tuple[Side, Side] = ("left", "right")
MAY_SPLIT: dict[JoinHow, tuple[Side, ...]] = {
    "inner": ("left", "right"),
    "left": ("left",),
    "right": ("right",),
    "full": (),
    "semi": ("left",),
    "anti": ("left",),
}
"""The sides whose rows of one key may be on several instances."""

_ALONE: dict[JoinHow, tuple[Side, ...]] = {
    "inner": (),
    "left": ("left",),
    "right": ("right",),
    "full": ("left", "right"),
    "semi": (),
    "anti": ("left",),
}
_SPELLED: dict[str, JoinHow] = {
    **dict.fromkeys(("inner",), "inner"),
    **dict.fromkeys(("left", "leftouter"), "left"),
    **dict.fromkeys(("right", "rightouter"), "right"),
    **dict.fromkeys(("full", "outer", "fullouter"), "full"),
    **dict.fromkeys(("semi", "leftsemi"), "semi"),
    **dict.fromkeys(("anti", "leftanti"), "anti"),
}

ENOUGH_PCT = 5.0
"""The λ up to which Spark's own hash is left alone, if it is to be expected of it."""
_FINER = (1.0, 0.5, 0.25, 0.1)
_GOOD_PCT = 2.0
_DRAWS = 20


def join_how(given: object) -> JoinHow:
    """The kind of join that Spark reads in a text: case and underscores do not count."""
    how = _SPELLED.get(given.lower().replace("_", "")) if isinstance(given, str) else None
    if how is None:
        raise InvalidParameter(
            f"how must be inner, left, right, full, semi or anti, or another of Spark's spellings of one, got {given!r}"
        )
    return how


def comes_out_alone(how: JoinHow, side: Side) -> bool:
    """Whether a row of this side that matches none comes out."""
    return side in _ALONE[how]


def other(side: Side) -> Side:
    """The other side."""
    return "right" if side == "left" else "left"


def checked_side(split: object, how: JoinHow) -> Side | None:
    """The side that is to be split, if it may be."""
    allowed = MAY_SPLIT[how]
    found = next((side for side in SIDES if split == side), None)
    if split is not None and found is None:
        raise InvalidParameter(f"split must be 'left', 'right' or None, got {split!r}")
    if found is not None and found not in allowed:
        remedy = f"give split={allowed[0]!r}, or leave it out" if allowed else "leave split= out, and keys are placed whole"
        raise InvalidParameter(
            f"the {found} side of a {how} join cannot be split: rows of the {other(found)} side would be copied, and those "
            f"without a match come out once for each copy: {remedy}"
        )
    return found


@dataclass(frozen=True, eq=False)
class JoinPlan:
    """What `join_by_key` does with a join, and why.

        plan = evenly.plan_join(orders, users, on="user", how="left", instances=64)
        print(plan.way, plan.split_keys, plan.copies)

    - `way`: `"split"`, hot keys of `side` over several instances and the other side's rows of them copied; `"whole"`, every key
      on one instance, as `mapping` has it; `"hash"`, every key on one of `instances` instances by its hash, for that is
      even enough; `"broadcast"` and `"plain"`, Spark's own join, for it copies a small side everywhere, or for lack of a way
      to place rows on an old Spark.
    - `mapping` is what was learnt or given, as it is followed; None where rows are not placed by one.
    """

    way: JoinWay
    why: str
    instances: int
    side: Side | None = None
    mapping: SplitMapping | None = None

    @property
    def split_keys(self) -> int:
        """How many keys are on several instances."""
        return 0 if self.mapping is None else int(self.mapping.split.size)

    @property
    def copies(self) -> int:
        """How many more copies there are of a row of the other side, one of each split key together."""
        return 0 if self.mapping is None or not self.mapping.needs_merge else int((copied(self.mapping)[1] - 1).sum())

    def __str__(self) -> str:
        return f"{self.way}: {self.why}"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        facts: dict[str, object] = {"way": self.way, "why": self.why, "side that is split": self.side or "none"}
        loads = {}
        if self.mapping is not None:
            facts |= {"keys on several instances": f"{self.split_keys:,}", "copies of a row of each": f"{self.copies:,}"}
            loads = {"load of the rows it was learnt from": self.mapping.fitted_loads.tolist()}
        return shown(f"Join over {self.instances} instances", facts, loads)


def planned_join(mapping: Mapping | SplitMapping, how: JoinHow, side: Side | None) -> JoinPlan:
    """How to place a join whose keys have the loads that `mapping` was fitted to; `side` (None: neither) is to be split.

    A `Mapping` is split as finely as λ needs it; a `SplitMapping` is followed as it is, unless neither side may be split.
    """
    checked_side(side, how)
    planned = whole_keys(mapping) if side is None else _split(mapping)
    if planned.needs_merge:
        keys, parts = planned.split.size, int(copied(planned)[1].sum())
        why = (
            f"{keys} hot {'key' if keys == 1 else 'keys'} of the {side} side split into {parts} parts, λ "
            f"{planned.fitted_imbalance_pct:.1f} % of the rows that the mapping was learnt from"
        )
        return JoinPlan("split", why, planned.instances, side, planned)
    by_hash = hash_imbalance_pct(planned.light)
    placed = f"λ {planned.fitted_imbalance_pct:.1f} % where a hash would have about {by_hash:.0f} %"
    if by_hash <= ENOUGH_PCT and planned.light.capacities is None:
        return JoinPlan("hash", f"no key is hot, and a hash of the keys has a λ of about {by_hash:.1f} %", planned.instances)
    told = f"a {how} join keeps its keys whole" if not MAY_SPLIT[how] else "no key is split"
    if side is None and MAY_SPLIT[how]:
        told += ", for nothing is known to tell rows of one apart"
    why = f"{told}, {placed}"
    return JoinPlan("whole", why, planned.instances, None, planned)


def _split(mapping: Mapping | SplitMapping) -> SplitMapping:
    """Split where λ needs it: a copy of a few rows is cheap, so keys of less than an instance may be split too."""
    if isinstance(mapping, SplitMapping):
        return mapping
    best = split_hot_keys(mapping, above=_FINER[0])
    for above in _FINER[1:]:
        if best.fitted_imbalance_pct <= _GOOD_PCT:
            break
        finer = split_hot_keys(mapping, above=above)
        if finer.fitted_imbalance_pct < best.fitted_imbalance_pct - 1.0:
            best = finer
    return best


def whole_keys(mapping: Mapping | SplitMapping) -> SplitMapping:
    """A mapping under which no key is split; split keys are dealt out anew with all others, the heaviest first."""
    if isinstance(mapping, Mapping):
        return SplitMapping(light=mapping)
    if not mapping.needs_merge:
        return mapping
    light = mapping.light
    keys = np.concatenate([light.heavy_keys, mapping.split])
    weights = np.concatenate([light.heavy_weights, np.add.reduceat(mapping.part_loads, mapping.starts[:-1])])
    buckets = light.bucket_weights if light.bucket_weights.size else np.zeros(light.buckets.size)
    places = largest_first(np.concatenate([weights, buckets]), light.instances, light.capacities)
    own = keys.size
    dealt = replace(light, heavy_keys=keys, heavy_instances=places[:own], heavy_weights=weights, buckets=places[own:])
    return SplitMapping(light=dealt, way=mapping.way)


def copied(mapping: SplitMapping) -> tuple[I64, I64, I32]:
    """Where the other side's rows of each split key go: the first place, how many, and at these places the instances.

    Each instance once, whatever parts a mapping names: a second copy on one instance would double results.
    """
    homes = [np.unique(part) for part in np.split(mapping.parts, mapping.starts[1:-1])] if mapping.split.size else []
    counts = np.array([home.size for home in homes], np.int64)
    starts = np.cumsum(counts) - counts
    return starts, counts, np.concatenate(homes).astype(np.int32) if homes else np.zeros(0, np.int32)


def hash_imbalance_pct(mapping: Mapping) -> float:
    """The λ to expect of these keys where a hash places them, whichever hash that is: the mean of some draws.

    Buckets hold many keys, which a hash would part; taken together they only look less even than they are.
    """
    weights = np.concatenate([mapping.heavy_weights, mapping.bucket_weights])
    if weights.sum() == 0.0:
        return 0.0
    draws = np.random.default_rng(0).integers(0, mapping.instances, (_DRAWS, weights.size), dtype=np.int32)
    return float(np.mean([imbalance_pct(instance_loads(draw, mapping.instances, weights)) for draw in draws]))
