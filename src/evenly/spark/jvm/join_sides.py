"""What Spark knows of the two sides of a join before anything runs."""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from evenly.spark.features import Feature, has
from evenly.spark.jvm.row_order import KEEPS_ORDER, is_shuffled_rdd
from evenly.spark.jvm.shuffled_again import each, executed_plan

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
_UNKNOWN = re.compile(
    # Functions of whole groups, and aggregates whose code is not Spark's, which may look at the order of the rows they get; and
    # sketches, which hold something else for rows in another order.
    r'"class":"org\.apache\.spark\.sql\.(?:\w+\.)+'
    r"(?:(?:FlatMap(?:Co)?Groups|MapGroups|CoGroup|PythonUDAF|Scala(?:UDAF|Aggregator))|(?:Hll|Kll|Theta|Tuple)\w*Agg)"
)
_MAPS = ("MapInPandas", "MapInArrow", "PythonMapInArrow")
"""Functions of all rows of a task, in the order in which they come."""
_ADDS_UP = re.compile(r'"class":"org\.apache\.spark\.sql\.catalyst\.plans\.logical\.(?:Aggregate|Window)"')
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
    among others of the same rank, the one that `dropDuplicates` of some columns keeps, whatever a function in Python makes of a
    group or, behind a shuffle, of a task's rows. False if there is no plan to ask, as through Spark Connect.
    """
    if not has(df.sparkSession, Feature.PLANS):
        return False
    try:
        plan = df._jdf.queryExecution().analyzed()
        if not plan.deterministic():
            return False
        told = str(plan.toJSON())
        return not (
            _ORDERED.search(told)
            or _UNKNOWN.search(told)
            or (_DEDUPLICATED in told and _keeps_any(plan))
            or (any(f"logical.{name}" in told for name in _MAPS) and _maps_shuffled(plan))
            or any(map(is_shuffled_rdd, each(plan.collectLeaves())))
        )
    except Py4JError:
        return False


def adds_up_rows(df: DataFrame) -> bool:
    """Whether a plan has sums or the like: of floats, these are others in their last digits with another order of rows."""
    if not has(df.sparkSession, Feature.PLANS):
        return True
    try:
        return _ADDS_UP.search(str(df._jdf.queryExecution().analyzed().toJSON())) is not None
    except Py4JError:
        return True


def _maps_shuffled(plan: Any) -> bool:
    """Whether a function of a task's rows gets them from anything but what reads them in the order in which they are stored."""
    below = list(each(plan.children()))
    if plan.nodeName() in _MAPS and any(map(_reorders, below)):
        return True
    return any(map(_maps_shuffled, below))


def _reorders(plan: Any) -> bool:
    below = list(each(plan.children()))
    return bool(below) and (plan.nodeName() not in KEEPS_ORDER or any(map(_reorders, below)))


def _keeps_any(plan: Any) -> bool:
    """Whether rows that differ are taken for duplicates somewhere in a logical plan, and one of them is kept."""
    if plan.getClass().getSimpleName() == "Deduplicate" and plan.keys().size() < plan.output().size():
        return True
    children = plan.children()
    return any(_keeps_any(children.apply(at)) for at in range(children.size()))
