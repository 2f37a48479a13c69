"""A plan as flat objects: one for each operator, and one for all."""

from __future__ import annotations

import math
from collections.abc import Mapping

from evenly.planning.completion import completion_at
from evenly.planning.network import crossing_pct
from evenly.planning.plan import Plan
from evenly.planning.prediction import Share, Usage

NEAR = 0.9
"""Completion times are said at this part of the planned rate: at the peak itself the wait has no bound."""
TOTAL = "total"


def rows(plan: Plan) -> list[dict[str, object]]:
    """One object for each operator, in the dataflow's order, and one whose operator is `total`."""
    breaks = breaking_rates(plan)
    placement = plan.placement
    allocation = placement.allocation
    by_cpu = allocation.cpu_pct >= allocation.mem_pct
    needed = max(allocation.cpu_pct, allocation.mem_pct)
    used = _used(plan)
    completion = completion_at(plan, NEAR * plan.rate)
    base = _base(plan)
    found = []
    for need in allocation.needs:
        bundles = placement.by_operator[need.operator]
        found.append(
            {
                **base,
                "operator": need.operator,
                "model": allocation.dataflow.by_name[need.operator].model_name,
                "rate": need.rate,
                "threads": need.threads,
                "slots": len({one.slot for one in bundles}),
                "cpu_pct": used[need.operator].cpu_pct,
                "mem_pct": used[need.operator].mem_pct,
                "reserved_cpu_pct": need.cpu_pct,
                "reserved_mem_pct": need.mem_pct,
                "share_pct": 100.0 * (need.cpu_pct if by_cpu else need.mem_pct) / needed if needed else 0.0,
                "breaks_at_rate": _finite(breaks.get(need.operator, math.inf)),
                "basis": basis(plan, need.operator),
                "completion_ms_mean": _finite(completion.by_operator[need.operator]),
            }
        )
    return [
        *found,
        {
            **base,
            **total(plan),
            "completion_ms_mean": _finite(completion.mean_ms),
            "completion_ms_p99": _finite(completion.p99_ms),
        },
    ]


def total(plan: Plan) -> dict[str, object]:
    """The whole plan in one object, without completion times."""
    placement = plan.placement
    used = _used(plan)
    prices = placement.cluster.price_per_hour
    return {
        "operator": TOTAL,
        "rate": plan.rate,
        "threads": placement.allocation.threads,
        "slots": placement.slots,
        "extra_slots": placement.extra_slots,
        "machines": len(placement.cluster.machines),
        "machine_sizes": placement.cluster.named(),
        "price_per_hour": prices,
        "cpu_pct": math.fsum(one.cpu_pct for one in used.values()),
        "mem_pct": math.fsum(one.mem_pct for one in used.values()),
        "reserved_cpu_pct": placement.allocation.cpu_pct,
        "reserved_mem_pct": placement.allocation.mem_pct,
        "binding": plan.prediction.binding.operator,
        "why": plan.prediction.binding.why,
        "breaks_at_rate": _finite(plan.prediction.rate),
        "crossing_pct": crossing_pct(list(placement.placed), placement.allocation, placement.cluster),
        "basis": TOTAL_BASIS[any(basis(plan, name) not in _SURE for name in placement.by_operator)],
    }


_SURE = ("measured", "static")
TOTAL_BASIS = {False: "measured", True: "partly interpolated"}


def breaking_rates(plan: Plan) -> dict[str, float]:
    """For each operator the rate at the sources at which it breaks."""
    found: dict[str, float] = {}
    for limit in plan.prediction.limits:
        if limit.operator is not None:
            found.setdefault(limit.operator, limit.rate)
    return found


def basis(plan: Plan, operator: str) -> str:
    """On what the numbers of an operator rest: `measured` only if every bundle was."""
    found = {one.can.basis for one in plan.prediction.shares[operator]}
    return next((one for one in ("beyond", "interpolated", "nearest", "synthetic", "measured") if one in found), "static")


def _base(plan: Plan) -> dict[str, object]:
    prediction = plan.prediction
    return {
        "dataflow": plan.placement.allocation.dataflow.name,
        "allocation": plan.placement.allocation.algorithm,
        "mapping": plan.placement.algorithm,
        "routing": prediction.assumptions.routing,
        "planned_rate": plan.rate,
        "predicted_rate": _finite(prediction.rate),
        "predicted_rate_low": _finite(prediction.low),
        "predicted_rate_high": _finite(prediction.high),
        "holds": plan.holds,
    }


def _used(plan: Plan) -> Mapping[str, Usage]:
    """Cpu and memory of each operator at the planned rate, in % of a slot."""
    rates = plan.placement.allocation.dataflow.rates(plan.rate)

    def of(shares: tuple[Share, ...], rate: float) -> Usage:
        pairs = [one.can.at_rate(one.part * rate) for one in shares]
        return Usage(math.fsum(cpu for cpu, _ in pairs), math.fsum(memory for _, memory in pairs))

    return {name: of(shares, rates[name]) for name, shares in plan.prediction.shares.items()}


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None
