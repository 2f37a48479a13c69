"""The Spark settings that carry a plan out, as plain text values."""

from __future__ import annotations

import math

from evenly.errors import InvalidParameter
from evenly.planning.plan import Plan

_JVM_PART, _OVERHEAD_PART = 0.5, 0.15
_DAY_S = 86_400.0
_CONCURRENCY = "spark.sql.execution.pythonUDF.arrow.concurrency.level"


def spark_settings(plan: Plan, *, trigger_s: float = 10.0, headroom_pct: float = 10.0) -> dict[str, str]:
    """Executors, cores, memory and parallelism for a plan. `trigger_s` (above 0, below a day): the trigger of a stream.

    An executor is a machine of the largest size in the plan, its cores are the slots, so a smaller last machine is
    rounded up to one. Dynamic allocation is off: it would undo the plan. Threads beyond one per slot are a pool inside the
    operator's Python function. Shuffle partitions are fixed once a streaming query has a checkpoint, so plan for the
    peak rate.
    """
    if not 0.0 < trigger_s < _DAY_S or not 0.0 <= headroom_pct < math.inf:
        raise InvalidParameter(
            f"trigger_s must be above 0 and below a day, and headroom_pct at least 0, got {trigger_s:g} and {headroom_pct:g}"
        )
    cluster = plan.placement.cluster
    largest = max((one.size for one in cluster.machines), key=lambda size: size.slots)
    executors = math.ceil(cluster.slots / largest.slots)
    memory_gib = largest.slots * largest.slot_memory_gib
    overhead_mib = max(384, math.floor(1024 * memory_gib * _OVERHEAD_PART))
    heap_mib = math.floor(1024 * memory_gib * _JVM_PART)
    python_mib = max(64, math.floor(1024 * memory_gib) - heap_mib - overhead_mib)
    most_threads = max(one.threads for one in plan.placement.placed)
    settings = {
        "spark.dynamicAllocation.enabled": "false",
        "spark.executor.instances": str(executors),
        "spark.executor.cores": str(largest.slots),
        "spark.task.cpus": "1",
        "spark.executor.memory": f"{heap_mib}m",
        "spark.executor.memoryOverhead": f"{overhead_mib}m",
        "spark.executor.pyspark.memory": f"{python_mib}m",
        "spark.sql.shuffle.partitions": str(cluster.slots),
        "spark.default.parallelism": str(cluster.slots),
    }
    if most_threads > 1:
        settings[_CONCURRENCY] = str(most_threads)
    return settings


def source_options(plan: Plan, *, trigger_s: float = 10.0, headroom_pct: float = 10.0) -> dict[str, str]:
    """What to give the streaming source and trigger: the cap keeps a backlog from making one micro-batch too large."""
    return {
        "maxOffsetsPerTrigger": str(math.ceil(plan.rate * trigger_s * (1.0 + headroom_pct / 100.0))),
        "trigger": f"{trigger_s:g} seconds",
    }


def stages(plan: Plan) -> list[dict[str, object]]:
    """For every operator: tasks (one per slot it sits on) and threads in each, for a stage or `ResourceProfile` of its own."""
    found: list[dict[str, object]] = []
    for name, bundles in plan.placement.by_operator.items():
        counts = sorted((one.threads for one in bundles), reverse=True)
        found.append({"operator": name, "tasks": len(counts), "threads_in_each": counts})
    return found
