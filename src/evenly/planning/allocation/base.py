"""What an allocation answers: threads, bundles and resources for every operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from evenly.dataflow.graph import Dataflow
from evenly.errors import InvalidParameter
from evenly.planning.models import Basis, PerformanceModel

MOST_BUNDLES = 1_000_000
ROUNDING = 1e-9
"""Sums of percents are rounded up to slots; a billionth above a whole slot is rounding error, not need."""


@dataclass(frozen=True)
class Bundle:
    """Threads of one operator that belong on one slot, the rate they are to carry, and what is reserved for them."""

    threads: int
    rate: float
    cpu_pct: float
    mem_pct: float


@dataclass(frozen=True)
class Need:
    """What one operator needs: `full` bundles that take a slot each, and the `rest` of the threads, if any.

    A mapping that places single threads counts for one `thread_cpu_pct` and `thread_mem_pct`, its part of what is allocated,
    or `alone_cpu_pct` and `alone_mem_pct`, what one thread uses by itself on a slot.
    """

    operator: str
    rate: float
    threads: int
    cpu_pct: float
    mem_pct: float
    basis: Basis
    thread_cpu_pct: float
    thread_mem_pct: float
    alone_cpu_pct: float
    alone_mem_pct: float
    full: tuple[Bundle, ...] = ()
    rest: Bundle | None = None

    @cached_property
    def bundles(self) -> tuple[Bundle, ...]:
        """All bundles, the full ones first."""
        return (*self.full, self.rest) if self.rest else self.full


@dataclass(frozen=True)
class Allocation:
    """Threads and resources for every operator at a rate, by one algorithm."""

    algorithm: str
    dataflow: Dataflow
    rate: float
    needs: tuple[Need, ...]

    @cached_property
    def by_operator(self) -> dict[str, Need]:
        """The needs by operator."""
        return {one.operator: one for one in self.needs}

    @property
    def threads(self) -> int:
        """Threads of all operators."""
        return sum(one.threads for one in self.needs)

    @cached_property
    def cpu_pct(self) -> float:
        """Cpu of all operators, in percent of a slot."""
        return math.fsum(one.cpu_pct for one in self.needs)

    @cached_property
    def mem_pct(self) -> float:
        """Memory of all operators, in percent of a slot."""
        return math.fsum(one.mem_pct for one in self.needs)

    @property
    def slots(self) -> int:
        """The larger of cpu and memory, rounded up to whole slots: no mapping within the slots can use fewer."""
        return max(1, math.ceil(max(self.cpu_pct, self.mem_pct) / 100.0 - ROUNDING))


class Allocator(Protocol):
    """An allocation algorithm."""

    name: str

    def allocate(self, dataflow: Dataflow, models: Mapping[str, PerformanceModel], rate: float) -> Allocation:
        """Threads and resources for `rate` tuples/s at every source (above 0)."""
        ...


def allocated(
    algorithm: str,
    need_of: Callable[[str, PerformanceModel, float], Need],
    dataflow: Dataflow,
    models: Mapping[str, PerformanceModel],
    rate: float,
) -> Allocation:
    """What every operator needs at `rate`: `need_of` of its name, its model and its own rate, where that is not static."""
    rates = dataflow.rates(checked_rate(rate))
    by_name = {name: models[dataflow.by_name[name].model_name] for name in dataflow.order}
    needs = ((static_need if model.is_static else need_of)(name, model, rates[name]) for name, model in by_name.items())
    return Allocation(algorithm, dataflow, rate, tuple(needs))


def checked_rate(rate: float) -> float:
    """A rate above 0."""
    if not (math.isfinite(rate) and rate > 0.0):
        raise InvalidParameter(f"a rate must be above 0 tuples/s and finite, got {rate}")
    return float(rate)


def whole_and_rest(rate: float, peak: float) -> tuple[int, float]:
    """How often `peak` goes into `rate`, and what remains (0 where it is rounding error)."""
    if rate / peak > MOST_BUNDLES:
        raise InvalidParameter(
            f"{rate:g} tuples/s are more than {MOST_BUNDLES:,} times the {peak:g} that threads carry: lower it"
        )
    whole = math.floor(rate / peak + ROUNDING)
    rest = rate - whole * peak
    return whole, rest if rest > ROUNDING * peak else 0.0


def static_need(operator: str, model: PerformanceModel, rate: float) -> Need:
    """A source or sink: one thread and its reservation."""
    one = model.points[0]
    use = (one.cpu_pct, one.mem_pct)
    return Need(operator, rate, 1, *use, "static", *use, *use, rest=Bundle(1, rate, *use))
