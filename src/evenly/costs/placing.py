"""Evenly or by cost: what dealing by cost saves of a batch's time, against what routing its rows takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evenly.costs.chance import unevenness
from evenly.costs.model import CostModel
from evenly.costs.rounds import ROUNDS, left_by_pieces
from evenly.costs.shrinkage import seen_once
from evenly.errors import InvalidParameter

DealingWay = Literal["evenly", "in pieces", "in turn", "routers", "one router"]
"""The same number of rows to each instance; in five rounds of pieces, each smaller; by cost: in turn from the costliest row
down, by a router for each part of the input, or by one router for all rows."""
DEALING_WAYS: tuple[DealingWay, ...] = ("in turn", "routers", "one router")


@dataclass(frozen=True)
class RoutingCosts:
    """What dealing by cost takes beyond `repartition(k)`, in seconds.

    By the row and the byte as `benchmarks/cost_stage.py --part routing` measures cpu time; fixed times (a larger plan, sorts,
    code to compile, calls of the JVM) by rows that cost nothing, `--part fixed`, on two cores with Python already started.
    Pieces take no more by the row than `repartition(k)`, but `task_s` of cpu for each task more.

    Rows are dealt where they are read, so what is by the row and the byte is shared by as many tasks as there are slots:
    `turn` in turn, `router` through Python. `gather` is what one router takes more: a stage of its own, through one task.
    """

    turn_fixed_s: float = 0.25
    turn_row_s: float = 0.5e-6
    turn_byte_s: float = 0.6e-9
    router_fixed_s: float = 0.18
    router_row_s: float = 3e-6
    router_byte_s: float = 1.5e-9
    gather_fixed_s: float = 0.08
    gather_row_s: float = 2e-6
    gather_byte_s: float = 3e-9
    pieces_fixed_s: float = 0.05
    task_s: float = 0.018


@dataclass(frozen=True)
class DealingChoice:
    """How a batch is dealt, and by which figures.

    `even_s` is the expected time of the batch dealt evenly, `cost_s` by cost (or in pieces) with all that takes, `routing_s`;
    0 where nothing is known. `reason` says it in words.
    """

    way: DealingWay = "evenly"
    rows: int = 0
    even_s: float = 0.0
    cost_s: float = 0.0
    routing_s: float = 0.0
    reason: str = ""

    @property
    def by_cost(self) -> bool:
        """Whether rows are dealt by their estimates, in whatever way."""
        return self.way in DEALING_WAYS

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

_CARE = 1.5
"""What routing takes is measured on a warm JVM; on a cold one it was up to so many times as much."""
_MOST_FOR_COMPLETION = 0.015
_LEAST_SPREAD = 0.3
_GIANT = 0.5
_SEEN_AT_ONCE = 10_000
"""So many rows a router sees at a time: Spark's default for batches of Arrow."""
_LEFT_BY_ROUTERS = 1.5
_LEFT_IN_TURN = 1.3


MOST_PIECES = 1_024
"""Beyond that the driver, which starts tasks one after the other, is too long at it for the last and smallest pieces."""


def against_pieces(instances: int, *, slots: int | None, pieces: bool | None = None) -> str:
    """Why rows do not go out in pieces, where they could; "" if nothing is against it. `pieces` is what was asked for.

    None: in pieces, where so many instances fill all `slots` (None: not known). On fewer instances than slots more than one
    piece of an instance would run at a time, and whoever asked for few may have meant no more calls at a time.
    """
    if pieces is False:
        return "each instance is to be one task"
    if instances == 1:
        return "there is one instance"
    if not pieces:
        if slots is None or instances < slots:
            there = "may be more slots" if slots is None else f"are more slots ({slots:,})"
            return f"there {there} than instances ({instances:,}), and pieces would run on all of them"
        if ROUNDS * instances > MOST_PIECES:
            return f"{ROUNDS * instances:,} pieces would take too long to start"
    return ""


def choose_first_dealing(against: str, *, unknown: str = "nothing is known of costs yet") -> DealingChoice:
    """Decide for a batch of which too little is known to deal it by cost: in pieces, if nothing is `against` it."""
    if against:
        return DealingChoice(reason=f"evenly: {unknown}; {against}")
    return DealingChoice("in pieces", reason=f"in pieces: {unknown}, and slots that are free first take the small ones")


def choose_dealing(
    model: CostModel,
    instances: int,
    *,
    rows: int | None,
    row_bytes: float | None = None,
    partitions: int | None = None,
    slots: int | None = None,
    objective: str = "completion",
    ways: Sequence[DealingWay] = DEALING_WAYS,
    pieces: bool = False,
    costs: RoutingCosts | None = None,
) -> DealingChoice:
    """Decide for a batch of `rows` rows of `row_bytes` bytes, read in `partitions` parts by tasks on `slots` slots.

    None: not known. Then it is decided with care: evenly if the number of rows is not known, no single router if the bytes
    are not, as many parts as instances. `ways` are those by cost that there are, `pieces` whether there are pieces.

    By cost, or in pieces, where that is expected to save 1 % of the batch's time after routing is paid, and half as much again
    as routing takes; of the two what ends first. The objective "completion" gains by the order of rows within an instance
    too, so there dealing by cost may take 1.5 % more of the time than the other ways.
    """
    if instances < 1:
        raise InvalidParameter(f"instances must be at least 1, got {instances}")
    if model.rows <= 0.0:
        return DealingChoice(reason="evenly: nothing is known of costs yet")
    if instances == 1:
        return DealingChoice(reason="evenly: there is one instance")
    if not rows:
        return DealingChoice(reason="evenly: the number of rows is not known")
    load_s = rows * model.mean_s / instances
    if load_s <= 0.0:
        return DealingChoice(rows=rows, reason="evenly: rows cost nothing")
    giant, every, left = _spread(model, rows, load_s)
    parts = max(partitions or instances, 1)
    even_s = load_s * (1.0 + giant * (1.0 - 1.0 / instances) + unevenness(every, rows, instances))
    explained = math.sqrt(max(every**2 - left**2, 0.0))
    paid = costs or RoutingCosts()
    busy_slots = max(slots or instances, 1)
    routing_s = _routing_s(paid, rows, row_bytes, busy_slots)
    otherwise = DealingChoice(rows=rows, even_s=even_s, cost_s=even_s)
    if pieces:
        pieces_s = paid.pieces_fixed_s + (ROUNDS - 1) * instances * paid.task_s / busy_slots
        left_s = load_s * left_by_pieces(unevenness(every, rows, instances), giant, instances)
        cut = DealingChoice("in pieces", rows, even_s, load_s + left_s + pieces_s, pieces_s)
        if _pays(cut):
            otherwise = cut
    found = []
    for way in ways:
        if way == "one router" and row_bytes is None:
            continue
        # In turn no room is made for a giant; routers know nothing of each other's rows, so its own makes room alone.
        # And what a router dealt before the giant came, half of all on average, makes none.
        before = 0.5 * max(0.0, 1.0 - _SEEN_AT_ONCE * (parts if way == "routers" else 1) / rows)
        others = {"in turn": 1.0, "routers": max(1.0 - 1.0 / parts, before)}.get(way, before)
        crowded = max(1.0, giant + others * (1.0 - giant / instances))
        # And each part of the input leaves over some rows.
        share = {
            "in turn": _LEFT_IN_TURN * math.sqrt(instances * parts / rows),
            "routers": _LEFT_BY_ROUTERS * instances * parts / rows,
        }.get(way, 0.0)
        remainder = unevenness(explained, rows, instances) * min(1.0, share)
        cost_s = load_s * (crowded + math.hypot(unevenness(left, rows, instances), remainder)) + routing_s[way]
        found.append(DealingChoice(way, rows, even_s, cost_s, routing_s[way]))
    return _decided(min(found, key=lambda one: one.cost_s), otherwise, objective, spread=explained + giant)


def _routing_s(costs: RoutingCosts, rows: int, row_bytes: float | None, slots: int) -> dict[DealingWay, float]:
    """What each way takes beyond `repartition(k)`."""
    width = row_bytes or 0.0
    router_s = costs.router_fixed_s + rows * (costs.router_row_s + costs.router_byte_s * width) / slots
    return {
        "in turn": costs.turn_fixed_s + rows * (costs.turn_row_s + costs.turn_byte_s * width) / slots,
        "routers": router_s,
        "one router": router_s + costs.gather_fixed_s + rows * (costs.gather_row_s + costs.gather_byte_s * width),
    }


def _decided(found: DealingChoice, otherwise: DealingChoice, objective: str, *, spread: float) -> DealingChoice:
    """The best way by cost, or the other one."""
    told = _told(found, "dealing by cost saves", "routing takes")
    routers = {"routers": ", by routers", "one router": ", by one router"}.get(found.way, "")
    if _pays(found) and found.cost_s <= otherwise.cost_s:
        return replace(found, reason=f"by cost{routers}: {told}")
    with_care_s = found.cost_s + (_CARE - 1.0) * found.routing_s
    limit_s = (1.0 + _MOST_FOR_COMPLETION) * otherwise.cost_s
    if objective == "completion" and spread >= _LEAST_SPREAD and with_care_s <= limit_s:
        return replace(found, reason=f"by cost{routers}, short rows first: {told}")
    if otherwise.way == "in pieces":
        return replace(otherwise, reason=f"in pieces: {_told(otherwise, 'small pieces save', 'their tasks take')}")
    return replace(found, way="evenly", reason=f"evenly: {told}")


def _pays(choice: DealingChoice) -> bool:
    return choice.gain >= LEAST_GAIN and choice.promised >= _CARE * choice.routing_s / choice.even_s


def _told(choice: DealingChoice, saves: str, takes: str) -> str:
    shown = round(choice.promised, 3) + 0.0  # nothing is 0.0 %, not -0.0
    paid = choice.routing_s / choice.even_s
    return f"{saves} {shown:.1%} of {choice.even_s:.3g} s for {choice.rows:,} rows, {takes} {paid:.1%}"


def _spread(model: CostModel, rows: int, load_s: float) -> tuple[float, float, float]:
    """The costliest row as a part of an instance's work if it is half of that or more (else 0); and of all other costs
    the standard deviation in parts of the mean of all, and that of what estimates leave of it."""
    every, left = model.variances.shares_to_come
    known, rest = model.moments
    # Keys to come that were never seen are as those that were seen once, and are estimated as one: the last entry.
    once = seen_once(known)
    estimates = model.table.costs_s
    counts = np.append(np.where(once, 0.0, known.counts), known.counts[once].sum() + rest[0])
    share = rows / model.rows
    giants = (estimates >= _GIANT * load_s) & (counts * share >= _GIANT)
    if not giants.any():
        return 0.0, every, left
    mean_s = model.mean_s
    # What giants add to the variance is theirs, and goes with them: of the variance that rows had. What keys differ is far more
    # than that where a giant is one of few keys.
    theirs = float((counts[giants] * (estimates[giants] / mean_s - 1.0) ** 2).sum()) / model.rows
    total = min(every**2, model.variances.total / mean_s**2)
    every = math.sqrt(max(total - theirs, model.variances.shares[1] ** 2))
    return float(np.max(estimates[giants])) / load_s, every, min(left, every)
