"""A recorded stream of keys and costs, cut into batches, through several schedulers of batches, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenly.checks import checked_instances, checked_whole
from evenly.costs.scheduler import CostScheduler
from evenly.errors import EmptyStream
from evenly.lab.simulation.batches import BatchOutcome, BatchScheduler, EvenScheduler, Objective, run_batches
from evenly.lab.simulation.catalogue import Named, Wanted, label, making
from evenly.sketches.hashing import Keys, key_ids
from evenly.sketches.weights import checked_weights

BY_COST, EVEN = "by-cost", "repartition"
SCHEDULERS: dict[str, Callable[[Wanted], BatchScheduler]] = {
    BY_COST: lambda wanted: CostScheduler(wanted.instances),
    EVEN: lambda wanted: EvenScheduler(wanted.instances),
}
"""What decides how batches are dealt, by name: as `apply_by_cost` and as `repartition(k)` do."""


@dataclass(frozen=True)
class BatchesOutcome:
    """One scheduler on one number of instances, over all batches.

    `seconds` is the time of all batches, `bound_s` what no dealing can go below, `ratio` that time over the time of
    `repartition(k)`, `speedup_mean` the mean completion time of a row under `repartition(k)` over that under this, and
    `by_cost_batches` how many of the batches were not dealt evenly.
    """

    scheduler: str
    instances: int
    batches: int
    by_cost_batches: int
    seconds: float
    bound_s: float
    ratio: float
    completion_ms_mean: float
    speedup_mean: float

    def row(self) -> dict[str, object]:
        """The outcome as a flat object."""
        return {**asdict(self), "baseline": EVEN}


def scheduling(named: Named) -> Callable[[Wanted], BatchScheduler]:
    """How a scheduler of batches is made, by its name or by what makes one."""
    return making(named, SCHEDULERS, "scheduler of batches", (BatchScheduler,))


def compare_batches(
    keys: Keys,
    costs_ms: ArrayLike,
    *,
    schedulers: Sequence[Named],
    instances: Sequence[int],
    batch_rows: int,
    objective: Objective = "completion",
    parts: int = 4,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[BatchesOutcome]:
    """Each scheduler on each number of instances, over the stream in batches of `batch_rows` rows, each read in `parts` parts.

    A scheduler is one of `SCHEDULERS`, or a class or function of your own that makes one. `progress` is called with 1 after
    each of them.
    """
    makers = [(label(named), scheduling(named)) for named in schedulers]
    sizes = [checked_instances(count) for count in instances]
    many = checked_whole(batch_rows, "batch_rows", 1, 2**40)
    ids = key_ids(keys)
    if ids.size == 0:
        raise EmptyStream("there are no rows to simulate: give at least one")
    costs_s = checked_weights(costs_ms, ids.size, what="costs") / 1e3
    if costs_s.sum() == 0.0:
        raise EmptyStream("all costs are 0, so there is no work to share: give what rows cost")
    batches = [(ids[at : at + many], costs_s[at : at + many]) for at in range(0, ids.size, many)]
    outcomes: list[BatchesOutcome] = []
    for count in sizes:
        before = run_batches(batches, EvenScheduler(count), parts=parts, objective=objective, seed=seed)
        for name, make in makers:
            ran = run_batches(batches, make(Wanted(count, seed)), parts=parts, objective=objective, seed=seed)
            outcomes.append(_outcome(name, count, ran, before))
            if progress is not None:
                progress(1)
    return outcomes


def _outcome(name: str, instances: int, ran: Sequence[BatchOutcome], before: Sequence[BatchOutcome]) -> BatchesOutcome:
    seconds, even_s = (sum(one.batch_s for one in all_of) for all_of in (ran, before))
    mean_s, even_mean_s = (float(np.concatenate([one.completion_s for one in all_of]).mean()) for all_of in (ran, before))
    return BatchesOutcome(
        scheduler=name,
        instances=instances,
        batches=len(ran),
        by_cost_batches=sum(one.way != "evenly" for one in ran),
        seconds=seconds,
        bound_s=sum(one.bound_s for one in ran),
        ratio=seconds / even_s,
        completion_ms_mean=mean_s * 1e3,
        speedup_mean=even_mean_s / mean_s,
    )
