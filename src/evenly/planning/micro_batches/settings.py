"""The Spark settings that carry a plan for micro-batches out, as plain text values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenly.errors import InvalidParameter
from evenly.planning.micro_batches.plan import SparkPlan

USUAL_CORES = 4
_PYTHON_SPARE, _HEAP_MIB, _HEAP_SLOT_MIB, _OVERHEAD_MIB, _OVERHEAD_PART = 1.25, 1_024, 256, 384, 0.1


def executors(plan: SparkPlan, cores: int = USUAL_CORES) -> tuple[int, int]:
    """Executors, and task slots of each: `cores`, or all where there are fewer."""
    if cores < 1:
        raise InvalidParameter(f"an executor has at least 1 core, got {cores}")
    each = min(cores, plan.slots)
    return math.ceil(plan.slots / each), each


@dataclass(frozen=True)
class ExecutorMemory:
    """MiB of an executor: Spark's own, what it needs beside, and its Python workers'."""

    heap: int
    overhead: int
    python: int

    @property
    def all(self) -> int:
        """What a machine must have for it."""
        return self.heap + self.overhead + self.python


def executor_memory(plan: SparkPlan, cores: int = USUAL_CORES) -> ExecutorMemory:
    """Python has what workers held when they were measured and a quarter more; Spark 1 GiB and 256 MiB for each slot."""
    _, each = executors(plan, cores)
    heap = _HEAP_MIB + _HEAP_SLOT_MIB * each
    overhead = max(_OVERHEAD_MIB, math.ceil(_OVERHEAD_PART * heap))
    return ExecutorMemory(heap, overhead, max(64, math.ceil(_PYTHON_SPARE * plan.memory_mib)) * each)


def settings_on_spark(plan: SparkPlan, *, cores: int = USUAL_CORES) -> dict[str, str]:
    """Executors, cores, memory and parallelism for a plan, with `cores` slots in an executor.

    Dynamic allocation is off: it would undo the plan.
    """
    count, each = executors(plan, cores)
    memory = executor_memory(plan, cores)
    return {
        "spark.dynamicAllocation.enabled": "false",
        "spark.executor.instances": str(count),
        "spark.executor.cores": str(each),
        "spark.task.cpus": "1",
        "spark.executor.memory": f"{memory.heap}m",
        "spark.executor.memoryOverhead": f"{memory.overhead}m",
        "spark.executor.pyspark.memory": f"{memory.python}m",
        "spark.sql.shuffle.partitions": str(plan.slots),
        "spark.default.parallelism": str(plan.slots),
    }


def source_on_spark(plan: SparkPlan) -> dict[str, str]:
    """For the source and the trigger: the cap keeps a backlog from making a batch that takes longer than the trigger. Where
    nothing is known to take longer with more rows there is none."""
    if plan.trigger_s is None:
        return {}
    trigger = {"trigger": f"{plan.trigger_s:g} seconds"}
    if math.isinf(plan.peak_rate):
        return trigger
    return {"maxOffsetsPerTrigger": str(max(1, math.floor(max(plan.rate, plan.peak_rate) * plan.trigger_s))), **trigger}
