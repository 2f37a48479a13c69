"""A plan run for real on this machine: its slots are processes, its operators their Python functions."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from evenly.dataflow.functions import target_of
from evenly.errors import InvalidParameter
from evenly.lab.slots.hub import Flow, Home, Hub, Route, free_cores
from evenly.lab.slots.operators import OperatorSpec
from evenly.lab.slots.process import SlotBundle
from evenly.lab.slots.trials import latency_slope
from evenly.planning.plan import Plan


@dataclass(frozen=True)
class RealRun:
    """What a run showed: tuples/s of the source whose results reached the sinks after warm-up, and times to get there."""

    rate: float
    observed_rate: float
    completion_ms_mean: float
    completion_ms_p99: float
    slope: float
    cpu_pct: tuple[float, ...]
    aborted: bool


def run_plan(plan: Plan, *, rate: float | None = None, seconds: float = 20.0, warm_up: float = 0.3) -> RealRun:
    """Run a plan with its number of slots and threads, at `rate` (that of the plan) for this many seconds.

    Every operator but sources and sinks needs a `function`; tuples are routed as the prediction assumes. Slots are pinned
    to cores of their own as far as there are any.
    """
    flow = plan.placement.allocation.dataflow
    middle = [one for one in flow.operators if one.kind == "operator"]
    for one in middle:
        if not one.function:
            raise InvalidParameter(f"the operator {one.name!r} has no function to run: give it one in the dataflow")
    wanted = plan.rate if rate is None else rate
    bundles: list[list[tuple[str, SlotBundle]]] = [[] for _ in range(plan.placement.slots)]
    homes: dict[str, list[Home]] = {one.name: [] for one in middle}
    with ExitStack() as stack:
        specs = {one.name: _served(target_of(one.function), stack) for one in middle}
        for one in middle:
            for share in plan.prediction.shares[one.name]:
                slot = share.placed.slot
                homes[one.name].append(Home(slot, len(bundles[slot]), share.part))
                bundles[slot].append((one.name, SlotBundle(specs[one.name], share.placed.threads)))
        hub = stack.enter_context(Hub(free_cores(plan.placement.slots)))
        hub.set_up(bundles)
        found = hub.run(
            Flow(homes, _routes(plan)), wanted, seconds, warm_up_s=warm_up * seconds, backlog_s=max(2.0, seconds / 3)
        )
    counted = (found.done_s >= warm_up * seconds) & (found.done_s <= seconds)
    each = found.expected / found.emitted if found.emitted else 1.0
    took_ms = 1e3 * (found.done_s - found.born_s)[counted]
    return RealRun(
        wanted,
        float(counted.sum()) / ((1.0 - warm_up) * seconds) / each if not found.aborted else 0.0,
        float(took_ms.mean()) if took_ms.size else float("inf"),
        float(np.quantile(took_ms, 0.99)) if took_ms.size else float("inf"),
        latency_slope(found, warm_up * seconds),
        found.cpu_pct,
        found.aborted,
    )


def _served(function: str, stack: ExitStack) -> OperatorSpec:
    """The operator with the options of its service, which runs as long as the stack."""
    return OperatorSpec(function, stack.enter_context(OperatorSpec(function).service()))


def _routes(plan: Plan) -> dict[str, list[Route]]:
    """The edges as routes: sources are one, and sinks are the end."""
    flow = plan.placement.allocation.dataflow
    routes: dict[str, list[Route]] = {"": []}
    for one in flow.operators:
        if one.kind == "sink":
            continue
        name = "" if one.kind == "source" else one.name
        found = routes.setdefault(name, [])
        for edge in flow.out_of[one.name]:
            ends = flow.by_name[edge.end].kind == "sink"
            if ends and name == "":
                raise InvalidParameter(f"the edge {edge.start} -> {edge.end} has no operator between: there is nothing to run")
            found.append(Route(None if ends else edge.end, flow.part(edge)))
    return routes
