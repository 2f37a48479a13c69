"""Tells of placed rows that were shuffled again, after the action that did so, without being asked.

Spark tells its listeners of every finished action, on the listener bus: no query waits for that. Ours is a Python object that
Java calls through the gateway, as it calls the functions of `foreachBatch`. Nothing that happens in it reaches Spark.
"""

from __future__ import annotations

import atexit
import logging
import threading
from contextlib import suppress
from typing import Any, ClassVar
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from evenly.spark.features import Feature, has
from evenly.spark.jvm.shuffled_again import ShuffledAgain, shuffled_again

_LOG = logging.getLogger(__name__)
_MOST_TOLD = 1_000
_EXIT_WAIT_MS = 2_000
_LAST_CALL_MS = 500
_slots: set[str] = set()
_registering = threading.Lock()
_registered: set[int] = set()
"""Identity hashes of our listeners in the JVM: a session that Spark clones for a query has its listeners already."""
_listened: WeakSet[SparkSession] = WeakSet()
"""Sessions that have one: to look for it is a dozen calls of the JVM."""


def tell_of_shuffles(df: DataFrame, slot: str) -> None:
    """Have it logged, from now on, where an action in the session of `df` forgets this slot; nothing where that cannot be."""
    if not has(df.sparkSession, Feature.PLANS) or not _LOG.isEnabledFor(logging.WARNING):
        return
    _slots.add(slot)
    try:
        _register(df.sparkSession)
    except Exception:  # noqa: BLE001 - a gateway that allows no callbacks must not stop a user's work
        _LOG.debug("shuffles of placed rows cannot be told in this session: evenly.check_placement can", exc_info=True)


class PlacementListener:
    """Spark's QueryExecutionListener. Each finding is logged once."""

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.util.QueryExecutionListener"]

    def __init__(self, explicit_shuffle: Any) -> None:
        self._explicit_shuffle = explicit_shuffle
        self._told: set[ShuffledAgain] = set()

    def onSuccess(self, _action: str, execution: Any, _duration_ns: int) -> None:  # noqa: N802 - Java calls it
        try:
            analyzed = execution.analyzed()
            # Most actions end here, after one look at a bit set that Spark keeps with every plan.
            if not analyzed.containsPattern(self._explicit_shuffle) or not _may_have_slot(analyzed):
                return
            for found in shuffled_again(execution.executedPlan()):
                if found not in self._told and len(self._told) < _MOST_TOLD:
                    self._told.add(found)
                    _LOG.warning("%s", found)
        except Exception:  # noqa: BLE001 - the action has succeeded, whatever is wrong here
            _LOG.debug("the plan of an action could not be read", exc_info=True)

    def onFailure(self, _action: str, _execution: Any, _error: Any) -> None:  # noqa: N802 - Java calls it
        return


def _register(spark: SparkSession) -> None:
    with _registering:
        if spark in _listened:
            return
        gateway: Any = spark.sparkContext._gateway
        identity = gateway.jvm.java.lang.System.identityHashCode
        manager = spark._jsparkSession.listenerManager()
        if any(identity(it) in _registered for it in manager.listListeners()):
            _listened.add(spark)
            return
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        explicit_shuffle = gateway.jvm.org.apache.spark.sql.catalyst.trees.TreePattern.REPARTITION_OPERATION()
        manager.register(PlacementListener(explicit_shuffle))
        if not _registered:
            atexit.register(_leave)
        _registered.add(identity(manager.listListeners()[-1]))
        _listened.add(spark)


def _may_have_slot(plan: Any) -> bool:
    """Whether rows may be placed in a logical plan, by its text: one call, where a walk would be several for each node."""
    shuffles = [line for line in str(plan.toString()).splitlines() if "RepartitionByExpression" in line]
    return any(f"{slot}#" in line or " more fields" in line for line in shuffles for slot in tuple(_slots))


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
        for of_session in bus.listeners():
            if of_session.getClass().getSimpleName() == "ExecutionListenerBus":
                for listener in of_session.listeners():
                    if identity(listener) in _registered:
                        of_session.removeListener(listener)
        bus.waitUntilEmpty(_LAST_CALL_MS)
