"""A query stopped between two batches, where that can be waited for."""

from __future__ import annotations

import time

from evenly.spark.streaming.running_query import RunningQuery

_LOOK_S = 0.02


def stop_between_batches(query: RunningQuery, patience_s: float = 30.0) -> None:
    """Stop when no batch runs, or after `patience_s`: a batch that is broken off is run again, and Spark makes much ado."""
    until = time.monotonic() + patience_s
    while query.isActive and query.status.get("isTriggerActive") and time.monotonic() < until:
        time.sleep(_LOOK_S)
    query.stop()
