"""DSM: Storm's default mapping."""

from __future__ import annotations

from collections import Counter

from evenly.planning.allocation.base import Allocation
from evenly.planning.machines import Cluster
from evenly.planning.mapping.base import Placed, gathered


class DSM:
    """Threads to slots in turn, whatever they use: no slot has two threads more than another.

    It always fits, and may promise more of a slot than there is.
    """

    name = "dsm"

    @staticmethod
    def least_slots(allocation: Allocation) -> int:
        """What the allocation counts."""
        return allocation.slots

    @staticmethod
    def place(allocation: Allocation, cluster: Cluster) -> list[Placed]:
        """Every thread on a slot of the cluster."""
        counts: Counter[tuple[str, int]] = Counter()
        following = 0
        for need in allocation.needs:
            each, more = divmod(need.threads, cluster.slots)
            for step in range(min(need.threads, cluster.slots)):
                counts[need.operator, (following + step) % cluster.slots] = each + (step < more)
            following = (following + need.threads) % cluster.slots
        return gathered(counts, allocation)
