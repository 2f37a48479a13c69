"""Where the threads of an allocation sit: bundles on slots of machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from evenly.errors import DoesNotFit
from evenly.planning.allocation.base import Allocation, Need
from evenly.planning.machines import Catalogue, Cluster

MOST_EXTRA_SLOTS = 100_000
_SINGLE_STEPS = 4


@dataclass(frozen=True)
class Placed:
    """Threads of one operator on one slot. `rate` is what they are to carry, where the mapping decided that."""

    operator: str
    slot: int
    threads: int
    cpu_pct: float
    mem_pct: float
    rate: float | None = None


@dataclass(frozen=True)
class ThreadPlacement:
    """Every thread of an allocation on a slot. `extra_slots` were needed beyond those that the allocation counted."""

    algorithm: str
    allocation: Allocation
    cluster: Cluster
    placed: tuple[Placed, ...]
    extra_slots: int = 0

    @cached_property
    def by_operator(self) -> Mapping[str, list[Placed]]:
        """What is placed of each operator."""
        grouped: dict[str, list[Placed]] = {name: [] for name in self.allocation.dataflow.order}
        for one in self.placed:
            grouped[one.operator].append(one)
        return grouped

    @cached_property
    def by_slot(self) -> Mapping[int, list[Placed]]:
        """What is placed on each slot, empty slots too."""
        grouped: dict[int, list[Placed]] = {slot: [] for slot in range(self.cluster.slots)}
        for one in self.placed:
            grouped[one.slot].append(one)
        return grouped

    @property
    def slots(self) -> int:
        """Slots that the placement takes, used or not."""
        return self.cluster.slots


class SlotMapping(Protocol):
    """A mapping algorithm."""

    name: str

    def least_slots(self, allocation: Allocation) -> int:
        """No fewer slots than these will do: the answer may be too low, never too high."""
        ...

    def place(self, allocation: Allocation, cluster: Cluster) -> list[Placed]:
        """Every thread on a slot of the cluster, or `DoesNotFit`."""
        ...


def place_threads(allocation: Allocation, mapping: SlotMapping, *, catalogue: Catalogue) -> ThreadPlacement:
    """Take machines for the slots that the allocation counts, and one slot more as often as the mapping needs it.

    Where the mapping knows how many it needs they are added at once. Else, after a few, the steps double, and a search
    between the last two finds where it begins to fit.
    """

    def attempt(extra: int) -> ThreadPlacement | DoesNotFit:
        cluster = catalogue.acquire(allocation.slots + extra)
        try:
            return ThreadPlacement(mapping.name, allocation, cluster, tuple(mapping.place(allocation, cluster)), extra)
        except DoesNotFit as error:
            return error

    extra = max(0, mapping.least_slots(allocation) - allocation.slots)
    failed = extra - 1
    found = attempt(extra)
    while isinstance(found, DoesNotFit):
        failed = extra
        extra = extra + 1 if extra < _SINGLE_STEPS else 2 * extra
        if extra > MOST_EXTRA_SLOTS:
            raise DoesNotFit(f"{found}, even with {failed} slots more than the {allocation.slots} allocated") from found
        found = attempt(extra)
    while extra - failed > 1:
        between = attempt((failed + extra) // 2)
        if isinstance(between, DoesNotFit):
            failed = (failed + extra) // 2
        else:
            found, extra = between, between.extra_slots
    return found


def place_on(allocation: Allocation, mapping: SlotMapping, cluster: Cluster) -> ThreadPlacement:
    """Place on a fixed set of machines, or `DoesNotFit`."""
    if allocation.slots > cluster.slots:
        raise DoesNotFit(
            f"{allocation.rate:g} tuples/s need {allocation.slots} slots by {allocation.algorithm.upper()}, "
            f"and the machines have {cluster.slots}: lower the rate or add machines"
        )
    return ThreadPlacement(mapping.name, allocation, cluster, tuple(mapping.place(allocation, cluster)))


def part_of_allocated(need: Need) -> tuple[float, float]:
    """Cpu % and memory % of one thread: its part of what is allocated."""
    return need.thread_cpu_pct, need.thread_mem_pct


def used_alone(need: Need) -> tuple[float, float]:
    """Cpu % and memory % of one thread: what it uses by itself on a slot."""
    return need.alone_cpu_pct, need.alone_mem_pct


def gathered(
    counts: Mapping[tuple[str, int], int],
    allocation: Allocation,
    use: Callable[[Need], tuple[float, float]] = part_of_allocated,
) -> list[Placed]:
    """Single threads that were placed, as one entry for each operator and slot, by slot and in the dataflow's order."""
    place_threads = {need.operator: at for at, need in enumerate(allocation.needs)}
    found = []
    for (operator, slot), threads in sorted(counts.items(), key=lambda item: (item[0][1], place_threads[item[0][0]])):
        need = allocation.needs[place_threads[operator]]
        cpu_pct, mem_pct = use(need)
        found.append(Placed(operator, slot, threads, threads * cpu_pct, threads * mem_pct))
    return found
