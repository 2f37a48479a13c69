"""The plain simulator of a link: one slot at a time, and any policy may choose."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from evenly.emission.policies.base import Backlogs, Emission
from evenly.errors import InvalidParameter
from evenly.kernels.emission import Traffic
from evenly.kernels.types import F64, I64


class SlottedLink:
    """Queues that share a link, which sends one whole tuple at a time. Tuples are numbered queue after queue, oldest first."""

    def __init__(self, traffic: Traffic, slots: int, speeds: F64) -> None:
        self._traffic, self._slots, self._speeds = traffic, slots, speeds
        self._queues: list[deque[int]] = [deque() for _ in speeds]
        self._sizes = np.zeros(speeds.size, np.int64)

    def run(self, policy: Emission, sampled: I64, *, count_arrivals: bool) -> tuple[I64, I64, I64, int]:
        """Delays of the tuples in slots, the largest backlogs (tuples, sizes), backlogs after sampled slots, idle slots."""
        traffic, came = self._traffic, 0
        following = traffic.starts[:-1].tolist()
        # A tuple that is never sent has waited until the end; the others are written over.
        delays = self._slots - traffic.queue_slots
        largest, samples, idle, free_at = np.zeros(2, np.int64), [], 0, 0
        wanted = set(sampled.tolist())
        for slot in range(self._slots):
            before = None if count_arrivals or slot < free_at else self._seen()
            while came < traffic.slots.size and traffic.slots[came] == slot:
                queue = int(traffic.queues[came])
                self._queues[queue].append(following[queue])
                self._sizes[queue] += traffic.sizes[following[queue]]
                following[queue] += 1
                came += 1
            if slot >= free_at:
                chosen = self._checked(policy.choose(self._seen() if before is None else before), policy.name)
                if self._queues[chosen]:
                    sent = self._queues[chosen].popleft()
                    size = int(traffic.sizes[sent])
                    self._sizes[chosen] -= size
                    delays[sent] = slot - traffic.queue_slots[sent]
                    free_at = slot + max(1, math.ceil(size / self._speeds[chosen]))
                else:
                    idle += 1
            waiting = [len(queue) for queue in self._queues]
            largest = np.maximum(largest, (max(waiting), self._sizes.max()))
            if slot + 1 in wanted:
                samples.append(waiting)
        return delays, largest, np.array(samples, np.int64).reshape(-1, len(self._queues)), idle

    def _seen(self) -> Backlogs:
        heads = [int(self._traffic.queue_slots[queue[0]]) if queue else 0 for queue in self._queues]
        waiting = [len(queue) for queue in self._queues]
        return Backlogs.of(waiting, sizes_bytes=self._sizes, heads=heads, speeds=self._speeds)

    def _checked(self, chosen: Any, name: str) -> int:
        if not isinstance(chosen, int | np.integer) or not 0 <= chosen < len(self._queues):
            raise InvalidParameter(
                f"{name} chose {chosen!r}: choose must give a queue from 0 to {len(self._queues) - 1} "
                "(evenly.testing.check_emission tells more)"
            )
        return int(chosen)
