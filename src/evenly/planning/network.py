"""Network distance: how much of the traffic crosses machines, and SAM's bundles arranged so that less does.

Slots are alike, so what SAM put on one slot may as well sit on another: the packing, the rates and the number of slots
stay the same, and only the traffic between machines changes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from evenly.kernels.types import F64
from evenly.planning.allocation.base import Allocation
from evenly.planning.machines import Cluster
from evenly.planning.mapping.base import Placed
from evenly.planning.mapping.sam import SAM

_MOST_SLOTS_SWAPPED = 160


def crossing_rate(placed: list[Placed], allocation: Allocation, cluster: Cluster) -> float:
    """Tuples/s that leave their machine at the planned rate, where tuples are spread over threads alike."""
    return _crossing(placed, allocation, cluster)[0]


def crossing_pct(placed: list[Placed], allocation: Allocation, cluster: Cluster) -> float:
    """Which part of all tuples between operators leaves its machine."""
    crossing, total = _crossing(placed, allocation, cluster)
    return 100.0 * crossing / total if total > 0.0 else 0.0


def _crossing(placed: list[Placed], allocation: Allocation, cluster: Cluster) -> tuple[float, float]:
    """Tuples/s that leave their machine, and all."""
    flow = allocation.dataflow
    rates = flow.rates(allocation.rate)
    parts: dict[str, dict[int, float]] = {name: defaultdict(float) for name in flow.order}
    for one in placed:
        parts[one.operator][cluster.machine_of[one.slot]] += one.threads / allocation.by_operator[one.operator].threads
    total = crossing = 0.0
    for edge in flow.edges:
        sent = rates[edge.start] * flow.part(edge)
        staying = sum(part * parts[edge.end].get(machine, 0.0) for machine, part in parts[edge.start].items())
        total += sent
        crossing += sent * (1.0 - staying)
    return crossing, total


class NearSAM:
    """SAM, then slots exchanged between machines so that operators that talk sit together.

    It takes as many slots as SAM, with the same bundles on them, and never sends more tuples between machines than SAM
    does (`tests/property/test_planning.py`).
    """

    name = "sam-near"

    @staticmethod
    def least_slots(allocation: Allocation) -> int:
        """As many as SAM needs."""
        return SAM.least_slots(allocation)

    @staticmethod
    def place(allocation: Allocation, cluster: Cluster) -> list[Placed]:
        """Every bundle on a slot of the cluster, or `DoesNotFit`."""
        placed = SAM.place(allocation, cluster)
        if len(cluster.machines) < 2:
            return placed
        slots = cluster.slots
        order = _grown(placed, allocation, cluster)
        if slots <= _MOST_SLOTS_SWAPPED:
            order = _swapped(order, placed, allocation, cluster)
        arranged = [replace(one, slot=order[one.slot]) for one in placed]
        return min((placed, arranged), key=lambda found: crossing_rate(found, allocation, cluster))


def _neighbours(placed: list[Placed], allocation: Allocation) -> list[dict[int, float]]:
    """Tuples/s between every two slots that talk."""
    flow = allocation.dataflow
    rates = flow.rates(allocation.rate)
    by_operator: dict[str, list[Placed]] = defaultdict(list)
    for one in placed:
        by_operator[one.operator].append(one)
    talk: list[dict[int, float]] = [defaultdict(float) for _ in range(1 + max(one.slot for one in placed))]
    for edge in flow.edges:
        sent = rates[edge.start] * flow.part(edge)
        threads = allocation.by_operator[edge.start].threads * allocation.by_operator[edge.end].threads
        for one in by_operator[edge.start]:
            for other in by_operator[edge.end]:
                if one.slot != other.slot:
                    between = sent * one.threads * other.threads / threads
                    talk[one.slot][other.slot] += between
                    talk[other.slot][one.slot] += between
    return talk


def _grown(placed: list[Placed], allocation: Allocation, cluster: Cluster) -> list[int]:
    """Machines filled one after the other, each with the slot that talks most with what is there already.

    The answer has the new place of every slot.
    """
    talk = _neighbours(placed, allocation)
    talk += [{} for _ in range(cluster.slots - len(talk))]
    waiting = dict.fromkeys(range(cluster.slots))
    order = [-1] * cluster.slots
    place = 0
    for machine in cluster.machines:
        pull: dict[int, float] = {}
        for _ in range(machine.slots):
            slot = max(pull, key=lambda one: (pull[one], -one)) if pull else next(iter(waiting))
            order[slot] = place
            place += 1
            del waiting[slot]
            pull.pop(slot, None)
            for other, rate in talk[slot].items():
                if other in waiting:
                    pull[other] = pull.get(other, 0.0) + rate
    return order


def _swapped(order: list[int], placed: list[Placed], allocation: Allocation, cluster: Cluster) -> list[int]:
    """Exchange two slots as long as that keeps more traffic on machines."""
    talk: F64 = np.zeros((cluster.slots, cluster.slots))
    for slot, others in enumerate(_neighbours(placed, allocation)):
        for other, rate in others.items():
            talk[slot, other] = rate
    home = np.array([cluster.machine_of[place] for place in order])
    order = list(order)
    for _ in range(4 * cluster.slots):
        members = np.equal.outer(np.arange(len(cluster.machines)), home).astype(np.float64)
        pull = talk @ members.T
        own = pull[np.arange(cluster.slots), home]
        gain = pull[:, home] - own[:, None]
        gain = gain + gain.T - 2.0 * talk
        gain[home[:, None] == home[None, :]] = 0.0
        one, other = (int(place) for place in np.unravel_index(int(np.argmax(gain)), gain.shape))
        if gain[one, other] <= 1e-9:
            break
        home[one], home[other] = home[other], home[one]
        order[one], order[other] = order[other], order[one]
    return order
