"""Evenly keeps the parallel instances of a Spark stage equally busy.

`import evenly` needs neither Spark nor Java; the names below that work on DataFrames load pyspark when first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from evenly.errors import EvenlyError, MissingDependency
from evenly.grouping.mapping import Mapping

if TYPE_CHECKING:
    from evenly.spark.by_key import by_key
    from evenly.spark.learning import learn_mapping

__all__ = ["EvenlyError", "Mapping", "by_key", "learn_mapping"]
__version__ = "0.1.0"

_ON_SPARK = {"by_key": "evenly.spark.by_key", "learn_mapping": "evenly.spark.learning"}


def __getattr__(name: str) -> Any:
    if name in _ON_SPARK:
        if find_spec("pyspark") is None:
            raise MissingDependency(f"evenly.{name} needs PySpark: pip install 'evenly[spark]'")
        return getattr(import_module(_ON_SPARK[name]), name)
    raise AttributeError(f"module 'evenly' has no attribute {name!r}")
