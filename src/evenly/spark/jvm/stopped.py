"""Whether a session still has its JVM."""

from __future__ import annotations

from typing import Any


def is_stopped(spark: Any) -> bool:
    """Whether a classic session was stopped; no call of the JVM. Of Spark Connect nothing is known here."""
    context = getattr(spark, "_sc", None)
    return context is not None and context._jsc is None
