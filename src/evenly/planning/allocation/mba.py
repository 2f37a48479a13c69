"""MBA: model-based allocation."""

from __future__ import annotations

from collections.abc import Mapping

from evenly.dataflow.graph import Dataflow
from evenly.planning.allocation.base import Allocation, Bundle, Need, allocated, whole_and_rest
from evenly.planning.models import PerformanceModel


class MBA:
    """Whole bundles of the number of threads that carries most on a slot, and the fewest threads for what remains.

    A whole bundle is charged a whole slot: the operator can use no more of it, and others would disturb it. The rest
    takes the fewest modelled threads that carry it; one thread is charged in proportion to its rate. Each bundle's peak
    rate is at least what it is to carry, and threads never decrease with the rate (`tests/property/test_planning.py`).
    """

    name = "mba"

    @staticmethod
    def allocate(dataflow: Dataflow, models: Mapping[str, PerformanceModel], rate: float) -> Allocation:
        """Threads and resources for `rate` tuples/s at every source (above 0)."""
        return allocated(MBA.name, _need, dataflow, models, rate)


def _need(operator: str, model: PerformanceModel, rate: float) -> Need:
    best = model.best
    whole, left = whole_and_rest(rate, best.rate)
    full = (Bundle(best.threads, best.rate, 100.0, 100.0),) * whole
    rest, basis = None, best.origin
    if left > 0.0 or whole == 0:
        point = model.fewest_for(left)
        scale = left / point.rate if point.threads == 1 else 1.0
        rest = Bundle(point.threads, left, point.cpu_pct * scale, point.mem_pct * scale)
        basis = point.origin if point.origin == "synthetic" else basis
    threads = whole * best.threads + (rest.threads if rest else 0)
    cpu_pct = 100.0 * whole + (rest.cpu_pct if rest else 0.0)
    mem_pct = 100.0 * whole + (rest.mem_pct if rest else 0.0)
    part, one = (cpu_pct / threads, mem_pct / threads), model.points[0]
    return Need(operator, rate, threads, cpu_pct, mem_pct, basis, *part, one.cpu_pct, one.mem_pct, full, rest)
