"""Records of streaming queries that Evenly has not started: what Spark tells of any query, through Spark Connect too."""

from __future__ import annotations

import threading
import time

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from evenly.facts.emitting import Teller, tells_of_itself
from evenly.facts.records import Batch


class QueryFacts(StreamingQueryListener):
    """Tells records of all streaming queries of a session: when they start and end, and the rows and the time of each batch.

        listener = evenly.QueryFacts()
        spark.streams.addListener(listener)
        spark.streams.removeListener(listener)

    They go where `evenly.emit_to` says. Queries that Evenly has started tell more of themselves, and are left out. It is
    Spark's public listener alone, so it works on Spark Connect too. A query is told from its first batch with rows on, or when
    it fails before one; of one whose session was stopped Spark tells no end.
    """

    def __init__(self) -> None:
        self._names: dict[str, str | None] = {}
        self._tellers: dict[str, Teller] = {}
        self._lock = threading.Lock()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing is told yet: whether the query tells of itself is known once it has been started."""
        with self._lock:
            self._names[str(event.id)] = event.name

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch has ended."""
        told = event.progress
        query, rows = str(told.id), int(told.numInputRows)
        if not rows > 0 or tells_of_itself(query):
            return
        number, duration_ms = int(told.batchId), float(told.batchDuration)
        with self._lock:
            teller = self._tellers.get(query) or self._begun(query, told.name)
            self._tellers[query] = teller
        teller.tell("batch", batch=lambda _: Batch(number=number, rows=rows, duration_ms=duration_ms))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """No rows have come."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """A query has ended, by itself, by `stop` or by an error."""
        query = str(event.id)
        with self._lock:
            teller, name = self._tellers.pop(query, None), self._names.pop(query, None)
            if teller is None and event.exception is not None and not tells_of_itself(query):
                teller = self._begun(query, name)  # it has failed before a batch, which those who watch want to know most
        if teller is not None:
            teller.end(None if event.exception is None else RuntimeError(event.exception))

    @staticmethod
    def _begun(query: str, name: str | None) -> Teller:
        teller = Teller(kind="query", clock=time.time)
        teller.begin(query, name)
        return teller
