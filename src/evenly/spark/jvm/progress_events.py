"""The batches of a query as Spark tells of them, without what PySpark makes of each event.

PySpark's own listener makes Python objects of the whole event, and each map in it ends in an error of Java's, which it looks
into by the names of a dozen classes: that took a tenth of what a small batch takes. Here only what is ours is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from py4j.java_gateway import JavaObject
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

Metrics = Mapping[str, Any]
"""What one observation of a batch gave, by name."""


class BatchReport(NamedTuple):
    """What Spark tells of a batch: its number, what was observed of it, and how long it took."""

    number: int
    metrics: dict[str, Metrics]
    seconds: float


class ProgressListener:
    """Hands on what observations with names that begin with `own` gave of every batch of a session's queries, and after them
    the id of a run that has ended."""

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]

    def __init__(self, own: str, receive: Callable[[BatchReport], None], ended: Callable[[str], None]) -> None:
        self._own, self._receive, self._ended = own, receive, ended
        self._wrapped: JavaObject | None = None

    def listen(self, spark: SparkSession) -> None:
        """From now on."""
        gateway: Any = spark.sparkContext._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        self._wrapped = gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(self)
        spark._jsparkSession.streams().addListener(self._wrapped)

    def leave(self, spark: SparkSession) -> None:
        """No more."""
        spark._jsparkSession.streams().removeListener(self._wrapped)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Java calls it
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        told = event.progress()
        observed = told.observedMetrics()
        names = [name for name in observed.keySet().toArray() if name.startswith(self._own)]
        # One by one: what others observe may be of types that JSON has not.
        metrics = {name: json.loads(observed.get(name).json()) for name in names}
        self._receive(BatchReport(told.batchId(), metrics, told.batchDuration() / 1_000.0))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._ended(str(event.runId().toString()))
