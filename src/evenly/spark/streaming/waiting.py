"""Waiting for any query of a session, where some stop and start again to change their mappings.

Spark's own `awaitAnyTermination` cannot know that a query which ends is to start again at once: its waiters wake up
whenever one ends. What a change can do is to leave no trace of its own stop behind, so that a later call waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evenly.checks import is_number
from evenly.errors import InvalidParameter
from evenly.spark.frames import check_session
from evenly.spark.jvm.java_errors import Py4JError
from evenly.spark.worker_errors import worker_errors

_SLICE_S = 0.5
_POLL_S = 0.02


class _OwnEnds:
    """The ends of queries in this process that are to be forgotten: how many there were, and how many are under way."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self.begun = 0
        self._under_way: list[str | None] = []

    @contextmanager
    def one(self, run: str | None) -> Iterator[None]:
        """The end of a run, which may take as long as its batch; of which one may not be known."""
        with self._condition:
            self.begun += 1
            self._under_way.append(run)
        try:
            yield
        finally:
            with self._condition:
                self._under_way.remove(run)
                self._condition.notify_all()

    def under_way(self) -> tuple[int, list[str | None]]:
        """How many there were, and the runs of those that are under way."""
        with self._condition:
            return self.begun, list(self._under_way)

    def settled(self, timeout_s: float) -> int | None:
        """How many there were, once none is under way; None if that takes longer."""
        with self._condition:
            return self.begun if self._condition.wait_for(lambda: not self._under_way, timeout_s) else None


_OWN_ENDS = _OwnEnds()


@contextmanager
def forgotten_end(spark: SparkSession, query: StreamingQuery | None = None) -> Iterator[None]:
    """Around the end of a query of ours that is no end to a user: the session forgets it, and no other.

    `query` is one that is to start again; None of one that starts and ends within.
    """
    query_id, run = (None, None) if query is None else (str(query.id), str(query.runId))
    with _OWN_ENDS.one(run):
        quiet = not _some_ended(spark)
        others = _others(spark, query_id)
        yield
        if quiet and _others(spark, query_id) >= others:
            try:
                spark.streams.awaitAnyTermination(0.001)  # type: ignore[arg-type] # raises if another one has failed
                spark.streams.resetTerminated()
            except (PySparkException, Py4JError):
                return


@worker_errors()
def await_any_termination(spark: SparkSession, timeout: float | None = None) -> bool:
    """Wait until a query of the session ends, as `spark.streams.awaitAnyTermination` does; False after `timeout` seconds.

        while not evenly.await_any_termination(spark, timeout=60):
            print([query.lastProgress for query in queries])

    A query that stops for a change of its mapping and starts again has not ended; a thread that waits in Spark's own method
    returns at every such change. An error that ended a query is raised, one of ours as its class. As with Spark's method, a
    query that ended before the call counts until `spark.streams.resetTerminated()`.
    """
    check_session(spark)
    if timeout is not None and not is_number(timeout):
        raise InvalidParameter(f"timeout must be a number of seconds, or None, got {timeout!r}")
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        before = _OWN_ENDS.settled(_SLICE_S)
        begun, _ = _OWN_ENDS.under_way()
        left = _SLICE_S if deadline is None else min(_SLICE_S, deadline - time.monotonic())
        ended = spark.streams.awaitAnyTermination(max(left, 0.001))  # type: ignore[arg-type] # seconds need not be whole
        if ended and before is not None and _OWN_ENDS.settled(0.0) == before:
            return True
        if before is None and ended:
            if _is_anothers(spark, begun):
                return True
            time.sleep(_POLL_S)
        if deadline is not None and time.monotonic() >= deadline:
            return False


def _is_anothers(spark: SparkSession, begun: int) -> bool:
    """Whether an end is none of ours: since so many were begun no other one was, and all that are under way still run.

    One that waits for its batch may be under way for hours.
    """
    now, runs = _OWN_ENDS.under_way()
    return now == begun and bool(runs) and {*runs} <= {str(query.runId) for query in spark.streams.active}


def _some_ended(spark: SparkSession) -> bool:
    try:
        return bool(spark.streams.awaitAnyTermination(0.001))  # type: ignore[arg-type]
    except (PySparkException, Py4JError):
        return True


def _others(spark: SparkSession, query_id: str | None) -> set[str]:
    return {str(query.runId) for query in spark.streams.active if str(query.id) != query_id}
