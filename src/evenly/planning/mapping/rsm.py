"""RSM: R-Storm's resource-aware mapping."""

from __future__ import annotations

from collections import Counter

import numpy as np

from evenly.errors import DoesNotFit
from evenly.planning.allocation.base import Allocation
from evenly.planning.machines import Cluster
from evenly.planning.mapping.base import Placed, gathered

_SAME_RACK, _OTHER_RACK = 0.5, 1.0


class RSM:
    """One thread of each operator a sweep, each to the machine that fits it best and is near the last.

    A thread goes to the machine of the least distance (what it would leave of cpu and memory, and the network's 0, 0.5
    or 1 for the last machine, its rack, another rack) that has the cpu for it and a slot with the memory. No slot's
    memory and no machine's cpu is promised twice, counting for each thread its part of what the operator was allocated;
    a slot's cpu may be, because a machine's threads share its cores. Before the first thread no machine is the last, so
    the network counts nothing there: with that the published 7, 13 and 28 slots of the linear dataflow come out.
    """

    name = "rsm"

    @staticmethod
    def least_slots(allocation: Allocation) -> int:
        """What the allocation counts."""
        return allocation.slots

    @staticmethod
    def place(allocation: Allocation, cluster: Cluster) -> list[Placed]:
        """Every thread on a slot of the cluster, or `DoesNotFit`."""
        machines = cluster.machines
        cpu = np.array([100.0 * one.slots for one in machines])
        memory = cpu.copy()
        slot_memory = [[100.0] * one.slots for one in machines]
        racks = np.array([sorted({one.rack for one in machines}).index(one.rack) for one in machines])
        pending = {need.operator: need.threads for need in allocation.needs}
        counts: Counter[tuple[str, int]] = Counter()
        last: int | None = None
        while pending:
            for need in allocation.needs:
                if need.operator not in pending:
                    continue
                network = np.zeros(len(machines))
                if last is not None:
                    network = np.where(racks == racks[last], _SAME_RACK, _OTHER_RACK)
                    network[last] = 0.0
                cpu_off = (need.thread_cpu_pct - cpu) / (cpu + 1.0)
                mem_off = (need.thread_mem_pct - memory) / (memory + 1.0)
                order = np.argsort(cpu_off**2 + mem_off**2 + network**2, kind="stable")
                place = _first_fit(order, cpu, slot_memory, need.thread_cpu_pct, need.thread_mem_pct)
                if place is None:
                    raise DoesNotFit(
                        f"no slot has {need.thread_cpu_pct:.1f} % cpu and {need.thread_mem_pct:.1f} % memory left "
                        f"for a thread of {need.operator!r}"
                    )
                last, slot = place
                counts[need.operator, cluster.first_slot[last] + slot] += 1
                cpu[last] -= need.thread_cpu_pct
                memory[last] -= need.thread_mem_pct
                slot_memory[last][slot] -= need.thread_mem_pct
                pending[need.operator] -= 1
                if pending[need.operator] == 0:
                    del pending[need.operator]
        return gathered(counts, allocation)


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
