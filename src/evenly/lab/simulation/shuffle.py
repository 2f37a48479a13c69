"""A recorded stream of keys and costs through several shuffle groupings, numbers of instances and loads, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_instances, checked_whole
from evenly.costs.base import ShuffleGrouping
from evenly.errors import EmptyStream, InvalidParameter
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.simulation.catalogue import Named, Wanted, label, shuffling
from evenly.lab.simulation.plain import OracleGrouping
from evenly.lab.simulation.queueing import Stage, constant_arrivals, gap_for, poisson_arrivals, run
from evenly.sketches.hashing import Keys, key_ids
from evenly.sketches.weights import checked_weights


@dataclass(frozen=True)
class ShuffleOutcome:
    """One grouping on one number of instances at one load.

    `load_pct` is the work that arrives in % of what the instances can do. `speedup_mean` is S_L, the mean completion time
    of round-robin over that of this grouping. `messages` are those from instances to schedulers; `memory_bytes` is what a
    scheduler holds. `knows_costs`: no real scheduler does, so this is a bound of what can be had.
    """

    grouping: str
    instances: int
    load_pct: float
    completion_ms_mean: float
    completion_ms_p99: float
    speedup_mean: float
    messages: int
    memory_bytes: int
    knows_costs: bool = False

    def row(self) -> dict[str, object]:
        """The outcome as a flat object: what was measured."""
        return {name: value for name, value in asdict(self).items() if name != "knows_costs"}


def compare_shuffle(
    keys: Keys,
    costs_ms: ArrayLike,
    *,
    groupings: Sequence[Named],
    instances: Sequence[int],
    loads_pct: Sequence[float],
    schedulers: int = 1,
    poisson: bool = False,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[ShuffleOutcome]:
    """Each grouping on each number of instances at each load, over the whole stream, in the order of its tuples.

    A grouping is a name of the catalogue, or a class or function of your own that makes one
    (`evenly.lab.simulation.catalogue`). Tuples arrive at a constant rate, or at random with `poisson`; with several
    `schedulers` each arrives at one of them at random. The same arguments give the same outcomes. `progress` is called with 1
    after each run.
    """
    makers = [(label(named), shuffling(named)) for named in groupings]
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
            for name, make in makers:
                outcomes.append(_outcome(stage, name, make(Wanted(count, seed)), load, before))
                if progress is not None:
                    progress(1)
    return outcomes


def _outcome(stage: Stage, name: str, grouping: ShuffleGrouping, load_pct: float, before_ms: float) -> ShuffleOutcome:
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
        knows_costs=isinstance(grouping, OracleGrouping),
    )


def _checked_load(load_pct: float) -> float:
    if not 0.0 < load_pct <= 1_000.0:
        raise InvalidParameter(f"a load must be above 0 and at most 1000 %, got {load_pct}")
    return float(load_pct)


def best_of(outcomes: Sequence[ShuffleOutcome]) -> ShuffleOutcome:
    """The one with the least mean completion time that needs no oracle; the first of equals."""
    real = [one for one in outcomes if not one.knows_costs] or list(outcomes)
    return min(real, key=lambda one: one.completion_ms_mean)
