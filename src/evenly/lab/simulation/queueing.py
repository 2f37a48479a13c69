"""Runs of shuffle groupings on instances with queues: how long every tuple takes.

A `Stage` is what arrives and what it costs; `run` puts it through a grouping, ours or yours. The grouping is given new,
and is not changed by the run.
"""

from __future__ import annotations

from evenly.costs.base import ShuffleGrouping
from evenly.errors import InvalidParameter
from evenly.lab.simulation.compiled import COMPILED
from evenly.lab.simulation.plain import plain
from evenly.lab.simulation.stages import Outcome, Stage, constant_arrivals, gap_for, poisson_arrivals

__all__ = ["REFRESH_MS", "Outcome", "Stage", "constant_arrivals", "gap_for", "poisson_arrivals", "run"]

REFRESH_MS = 5_000.0
"""How often Storm's workers exchange the lengths of their queues."""


def run(stage: Stage, grouping: ShuffleGrouping, *, refresh_ms: float = REFRESH_MS) -> Outcome:
    """Every tuple of the stage through the grouping.

    Any object that fulfils `evenly.costs.base.ShuffleGrouping` runs, tuple by tuple, in a plain event simulator
    (`evenly.lab.simulation.plain`, which says what it is told); for the exact types of `evenly.lab.rivals.shuffle` there
    are compiled runs with the same outcome. Times reach a grouping in seconds, so what decides by them may differ by the
    rounding of a millisecond there and back. The same stage and parameters give the same outcome.

    Full knowledge and least work read the exact costs from the stage, not from their oracle. Where a stage has several
    schedulers, each has a grouping like this of its own and knows what it has sent itself. Full knowledge and least work
    know everything. `refresh_ms` is how often a grouping that reacts to all queues is told of them.
    """
    if not isinstance(grouping, ShuffleGrouping):
        raise InvalidParameter(
            f"{type(grouping).__name__} is not a shuffle grouping: that has name, instances, memory_bytes and "
            "route(keys, now_s) (evenly.costs.base.ShuffleGrouping)"
        )
    if grouping.instances != stage.instances:
        raise InvalidParameter(
            f"a grouping for {grouping.instances} instances cannot serve a stage of {stage.instances}: make it for as many"
        )
    if not 0.0 < refresh_ms < float("inf"):
        raise InvalidParameter(f"refresh_ms must be above 0 and finite, got {refresh_ms}")
    return COMPILED.get(type(grouping), plain)(stage, grouping, refresh_ms)
