"""A function of rows that gives nothing, one result or many, for callers that want one value for each row: a list of them."""

from __future__ import annotations

import inspect
import threading
import uuid
from collections.abc import Callable
from typing import Any

from evenly.worker.owned import owning
from evenly.worker.results import Shape, results_in


def many_results(function: Callable[..., Any], shape: Shape) -> Callable[[Any], Any]:
    """`function`, whose results of a row are one list of tuples with the fields of `shape`. A class is made once in a task."""
    called = function.__call__ if isinstance(function, type) else function
    inner = getattr(called, "__call__", None)  # noqa: B004 - it is asked of what kind it is
    waits = inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(inner)
    return _Waiting(function, shape) if waits else ManyResults(function, shape)


class ManyResults:
    """Calls a function, and gives all results of a row at once."""

    def __init__(self, function: Callable[..., Any], shape: Shape) -> None:
        self._given, self._shape, self._owned = function, shape, owning(shape.schema)
        self._run = uuid.uuid4().hex  # Spark takes stages that are alike for one, also those of two runs at once

    def __call__(self, row: Any) -> dict[str, Any]:
        return self._told(self._function(row))

    def close(self) -> None:
        """The task has ended."""
        if isinstance(self._given, type) and "_made" in vars(self) and callable(close := getattr(self._made, "close", None)):
            close()

    @property
    def _function(self) -> Any:
        """What the task calls: each task has a copy of its own of what it was sent."""
        if not isinstance(self._given, type):
            return self._given
        with _MAKING:
            if "_made" not in vars(self):
                self._made = self._given()
        return self._made

    def _told(self, value: Any) -> dict[str, Any]:
        return {"results": [self._shape.taken(one) for one in results_in(value, self._owned)]}


class _Waiting(ManyResults):
    async def __call__(self, row: Any) -> dict[str, Any]:  # type: ignore[override]
        return self._told(await self._function(row))


_MAKING = threading.Lock()
