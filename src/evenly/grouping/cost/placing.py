"""Evenly or by cost: what dealing by cost saves of a batch's time, against what routing its rows takes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from evenly.errors import InvalidParameter
from evenly.grouping.cost.chance import unevenness
from evenly.grouping.cost.model import CostModel


@dataclass(frozen=True)
class RoutingCosts:
    """What routing takes beyond `repartition(k)`, in seconds.

    By the row and the byte as `benchmarks/cost_stage.py --part routing` measures cpu time; the two fixed times are assumed.

    Rows are routed where they are read, so `row_s` and `byte_s` are shared by as many tasks as there are slots. `gather` is
    what one router takes more: a stage of its own, through one task.
    """

    fixed_s: float = 0.03
    row_s: float = 3e-6
    byte_s: float = 4.5e-9
    gather_fixed_s: float = 0.12
    gather_row_s: float = 2e-6
    gather_byte_s: float = 8e-9


@dataclass(frozen=True)
class Placement:
    """How a batch is dealt, and by which figures.

    `by_cost`: by the estimates, else the same number of rows to each instance. `one_router`: all rows pass one task, which
    sees them all. `even_s` is the expected time of the batch dealt evenly, `cost_s` by cost with all that routing takes,
    `routing_s`; 0 where nothing is known. `reason` says it in words.
    """

    by_cost: bool
    one_router: bool = False
    rows: int = 0
    even_s: float = 0.0
    cost_s: float = 0.0
    routing_s: float = 0.0
    reason: str = ""

    @property
    def gain(self) -> float:
        """The share of the batch's time that dealing by cost is expected to save, routing paid; below 0 if it would lose."""
        return 1.0 - self.cost_s / self.even_s if self.even_s > 0.0 else 0.0

    @property
    def promised(self) -> float:
        """The same if routing took nothing."""
        return 1.0 - (self.cost_s - self.routing_s) / self.even_s if self.even_s > 0.0 else 0.0


LEAST_GAIN = 0.01
"""A gain below this is within the noise of what it was computed from."""

_MOST_FOR_COMPLETION = 0.015
_LEAST_SPREAD = 0.3
_GIANT = 0.5
_LEFT_OVER = 1.5


def place(
    model: CostModel,
    instances: int,
    *,
    rows: int | None,
    row_bytes: float | None = None,
    partitions: int | None = None,
    slots: int | None = None,
    objective: str = "completion",
    costs: RoutingCosts | None = None,
) -> Placement:
    """Decide for a batch of `rows` rows of `row_bytes` bytes, read in `partitions` parts by tasks on `slots` slots.

    None: not known. Then it is decided with care: evenly if the number of rows is not known, no single router if the bytes
    are not, as many parts as instances.

    By cost where that is expected to save 1 % of the batch's time after routing is paid. The objective "completion" gains by
    the order of rows within an instance too, so there routing may take 1.5 % of the time and save nothing of it.
    """
    if instances < 1:
        raise InvalidParameter(f"instances must be at least 1, got {instances}")
    if model.rows <= 0.0:
        return Placement(by_cost=False, reason="evenly: nothing is known of costs yet")
    if instances == 1:
        return Placement(by_cost=False, reason="evenly: there is one instance")
    if not rows:
        return Placement(by_cost=False, reason="evenly: the number of rows is not known")
    measured = costs or RoutingCosts()
    load_s = rows * model.mean_s / instances
    if load_s <= 0.0:
        return Placement(by_cost=False, rows=rows, reason="evenly: rows cost nothing")
    giant, every, within = _spread(model, rows, load_s)
    routers = max(partitions or instances, 1)
    even_s = load_s * (1.0 + giant * (1.0 - 1.0 / instances) + unevenness(every, rows, instances))
    left = unevenness(within, rows, instances)
    shared_s = measured.fixed_s + rows * (measured.row_s + measured.byte_s * (row_bytes or 0.0)) / max(slots or instances, 1)
    # Routers know nothing of each other's rows: a giant's router alone makes room for it, and each leaves over some rows.
    crowded = max(1.0, giant + (1.0 - 1.0 / routers) * (1.0 - giant / instances))
    explained = unevenness(math.sqrt(max(every**2 - within**2, 0.0)), rows, instances)
    remainder = explained * min(1.0, _LEFT_OVER * instances * routers / rows)
    many_s = load_s * (crowded + math.hypot(left, remainder)) + shared_s
    chosen = Placement(by_cost=True, rows=rows, even_s=even_s, cost_s=many_s, routing_s=shared_s)
    if row_bytes is not None:
        gathered_s = shared_s + measured.gather_fixed_s + rows * (measured.gather_row_s + measured.gather_byte_s * row_bytes)
        one_s = load_s * (max(1.0, giant) + left) + gathered_s
        if one_s < chosen.cost_s:
            chosen = replace(chosen, one_router=True, cost_s=one_s, routing_s=gathered_s)
    return _decided(chosen, objective, spread=math.sqrt(max(every**2 - within**2, 0.0)) + giant)


def _decided(found: Placement, objective: str, *, spread: float) -> Placement:
    saved, paid = found.promised, found.routing_s / found.even_s
    told = f"dealing by cost saves {saved:.1%} of {found.even_s:.3g} s for {found.rows:,} rows, routing takes {paid:.1%}"
    if found.gain >= LEAST_GAIN:
        routers = ", by one router" if found.one_router else ""
        return replace(found, reason=f"by cost{routers}: {told}")
    if objective == "completion" and spread >= _LEAST_SPREAD and found.cost_s <= (1.0 + _MOST_FOR_COMPLETION) * found.even_s:
        return replace(found, reason=f"by cost, short rows first: {told}")
    return replace(found, by_cost=False, one_router=False, reason=f"evenly: {told}")


def _spread(model: CostModel, rows: int, load_s: float) -> tuple[float, float, float]:
    """The costliest row as a part of an instance's work if it is half of that or more (else 0); and of all other costs
    the standard deviation in parts of the mean of all, and that of it which no key explains."""
    every, within = model.variances.shares
    known, _ = model.moments
    estimates = model.table.costs_s[:-1]
    share = rows / model.rows
    giants = (estimates >= _GIANT * load_s) & (known.counts * share >= _GIANT)
    if not giants.any():
        return 0.0, every, within
    mean_s = model.mean_s
    # What giants add to the variance is theirs, and goes with them.
    theirs = float((known.counts[giants] * (estimates[giants] - mean_s) ** 2).sum()) / model.rows / mean_s**2
    return float(np.max(estimates[giants])) / load_s, math.sqrt(max(every**2 - theirs, within**2)), within
