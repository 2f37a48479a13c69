"""A plan: from a dataflow and a rate to threads, slots, machines and what they will do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from evenly.dataflow.graph import Dataflow
from evenly.errors import DoesNotFit, InvalidParameter
from evenly.notebook import shown
from evenly.numbers import plain
from evenly.planning.allocation import LSA, MBA, Allocator
from evenly.planning.allocation.base import checked_rate
from evenly.planning.machines import AZURE_D, Catalogue, Cluster
from evenly.planning.mapping import DSM, RSM, SAM, SlotMapping, ThreadPlacement, place_on, place_threads
from evenly.planning.models import Models
from evenly.planning.network import NearSAM
from evenly.planning.prediction import Assumptions, Prediction, Usage, predict, usage_at

ALLOCATIONS: Mapping[str, Allocator] = {"lsa": LSA(), "mba": MBA()}
MAPPINGS: Mapping[str, SlotMapping] = {one.name: one for one in (DSM(), RSM(), RSM(alone=True), SAM(), NearSAM())}
PAIRS = (("lsa", "dsm"), ("lsa", "rsm"), ("mba", "dsm"), ("mba", "rsm"), ("mba", "sam"))
"""The five pairs of the paper: SAM places bundles, and LSA makes none."""
_FINEST = 1.0 / 256.0


@dataclass(frozen=True)
class Plan:
    """A placement, what it is predicted to carry, and what it will use at the planned rate."""

    rate: float
    placement: ThreadPlacement
    prediction: Prediction
    slot_usage: tuple[Usage, ...]
    machine_usage: tuple[Usage, ...]

    @property
    def holds(self) -> bool:
        """Whether the predicted rate reaches the planned one."""
        return self.prediction.rate >= self.rate * (1.0 - 1e-9)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        cluster = self.placement.cluster
        facts: dict[str, object] = {
            "planned rate": f"{plain(self.rate, 6)} tuples/s",
            "predicted rate": f"{plain(self.prediction.rate, 6)} tuples/s{'' if self.holds else ': below the planned one'}",
            "bound by": str(self.prediction.binding),
            "threads": self.placement.allocation.threads,
            "slots": self.placement.slots,
            "machines": f"{len(cluster.machines)}: {cluster.named()}",
        }
        loads = {"cpu of each slot, % at the planned rate": [one.cpu_pct for one in self.slot_usage]}
        return shown(f"Plan by {self.pair}", facts, loads)

    @property
    def pair(self) -> str:
        """The algorithms, such as `mba+sam`."""
        return f"{self.placement.allocation.algorithm}+{self.placement.algorithm}"


def plan(
    dataflow: Dataflow,
    models: Models,
    rate: float,
    *,
    allocation: str = "mba",
    mapping: str = "sam",
    machines: Catalogue | Cluster = AZURE_D,
    assumptions: Assumptions | None = None,
) -> Plan:
    """Threads, slots and machines for `rate` tuples/s at every source.

    `machines` is a catalogue to take from, or a fixed set (then `DoesNotFit` if it is too small). Nothing is random: the
    same question has the same answer.
    """
    allocator, mapper = chosen(allocation, mapping)
    allocated = allocator.allocate(dataflow, models, checked_rate(rate))
    if isinstance(machines, Cluster):
        placement = place_on(allocated, mapper, machines)
    else:
        placement = place_threads(allocated, mapper, catalogue=machines)
    return planned(placement, models, assumptions)


def planned(placement: ThreadPlacement, models: Models, assumptions: Assumptions | None = None) -> Plan:
    """The plan that a placement makes."""
    prediction = predict(placement, models, assumptions)
    slots, hosts = usage_at(placement, prediction.shares, placement.allocation.rate)
    return Plan(placement.allocation.rate, placement, prediction, tuple(slots), tuple(hosts))


def highest_rate(
    dataflow: Dataflow,
    models: Models,
    machines: Cluster,
    *,
    allocation: str = "mba",
    mapping: str = "sam",
    step: float | None = None,
    assumptions: Assumptions | None = None,
) -> Plan:
    """The plan of the highest rate that a fixed set of machines has room for.

    With `step` the rate grows by it until it does not fit, as in the paper. Without, it is doubled and then bisected to
    less than half a percent.
    """

    def attempt(rate: float) -> Plan | None:
        try:
            return _limited(
                plan(dataflow, models, rate, allocation=allocation, mapping=mapping, machines=machines, assumptions=assumptions)
            )
        except DoesNotFit:
            return None

    chosen(allocation, mapping)
    if step is not None and step <= 0.0:
        raise InvalidParameter(f"the step of the rate must be above 0, got {step}")
    rate = step or 1.0
    best = attempt(rate)
    while step is None and best is None and rate > 1e-6:
        rate /= 8.0
        best = attempt(rate)
    if best is None:
        raise DoesNotFit(f"{machines.slots} slots do not hold {dataflow.name} at {rate:g} tuples/s: add machines")
    while (following := attempt(rate + step if step else 2.0 * rate)) is not None:
        best, rate = following, following.rate
        if rate > 1e12:
            return best
    gap = rate / 2.0
    while step is None and gap > rate * _FINEST:
        following = attempt(rate + gap)
        if following is not None:
            best, rate = following, following.rate
        gap /= 2.0
    return best


def _limited(one: Plan) -> Plan:
    if math.isinf(one.prediction.rate):
        raise InvalidParameter(
            f"{one.placement.allocation.dataflow.name} has no highest rate, because no tuple reaches an operator whose model "
            "has one: give a rate, or operators with models and edges with selectivity"
        )
    return one


def compare_pairs(
    dataflow: Dataflow,
    models: Models,
    rate: float,
    *,
    machines: Catalogue | Cluster = AZURE_D,
    assumptions: Assumptions | None = None,
) -> list[Plan]:
    """A plan by every pair of algorithms; pairs that do not fit a fixed set of machines are left out."""
    plans = []
    for allocation, mapping in PAIRS:
        try:
            plans.append(
                plan(dataflow, models, rate, allocation=allocation, mapping=mapping, machines=machines, assumptions=assumptions)
            )
        except DoesNotFit:
            if not isinstance(machines, Cluster):
                raise
    return plans


def chosen(allocation: str, mapping: str) -> tuple[Allocator, SlotMapping]:
    """The algorithms of these names."""
    if allocation not in ALLOCATIONS:
        raise InvalidParameter(f"there is no allocation {allocation!r}: choose from {', '.join(ALLOCATIONS)}")
    if mapping not in MAPPINGS:
        raise InvalidParameter(f"there is no mapping {mapping!r}: choose from {', '.join(MAPPINGS)}")
    return ALLOCATIONS[allocation], MAPPINGS[mapping]
