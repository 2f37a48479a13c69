"""Errors of ours that were raised in Spark's workers: the driver gets their text, and here their class again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from evenly import errors
from evenly.errors import EvenlyError

_OURS = re.compile(r"evenly\.errors\.(\w+): (.*(?:\n {2}.*)*)")
_OF_SPARK = frozenset({"pyspark", "py4j"})


def own_error(error: BaseException | None) -> EvenlyError | None:
    """The error of ours that made Spark raise this one (or a query stop with it); None if it was another one.

    Spark carries the text of what a worker raised, with its traceback; the last error of a chain is the one that was raised.
    """
    if isinstance(error, EvenlyError):
        return error
    if error is None or type(error).__module__.partition(".")[0] not in _OF_SPARK:
        return None
    found = _OURS.findall(str(error))
    if not found:
        return None
    name, message = found[-1]
    kind = getattr(errors, name, None)
    return kind(message.rstrip()) if isinstance(kind, type) and issubclass(kind, EvenlyError) else None


@contextmanager
def worker_errors() -> Iterator[None]:
    """Errors of ours that end a Spark action inside are raised as their class, from Spark's own error.

        with evenly.worker_errors():
            evenly.apply_by_cost(df, fetch, schema, instances=16).write.parquet(path)

    So `except evenly.errors.FunctionFailed` works where Spark raises its PythonException. All other errors pass unchanged. It
    serves actions and, with `own_error`, the `exception()` of a query of your own, on classic and on Connect sessions. Queries
    that Evenly starts (`RunningQuery`) raise them so anyway.
    """
    try:
        yield
    except Exception as error:
        found = own_error(error)
        if found is None or found is error:
            raise
        raise found from error
