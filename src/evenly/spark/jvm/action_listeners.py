"""Listeners in Python that Spark tells of every finished action of a session.

They are called through the gateway, as functions of `foreachBatch` are, on the listener bus: no query waits for that.
"""

from __future__ import annotations

import atexit
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

_EXIT_WAIT_MS = 2_000
_LAST_CALL_MS = 500
_registering = threading.Lock()
_registered: dict[str, set[int]] = defaultdict(set)
"""Identity hashes of our listeners in the JVM, by their kind: a session that Spark clones for a query has its listeners
already."""
_listened: dict[str, WeakSet[SparkSession]] = defaultdict(WeakSet)
"""Sessions that have one of a kind: to look for it is a dozen calls of the JVM."""


class ActionListener:
    """Spark's QueryExecutionListener. Nothing that happens in one may reach Spark."""

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.util.QueryExecutionListener"]

    def onSuccess(self, _action: str, execution: Any, _duration_ns: int) -> None:  # noqa: N802 - Java calls it
        raise NotImplementedError

    def onFailure(self, _action: str, _execution: Any, _error: Any) -> None:  # noqa: N802 - Java calls it
        return


def listen(spark: SparkSession, kind: str, make: Callable[[Any], ActionListener]) -> None:
    """Have a session's actions told to a listener of a kind, which `make` makes of the gateway's view of Java; once."""
    with _registering:
        if spark in _listened[kind]:
            return
        gateway: Any = spark.sparkContext._gateway
        identity = gateway.jvm.java.lang.System.identityHashCode
        manager = spark._jsparkSession.listenerManager()
        if any(identity(it) in _registered[kind] for it in manager.listListeners()):
            _listened[kind].add(spark)
            return
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        manager.register(make(gateway.jvm))
        if not any(_registered.values()):
            atexit.register(_leave)
        _registered[kind].add(identity(manager.listListeners()[-1]))
        _listened[kind].add(spark)


def await_news(spark: SparkSession, most_ms: int) -> None:
    """Wait, for so long at most, until the listeners have been told of all that has ended."""
    with suppress(Exception):  # It may not become empty while queries run.
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(most_ms)


def _leave() -> None:
    """A script that ends without `spark.stop()` is told of its last action too, and Java calls no Python that is gone.

    Queries that still run end after Python. So our listeners are taken from every session of the application, clones too,
    which are found by their buses: a list of sessions here would keep them from being forgotten.
    """
    context = SparkContext._active_spark_context
    if context is None:
        return
    with suppress(Exception):
        bus = context._jsc.sc().listenerBus()
        with suppress(Exception):  # It may not become empty while queries run.
            bus.waitUntilEmpty(_EXIT_WAIT_MS)
        identity = context._gateway.jvm.java.lang.System.identityHashCode  # type: ignore[union-attr]
        ours = set[int]().union(*_registered.values())
        for of_session in bus.listeners():
            if of_session.getClass().getSimpleName() == "ExecutionListenerBus":
                for listener in of_session.listeners():
                    if identity(listener) in ours:
                        of_session.removeListener(listener)
        bus.waitUntilEmpty(_LAST_CALL_MS)
