"""Whether an observation has its result yet."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

_NEWS_MS = 10_000


def is_observed(observation: Any, ran: DataFrame) -> bool:
    """Whether there is a result. Asking for it would wait until there is; on Connect it is empty until then.

    Spark tells its listeners of a finished action a moment after the action has returned: that moment is waited for. Of rows
    of which it finds out, as it runs, that there are none it observes nothing, and says so by a row without a schema.
    """
    classic = getattr(observation, "_jo", None)
    if classic is None:
        return True
    if not classic.future().isCompleted():
        with suppress(Py4JError):
            ran.sparkSession.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_NEWS_MS)
    future = classic.future()
    return bool(future.isCompleted()) and future.value().get().get().schema() is not None
