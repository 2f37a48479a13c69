"""What was observed of rows by the first action that computed them, brought to whoever waits for it.

Spark's own `Observation` has to be asked for its result. Here nobody needs to ask: the listener bus brings it when the action
has ended. A result that is computed again (another action, a cached frame that is read) brings nothing more, and an action that
failed nothing at all. Spark counts each task's last attempt, so tasks that ran again are in it once.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from evenly.spark.jvm.action_listeners import ActionListener, await_news, listen

_LOG = logging.getLogger(__name__)
_MOST_AWAITED = 1_000
_NEWS_MS = 2_000
_awaited: dict[str, Callable[[Any], bool]] = {}
_in_hand: set[str] = set()
"""Of those that were awaited, what is just being brought."""
_changing = threading.Lock()


def await_outcome(spark: SparkSession, name: str, take: Callable[[Any], bool]) -> None:
    """Call `take` with the Row (of Java) that the observation of this name gives, after each action until it says it has it.

    It is called on the listener bus; what it raises is logged and ends the waiting. Of frames that no action ever computes
    the thousand last ones are waited for.
    """
    with _changing:
        while len(_awaited) >= _MOST_AWAITED:
            del _awaited[next(iter(_awaited))]
        _awaited[name] = take
    try:
        listen(spark, "outcomes", lambda _java: OutcomeListener())
    except Exception:  # noqa: BLE001 - a gateway that allows no callbacks must not stop a user's work
        _LOG.warning("this session tells of no finished actions, so what rows of a run gave each instance is not remembered")
        _LOG.debug("no listener", exc_info=True)


def settle(spark: SparkSession) -> None:
    """Wait until outcomes of what has ended have been brought, a few seconds at most."""
    if _awaited or _in_hand:
        await_news(spark, _NEWS_MS)


def collected(row: Any) -> list[bytes]:
    """The bytes of the one list in an observation's Row, in one call of the JVM: each by its own would wait for 40 ms."""
    (told,) = json.loads(row.json()).values()
    return [base64.b64decode(it) for it in told or ()]


class OutcomeListener(ActionListener):
    """Hands on what the actions of a session observed."""

    def onSuccess(self, _action: str, execution: Any, _duration_ns: int) -> None:  # noqa: N802 - Java calls it
        if not _awaited:
            return
        try:
            found = execution.observedMetrics()
            if not found.isEmpty():
                for name in [name for name in tuple(_awaited) if found.contains(name)]:
                    _bring(name, found.apply(name))
        except Exception:  # noqa: BLE001 - the action has succeeded, whatever is wrong here
            _LOG.debug("what an action observed could not be read", exc_info=True)


def _bring(name: str, row: Any) -> None:
    with _changing:
        take = _awaited.pop(name, None)
        if take is None:
            return
        _in_hand.add(name)
    try:
        if not take(row):
            with _changing:
                _awaited[name] = take
    except Exception as error:  # noqa: BLE001 - the action has succeeded, whatever is wrong here
        _LOG.warning("what a run carried is not remembered: %s", error)
        _LOG.debug("the outcome of a run", exc_info=True)
    finally:
        _in_hand.discard(name)
