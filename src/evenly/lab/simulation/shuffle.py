"""A recorded stream of keys and costs through several shuffle groupings, numbers of instances and loads, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_instances, checked_whole
from evenly.costs.base import ShuffleGrouping
from evenly.errors import EmptyStream, InvalidParameter
from evenly.lab.rivals.shuffle.full_knowledge import FullKnowledge
from evenly.lab.rivals.shuffle.least_loaded_channels import LeastLoadedChannels
from evenly.lab.rivals.shuffle.least_work import LeastWork
from evenly.lab.rivals.shuffle.load_aware import LoadAwareShuffle
from evenly.lab.rivals.shuffle.posg import POSG, READINGS
from evenly.lab.rivals.shuffle.random_choice import RandomChoice
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.rivals.shuffle.shortest_queue import ShortestQueue
from evenly.lab.rivals.shuffle.two_choices import TwoChoices
from evenly.lab.rivals.shuffle.virtual_finish import VirtualFinish
from evenly.lab.simulation.queueing import Stage, constant_arrivals, gap_for, poisson_arrivals, run
from evenly.sketches.hashing import Keys, key_ids
from evenly.sketches.weights import checked_weights

SHUFFLE: dict[str, Callable[[int, int], ShuffleGrouping]] = {
    VirtualFinish.name: lambda instances, seed: VirtualFinish(instances, seed=seed),
    **{
        f"posg-{reading}": lambda instances, seed, reading=reading: POSG(instances, reading=reading, seed=seed)  # type: ignore[misc]
        for reading in READINGS
    },
    RoundRobin.name: lambda instances, _: RoundRobin(instances),
    RandomChoice.name: lambda instances, seed: RandomChoice(instances, seed=seed),
    TwoChoices.name: lambda instances, seed: TwoChoices(instances, seed=seed),
    ShortestQueue.name: lambda instances, _: ShortestQueue(instances),
    LeastLoadedChannels.name: lambda instances, _: LeastLoadedChannels(instances),
    LoadAwareShuffle.name: lambda instances, seed: LoadAwareShuffle(instances, seed=seed),
    FullKnowledge.name: lambda instances, _: FullKnowledge(instances, cost_ms=np.asarray),
    LeastWork.name: lambda instances, _: LeastWork(instances, cost_ms=np.asarray),
}
"""Every shuffle grouping by the name that commands and results give it, made from the number of instances and a seed."""

ORACLES = (FullKnowledge.name, LeastWork.name)
"""They know what no real scheduler knows: the bounds of what can be had."""


@dataclass(frozen=True)
class ShuffleOutcome:
    """One grouping on one number of instances at one load.

    `load_pct` is the work that arrives in % of what the instances can do. `speedup_mean` is S_L, the mean completion time
    of round-robin over that of this grouping. `messages` are those from instances to schedulers; `memory_bytes` is what a
    scheduler holds.
    """

    grouping: str
    instances: int
    load_pct: float
    completion_ms_mean: float
    completion_ms_p99: float
    speedup_mean: float
    messages: int
    memory_bytes: int

    def row(self) -> dict[str, object]:
        """The outcome as a flat object."""
        return asdict(self)


def checked_shuffle(name: str) -> str:
    """`name` if there is a shuffle grouping of that name."""
    if name not in SHUFFLE:
        raise InvalidParameter(f"there is no shuffle grouping {name!r}: choose from {', '.join(SHUFFLE)}")
    return name


def compare_shuffle(
    keys: Keys,
    costs_ms: ArrayLike,
    *,
    groupings: Sequence[str],
    instances: Sequence[int],
    loads_pct: Sequence[float],
    schedulers: int = 1,
    poisson: bool = False,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[ShuffleOutcome]:
    """Each grouping on each number of instances at each load, over the whole stream, in the order of its tuples.

    Tuples arrive at a constant rate, or at random with `poisson`; with several `schedulers` each arrives at one of them
    at random. The same arguments give the same outcomes. `progress` is called with 1 after each run.
    """
    names = [checked_shuffle(name) for name in groupings]
    sizes = [checked_instances(count) for count in instances]
    parts = checked_whole(schedulers, "schedulers", 1, 1_000)
    loads = [_checked_load(load) for load in loads_pct]
    ids = key_ids(keys)
    if ids.size == 0:
        raise EmptyStream("there are no tuples to simulate: give at least one")
    costs = checked_weights(costs_ms, ids.size, what="costs")
    if costs.sum() == 0.0:
        raise EmptyStream("all costs are 0, so there is no work to share: give what tuples cost")
    rng = np.random.default_rng(seed)
    sources = None if parts == 1 else rng.integers(0, parts, ids.size)
    outcomes: list[ShuffleOutcome] = []
    for count in sizes:
        for load in loads:
            gap_ms = gap_for(costs, count, provisioned_pct=1e4 / load)
            arrivals = poisson_arrivals(ids.size, gap_ms, seed=seed) if poisson else constant_arrivals(ids.size, gap_ms)
            stage = Stage.of(ids, costs, arrivals, instances=count, sources=sources)
            before = run(stage, RoundRobin(count)).completion_ms_mean
            for name in names:
                outcomes.append(_outcome(stage, name, load, before, seed))
                if progress is not None:
                    progress(1)
    return outcomes


def _outcome(stage: Stage, name: str, load_pct: float, before_ms: float, seed: int) -> ShuffleOutcome:
    grouping = SHUFFLE[name](stage.instances, seed)
    found = run(stage, grouping)
    mean = found.completion_ms_mean
    return ShuffleOutcome(
        grouping=name,
        instances=stage.instances,
        load_pct=load_pct,
        completion_ms_mean=mean,
        completion_ms_p99=found.completion_ms_p99,
        speedup_mean=before_ms / mean,
        messages=found.messages,
        memory_bytes=grouping.memory_bytes,
    )


def _checked_load(load_pct: float) -> float:
    if not 0.0 < load_pct <= 1_000.0:
        raise InvalidParameter(f"a load must be above 0 and at most 1000 %, got {load_pct}")
    return float(load_pct)


def best_of(outcomes: Sequence[ShuffleOutcome]) -> ShuffleOutcome:
    """The one with the least mean completion time that needs no oracle; the first of equals."""
    real = [one for one in outcomes if one.grouping not in ORACLES] or list(outcomes)
    return min(real, key=lambda one: one.completion_ms_mean)
