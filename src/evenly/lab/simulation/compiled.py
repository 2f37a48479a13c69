"""Compiled runs of our own shuffle groupings: the same outcome as the plain simulator gives, some hundred times sooner.

They are registered by exact type. A subclass may decide otherwise, so it runs in the plain simulator.
`tests/unit/test_queueing.py` and `tests/property/test_posg.py` hold each against that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evenly.costs.base import ShuffleGrouping
from evenly.kernels import posg_runs, virtual_finish_runs
from evenly.kernels import queueing as kernels
from evenly.kernels.types import F64, I32
from evenly.lab.rivals.shuffle.full_knowledge import FullKnowledge
from evenly.lab.rivals.shuffle.least_loaded_channels import LeastLoadedChannels
from evenly.lab.rivals.shuffle.least_work import LeastWork
from evenly.lab.rivals.shuffle.load_aware import LoadAwareShuffle
from evenly.lab.rivals.shuffle.posg import POSG
from evenly.lab.rivals.shuffle.random_choice import RandomChoice
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.rivals.shuffle.shortest_queue import ShortestQueue
from evenly.lab.rivals.shuffle.two_choices import TwoChoices
from evenly.lab.rivals.shuffle.virtual_finish import VirtualFinish
from evenly.lab.simulation.stages import Outcome, Stage

Run = Callable[[Stage, Any, float], Outcome]
"""A stage through a grouping, of which only the parameters are read; the number is `refresh_ms`."""


def _round_robin(stage: Stage, grouping: RoundRobin, _: float) -> Outcome:
    return _fixed(stage, [RoundRobin(grouping.instances) for _ in range(stage.schedulers)])


def _random(stage: Stage, grouping: RandomChoice, _: float) -> Outcome:
    return _fixed(stage, [grouping.of_scheduler(at, stage.schedulers) for at in range(stage.schedulers)])


def _fixed(stage: Stage, schedulers: Sequence[ShuffleGrouping]) -> Outcome:
    chosen = _routed(stage, schedulers)
    return _outcome(stage, schedulers[0], chosen, kernels.assigned(stage.work, chosen))


def _full_knowledge(stage: Stage, grouping: FullKnowledge, _: float) -> Outcome:
    return _outcome(stage, grouping, *kernels.full_knowledge(stage.work, grouping.warm_up))


def _least_work(stage: Stage, grouping: LeastWork, _: float) -> Outcome:
    return _outcome(stage, grouping, *kernels.least_work(stage.work, grouping.warm_up))


def _shortest_queue(stage: Stage, grouping: ShortestQueue, _: float) -> Outcome:
    found = kernels.shortest_queue(stage.work, grouping.candidates(1), stage.sources, stage.schedulers)
    return _outcome(stage, grouping, *found)


def _two_choices(stage: Stage, grouping: TwoChoices, _: float) -> Outcome:
    candidates = np.empty((stage.keys.size, 2), np.int32)
    for at in range(stage.schedulers):
        own = stage.sources == at
        candidates[own] = grouping.of_scheduler(at, stage.schedulers).candidates(int(own.sum()))
    return _outcome(stage, grouping, *kernels.shortest_queue(stage.work, candidates, stage.sources, stage.schedulers))


def _next_channels(stage: Stage, grouping: LeastLoadedChannels, _: float) -> Outcome:
    found = kernels.next_channels(stage.work, grouping.look, stage.sources, stage.schedulers)
    return _outcome(stage, grouping, *found)


def _load_aware(stage: Stage, grouping: LoadAwareShuffle, refresh_ms: float) -> Outcome:
    """Between two refreshes of its weights a load-aware shuffle reacts to nothing, so whole spans are routed at once.

    At the first arrival `refresh_ms` or more after the last refresh every scheduler is told how many tuples each
    instance has been sent and has not ended.
    """
    arrivals_ms, k = stage.work.arrivals_ms, stage.instances
    schedulers = [grouping.of_scheduler(at, stage.schedulers) for at in range(stage.schedulers)]
    chosen, ends_ms, free_ms = np.empty(arrivals_ms.size, np.int32), np.empty(arrivals_ms.size), np.zeros(k)
    start, messages = 0, 0
    while start < arrivals_ms.size:
        stop = max(start + 1, int(np.searchsorted(arrivals_ms, arrivals_ms[start] + refresh_ms)))
        stop = min(stop, arrivals_ms.size)
        chosen[start:stop] = _routed(stage, schedulers, start, stop)
        kernels.assigned_part(stage.work, chosen, start, stop, free_ms, ends_ms)
        if stop < arrivals_ms.size:
            queued = np.bincount(chosen[:stop][ends_ms[:stop] > arrivals_ms[stop]], minlength=k)
            for scheduler in schedulers:
                scheduler.observe(queued)
            messages += k * len(schedulers)
        start = stop
    return _outcome(stage, grouping, chosen, ends_ms, messages)


def _posg(stage: Stage, grouping: POSG, _: float) -> Outcome:
    options = posg_runs.Options(
        grouping.sketch.columns, grouping.window, grouping.tolerance, grouping.patience, *grouping.reading
    )
    places = grouping.places(stage.keys)
    chosen, ends_ms, marks, came = posg_runs.run(stage.work, places, stage.sources, stage.schedulers, options)
    left, first_run = (int(marks[:, at].max()) for at in (posg_runs.LEFT, posg_runs.FIRST_RUN))
    messages = int(marks[:, posg_runs.MESSAGES].sum())
    return Outcome(grouping.name, chosen, ends_ms - stage.work.arrivals_ms, messages, left, first_run, came)


def _virtual_finish(stage: Stage, grouping: VirtualFinish, _: float) -> Outcome:
    chosen, ends_ms, said = virtual_finish_runs.run(
        stage.work,
        stage.keys,
        grouping.places(stage.keys),
        stage.sources,
        grouping.shape,
        grouping.latency_ms,
        grouping.options._replace(schedulers=stage.schedulers),
    )
    return _outcome(stage, grouping, chosen, ends_ms, int(said.sum()))


def _routed(stage: Stage, schedulers: Sequence[ShuffleGrouping], start: int = 0, stop: int | None = None) -> I32:
    """Each scheduler routes its own tuples, of those from `start` to `stop`."""
    keys, sources = stage.keys[start:stop], stage.sources[start:stop]
    if len(schedulers) == 1:
        return schedulers[0].route(keys, 0.0)
    chosen = np.empty(keys.size, np.int32)
    for at, scheduler in enumerate(schedulers):
        chosen[sources == at] = scheduler.route(keys[sources == at], 0.0)
    return chosen


def _outcome(stage: Stage, grouping: ShuffleGrouping, chosen: I32, ends_ms: F64, messages: int = 0) -> Outcome:
    return Outcome(grouping.name, chosen, ends_ms - stage.work.arrivals_ms, messages)


COMPILED: dict[type, Run] = {
    RoundRobin: _round_robin,
    RandomChoice: _random,
    FullKnowledge: _full_knowledge,
    LeastWork: _least_work,
    ShortestQueue: _shortest_queue,
    TwoChoices: _two_choices,
    LeastLoadedChannels: _next_channels,
    LoadAwareShuffle: _load_aware,
    POSG: _posg,
    VirtualFinish: _virtual_finish,
}
