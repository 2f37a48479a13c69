"""Every emission policy by the name that commands, results and the agent give it."""

from __future__ import annotations

from collections.abc import Callable

from evenly.emission.policies.base import Emission
from evenly.emission.policies.first_come import FCFS
from evenly.emission.policies.largest_backlog import LBF
from evenly.emission.policies.longest_waiting import LongestWaiting
from evenly.emission.policies.round_robin import RRB
from evenly.emission.policies.skipping_round_robin import SkippingRoundRobin
from evenly.emission.policies.weighted_backlog import WeightedLBF
from evenly.errors import InvalidParameter

POLICIES: dict[str, Callable[[], Emission]] = {
    LBF.name: LBF,
    WeightedLBF.name: WeightedLBF,
    SkippingRoundRobin.name: SkippingRoundRobin,
    FCFS.name: FCFS,
    LongestWaiting.name: LongestWaiting,
    RRB.name: RRB,
}


def new_policy(name: str) -> Emission:
    """A new policy of that name."""
    if name not in POLICIES:
        raise InvalidParameter(f"there is no emission policy {name!r}: choose from {', '.join(POLICIES)}")
    return POLICIES[name]()
