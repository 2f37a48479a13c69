"""How long a tuple will take from source to sink: a queueing estimate beside the rate."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from evenly.errors import InvalidParameter
from evenly.planning.plan import Plan
from evenly.planning.prediction import Share

_Z99 = 2.3263


@dataclass(frozen=True)
class Completion:
    """Mean and 99th percentile of the completion time, in ms; infinite where the plan does not hold the rate.

    `by_operator` has the mean time at each operator, waiting included.
    """

    mean_ms: float
    p99_ms: float
    by_operator: dict[str, float]


def completion_at(
    plan: Plan, rate: float, *, arrival_cv: float = 1.0, service_cv: float = 0.1, hop_ms: float = 0.0
) -> Completion:
    """The completion time when `rate` tuples/s reach every source.

    Every thread is a queue of its own (Kingman's approximation): `arrival_cv` and `service_cv` (standard deviation over
    mean) say how irregular arrivals at an operator and execution times are; threads are fed in turn, so a thread sees
    arrivals the more regular the more threads there are. `hop_ms` is what a tuple needs to another machine. At rates
    near the peak the wait grows without bound, and the estimate with it; it is infinite from the peak on.
    """
    if min(arrival_cv, service_cv, hop_ms) < 0.0:
        raise InvalidParameter(f"cvs and hop_ms must be at least 0, got {arrival_cv}, {service_cv}, {hop_ms}")
    flow = plan.placement.allocation.dataflow
    rates = flow.rates(rate)
    at: dict[str, tuple[float, float]] = {}
    for name in flow.order:
        found = plan.prediction.shares[name]
        threads = sum(one.placed.threads for one in found)
        at[name] = _mixed([(one.part, *_sojourn_ms(one, rates[name], arrival_cv**2 / threads, service_cv**2)) for one in found])
    age: dict[str, tuple[float, float]] = {}
    for name in flow.order:
        came = [
            (
                rates[edge.start] * flow.part(edge),
                age[edge.start][0] + hop_ms * _apart(plan, edge.start, edge.end),
                age[edge.start][1],
            )
            for edge in flow.into[name]
        ]
        total = math.fsum(one[0] for one in came)
        mean, variance = (
            _mixed([(weight / total, mean, variance) for weight, mean, variance in came]) if total > 0.0 else (0.0, 0.0)
        )
        age[name] = (mean + at[name][0], variance + at[name][1])
    sinks = [(rates[one.name], *age[one.name]) for one in flow.operators if one.kind == "sink"]
    total = math.fsum(one[0] for one in sinks)
    mean, variance = (
        _mixed([(weight / total, mean, variance) for weight, mean, variance in sinks]) if total > 0.0 else (0.0, 0.0)
    )
    return Completion(mean, _p99(mean, variance), {name: one[0] for name, one in at.items()})


def _sojourn_ms(share: Share, rate: float, arrival_scv: float, service_scv: float) -> tuple[float, float]:
    """Mean and variance of the time on a thread of a bundle."""
    if math.isinf(share.can.rate) or share.part == 0.0:
        return 0.0, 0.0
    service = 1e3 * share.placed.threads / share.can.rate
    busy = rate * share.part / share.can.rate
    if busy >= 1.0:
        return math.inf, math.inf
    wait = (arrival_scv + service_scv) / 2.0 * busy / (1.0 - busy) * service
    return service + wait, service_scv * service**2 + wait**2


def _mixed(parts: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Mean and variance of a mixture of (weight, mean, variance)."""
    mean = math.fsum(weight * one for weight, one, _ in parts if weight > 0.0)
    if math.isinf(mean):
        return math.inf, math.inf
    return mean, math.fsum(weight * (variance + (one - mean) ** 2) for weight, one, variance in parts if weight > 0.0)


def _p99(mean: float, variance: float) -> float:
    """The 99th percentile of the gamma distribution with these moments (Wilson and Hilferty's approximation)."""
    if mean == 0.0 or math.isinf(mean):
        return mean
    per_shape = variance / mean**2 / 9.0
    return mean * float(max(1.0, (1.0 - per_shape + _Z99 * math.sqrt(per_shape)) ** 3))


def _apart(plan: Plan, start: str, end: str) -> float:
    """Which part of the tuples from one operator to another leaves its machine."""
    machine_of = plan.placement.cluster.machine_of
    sides = []
    for name in (start, end):
        parts: dict[int, float] = defaultdict(float)
        for one in plan.prediction.shares[name]:
            parts[machine_of[one.placed.slot]] += one.part
        sides.append(parts)
    return 1.0 - sum(part * sides[1].get(machine, 0.0) for machine, part in sides[0].items())
