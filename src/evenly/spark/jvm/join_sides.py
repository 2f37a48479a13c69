"""What Spark knows of the two sides of a join before anything runs."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from evenly.spark.features import Feature, has
from evenly.spark.jvm.shuffled_again import executed_plan


def broadcasts(joined: DataFrame) -> bool:
    """Whether Spark would copy a side of this join to every executor, as it sees things before it runs; False if not known."""
    if not has(joined.sparkSession, Feature.PLANS):
        return False
    try:
        return str(_join(executed_plan(joined)).nodeName()).startswith("Broadcast")
    except Py4JError:
        return False


def _join(plan: Any) -> Any:
    """The topmost operator with two inputs, or the last one below."""
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.initialPlan()
    children = plan.children()
    while children.size() == 1:
        plan = children.apply(0)
        children = plan.children()
    return plan


def larger_is_right(left: DataFrame, right: DataFrame) -> bool:
    """Whether Spark takes the right side for the larger one; False if not known."""
    if not has(left.sparkSession, Feature.PLANS):
        return False
    try:
        one, two = (int(str(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())) for df in (left, right))
    except Py4JError:
        return False
    return two > one


def same_when_computed_again(df: DataFrame) -> bool:
    """Whether no expression of a plan is marked as one that may give something else the next time; True if not known."""
    if not has(df.sparkSession, Feature.PLANS):
        return True
    try:
        return bool(df._jdf.queryExecution().analyzed().deterministic())
    except Py4JError:
        return True
