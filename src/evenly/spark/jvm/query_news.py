"""What Spark tells of streaming queries, as it happens: the progress of those that are asked for, and every end.

Spark's own listener in Python makes an object of every progress event, by some hundred calls of the JVM. Here progress is one
text, and only where somebody wants it. It is public on Spark's side: `StreamingQueryListener` in Java, called from the bus.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evenly.facts.emitting import before_the_end

_LOG = logging.getLogger(__name__)


_LOOK_S = 5.0
_PROCESS_ENDED = "the driver's process ended while the query ran"


class _Heard(NamedTuple):
    query: StreamingQuery
    ended: Callable[[str | None], None]
    progress: Callable[[dict[str, Any]], None] | None
    lost: Callable[[str | None], None]


class _NewsListener:
    """Nothing that happens in it may reach Spark."""

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]

    def __init__(self) -> None:
        self.heard: dict[str, _Heard] = {}

    def lose(self, why: str | None) -> None:
        """Nothing will come any more: what still runs has ended with its session, and `why`."""
        for run in tuple(self.heard):
            heard = self.heard.pop(run, None)
            if heard is not None:
                with suppress(Exception):
                    heard.lost(_error(heard.query, why))

    def onQueryStarted(self, _event: Any) -> None:  # noqa: N802 - Java calls it
        return

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if not any(it.progress for it in tuple(self.heard.values())):
            return
        try:
            told = json.loads(event.progress().json())
            heard = self.heard.get(told["runId"])
            if heard is not None and heard.progress is not None:
                heard.progress(told)
        except Exception:  # noqa: BLE001 - the batch has ended, whatever is wrong here
            _LOG.debug("a progress event", exc_info=True)

    def onQueryIdle(self, _event: Any) -> None:  # noqa: N802
        return

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        try:
            heard = self.heard.pop(str(event.runId().toString()), None)
            if heard is not None:
                error = event.exception()
                heard.ended(str(error.get()) if error.isDefined() else None)
        except Exception:  # noqa: BLE001 - the query has ended, whatever is wrong here
            _LOG.debug("the end of a query", exc_info=True)


def _error(query: StreamingQuery, why: str | None) -> str | None:
    """What ended a query that has ended before its session; of one that ran, or cannot be asked any more, `why`."""
    with suppress(Exception):
        if not query.isActive and (error := query.exception()) is not None:
            return str(error)
        return why if query.isActive else None
    return why


_listening: WeakKeyDictionary[SparkSession, tuple[_NewsListener, Any]] = WeakKeyDictionary()
_registering = threading.Lock()
_looking: list[threading.Thread] = []


def hear(
    query: StreamingQuery,
    spark: SparkSession,
    *,
    ended: Callable[[str | None], None],
    progress: Callable[[dict[str, Any]], None] | None = None,
    lost: Callable[[str | None], None] | None = None,
) -> None:
    """Call `ended` with what ended this run of a query (None: it ended well), and `progress` after each of its batches.

    They are called on the listener bus. A session that allows no callbacks tells nothing, without a word. A session that is
    stopped tells of no end either, nor does a process that ends: then `lost` is called in place of `ended`, which is it too
    unless given.
    """
    run = str(query.runId)
    try:
        listener = _listener(spark)
    except Exception:  # noqa: BLE001 - a gateway that allows no callbacks must not stop a user's work
        _LOG.debug("no listener", exc_info=True)
        return
    listener.heard[run] = _Heard(query, ended, progress, lost or ended)
    with _registering:
        if not _looking:
            _looking.append(threading.Thread(target=_look_for_stopped, name="evenly sessions", daemon=True))
            _looking[0].start()
    if not query.isActive and listener.heard.pop(run, None) is not None:
        error = query.exception()
        ended(None if error is None else str(error))


def _listener(spark: SparkSession) -> _NewsListener:
    with _registering:
        if spark not in _listening:
            gateway: Any = spark.sparkContext._gateway
            ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
            made = _NewsListener()
            wrapped = gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(made)
            spark._jsparkSession.streams().addListener(wrapped)
            if not _listening:
                atexit.register(_leave)
                before_the_end(_leave)
            _listening[spark] = made, wrapped
        return _listening[spark][0]


def _look_for_stopped() -> None:
    """While queries are heard of: a session that was stopped takes its queries with it, and says nothing of them."""
    while True:
        _ended.wait(_LOOK_S)
        with _registering:
            known = list(_listening.items())
            if _ended.is_set() or not any(listener.heard for _, (listener, _) in known):
                _looking.clear()
                return
            for spark, _ in known:
                if _stopped(spark):
                    del _listening[spark]
        for spark, (listener, _) in known:
            if _stopped(spark):
                listener.lose(None)


_ended = threading.Event()


def _stopped(spark: SparkSession) -> bool:
    return spark.sparkContext._jsc is None


def _leave() -> None:
    """The process ends. Java calls no Python that is gone."""
    _ended.set()
    for spark, (listener, wrapped) in list(_listening.items()):
        listener.lose(None if _stopped(spark) else _PROCESS_ENDED)
        with suppress(Exception):  # the session may have gone
            spark._jsparkSession.streams().removeListener(wrapped)


if hasattr(os, "register_at_fork"):  # the end of a forked process is not that of its parent's queries
    os.register_at_fork(after_in_child=partial(atexit.unregister, _leave))
