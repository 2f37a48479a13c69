"""The end of a streaming query after the batch that it runs, which Spark has no public way to ask for.

`query.stop()` breaks a batch off, and it is run again at the next start: a sink that adds what it gets to what is there would
have its rows twice, though nothing has failed.
"""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from evenly.spark.jvm.java_errors import Py4JError

_LOOK_S = 0.02
_QUIET = 3
"""Looks in a row without a batch. Spark looks whether a query is to go on shortly before it says that a batch has begun."""


def end_with_batch(query: StreamingQuery) -> bool:
    """Have a running query begin no other batch, and wait for the end of the one that runs, if any; `stop` it then.

    True if that batch was broken off, and has not failed: somebody else has stopped the query meanwhile, by Spark's own object.
    Where this Spark is built otherwise nothing is done.
    """
    try:
        _begin_no_more(query)
    except (Py4JError, AttributeError):
        return False
    quiet, ran = 0, False
    while (there := _is_there(query)) and quiet < _QUIET:
        runs = bool(query.status["isTriggerActive"])
        quiet, ran = 0 if runs else quiet + 1, ran or runs
        time.sleep(_LOOK_S)
    return ran and not there and _is_broken_off(query)


def _begin_no_more(query: StreamingQuery) -> None:
    """What `stop` does first, and without the interrupt that it goes on with.

    A query that is still being started is ended as well, as by `stop`: what is not told now it would not hear later.
    """
    state: Any = query._jsq.streamingQuery().state()
    there = state.get().getClass()
    name = f"{there.getName().rpartition('.')[0]}.TERMINATED$"
    state.set(there.getClassLoader().loadClass(name).getField("MODULE$").get(None))


def _is_there(query: StreamingQuery) -> bool:
    return bool(query._jsq.streamingQuery().queryExecutionThread().isAlive())


def _is_broken_off(query: StreamingQuery) -> bool:
    """Whether an ended query has left a batch behind that it had begun, with no error."""
    try:
        ended: Any = query._jsq.streamingQuery()
        begun, done = ended.offsetLog().getLatestBatchId(), ended.commitLog().getLatestBatchId()
        left = begun.isDefined() and (done.isEmpty() or begun.get() > done.get())
        return bool(left) and query.exception() is None
    except (Py4JError, AttributeError):
        return False
