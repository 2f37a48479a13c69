"""Plan and run: how many threads, which rate, what breaks first; then run it as planned.

An operator that waits for a service is profiled where it will run, in Spark's Python workers, and planned with what
Spark itself needs. The plan is applied, and the run says what each operator really took.
On the command line: `evenly profile`, `evenly plan --on spark`, `evenly run --plan`.
"""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

import evenly
from evenly.planning.micro_batches import EngineCosts, SparkModels, SparkPlan, plan_on_spark
from evenly.spark.flows.engine_profile import profile_engine
from evenly.spark.flows.profiling import ProfileOptions, profile_flow


def look_up(row: Any) -> tuple[int, str]:
    """Stands for a service that answers after 5 ms."""
    time.sleep(0.005)
    return row.id, f"meaning of {row.id}"


def main(
    spark: SparkSession, *, rows: int = 2_000, seconds: float = 1.0, most_threads: int = 16, engine: EngineCosts | None = None
) -> tuple[SparkPlan, evenly.FlowWatch]:
    """Profile, plan, run once over `rows` rows. `engine`: what Spark needs, where that is known."""
    slots = spark.sparkContext.defaultParallelism
    flow = evenly.Flow("meanings")
    words = flow.source("words", function=lambda session: session.range(rows))
    words.shuffle(instances=slots).row(look_up, schema="id long, meaning string").sink("kept", format="noop")

    models = profile_flow(spark, flow.dataflow(), options=ProfileOptions(seconds=seconds, most_threads=most_threads))
    for point in models.curves["look_up"].points:
        print(f"{point.threads:3} threads: a slot carries {point.rows_per_s:,.0f} rows/s of look_up")

    costs = profile_engine(spark, batches=1) if engine is None else engine
    plan = plan_on_spark(flow.dataflow(), SparkModels(costs, models.curves, models.edges), slots=slots, trigger_s=2.0)
    print(f"planned: {plan.threads['look_up']} threads a task, highest rate {plan.peak_rate:,.0f} rows/s")
    print(f"breaks first: {plan.first_to_break}")

    watch = evenly.FlowWatch()
    evenly.run(flow, spark=spark, plan=plan, watch=watch)
    measured = watch.batches[-1].operators["look_up"]
    print(f"run: {measured.rows_in:,} rows, {measured.call_ms:.1f} ms a call")
    return plan, watch


if __name__ == "__main__":
    main(evenly.local_session(slots=4))
