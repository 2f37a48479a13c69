"""What a placement carries: its peak rate, what breaks first, and the cpu and memory of every slot and machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from evenly.errors import InvalidParameter
from evenly.numbers import plain
from evenly.planning.mapping.base import Placed, ThreadPlacement
from evenly.planning.models import LOOKUPS, Estimate, Lookup, Models, PerformanceModel

ThreadRouting = Literal["shuffle", "slot-aware"]
Contention = Literal["none", "machine", "slot"]
THREAD_ROUTINGS: tuple[ThreadRouting, ...] = get_args(ThreadRouting)
CONTENTIONS: tuple[Contention, ...] = get_args(Contention)


@dataclass(frozen=True)
class Assumptions:
    """Under what a prediction holds.

    `routing`: `shuffle` sends every thread of an operator the same share; `slot-aware` sends each bundle what it can carry
    (what the plan reserved for it, where it did). `lookup`: how a model answers between its points. `contention`: whether
    bundles that share cores hold each other up, once their cpu adds up to more than the machine's (or the slot's) cores;
    `none` is the paper's.
    """

    routing: ThreadRouting = "shuffle"
    lookup: Lookup = "interpolated"
    contention: Contention = "machine"

    def __post_init__(self) -> None:
        if self.routing not in THREAD_ROUTINGS:
            raise InvalidParameter(f"routing must be one of {', '.join(THREAD_ROUTINGS)}, got {self.routing!r}")
        if self.lookup not in LOOKUPS:
            raise InvalidParameter(f"lookup must be one of {', '.join(LOOKUPS)}, got {self.lookup!r}")
        if self.contention not in CONTENTIONS:
            raise InvalidParameter(f"contention must be one of {', '.join(CONTENTIONS)}, got {self.contention!r}")


@dataclass(frozen=True)
class Share:
    """A placed bundle, the share of its operator's tuples that is routed to it, and what it can carry and use."""

    placed: Placed
    part: float
    can: Estimate


@dataclass(frozen=True)
class Limit:
    """The rate at the sources at which something breaks: an operator's bundle on a slot, or the cores of a machine."""

    rate: float
    operator: str | None
    slot: int | None
    why: str

    def __str__(self) -> str:
        return self.why if self.operator is None else f"{self.operator}: {self.why}"


@dataclass(frozen=True)
class Usage:
    """Cpu and memory of a slot (in % of the slot) or a machine (in % of all its used slots)."""

    cpu_pct: float
    mem_pct: float


@dataclass(frozen=True)
class Prediction:
    """The peak rate at the sources, with the limits of every operator and machine, the lowest first.

    `low` and `high` bound the rate in 95 % of cases where models were measured several times; else they are the rate.
    """

    assumptions: Assumptions
    rate: float
    low: float
    high: float
    limits: tuple[Limit, ...]
    shares: Mapping[str, tuple[Share, ...]]

    @property
    def binding(self) -> Limit:
        """What breaks first."""
        return self.limits[0]


def predict(placement: ThreadPlacement, models: Models, assumptions: Assumptions | None = None) -> Prediction:
    """The peak rate of a placement.

    With slot-aware routing a placement of MBA's by SAM carries at least the rate that it was planned for
    (`tests/property/test_planning.py`).
    """
    assumed = assumptions or Assumptions()
    shares = shares_of(placement, models, assumed)
    limits = _limits(placement, shares, assumed)
    low = high = limits[0].rate
    if models.measured_repeatedly:
        low, high = (
            _limits(placement, _with(placement, shares, models.bound(side), assumed.lookup), assumed)[0].rate
            for side in ("low", "high")
        )
    return Prediction(assumed, limits[0].rate, low, high, limits, shares)


def shares_of(placement: ThreadPlacement, models: Models, assumed: Assumptions) -> dict[str, tuple[Share, ...]]:
    """For every operator how its tuples are spread over its bundles; the parts add up to 1."""
    found: dict[str, tuple[Share, ...]] = {}
    for name, bundles in placement.by_operator.items():
        model = _model(placement, models, name)
        can = [model.at(one.threads, lookup=assumed.lookup) for one in bundles]
        if assumed.routing == "shuffle" or model.is_static:
            weights = [float(one.threads) for one in bundles]
        else:
            weights = [able.rate if one.rate is None else one.rate for one, able in zip(bundles, can, strict=True)]
            if not any(weights):
                weights = [1.0] * len(bundles)
        total = math.fsum(weights)
        found[name] = tuple(Share(one, weight / total, able) for one, weight, able in zip(bundles, weights, can, strict=True))
    return found


def usage_at(
    placement: ThreadPlacement, shares: Mapping[str, tuple[Share, ...]], rate: float
) -> tuple[list[Usage], list[Usage]]:
    """Cpu and memory of every slot and of every machine when `rate` arrives at the sources."""
    rates = placement.allocation.dataflow.rates(rate)
    cpu, memory = ([0.0] * placement.cluster.slots for _ in range(2))
    for name, found in shares.items():
        for share in found:
            used_cpu, used_memory = share.can.at_rate(share.part * rates[name])
            cpu[share.placed.slot] += used_cpu
            memory[share.placed.slot] += used_memory
    slots = [Usage(*pair) for pair in zip(cpu, memory, strict=True)]
    machines = []
    for first, one in zip(placement.cluster.first_slot, placement.cluster.machines, strict=True):
        here = slots[first : first + one.slots]
        machines.append(Usage(*(sum(getattr(slot, part) for slot in here) / one.slots for part in ("cpu_pct", "mem_pct"))))
    return slots, machines


def _limits(placement: ThreadPlacement, shares: Mapping[str, tuple[Share, ...]], assumed: Assumptions) -> tuple[Limit, ...]:
    factors = placement.allocation.dataflow.rates(1.0)
    limits = []
    for name, found in shares.items():
        holds = [(share.can.rate / share.part if share.part > 0.0 else math.inf, share) for share in found]
        peak, tightest = min(holds, key=lambda hold: hold[0])
        if math.isfinite(peak) and factors[name] > 0.0:
            why = (
                f"{tightest.placed.threads} threads on slot {tightest.placed.slot + 1} carry "
                f"{plain(tightest.can.rate, 4)} tuples/s and get {plain(100.0 * tightest.part)} % of the operator's tuples"
            )
            limits.append(Limit(peak / factors[name], name, tightest.placed.slot, why))
    if assumed.contention != "none":
        limits += _core_limits(placement, shares, factors, by_slot=assumed.contention == "slot")
    if not limits:
        limits = [Limit(math.inf, None, None, "nothing in the dataflow has a limit")]
    return tuple(sorted(limits, key=lambda limit: limit.rate))


def _core_limits(
    placement: ThreadPlacement, shares: Mapping[str, tuple[Share, ...]], factors: Mapping[str, float], *, by_slot: bool
) -> list[Limit]:
    """The rates at which the cores of a machine (or one slot's core) are all busy."""
    cluster = placement.cluster
    places = cluster.slots if by_slot else len(cluster.machines)
    steady, growing = [0.0] * places, [0.0] * places
    largest: list[tuple[float, str | None]] = [(0.0, None)] * places
    for name, found in shares.items():
        for share in found:
            place = share.placed.slot if by_slot else cluster.machine_of[share.placed.slot]
            if math.isinf(share.can.rate):
                steady[place] += share.can.cpu_pct
                continue
            slope = share.can.cpu_pct * share.part * factors[name] / share.can.rate
            growing[place] += slope
            largest[place] = max(largest[place], (slope, name), key=lambda pair: pair[0])
    limits = []
    for place in range(places):
        cores = 1 if by_slot else cluster.machines[place].slots
        room = 100.0 * cores - steady[place]
        if growing[place] > 0.0:
            what = f"slot {place + 1}" if by_slot else cluster.machines[place].name
            why = f"the {cores} cores of {what} are all busy" if cores > 1 else f"the core of {what} is always busy"
            slot = place if by_slot else None
            # A billionth of the cores is rounding: a plan that fills them to the last must not miss its rate for it.
            limits.append(Limit(max(0.0, room + 1e-7) / growing[place], largest[place][1], slot, why))
    return limits


def _with(
    placement: ThreadPlacement, shares: Mapping[str, tuple[Share, ...]], models: Models, lookup: Lookup
) -> dict[str, tuple[Share, ...]]:
    """The same routing with other models."""
    return {
        name: tuple(
            Share(one.placed, one.part, _model(placement, models, name).at(one.placed.threads, lookup=lookup)) for one in found
        )
        for name, found in shares.items()
    }


def _model(placement: ThreadPlacement, models: Mapping[str, PerformanceModel], operator: str) -> PerformanceModel:
    return models[placement.allocation.dataflow.by_name[operator].model_name]
