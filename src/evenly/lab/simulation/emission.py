"""Runs of emission policies on a slotted link: largest backlog, fairness and delay of the tuples that queues send over it.

`Arrivals` is what comes to which queue in which slot, drawn or recorded; `run` puts it through a policy, ours or yours. The
policy is given new, and is not changed by the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_queues, checked_whole
from evenly.emission.policies.base import Emission
from evenly.emission.policies.first_come import FCFS
from evenly.emission.policies.largest_backlog import LBF
from evenly.emission.policies.longest_waiting import LongestWaiting
from evenly.emission.policies.round_robin import RRB
from evenly.emission.policies.skipping_round_robin import SkippingRoundRobin
from evenly.emission.policies.weighted_backlog import WeightedLBF
from evenly.errors import EmptyStream, InvalidCost, InvalidParameter
from evenly.kernels import emission as kernels
from evenly.kernels.types import F64, I64
from evenly.lab.simulation.fresh import fresh
from evenly.lab.simulation.slotted_link import SlottedLink
from evenly.measures.backlog import jain
from evenly.sketches.hashing import WRITABLE

SLOT_MS = 0.1
"""The paper's slot of 100 µs."""
SLOTS = 10_000
MOST_QUEUES = 10_000

COMPILED: dict[type, int] = {
    LBF: kernels.LBF,
    WeightedLBF: kernels.WEIGHTED_LBF,
    RRB: kernels.RRB,
    SkippingRoundRobin: kernels.SKIPPING_RR,
    FCFS: kernels.FCFS,
    LongestWaiting: kernels.LONGEST_WAITING,
}
"""The rules of compiled runs, by the exact type of a policy: a subclass may choose otherwise, so it runs in the plain loop."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Tuples that come to the queues of a link, slot by slot. Made by `poisson`, `recorded` or `counted`."""

    traffic: kernels.Traffic
    slots: int
    slot_ms: float

    @property
    def queues(self) -> int:
        return self.traffic.starts.size - 1

    @property
    def tuples(self) -> int:
        return self.traffic.slots.size

    @classmethod
    def poisson(
        cls, queues: int, rate_per_s: float, *, slots: int = SLOTS, slot_ms: float = SLOT_MS, seed: int = 0
    ) -> Arrivals:
        """Every queue receives `rate_per_s` tuples per second (at least 0) at random."""
        if not 0.0 <= rate_per_s < np.inf:
            raise InvalidParameter(f"rate_per_s must be at least 0 and finite, got {rate_per_s}")
        length, width = checked_whole(slots, "slots", 1, 2**31), checked_whole(queues, "queues", 1, MOST_QUEUES)
        rng = np.random.default_rng(seed)
        # As many as all queues have together, each at any slot and queue: what a draw for each of these gives, and faster.
        tuples = rng.poisson(rate_per_s * _checked_slot(slot_ms) / 1000.0 * length * width)
        where = np.sort(rng.integers(0, length * width, tuples))
        return cls(_traffic(where % width, where // width, width, np.ones(tuples, np.int64)), length, slot_ms)

    @classmethod
    def counted(cls, counts: ArrayLike, *, sizes: ArrayLike | None = None, slot_ms: float = SLOT_MS) -> Arrivals:
        """`counts[slot, queue]` tuples. `sizes`: the whole slots that each tuple takes, slot after slot, queue after queue."""
        table = np.require(np.array(counts, np.int64), requirements=WRITABLE)
        if table.ndim != 2 or table.size == 0:
            raise InvalidParameter(f"counts must be slots x queues, at least one of each, got shape {table.shape}")
        if (table < 0).any():
            at = np.unravel_index(int(np.argmin(table)), table.shape)
            raise InvalidParameter(f"counts[{at[0]}, {at[1]}] is {table[at]}: it must be at least 0")
        queue, slots = kernels.expanded(table)
        weights = _checked_sizes(sizes, slots.size)
        return cls(_traffic(queue, slots, table.shape[1], weights), table.shape[0], _checked_slot(slot_ms))

    @classmethod
    def recorded(
        cls,
        times_ms: ArrayLike,
        queue: ArrayLike,
        *,
        queues: int | None = None,
        sizes: ArrayLike | None = None,
        slot_ms: float = SLOT_MS,
    ) -> Arrivals:
        """Tuple j came at `times_ms[j]` to queue `queue[j]`, and takes `sizes[j]` whole slots.

        The run lasts from the slot of the first arrival to that of the last.
        """
        times, where = np.array(times_ms, np.float64), np.array(queue, np.int64)
        if times.ndim != 1 or times.shape != where.shape:
            raise InvalidParameter(f"times_ms and queue need one value per tuple, got shapes {times.shape} and {where.shape}")
        if times.size == 0:
            raise EmptyStream("nothing was recorded: give at least one tuple")
        if not np.isfinite(times).all():
            raise InvalidParameter(f"times_ms must be finite, got {times[~np.isfinite(times)][0]}")
        count = int(where.max()) + 1 if queues is None else checked_whole(queues, "queues", 1, MOST_QUEUES)
        if where.min() < 0 or where.max() >= count:
            raise InvalidParameter(f"queue must be 0 to {count - 1}, got {where.min()} to {where.max()}")
        weights = _checked_sizes(sizes, times.size)
        order = np.argsort(times, kind="stable")
        slots = ((times[order] - times.min()) / _checked_slot(slot_ms)).astype(np.int64)
        return cls(_traffic(where[order], slots, count, weights[order]), int(slots[-1]) + 1, slot_ms)


@dataclass(frozen=True, eq=False)
class Outcome:
    """One policy on one link.

    `delays_ms` has every tuple, from its arrival to when it is sent; one that still waits at the end has waited until
    then, else a rule that starves would look good in overload. `backlogs` has a row for each sampled slot. `idle_slots`
    are those in which the link was free and nothing was sent.
    """

    emission: str
    max_backlog: int
    max_backlog_size: int
    delays_ms: F64
    backlogs: I64
    idle_slots: int

    @property
    def delay_ms_mean(self) -> float:
        return float(self.delays_ms.mean()) if self.delays_ms.size else 0.0

    @property
    def delay_ms_p99(self) -> float:
        return float(np.quantile(self.delays_ms, 0.99)) if self.delays_ms.size else 0.0

    @property
    def delay_ms_max(self) -> float:
        return float(self.delays_ms.max(initial=0.0))

    @property
    def jain(self) -> F64:
        """Jain's index at every sampled slot; not a number where all queues are empty."""
        return jain(self.backlogs)


def run(
    arrivals: Arrivals,
    policy: Emission,
    *,
    count_arrivals: bool = True,
    speeds: ArrayLike | None = None,
    sampled: ArrayLike = (),
) -> Outcome:
    """All tuples of a link under a policy; one whole tuple is sent at a time.

    `count_arrivals`: the policy sees the tuples of the slot that it decides on. Without, it sees only those before, as
    algorithm 1 of the Hone paper reads. `speeds`: one for each queue, above 0; a tuple takes its size over the speed of
    its queue, in whole slots. `sampled`: the slots, 1 to the last, ascending, after which the backlogs are recorded.

    Any object that fulfils `evenly.emission.policies.base.Emission` runs, slot by slot, in a plain loop; the exact types of
    `evenly.emission` have compiled runs with the same outcome (`tests/unit/test_emission_runs.py`). A policy is asked in every
    slot in which the link is free, and sees tuples, sizes, the slots in which the heads came, and speeds. The same arrivals
    give the same outcome.
    """
    if not isinstance(policy, Emission):
        raise InvalidParameter(
            f"{type(policy).__name__} is not an emission policy: that has name, work_conserving and choose(backlogs)"
        )
    fast = np.ones(arrivals.queues) if speeds is None else checked_queues(speeds, arrivals.queues, "speeds")
    if not fast.all():
        raise InvalidParameter(f"speeds must be above 0, got {fast.tolist()}")
    places = np.array(sampled, np.int64)
    if places.size and (places[0] < 1 or places[-1] > arrivals.slots or (np.diff(places) <= 0).any()):
        raise InvalidParameter(f"sampled must ascend from 1 to {arrivals.slots}, got {places.tolist()}")
    if type(policy) in COMPILED:
        rule = kernels.Rule(COMPILED[type(policy)], count_arrivals, fast)
        delays, largest, backlogs, idle = kernels.run(arrivals.traffic, arrivals.slots, rule, places)
    else:
        link = SlottedLink(arrivals.traffic, arrivals.slots, fast)
        delays, largest, backlogs, idle = link.run(fresh(policy, "policy"), places, count_arrivals=count_arrivals)
    delays_ms: F64 = delays * np.float64(arrivals.slot_ms)
    return Outcome(policy.name, int(largest[0]), int(largest[1]), delays_ms, backlogs, int(idle))


def _traffic(queue: I64, slots: I64, queues: int, sizes: I64) -> kernels.Traffic:
    """Tuples in the order of their arrival, and by queue."""
    by_queue = np.argsort(queue, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(queue, minlength=queues))]).astype(np.int64)
    arrays = (queue, slots, starts, slots[by_queue], sizes[by_queue])
    return kernels.Traffic(*(np.require(array, np.int64, WRITABLE) for array in arrays))


def _checked_slot(slot_ms: float) -> float:
    if not 0.0 < slot_ms < np.inf:
        raise InvalidParameter(f"slot_ms must be above 0 and finite, got {slot_ms}")
    return slot_ms


def _checked_sizes(sizes: ArrayLike | None, tuples: int) -> I64:
    if sizes is None:
        return np.ones(tuples, np.int64)
    array = np.require(np.array(sizes, np.int64), requirements=WRITABLE)
    if array.shape != (tuples,):
        raise InvalidCost(f"{tuples} tuples came with sizes of shape {array.shape}: give one each")
    if (array < 1).any():
        at = int(np.argmin(array))
        raise InvalidCost(f"sizes[{at}] is {array[at]}: a tuple takes at least one slot")
    return array
