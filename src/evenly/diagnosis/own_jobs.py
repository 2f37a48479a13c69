"""Stages that are nobody's work: what Spark does for itself (schemas, listings, broadcasts, statistics), and what Evenly does.

Nothing is to be balanced there: they get no advice and are counted apart.
"""

from __future__ import annotations

import re

from evenly.diagnosis.stages import Work

SCHEMA = "reading schemas"
LISTING = "listing files"
BROADCAST = "collecting broadcasts"
STATISTICS = "statistics"
TABLE_LOG = "reading table logs"
PREPARING = "preparing queries"
RECEIVER = "receiving a stream"
EVENLY = "Evenly learning keys"

_DESCRIBED = {"Listing leaf files": LISTING, "Streaming job running receiver": RECEIVER}
_READERS = frozenset({"csv", "json", "parquet", "orc", "text", "xml", "avro", "load", "table", "format", "jdbc", "option"})
"""Calls of `spark.read`: without a query, what they run is the inference of a schema."""
_ASKERS = _READERS | {
    "sql",
    "createOrReplaceTempView",
    "insertInto",
    "save",
    "saveAsTable",
    "createDataFrame",
    "toDF",
    "schema",
}
"""Calls which run a job without a query only to prepare one."""
_INTERNALS = re.compile(
    r"(NativeMethodAccessorImpl|ThreadPoolExecutor|CompletableFuture|FutureTask)\.java:\d+$|SparkPlan\.scala:\d+$"
)
_EVENLYS = re.compile(r"[/\\]evenly[/\\](spark|worker)[/\\](?!comparison)")
_LEARNERS = frozenset({"PartitionLearner"})
"""What learning ran in Python, before it was Spark's own aggregates: logs are kept for long."""
_WRITES = ("Execute InsertInto", "Execute Create", "Execute SaveInto", "OverwriteByExpression", "AppendData", "WriteFiles")


def own_job(name: str, description: str, work: Work, *, has_query: bool, rows: int) -> str | None:
    """What kind of job of Spark's or Evenly's own a stage belongs to, or None if it is the user's.

    `name` is the stage's call site, `description` that of its job, `rows` what its tasks read and wrote.
    """
    for begins, kind in _DESCRIBED.items():
        if description.startswith(begins):
            return kind
    if "Delta: " in description or any(
        "Delta Table State" in one or "_delta_log" in one for one in (*work.operators, work.scan)
    ):
        return TABLE_LOG
    if _is_evenlys(name, work):
        return EVENLY
    if work.command.startswith("Execute Analyze") or description.startswith("Computing statistics"):
        return STATISTICS
    if not work.python and (work.for_broadcast or description.lower().startswith("broadcast exchange")):
        return BROADCAST
    return _preparing(name, work, has_query=has_query, rows=rows)


def _is_evenlys(name: str, work: Work) -> bool:
    if work.functions and set(work.functions) <= _LEARNERS:
        return True
    return bool(_EVENLYS.search(name)) and not set(work.functions) - _LEARNERS and not work.rdds


def _preparing(name: str, work: Work, *, has_query: bool, rows: int) -> str | None:
    """A job before the query: the action says so, and that there is no plan, or one that takes a few lines of text."""
    action = name.partition(" at ")[0].strip()
    if work.python:
        return None
    if not has_query and action in _READERS:
        return SCHEMA
    if not has_query and action in _ASKERS:
        return PREPARING
    if has_query and action in _READERS and work.limited and not work.command.startswith(_WRITES):
        return SCHEMA
    if not has_query and rows == 0 and _INTERNALS.search(name):
        return PREPARING
    return None
