"""The handle of a streaming query that Evenly has started: the same for every streaming form."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from evenly.facts.emitting import Teller
from evenly.facts.records import Fact, Graph, Kind
from evenly.notebook import shown
from evenly.spark.jvm.query_news import hear
from evenly.spark.worker_errors import own_error, worker_errors
from evenly.watching.attached import watch_here
from evenly.watching.live import LiveWatch


def teller_of(kind: Kind) -> Teller:
    """What tells records of a query, from its start on."""
    return Teller(kind=kind, clock=time.time)


class RunningQuery:
    """What `stream_by_key`, `stream_apply_by_cost` and `stream_send` return: Spark's `StreamingQuery`, by the same names.

        query = evenly.stream_send(rows, to=evenly.TcpLines("collector", 9000), checkpoint="/data/sent", query_name="sent")
        query.name, query.isActive, query.lastProgress
        query.awaitTermination()

    An error of ours that ended the query (a row on which your function failed, a destination that refused) is raised and
    returned as its class, from Spark's own; so `except evenly.errors.FunctionFailed` works. `query` is Spark's object.
    `facts` are its last records (see `evenly.emit_to`).
    """

    def __init__(self, query: StreamingQuery, teller: Teller | None = None) -> None:
        self._query = query
        self._tellers: tuple[Teller, ...] = () if teller is None else (teller,)

    @property
    def query(self) -> StreamingQuery:
        """The query as Spark has it."""
        return self._query

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The last records that it has told of itself (512 of each kind), in the order of time; keys are not named."""
        return tuple(sorted((fact for teller in self._tellers for fact in teller.recent), key=lambda fact: fact.time))

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
        try:
            if timeout is None:
                self._query.awaitTermination()
            elif not self._query.awaitTermination(max(timeout, 0.001)):  # type: ignore[arg-type] # seconds need not be whole
                return False
        except PySparkException as error:
            self._tell_end(own_error(error) or error)
            raise
        self._tell_end()
        return True

    @worker_errors()
    def processAllAvailable(self) -> None:  # noqa: N802
        """Wait until all rows that are there have been processed. For tests."""
        self._query.processAllAvailable()

    def stop(self) -> None:
        """Stop the query. The same call with the same checkpoint starts it again."""
        self._query.stop()
        self._tell_end(self.exception())

    def _tell_end(self, error: BaseException | None = None) -> None:
        """Spark tells it too, a moment later, which a script that ends now would not hear."""
        for teller in self._tellers:
            teller.end(error)

    def watch(self, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None, names: bool = False) -> LiveWatch:
        """A live page of this query in the browser: `url` says where, `close` ends it; in a notebook it shows itself.

            page = query.watch()
            page.url

        It begins with the last records, and goes on over restarts of the query in this process. `names`: whether keys may be
        told by what identifies them; of records before this call they are not. Needs `pip install 'evenly[watch]'`.
        """
        return watch_here(
            lambda: self.facts,
            runs=lambda: frozenset(teller.run for teller in self._tellers),
            title=f"Query {self.name or self.id}",
            host=host,
            port=port,
            token=token,
            names=names,
        )

    def begin_telling(
        self,
        spark: SparkSession,
        teller: Teller,
        *,
        instances: int | None = None,
        graph: Graph | None = None,
        name: str | None = None,
    ) -> RunningQuery:
        """Have `teller` tell its start, and its end when that comes. `name`: how it is called if the query has no name."""
        if teller not in self._tellers:
            self._tellers = (*self._tellers, teller)
        teller.begin(self.id, self.name or name, instances=instances, graph=graph)
        hear(self._query, spark, ended=lambda error: teller.end(None if error is None else RuntimeError(error)))
        return self

    def __repr__(self) -> str:
        facts = self._known()
        return f"<{type(self).__name__} {', '.join(f'{name}: {value}' for name, value in facts.items())}>"

    def _repr_html_(self) -> str:
        """What a notebook shows; it runs nothing."""
        loads = {}
        last = next((fact.batch for fact in reversed(self.facts) if fact.batch is not None), None)
        if last is not None:
            told = last.busy_ms_by_instance or last.rows_by_instance
            what = "milliseconds busy" if last.busy_ms_by_instance is not None else "rows"
            if told is not None and told.values:
                loads[f"{what} of instances in batch {last.number}"] = told.values
        return shown(type(self).__name__, self._known(), loads)

    def _known(self) -> dict[str, object]:
        """What can be said of it in a few words. A session that has gone says nothing more."""
        known: dict[str, object] = {}
        with suppress(Exception):
            known["name"] = self.name or "none"
            known["id"] = self.id
            known["state"] = self._state()
        last = next((fact.batch for fact in reversed(self.facts) if fact.batch is not None), None)
        if last is not None:
            known["last batch"] = f"{last.number}, {last.rows:,} rows"
            if last.duration_ms is not None:
                known["last batch"] = f"{known['last batch']}, {last.duration_ms / 1e3:.1f} s"
            if last.imbalance_pct is not None:
                known["λ"] = f"{last.imbalance_pct:.1f} %"
        return known

    def _state(self) -> str:
        if self.isActive:
            return "running"
        error = self.exception()
        return "ended" if error is None else f"ended by {next(iter(str(error).strip().splitlines()), type(error).__name__)}"
