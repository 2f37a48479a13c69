"""LSA: linear scaling allocation, what most planners assume."""

from __future__ import annotations

from collections.abc import Mapping

from evenly.dataflow.graph import Dataflow
from evenly.planning.allocation.base import Allocation, Bundle, Need, allocated, whole_and_rest
from evenly.planning.models import PerformanceModel


class LSA:
    """As if n threads carried and used n times what one does: the baseline of the model-driven paper.

    Threads never decrease with the rate, nor do slots (`tests/property/test_planning.py`). It promises the rate only
    where every thread has a slot of its own.
    """

    name = "lsa"

    @staticmethod
    def allocate(dataflow: Dataflow, models: Mapping[str, PerformanceModel], rate: float) -> Allocation:
        """Threads and resources for `rate` tuples/s at every source (above 0)."""
        return allocated(LSA.name, _need, dataflow, models, rate)


def _need(operator: str, model: PerformanceModel, rate: float) -> Need:
    one = model.points[0]
    whole, rest = whole_and_rest(rate, one.rate)
    threads = max(1, whole + (rest > 0.0))
    scale = whole + rest / one.rate
    cpu_pct, mem_pct = scale * one.cpu_pct, scale * one.mem_pct
    return Need(
        operator,
        rate,
        threads,
        cpu_pct,
        mem_pct,
        one.origin,
        cpu_pct / threads,
        mem_pct / threads,
        one.cpu_pct,
        one.mem_pct,
        rest=Bundle(threads, rate, cpu_pct, mem_pct),
    )
