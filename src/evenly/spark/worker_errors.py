"""Errors of ours that were raised in Spark's workers: the driver gets their text, and here their class again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from evenly import errors
from evenly.errors import EvenlyError, WrongPython

_OURS = re.compile(r"evenly\.errors\.(\w+): (.*(?:\n {2}.*)*)")
_OTHER_VERSION = re.compile(r"PYTHON_VERSION_MISMATCH\].*?different version: (\S+) than that in driver: (\d+\.\d+)", re.DOTALL)
_LACKING = re.compile(
    r"ModuleNotFoundError: No module named '(numpy|pandas|pyarrow|pyspark)'|PACKAGE_NOT_INSTALLED\] (PyArrow|Pandas)"
)
_REMEDY = (
    "Spark starts them with PYSPARK_PYTHON (or spark.pyspark.python), as it is on the executors' machines: name a Python there "
    "that has the driver's minor version, pyarrow, numpy and, for functions over frames, pandas"
)
_OF_SPARK = frozenset({"pyspark", "py4j"})


def own_error(error: BaseException | None) -> EvenlyError | None:
    """The error of ours that made Spark raise this one (or a query stop with it); None if it was another one.

    Spark carries the text of what a worker raised, with its traceback; the last error of a chain is the one that was raised.
    """
    if isinstance(error, EvenlyError):
        return error
    if error is None or type(error).__module__.partition(".")[0] not in _OF_SPARK:
        return None
    text = str(error)
    found = _OURS.findall(text)
    if not found:
        return _of_another_python(text)
    name, message = found[-1]
    kind = getattr(errors, name, None)
    return kind(message.rstrip()) if isinstance(kind, type) and issubclass(kind, EvenlyError) else None


def _of_another_python(text: str) -> WrongPython | None:
    """What Spark says where workers run a Python that does not fit, in a sentence."""
    if told := _OTHER_VERSION.search(text):
        return WrongPython(f"Spark's Python workers run Python {told[1]}, and this is Python {told[2]}. {_REMEDY}")
    if told := _LACKING.search(text):
        return WrongPython(f"the Python of Spark's workers has no {(told[1] or told[2]).lower()}. {_REMEDY}")
    return None


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
