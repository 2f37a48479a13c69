"""What Spark knows of the two sides of a join before anything runs."""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from evenly.spark.features import Feature, has
from evenly.spark.jvm.shuffled_again import executed_plan

_TAKE_ROWS_AS_THEY_COME = (
    *("First", "Last", "AnyValue", "CollectList", "CollectSet", "ListAgg", "MaxBy", "MinBy", "MaxMinByK", "Mode", "PivotFirst"),
    *("ApproximatePercentile", "ApproxTopK", "HistogramNumeric", "RowNumber", "NTile", "NthValue", "Lag", "Lead"),
)
_CLASS = r'"class":"org\.apache\.spark\.sql\.catalyst\.expressions\.'
_ORDERED = re.compile(
    rf'{_CLASS}(?:aggregate\.)?(?:{"|".join(_TAKE_ROWS_AS_THEY_COME)})"'
    # Some rows before and after, of rows that may have no order among themselves; all of a window's are no such.
    rf'|{_CLASS}SpecifiedWindowFrame","num-children":2,"frameType":{{"object":"[\w.]+\.RowFrame\$"}},"lower":0,"upper":1}},'
    rf'(?!{{{_CLASS}UnboundedPreceding\$","num-children":0}},{{{_CLASS}UnboundedFollowing\$")'
)
_DEDUPLICATED = '"class":"org.apache.spark.sql.catalyst.plans.logical.Deduplicate"'


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
    """Whether nothing in a plan is random or depends on the order of rows, which is another after another shuffle.

    Spark marks what is random. What takes the rows as they come it does not: the first of some, a list of them, a row's number
    among others of the same rank, the one that `dropDuplicates` of some columns keeps. True if there is no plan to ask.
    """
    if not has(df.sparkSession, Feature.PLANS):
        return True
    try:
        plan = df._jdf.queryExecution().analyzed()
        if not plan.deterministic():
            return False
        told = str(plan.toJSON())
        return _ORDERED.search(told) is None and not (_DEDUPLICATED in told and _keeps_any(plan))
    except Py4JError:
        return False


def _keeps_any(plan: Any) -> bool:
    """Whether rows that differ are taken for duplicates somewhere in a logical plan, and one of them is kept."""
    if plan.getClass().getSimpleName() == "Deduplicate" and plan.keys().size() < plan.output().size():
        return True
    children = plan.children()
    return any(_keeps_any(children.apply(at)) for at in range(children.size()))
