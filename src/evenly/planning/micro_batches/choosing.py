"""The plan for a rate: threads where a slot carries most, then slots and trigger that hold it."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Literal, get_args

from evenly.checks import MAX_INSTANCES
from evenly.dataflow.graph import Dataflow
from evenly.dataflow.replay import MOST_ROWS_PER_S
from evenly.dataflow.stages import OF_SPARK
from evenly.errors import DoesNotFit, InvalidParameter
from evenly.numbers import plain
from evenly.planning.micro_batches.models import SparkModels
from evenly.planning.micro_batches.plan import SparkPlan
from evenly.planning.micro_batches.predicting import Predictor
from evenly.planning.micro_batches.steps import Steps

SparkAllocation = Literal["mba", "lsa"]
SPARK_ALLOCATIONS: tuple[SparkAllocation, ...] = get_args(SparkAllocation)
TRIGGERS_S = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0)
"""Trigger intervals that are tried, shortest first, where none is given."""
USUAL_TRIGGER_S = 10.0
_LOG = logging.getLogger(__name__)


def plan_on_spark(
    flow: Dataflow,
    models: SparkModels,
    *,
    rate: float | None = None,
    slots: int | None = None,
    trigger_s: float | None = None,
    allocation: str = "mba",
    headroom_pct: float = 10.0,
) -> SparkPlan:
    """What a dataflow needs on Spark for `rate` rows/s at its source.

    - Without `slots` the fewest whose highest rate is `headroom_pct` above `rate`, with a batch every `trigger_s` (10 s).
    - With `slots` and without `trigger_s` the shortest of 1, 2, 5, 10, 20, 30 and 60 s that does; the longest if none does.
    - With both, or where no trigger does, the plan says whether it `holds`. Without `rate`: the highest that slots hold.
    - A model that was measured of another function, or an edge with another condition, is refused; what may have changed
      since is among the plan's `doubts`, and logged.

    Nothing is random: the same question has the same answer.
    """
    _check(rate, slots, trigger_s, allocation, headroom_pct)
    maker = _Maker(flow, models, allocation)
    if rate is None:
        found = maker.plan(0.0, slots or maker.engine.slots, trigger_s or USUAL_TRIGGER_S)
        if math.isinf(found.peak_rate):
            raise DoesNotFit(f"{flow.name} has no highest rate that is known ({found.told_peak}): give a --rate")
        if not found.peak_rate > 0.0:
            raise DoesNotFit(
                f"{flow.name} has no highest rate at a trigger of {found.trigger_s:g} s, where Spark itself takes "
                f"{plain(found.batch_s(0.0))} s of a batch: give a longer --trigger, or a --rate"
            )
        return replace(found, rate=found.peak_rate)
    wanted = rate * (1.0 + headroom_pct / 100.0)
    if slots is None:
        return _fewest_slots(maker, rate, wanted, trigger_s or USUAL_TRIGGER_S)
    if trigger_s is not None:
        return maker.plan(rate, slots, trigger_s)
    plans = [maker.plan(rate, slots, one) for one in TRIGGERS_S]
    return next((one for one in plans if one.peak_rate >= wanted), plans[-1])


def _check(rate: float | None, slots: int | None, trigger_s: float | None, allocation: str, headroom_pct: float) -> None:
    if rate is not None and not 0.0 < rate <= MOST_ROWS_PER_S:
        raise InvalidParameter(f"the rate must be above 0 and at most {MOST_ROWS_PER_S:,.0f} rows/s, got {rate:g}")
    if slots is not None and not 1 <= slots <= MAX_INSTANCES:
        raise InvalidParameter(f"slots must be from 1 to {MAX_INSTANCES}, got {slots}")
    if trigger_s is not None and not 0.0 < trigger_s < 86_400.0:
        raise InvalidParameter(f"the trigger must be seconds, above 0 and below a day, got {trigger_s}")
    if allocation not in SPARK_ALLOCATIONS:
        raise InvalidParameter(f"on Spark the allocation must be one of {', '.join(SPARK_ALLOCATIONS)}, got {allocation!r}")
    if not (math.isfinite(headroom_pct) and headroom_pct >= 0.0):
        raise InvalidParameter(f"the headroom must be at least 0 %, got {headroom_pct}")


class _Maker:
    """Plans of one dataflow."""

    def __init__(self, flow: Dataflow, models: SparkModels, allocation: str) -> None:
        self.flow, self.engine = flow, models.engine_costs()
        self._allocation = allocation
        measured = ((one.name, models.frame(flow, one)) for one in flow.operators if one.kind in OF_SPARK)
        self._frames = {name: replace(found, name=name) for name, found in measured if found is not None}
        self._steps = Steps(flow, models.rows_on(flow), self._frames)
        self._predictor = Predictor(self._steps, models, self.engine)
        self._threads = self._chosen()
        self._doubts = models.doubts(flow)
        for doubt in self._doubts:
            _LOG.info("%s: %s", flow.name, doubt)

    def _chosen(self) -> dict[str, int]:
        """Threads of every operator that was measured: those that a description gives, or else by the allocation."""
        if self._allocation == "lsa":
            return dict.fromkeys(self._predictor.curves, 1)
        return {name: self.flow.by_name[name].threads or curve.best.threads for name, curve in self._predictor.curves.items()}

    def plan(self, rate: float, slots: int, trigger_s: float | None) -> SparkPlan:
        engine, steps = self.engine, self._steps
        memory = [
            math.fsum(self._predictor.curves[name].memory_mib for name in step.operators if name in self._predictor.curves)
            for step in steps.steps
        ]
        return SparkPlan(
            self.flow,
            rate,
            slots,
            trigger_s,
            self._threads,
            self._predictor.planned(self._threads, slots),
            engine,
            fixed_s=engine.batch_s + steps.sinks * engine.sink_s + steps.file_sinks * engine.file_sink_s,
            allocation=self._allocation,
            memory_mib=max(memory, default=0.0),
            unmeasured=tuple(one.name for one in self.flow.operators if one.kind in OF_SPARK and one.name not in self._frames),
            between=tuple(name for name, curve in self._predictor.curves.items() if not curve.has(self._threads[name])),
            frames=tuple(self._frames),
            doubts=(*self._doubts, *(doubt for one in self._frames.values() for doubt in one.doubts(slots))),
        )


def _fewest_slots(maker: _Maker, rate: float, wanted: float, trigger_s: float) -> SparkPlan:
    low, high = 0, 1
    while maker.plan(rate, high, trigger_s).peak_rate < wanted:
        if high == MAX_INSTANCES:
            found = maker.plan(rate, high, trigger_s)
            raise DoesNotFit(
                f"no number of slots holds {rate:g} rows/s at a trigger of {trigger_s:g} s: with {high:,} a batch still takes "
                f"{plain(found.batch_s(found.rows_per_batch))} s. Give a longer --trigger, or edges more instances"
            )
        low, high = high, min(2 * high, MAX_INSTANCES)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if maker.plan(rate, middle, trigger_s).peak_rate >= wanted else (middle, high)
    return maker.plan(rate, high, trigger_s)
