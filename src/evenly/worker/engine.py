"""What a Python worker takes from PySpark: its rows, its task, and the accumulators that it reports at its end."""

from __future__ import annotations

from typing import Any

from pyspark import TaskContext, accumulators
from pyspark.sql import types
from pyspark.sql.types import Row

__all__ = ["Row", "class_of_values", "known_accumulators", "running_task"]


def running_task() -> TaskContext | None:
    """The task that this worker runs; None outside of one."""
    return TaskContext.get()


def class_of_values(name: str) -> Any:
    """The class of Spark's for values of a type that Python has not (`VariantVal`, `Geometry`, `Geography`); None if this
    PySpark does not have it."""
    return getattr(types, name, None)


def known_accumulators() -> dict[int, Any]:
    """The registry whose accumulators a worker reports when its task has ended."""
    return accumulators._accumulatorRegistry  # noqa: SLF001 - there is no other way to them
