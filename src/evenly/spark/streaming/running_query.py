"""The handle of a streaming query that Evenly has started: the same for every streaming form."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from evenly.spark.worker_errors import own_error, worker_errors


class RunningQuery:
    """What `stream_by_key`, `stream_apply_by_cost` and `stream_send` return: Spark's `StreamingQuery`, by the same names.

        query = evenly.stream_send(rows, to=evenly.TcpLines("collector", 9000), checkpoint="/data/sent", query_name="sent")
        query.name, query.isActive, query.lastProgress
        query.awaitTermination()

    An error of ours that ended the query (a row on which your function failed, a destination that refused) is raised and
    returned as its class, from Spark's own; so `except evenly.errors.FunctionFailed` works. `query` is Spark's object.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    @property
    def query(self) -> StreamingQuery:
        """The query as Spark has it."""
        return self._query

    @property
    def id(self) -> str:
        """The query's identity, which its checkpoint keeps: the same after every restart."""
        return str(self._query.id)

    @property
    def runId(self) -> str:  # noqa: N802 - here and below: as StreamingQuery has it
        """The identity of this run of it."""
        return str(self._query.runId)

    @property
    def name(self) -> str | None:
        """The name that it was given, by `query_name=`; None without one."""
        found = self._query.name
        return None if found is None else str(found)

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether the query runs."""
        return bool(self._query.isActive)

    @property
    def status(self) -> dict[str, Any]:
        """What it does just now, in Spark's words."""
        return dict(self._query.status)

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802
        """What Spark tells of its last batch; None before the first of this run."""
        return self._query.lastProgress

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802
        """What Spark tells of the last batches of this run."""
        return list(self._query.recentProgress)

    def exception(self) -> BaseException | None:
        """What ended the query, an error of ours as its class; None while all is well."""
        found = self._query.exception()
        return own_error(found) or found

    @worker_errors()
    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802
        """Wait until the query ends, by `stop`, by itself or by an error, which is raised; False after `timeout` seconds."""
        if timeout is None:
            self._query.awaitTermination()
            return True
        return bool(self._query.awaitTermination(max(timeout, 0.001)))  # type: ignore[arg-type] # seconds need not be whole

    @worker_errors()
    def processAllAvailable(self) -> None:  # noqa: N802
        """Wait until all rows that are there have been processed. For tests."""
        self._query.processAllAvailable()

    def stop(self) -> None:
        """Stop the query. The same call with the same checkpoint starts it again."""
        self._query.stop()
