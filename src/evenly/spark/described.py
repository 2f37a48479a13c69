"""What jobs of ours are for, in Spark's own UI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from evenly.spark.features import Found

_DESCRIPTION = "spark.job.description"
_LONGEST = 120


@contextmanager
def described(spark: Any, what: str) -> Iterator[None]:
    """Jobs of this thread are described as "Evenly: `what`" meanwhile; the caller's own description comes back after it.

    Spark Connect has no public way to describe a job: there nothing is said.
    """
    if Found.of(spark).connect:
        yield
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(f"Evenly: {what}"[:_LONGEST])
    try:
        yield
    finally:
        with suppress(Exception):  # the session may have gone
            context.setLocalProperty(_DESCRIPTION, before)
