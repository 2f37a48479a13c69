"""SAM: slot-aware mapping."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenly.errors import DoesNotFit, InvalidParameter
from evenly.planning.allocation.base import Allocation, Bundle, Need
from evenly.planning.machines import Cluster
from evenly.planning.mapping.base import Placed

_ROUNDING = 1e-9


class SAM:
    """A full bundle to a slot of its own, a partial one to the slot with the least room that is enough.

    Bundles are placed in sweeps over the operators in the dataflow's order, one bundle of each a sweep. Full bundles
    stay on the last machine while it has an empty slot, then go to its neighbour. No slot's cpu or memory is promised
    beyond 100 %, every thread is placed once, and at most as many slots hold threads of several operators as there are
    partial bundles (`tests/property/test_planning.py`).
    """

    name = "sam"

    @staticmethod
    def least_slots(allocation: Allocation) -> int:
        """Just as many as it needs: full bundles take a slot each, and partial ones pack alike wherever slots are."""
        _check(allocation)
        packing = _Packing(allocation)
        full = 0
        for need, bundle in _in_sweeps(allocation):
            if bundle is need.rest:
                packing.add(bundle, packing.find(bundle))
            else:
                full += 1
        return full + packing.open

    @staticmethod
    def place(allocation: Allocation, cluster: Cluster) -> list[Placed]:
        """Every bundle on a slot of the cluster, or `DoesNotFit`. The allocation must be one of bundles (MBA's)."""
        _check(allocation)
        slots, packing = _Slots(cluster), _Packing(allocation)
        shared: list[int] = []
        placed: list[Placed] = []
        for need, bundle in _in_sweeps(allocation):
            partial = bundle is need.rest
            slot: int | None
            if partial:
                at = packing.find(bundle)
                slot = slots.first_empty() if at == len(shared) else shared[at]
            else:
                slot = slots.near_empty()
            if slot is None:
                kind = "partial" if partial else "full"
                raise DoesNotFit(f"no slot is left for a {kind} bundle of {bundle.threads} threads of {need.operator!r}")
            slots.take(slot)
            if partial:
                shared += [slot] * (at == len(shared))
                packing.add(bundle, at)
            placed.append(Placed(need.operator, slot, bundle.threads, bundle.cpu_pct, bundle.mem_pct, rate=bundle.rate))
        return placed


def _check(allocation: Allocation) -> None:
    if allocation.algorithm == "lsa":
        raise InvalidParameter("SAM places bundles, and LSA makes none: use it with the allocation mba")


def _in_sweeps(allocation: Allocation) -> Iterator[tuple[Need, Bundle]]:
    """One bundle of each operator a sweep, as long as there are any."""
    sweep = 0
    waiting = list(allocation.needs)
    while waiting:
        for need in waiting:
            yield need, need.bundles[sweep]
        sweep += 1
        waiting = [need for need in waiting if len(need.bundles) > sweep]


class _Packing:
    """What is left of the slots that partial bundles share, in the order in which they were opened."""

    def __init__(self, allocation: Allocation) -> None:
        most = sum(need.rest is not None for need in allocation.needs)
        self.cpu, self.memory = np.full(most, 100.0), np.full(most, 100.0)
        self.open = 0

    def find(self, bundle: Bundle) -> int:
        """The open slot with the least left that is enough, or a new one."""
        cpu, memory = self.cpu[: self.open], self.memory[: self.open]
        enough = (cpu >= bundle.cpu_pct - _ROUNDING) & (memory >= bundle.mem_pct - _ROUNDING)
        return int(np.argmin(np.where(enough, cpu + memory, np.inf))) if enough.any() else self.open

    def add(self, bundle: Bundle, at: int) -> None:
        self.open = max(self.open, at + 1)
        self.cpu[at] -= bundle.cpu_pct
        self.memory[at] -= bundle.mem_pct


class _Slots:
    """Which slots are empty, and which machine was the last."""

    def __init__(self, cluster: Cluster) -> None:
        self.machine_of = cluster.machine_of
        self.is_empty = [True] * cluster.slots
        self.lowest = 0
        self.next_in = list(cluster.first_slot)
        self.end_of = [first + one.slots for first, one in zip(cluster.first_slot, cluster.machines, strict=True)]
        self.onward = list(range(len(self.end_of)))
        self.last = 0

    def take(self, slot: int) -> None:
        """The slot is not empty any more, and its machine is the last."""
        self.is_empty[slot] = False
        self.last = self.machine_of[slot]

    def first_empty(self) -> int | None:
        """The first empty slot of all."""
        while self.lowest < len(self.is_empty) and not self.is_empty[self.lowest]:
            self.lowest += 1
        return self.lowest if self.lowest < len(self.is_empty) else None

    def near_empty(self) -> int | None:
        """An empty slot of the last machine, or of the next one that has any."""
        machine = self._machine_with_room(self.last)
        if machine is None and self.last > 0:
            machine = self._machine_with_room(0)
        return None if machine is None else self.next_in[machine]

    def _machine_with_room(self, start: int) -> int | None:
        """The first machine from `start` on with an empty slot; full ones on the way are passed once, then jumped over."""
        walked = []
        machine = start
        while machine < len(self.end_of) and not self._has_room(machine):
            walked.append(machine)
            machine = max(machine + 1, self.onward[machine])
        for one in walked:
            self.onward[one] = machine
        return machine if machine < len(self.end_of) else None

    def _has_room(self, machine: int) -> bool:
        at = self.next_in[machine]
        while at < self.end_of[machine] and not self.is_empty[at]:
            at += 1
        self.next_in[machine] = at
        return at < self.end_of[machine]
