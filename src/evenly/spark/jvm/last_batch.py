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
    """What `stop` does first, and without the interrupt that it goes on with."""
    state: Any = query._jsq.streamingQuery().state()
    active = state.get().getClass()
    if active.getSimpleName() == "ACTIVE$":
        name = str(active.getName()).replace("ACTIVE$", "TERMINATED$")
        state.compareAndSet(state.get(), active.getClassLoader().loadClass(name).getField("MODULE$").get(None))


def _is_there(query: StreamingQuery) -> bool:
    return bool(query._jsq.streamingQuery().queryExecutionThread().isAlive())
