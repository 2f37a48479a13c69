"""Where groups go in a run that balances their time, and what is said of groups that no placement can make good."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from evenly.costs.group_times import GroupTimes
from evenly.keys.mapping import Mapping
from evenly.keys.split_mapping import SplitMapping

_LOG = logging.getLogger(__name__)
_TOLD = 3
_CLEARLY, _WORTH_S = 1.1, 1.0
"""A group is named if it is longer than an instance's share by so much, in parts and in seconds."""
_WHOLE = (
    "If results of parts can be merged, aggregate_by_key with a Merging and balance='time' (or mapping=watch.mapping) splits "
    "such keys"
)
_IN_PARTS = "They are parts of keys that have no more rows to be cut by"


@dataclass(frozen=True)
class GroupPlan:
    """Where groups go in a run, by the times that are known before it.

    `instances` may be fewer than those of `mapping`, which is then over pieces of what they do. `blind`: nothing was known of
    times. `knowing` is where the same groups go once they are known, without another look at them.
    """

    mapping: Mapping | SplitMapping
    instances: int
    blind: bool
    knowing: Callable[[GroupTimes], Mapping | SplitMapping]

    @property
    def whole(self) -> Mapping:
        """The mapping, of keys that are kept whole."""
        return self.mapping.light if isinstance(self.mapping, SplitMapping) else self.mapping

    @classmethod
    def kept(cls, mapping: Mapping | SplitMapping) -> Self:
        """By a mapping that earlier runs have left."""
        return cls(mapping, mapping.instances, blind=False, knowing=lambda _: mapping)


def tell_of_long_groups(mapping: Mapping | SplitMapping, times: GroupTimes) -> None:
    """A warning that names the groups that no placement can make good, and what would help; of a mapping by known times.

    Of a key that is split its longest part counts.
    """
    if isinstance(mapping, Mapping):
        ids, seconds, remedy = mapping.heavy_keys, mapping.heavy_weights, _WHOLE
    else:
        parts_s = np.maximum.reduceat(mapping.part_loads, mapping.starts[:-1]) if mapping.split.size else np.empty(0)
        ids = np.concatenate([mapping.light.heavy_keys, mapping.split])
        seconds, remedy = np.concatenate([mapping.light.heavy_weights, parts_s]), _IN_PARTS
    total_s = float(mapping.fitted_loads.sum())
    share_s = total_s / mapping.instances
    order = np.argsort(-seconds, kind="stable")[:_TOLD]
    order = order[seconds[order] > max(_CLEARLY * share_s, share_s + _WORTH_S)]
    if not order.size:
        return
    longest_s = float(seconds[order[0]])
    called = times.names
    told = []
    for at in order.tolist():
        key = int(ids[at : at + 1].view(np.int64)[0])
        name = called.get(key, f"a key not timed by name yet, xxhash64({', '.join(mapping.columns)}) = {key}")
        told.append(f"{name} ({seconds[at]:.3g} s)")
    fewer = max(1, int(total_s / longest_s))
    _LOG.warning(
        "longer than an instance's share of %.3g s are the groups of %s: the stage takes at least %.3g s. %s; otherwise %d "
        "instance%s will do as well",
        share_s,
        "; ".join(told),
        longest_s,
        remedy,
        fewer,
        "" if fewer == 1 else "s",
    )
