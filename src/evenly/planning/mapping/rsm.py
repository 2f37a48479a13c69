"""RSM: R-Storm's resource-aware mapping."""

from __future__ import annotations

from collections import Counter

import numpy as np

from evenly.errors import DoesNotFit
from evenly.planning.allocation.base import Allocation
from evenly.planning.machines import Cluster
from evenly.planning.mapping.base import Placed, gathered, part_of_allocated, used_alone

_SAME_RACK, _OTHER_RACK = 0.5, 1.0


class RSM:
    """One thread of each operator a sweep, each to the machine that fits it best and is near the last.

    A thread goes to the machine of the least distance (what it would leave of cpu and memory, and the network's 0, 0.5
    or 1 for the last machine, its rack, another rack) that has the cpu for it and a slot with the memory. No slot's
    memory and no machine's cpu is promised twice; a slot's cpu may be, because a machine's threads share its cores. Before
    the first thread no machine is the last, so the network counts nothing there.

    `alone` says what a thread counts for. True is how the model-driven paper puts it: what a single thread uses by its
    performance model. False is its part of what the operator was allocated, without which the bundles of MBA (many threads
    that use little each) do not fit any machines that the paper had.
    """

    def __init__(self, *, alone: bool = False) -> None:
        self.name = "rsm-alone" if alone else "rsm"
        self._use = used_alone if alone else part_of_allocated

    @staticmethod
    def least_slots(allocation: Allocation) -> int:
        """What the allocation counts."""
        return allocation.slots

    def place(self, allocation: Allocation, cluster: Cluster) -> list[Placed]:
        """Every thread on a slot of the cluster, or `DoesNotFit`."""
        machines = cluster.machines
        cpu = np.array([100.0 * one.slots for one in machines])
        memory = cpu.copy()
        slot_memory = [[100.0] * one.slots for one in machines]
        racks = np.array([sorted({one.rack for one in machines}).index(one.rack) for one in machines])
        use = {need.operator: self._use(need) for need in allocation.needs}
        pending = {need.operator: need.threads for need in allocation.needs}
        counts: Counter[tuple[str, int]] = Counter()
        last: int | None = None
        while pending:
            for need in allocation.needs:
                if need.operator not in pending:
                    continue
                need_cpu, need_memory = use[need.operator]
                network = np.zeros(len(machines))
                if last is not None:
                    network = np.where(racks == racks[last], _SAME_RACK, _OTHER_RACK)
                    network[last] = 0.0
                cpu_off = (need_cpu - cpu) / (cpu + 1.0)
                mem_off = (need_memory - memory) / (memory + 1.0)
                order = np.argsort(cpu_off**2 + mem_off**2 + network**2, kind="stable")
                place = _first_fit(order, cpu, slot_memory, need_cpu, need_memory)
                if place is None:
                    raise DoesNotFit(
                        f"no slot has {need_cpu:.1f} % cpu and {need_memory:.1f} % memory left "
                        f"for a thread of {need.operator!r}"
                    )
                last, slot = place
                counts[need.operator, cluster.first_slot[last] + slot] += 1
                cpu[last] -= need_cpu
                memory[last] -= need_memory
                slot_memory[last][slot] -= need_memory
                pending[need.operator] -= 1
                if pending[need.operator] == 0:
                    del pending[need.operator]
        return gathered(counts, allocation, self._use)


def _first_fit(
    order: np.ndarray, cpu: np.ndarray, slot_memory: list[list[float]], need_cpu: float, need_memory: float
) -> tuple[int, int] | None:
    """The first machine in the order with room, and its first slot with the memory."""
    for machine in order:
        if cpu[machine] >= need_cpu - 1e-9:
            for slot, left in enumerate(slot_memory[machine]):
                if left >= need_memory - 1e-9:
                    return int(machine), slot
    return None
