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


def end_with_batch(query: StreamingQuery) -> None:
    """Have a running query begin no other batch, and wait for the end of the one that runs, if any; `stop` it then.

    Where this Spark is built otherwise nothing is done.
    """
    try:
        _begin_no_more(query)
    except (Py4JError, AttributeError):
        return
    quiet = 0
    while quiet < _QUIET and _is_there(query):
        quiet = 0 if query.status["isTriggerActive"] else quiet + 1
        time.sleep(_LOOK_S)


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
