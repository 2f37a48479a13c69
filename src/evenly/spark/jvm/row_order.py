"""Whether rows come in the same order when they are read again, which is what their numbers rest on."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenly.spark.features import Feature, has
from evenly.spark.jvm.plan_texts import is_cut
from evenly.spark.jvm.shuffled_again import each

KEEPS_ORDER = {
    *("Project", "Filter", "Generate", "MapInPandas", "PythonMapInArrow", "MapInArrow", "ArrowEvalPython", "BatchEvalPython"),
    *("SubqueryAlias", "CollectMetrics", "EventTimeWatermark"),
}
"""Operators that hand rows on in the order in which they get them, by Spark's names."""
_SHUFFLE = re.compile(r"\b(?:Reused)?Exchange\b")
"""In the text of a plan. One that is cut may have had one."""
_OF_RDD = frozenset({"LogicalRDD", "ExternalRDD"})
_SHUFFLED_RDD = re.compile(r"\b(?:Shuffled|CoGrouped|Subtracted)\w*RDD\b")


def comes_in_any_order(df: DataFrame) -> bool:
    """Whether a task that runs again may get its rows in another order: after a shuffle, unless they are sorted since.

    Sorted by the user, that is: a merge join sorts too, but leaves ties in any order.
    """
    if not has(df.sparkSession, Feature.PLANS):
        return True
    execution = df._jdf.queryExecution()
    if df.isStreaming:
        # It has no physical plan yet, and in the batch that foreachBatch gets there is nothing left to see of its shuffles.
        node = execution.analyzed()
        while node.nodeName() in KEEPS_ORDER:
            node = node.children().head()
        return not node.children().isEmpty()
    return _is_shuffled(execution)


def comes_shuffled(df: DataFrame) -> bool:
    """Whether the rows of a batch are known to come from a shuffle that says nothing of their order."""
    return not df.isStreaming and has(df.sparkSession, Feature.PLANS) and _is_shuffled(df._jdf.queryExecution())


def _is_shuffled(execution: Any) -> bool:
    node = execution.optimizedPlan()
    told = execution.executedPlan().toString()
    if not _SHUFFLE.search(told) and not is_cut(told) and not any(map(is_shuffled_rdd, each(node.collectLeaves()))):
        return False
    while node.nodeName() in KEEPS_ORDER:
        node = node.children().head()
    return bool(node.nodeName() != "Sort")


def is_shuffled_rdd(leaf: Any) -> bool:
    """Whether a leaf of a plan reads an RDD behind a shuffle of its own, of which the plan has nothing."""
    return leaf.nodeName() in _OF_RDD and _SHUFFLED_RDD.search(leaf.rdd().toDebugString()) is not None


def is_held_at_driver(df: DataFrame) -> bool:
    """Whether the plan holds the rows itself, as after `VALUES` or `createDataFrame`."""
    return str(df._jdf.queryExecution().optimizedPlan().nodeName()) == "LocalRelation"


def in_one_order(encoded: DataFrame, column: str) -> DataFrame:
    """The rows of each partition sorted by what is sent; equal ones cannot be told apart."""
    return encoded.sortWithinPartitions(F.xxhash64(column), column)
