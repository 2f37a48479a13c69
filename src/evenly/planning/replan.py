"""A new rate for a running plan: a placement that moves few threads.

A moved thread is one that the operator had before and has after, but on another slot: threads that are only started or
stopped are not moved.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace

import numpy as np

from evenly.errors import InvalidParameter
from evenly.planning.allocation import MBA, Allocation, Bundle
from evenly.planning.machines import AZURE_D, Catalogue, Cluster
from evenly.planning.mapping.base import Placed, ThreadPlacement, place_threads
from evenly.planning.mapping.sam import SAM
from evenly.planning.models import Models

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Replan:
    """The new placement; threads moved, started and stopped; and what a plan made afresh would have moved."""

    placement: ThreadPlacement
    moved: int
    started: int
    stopped: int
    moved_afresh: int


def replan(current: ThreadPlacement, models: Models, rate: float, *, catalogue: Catalogue = AZURE_D) -> Replan:
    """Place the dataflow for a new rate, by MBA and SAM's rules, with the current placement in mind.

    Bundles stay where they are, grow and shrink in place where the slot has room, and only the others are placed. The
    answer takes no more slots than a plan made afresh and never moves more threads than that would
    (`tests/property/test_planning.py`).
    """
    if current.allocation.algorithm != MBA.name:
        raise InvalidParameter(f"only plans of bundles are replanned: allocate with mba, not {current.allocation.algorithm}")
    allocation = MBA.allocate(current.allocation.dataflow, models, rate)
    fresh = place_threads(allocation, SAM(), catalogue=catalogue)
    old = _counts(current.placed)
    plain = moved_threads(old, _counts(fresh.placed))
    candidates = [fresh, replace(fresh, placed=_relabelled(old, fresh))]
    kept = _in_place(current, allocation, fresh.cluster)
    if kept is not None:
        candidates.append(replace(fresh, placed=kept))
    best = min(candidates, key=lambda one: moved_threads(old, _counts(one.placed)))
    new = _counts(best.placed)
    before, after = (_by_operator(counts) for counts in (old, new))
    started = sum(max(0, after[name] - before[name]) for name in after)
    stopped = sum(max(0, before[name] - after[name]) for name in before)
    return Replan(best, moved_threads(old, new), started, stopped, plain)


def moved_threads(old: Counter[tuple[str, int]], new: Counter[tuple[str, int]]) -> int:
    """Threads that an operator keeps, but on another slot."""
    before, after = _by_operator(old), _by_operator(new)
    staying = _by_operator(Counter({key: min(count, new[key]) for key, count in old.items()}))
    return sum(min(before[name], after[name]) - staying[name] for name in before)


def _counts(placed: tuple[Placed, ...]) -> Counter[tuple[str, int]]:
    counts: Counter[tuple[str, int]] = Counter()
    for one in placed:
        counts[one.operator, one.slot] += one.threads
    return counts


def _by_operator(counts: Counter[tuple[str, int]]) -> Counter[str]:
    grouped: Counter[str] = Counter()
    for (operator, _), count in counts.items():
        grouped[operator] += count
    return grouped


def _relabelled(old: Counter[tuple[str, int]], fresh: ThreadPlacement) -> tuple[Placed, ...]:
    """The fresh placement with its slots numbered so that as many threads as a greedy choice finds stay."""
    by_place: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (operator, slot), count in old.items():
        if slot < fresh.cluster.slots:
            by_place[operator].append((slot, count))
    overlap: Counter[tuple[int, int]] = Counter()
    for one in fresh.placed:
        for slot, count in by_place[one.operator]:
            overlap[one.slot, slot] += min(count, one.threads)
    chosen: dict[int, int] = {}
    taken: set[int] = set()
    for (new_slot, old_slot), _ in sorted(overlap.items(), key=lambda item: (-item[1], item[0])):
        if new_slot not in chosen and old_slot not in taken:
            chosen[new_slot] = old_slot
            taken.add(old_slot)
    free = iter(sorted(set(range(fresh.cluster.slots)) - taken))
    for slot in range(fresh.cluster.slots):
        if slot not in chosen:
            chosen[slot] = next(free)
    return tuple(replace(one, slot=chosen[one.slot]) for one in fresh.placed)


def _in_place(current: ThreadPlacement, allocation: Allocation, cluster: Cluster) -> tuple[Placed, ...] | None:
    """Bundles kept where they are if there is room, the others placed by SAM's rules; None if they do not all fit."""
    slots = _Slots(cluster.slots)
    homeless: list[tuple[str, Bundle, bool]] = []
    partial: list[tuple[str, Bundle, list[int]]] = []
    for need in allocation.needs:
        was = sorted(current.by_operator[need.operator], key=lambda one: -one.threads)
        homes = [one.slot for one in was if one.slot < cluster.slots]
        kept = [slot for slot in homes if slots.empty[slot]][: len(need.full)]
        for slot in kept:
            slots.put(need.operator, slot, need.full[0])
        homeless += [(need.operator, bundle, True) for bundle in need.full[len(kept) :]]
        if need.rest:
            partial.append((need.operator, need.rest, [slot for slot in homes if slot not in kept]))
    for operator, bundle, homes in partial:
        home = next((slot for slot in reversed(homes) if slots.fits(slot, bundle)), None)
        if home is None:
            homeless.append((operator, bundle, False))
        else:
            slots.put(operator, home, bundle)
    for operator, bundle, alone in sorted(homeless, key=lambda one: not one[2]):
        room = slots.tightest(bundle, alone=alone)
        if room is None:
            return None
        slots.put(operator, room, bundle)
    return tuple(slots.placed)


class _Slots:
    """What is left of the slots while bundles are put on them."""

    def __init__(self, slots: int) -> None:
        self.cpu = np.full(slots, 100.0)
        self.memory = np.full(slots, 100.0)
        self.empty = np.ones(slots, bool)
        self.placed: list[Placed] = []

    def put(self, operator: str, slot: int, bundle: Bundle) -> None:
        self.cpu[slot] -= bundle.cpu_pct
        self.memory[slot] -= bundle.mem_pct
        self.empty[slot] = False
        self.placed.append(Placed(operator, slot, bundle.threads, bundle.cpu_pct, bundle.mem_pct, rate=bundle.rate))

    def fits(self, slot: int, bundle: Bundle) -> bool:
        return bool(self.cpu[slot] >= bundle.cpu_pct - _ROUNDING and self.memory[slot] >= bundle.mem_pct - _ROUNDING)

    def tightest(self, bundle: Bundle, *, alone: bool) -> int | None:
        """The slot with the least room that is enough, or an empty one for a bundle that is to be alone."""
        enough = (self.cpu >= bundle.cpu_pct - _ROUNDING) & (self.memory >= bundle.mem_pct - _ROUNDING)
        rooms = self.empty if alone else enough
        return int(np.argmin(np.where(rooms, self.cpu + self.memory, np.inf))) if rooms.any() else None
