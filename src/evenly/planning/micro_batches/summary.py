"""A plan for Spark as flat objects: one for each operator, and one for all."""

from __future__ import annotations

import math

from evenly.planning.micro_batches.plan import SparkPlan
from evenly.planning.micro_batches.settings import USUAL_CORES, executor_memory, executors

TOTAL = "total"


def spark_rows(plan: SparkPlan, *, cores: int = USUAL_CORES) -> list[dict[str, object]]:
    """One object for each operator, in the order of stages, and one whose operator is `total`."""
    base = {
        "dataflow": plan.flow.name,
        "allocation": plan.allocation,
        "planned_rate": plan.rate,
        "predicted_rate": _finite(plan.peak_rate),
        "holds": plan.holds,
    }
    rows: list[dict[str, object]] = []
    for number, stage in enumerate(plan.stages):
        for name in stage.operators:
            threads = {"threads": plan.threads[name]} if name in plan.threads else {}
            rows.append(
                {
                    **base,
                    "operator": name,
                    "stage": number,
                    "rate": plan.rate * stage.rows_in.get(name, 0.0),
                    "tasks": stage.tasks,
                    **threads,
                    "stage_s": _finite(stage.seconds(plan.rows_per_batch)),
                    "basis": _basis(plan, name),
                }
            )
    count, each = executors(plan, cores)
    total: dict[str, object] = {
        "operator": TOTAL,
        "rate": plan.rate,
        "slots": plan.slots,
        "measured_slots": plan.engine.slots,
        "executors": count,
        "executor_cores": each,
        "executor_memory_mib": executor_memory(plan, cores).all,
        "memory_mib": plan.memory_mib,
        "trigger_s": plan.trigger_s,
        "rows_per_batch": _finite(plan.rows_per_batch),
        "batch_s": _finite(plan.batch_s(plan.rows_per_batch)),
        "engine_s": plan.batch_s(0.0),
        "binding": plan.first_to_break,
        "completion_ms_mean": _finite(1e3 * plan.completion_s_mean),
        "completion_ms_p99": _finite(1e3 * plan.completion_s_p99),
        "doubts": list(plan.doubts),
    }
    return [*rows, {**base, **total}]


def _basis(plan: SparkPlan, name: str) -> str:
    if name in plan.unmeasured:
        return "not measured"
    if name in plan.frames:
        return "measured"
    if name not in plan.threads:
        return "static"
    return "interpolated" if name in plan.between else "measured"


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None
