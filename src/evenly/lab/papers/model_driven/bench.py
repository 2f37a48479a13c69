"""The plans behind the figures of the model-driven paper: each is made, and rehearsed, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from evenly.dataflow.files import shipped_dataflow
from evenly.planning.machines import AZURE_D
from evenly.planning.model_files import shipped_models
from evenly.planning.models import Models
from evenly.planning.plan import PAIRS, Plan, highest_rate, plan, planned
from evenly.planning.prediction import Assumptions
from evenly.planning.rehearsal import RehearsalOptions, observed_rate

MICRO = ("linear", "diamond", "star")
APPLICATION_DATAFLOWS = ("traffic", "finance", "grid")
MICRO_RATES = (50, 100, 200)
APPLICATION_RATES = (50, 100)
FIXED = AZURE_D.take([("D3", 5)])
"""Five D3 machines: the 20 slots of the second set of experiments."""
STEP = 10.0

Pair = tuple[str, str]
CASES = tuple((name, rate) for name in MICRO for rate in MICRO_RATES) + tuple(
    (name, rate) for name in APPLICATION_DATAFLOWS for rate in APPLICATION_RATES
)
PAPER_PAIRS: tuple[Pair, ...] = (("lsa", "dsm"), ("lsa", "rsm-alone"), ("mba", "dsm"), ("mba", "rsm-alone"), ("mba", "sam"))
"""The paper's five pairs, R-Storm as its text has it: a thread counts what it uses alone, by the performance model."""
BESIDE: tuple[Pair, ...] = (("lsa", "rsm"), ("mba", "rsm"))
"""R-Storm with a thread counting its part of the allocation: the reading that gives the published slots of linear."""
ON_FIXED = (*PAPER_PAIRS, *BESIDE)
SHORT: tuple[Pair, ...] = (("lsa", "rsm-alone"), ("mba", "sam"), ("lsa", "rsm"))

FIXED_PLANS = tuple(("five machines", pair) for pair in ON_FIXED)
SHORT_PLANS = tuple(("shuffle", pair) for pair in SHORT)
REHEARSED_PLANS = tuple((routing, pair) for routing in ("shuffle", "slot-aware") for pair in PAIRS)
"""What is rehearsed: pairs on five machines, or pairs on every dataflow with one kind of routing."""

PUBLISHED = Assumptions(routing="slot-aware", lookup="nearest", contention="none")
"""The paper's prediction adds up what the slots carry, as if tuples went where they can be carried."""
SIMULATED = "the authors' cluster is not at hand: observed means in the simulator, whose threads follow the models"
SHUFFLE = Assumptions(routing="shuffle")
SLOT_AWARE = Assumptions(routing="slot-aware")


@dataclass(eq=False)
class Bench:
    """Makes plans and keeps them. `progress` hears of every rehearsal that is done; each has so many `seconds` of tuples."""

    seed: int = 0
    progress: Callable[[int], None] | None = None
    models: Models = field(default_factory=shipped_models)
    seconds: float = 120.0
    _plans: dict[tuple[str, Pair, float], Plan] = field(default_factory=dict)
    _fixed: dict[tuple[str, Pair], Plan] = field(default_factory=dict)
    _observed: dict[tuple[str, Pair, float | None, str], float] = field(default_factory=dict)

    def count(self, plans: tuple[str, Pair]) -> int:
        """How many rehearsals there are of one of the settings above."""
        return len(MICRO) if plans in FIXED_PLANS else len(CASES)

    @property
    def options(self) -> RehearsalOptions:
        """How plans are rehearsed."""
        return RehearsalOptions(seconds=self.seconds, seed=self.seed)

    def plan(self, dataflow: str, pair: Pair, rate: float) -> Plan:
        """A plan on as many machines as it needs."""
        key = (dataflow, pair, float(rate))
        if key not in self._plans:
            self._plans[key] = plan(
                shipped_dataflow(dataflow), self.models, float(rate), allocation=pair[0], mapping=pair[1], assumptions=PUBLISHED
            )
        return self._plans[key]

    def on_fixed(self, dataflow: str, pair: Pair) -> Plan:
        """The plan of the highest rate, in steps of 10, that five D3 machines have room for."""
        if (dataflow, pair) not in self._fixed:
            self._fixed[dataflow, pair] = highest_rate(
                shipped_dataflow(dataflow),
                self.models,
                FIXED,
                allocation=pair[0],
                mapping=pair[1],
                step=STEP,
                assumptions=PUBLISHED,
            )
        return self._fixed[dataflow, pair]

    def predicted(self, one: Plan, assumptions: Assumptions) -> float:
        """The predicted rate of a plan under other assumptions."""
        return planned(one.placement, self.models, assumptions).prediction.rate

    def observed(self, dataflow: str, pair: Pair, assumptions: Assumptions, *, rate: float | None = None) -> float:
        """The highest rate at which a plan (for `rate`, or on five D3 machines) runs stably in the simulator."""
        key = (dataflow, pair, rate, assumptions.routing)
        if key not in self._observed:
            one = self.on_fixed(dataflow, pair) if rate is None else self.plan(dataflow, pair, rate)
            found, _ = observed_rate(one.placement, self.models, assumptions=assumptions, options=self.options)
            self._observed[key] = found
            if self.progress is not None:
                self.progress(1)
        return self._observed[key]

    def point(self, one: Plan, x: float, **more: object) -> dict[str, object]:
        """A plan as a point of a figure."""
        placement = one.placement
        return {
            "series": one.pair,
            "x": x,
            "dataflow": placement.allocation.dataflow.name,
            "allocation": placement.allocation.algorithm,
            "mapping": placement.algorithm,
            "rate": one.rate,
            "planned_rate": one.rate,
            "threads": placement.allocation.threads,
            "slots": placement.slots,
            "extra_slots": placement.extra_slots,
            "machines": len(placement.cluster.machines),
            "cpu_pct": placement.allocation.cpu_pct,
            "mem_pct": placement.allocation.mem_pct,
            **more,
        }


def r_squared(predicted: Sequence[float], observed: Sequence[float]) -> float:
    """How much of the spread of what was observed the predictions explain: 1 where they are equal."""
    seen = np.asarray(observed)
    spread = float(((seen - seen.mean()) ** 2).sum())
    return 1.0 - float(((seen - np.asarray(predicted)) ** 2).sum()) / spread if spread else 1.0
