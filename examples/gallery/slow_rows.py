"""Rows of unequal cost: what a call takes is learnt by host, and the next run is dealt out by it.

A function that asks some hosts for long, and others for a moment. The first run measures, and evens out by small pieces what
nobody knows yet; the second has equally busy instances, which run their short rows first.
"""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import evenly


class Fetch:
    """Stands for a service: every seventh host answers late."""

    def __init__(self, slow_s: float) -> None:
        self.slow_s = slow_s

    def __call__(self, row: Any) -> tuple[int, str]:
        time.sleep(self.slow_s if row.host % 7 == 0 else self.slow_s / 50)
        return row.id, f"answer of host {row.host}"


def main(spark: SparkSession, *, rows: int = 800, instances: int = 8, slow_s: float = 0.2) -> list[evenly.CostWatch]:
    """Two runs; what both have measured."""
    calls = spark.range(rows).withColumn("host", F.abs(F.hash("id")) % 50).persist()
    calls.count()
    fetch, schema = Fetch(slow_s), "id long, answer string"

    first = evenly.CostWatch()
    evenly.apply_by_cost(calls, fetch, schema, cost_key="host", instances=instances, watch=first).collect()
    print(f"first run:  {first.decision.reason}")
    print(f"            λ of time {first.imbalance_pct:.1f} %, a row is done after {first.mean_completion_s:.2f} s on average")

    second = evenly.CostWatch()
    evenly.apply_by_cost(calls, fetch, schema, instances=instances, costs=first.costs, watch=second).collect()
    print(f"second run: {second.decision.reason}")
    print(
        f"            λ of time {second.imbalance_pct:.1f} %, a row is done after {second.mean_completion_s:.2f} s on average"
    )
    calls.unpersist()
    return [first, second]


if __name__ == "__main__":
    main(evenly.local_session(slots=8))
