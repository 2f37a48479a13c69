"""Evenly keeps the parallel instances of a Spark stage equally busy.

`import evenly` needs neither Spark nor Java; the names below that work on DataFrames load pyspark when first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from evenly.errors import EvenlyError, MissingDependency

if TYPE_CHECKING:
    from evenly.grouping.mapping import Mapping
    from evenly.grouping.splitting.planned import SplitMapping
    from evenly.spark.aggregate_by_key import aggregate_by_key
    from evenly.spark.apply_by_key import apply_by_key
    from evenly.spark.by_key import by_key
    from evenly.spark.diagnosis import diagnose_checkpoint, diagnose_keys
    from evenly.spark.learning import learn_mapping
    from evenly.spark.merging import Merging
    from evenly.spark.split import split_by_key
    from evenly.spark.streaming.stream_by_key import stream_by_key

__all__ = [
    "EvenlyError",
    "Mapping",
    "Merging",
    "SplitMapping",
    "aggregate_by_key",
    "apply_by_key",
    "by_key",
    "diagnose_checkpoint",
    "diagnose_keys",
    "learn_mapping",
    "split_by_key",
    "stream_by_key",
]
__version__ = "0.1.0"

# Nothing that compiles kernels is loaded with the package: Spark's Python workers import it too, each anew.
_PLAIN = {"Mapping": "evenly.grouping.mapping", "SplitMapping": "evenly.grouping.splitting.planned"}
_ON_SPARK = {
    "Merging": "evenly.spark.merging",
    "aggregate_by_key": "evenly.spark.aggregate_by_key",
    "apply_by_key": "evenly.spark.apply_by_key",
    "by_key": "evenly.spark.by_key",
    "diagnose_checkpoint": "evenly.spark.diagnosis",
    "diagnose_keys": "evenly.spark.diagnosis",
    "learn_mapping": "evenly.spark.learning",
    "split_by_key": "evenly.spark.split",
    "stream_by_key": "evenly.spark.streaming.stream_by_key",
}


def __getattr__(name: str) -> Any:
    if name in _PLAIN:
        return getattr(import_module(_PLAIN[name]), name)
    if name in _ON_SPARK:
        if find_spec("pyspark") is None:
            raise MissingDependency(f"evenly.{name} needs PySpark: pip install 'evenly[spark]'")
        return getattr(import_module(_ON_SPARK[name]), name)
    raise AttributeError(f"module 'evenly' has no attribute {name!r}")
