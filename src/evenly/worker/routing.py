"""A router: the task that says, row by row, which instance gets a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evenly.costs.dealing import BatchDealer, DealingRule
from evenly.costs.table import CostTable
from evenly.costs.turns import first_instance
from evenly.kernels.types import F64, I32, I64
from evenly.worker.engine import running_task
from evenly.worker.settled import settle


@dataclass(frozen=True, eq=False)
class Routing:
    """What a router decides by. `shares` has a part of the work for each partition."""

    table: CostTable
    shares: F64
    rule: DealingRule = "longest-first"


def routed(routing: Routing, labels: I32, columns: Iterator[I64]) -> Iterator[tuple[I32, F64]]:
    """For each batch of ids, the label of each row's instance and what it is expected to take."""
    settle()
    context = running_task()
    start = 0 if context is None else first_instance(2 * context.partitionId(), labels.size)
    dealer = BatchDealer(routing.table, labels.size, shares=routing.shares, start=start, rule=routing.rule)
    for ids in columns:
        instances, estimates_s = dealer.route(ids)
        yield labels[instances], estimates_s
