"""What Spark says when a job fails, in one sentence, for people at a terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from evenly.errors import SparkFailed
from evenly.spark.jvm.java_errors import Py4JError
from evenly.spark.worker_errors import own_error

_LOG = logging.getLogger(__name__)
_LONGEST = 600


@contextmanager
def told_shortly() -> Iterator[None]:
    """Errors of Spark that end what is inside are raised as one sentence; ours stay as they are. The log has it all (DEBUG)."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        _LOG.debug("what Spark said", exc_info=error)
        if (ours := own_error(error)) is not None:
            raise ours from error
        raise SparkFailed(f"Spark failed: {_cause(str(error))}. --trace shows the rest") from error


def _cause(text: str) -> str:
    """The last cause that a chain of errors names, or else how it begins."""
    lines = [line.strip() for line in text.splitlines()]
    causes = [line.removeprefix("Caused by:").strip() for line in lines if line.startswith("Caused by:")]
    found = causes[-1] if causes else next(filter(None, lines), "without a word")
    return found[:_LONGEST].rstrip(". ")
