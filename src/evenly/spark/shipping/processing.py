"""A processor for `transformWithState` that workers load when its first group comes, and not before.

Spark asks it which state it keeps in a process beside the driver, which has neither the files that were sent to the workers nor
the modules of the user's function. So this class goes by its code, like `opening`: nothing here may need another module of
Evenly but that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from evenly.spark.shipping.opening import opened


class LoadedProcessor(StatefulProcessor):
    """Keeps one list of states; what is done with it is up to the object that `loading` says how to load.

    That has `begin(handle, states)`, `handleInputRows` and `handleExpiredTimer`, as Spark's processors do.
    """

    def __init__(self, name: str, schema: str, loading: tuple[str, str | None, str, bytes]) -> None:
        self._name, self._schema, self._loading = name, schema, loading
        self._loaded: Any = None

    def init(self, handle: Any) -> None:
        """Spark's: a task begins, or the driver asks for the states."""
        self._handle, self._states = handle, handle.getListState(self._name, self._schema)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's names
        """Spark's: a group of a batch."""
        yield from self._processor().handleInputRows(key, rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's names
        """Spark's: a timer of a group."""
        yield from self._processor().handleExpiredTimer(key, timerValues, expiredTimerInfo)

    def close(self) -> None:
        """Spark's: a task ends."""

    def _processor(self) -> Any:
        if self._loaded is None:
            self._loaded = opened(*self._loading)
            self._loaded.begin(self._handle, self._states)
        return self._loaded
