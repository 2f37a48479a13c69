"""Evenly keeps the parallel instances of a Spark stage equally busy.

`import evenly` needs neither Spark nor Java; the names below that work on DataFrames load pyspark when first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from evenly.errors import EvenlyError, MissingDependency

if TYPE_CHECKING:
    from evenly.emission.destinations import HttpPost, NumberedRow, TcpLines
    from evenly.grouping.cost.model import CostModel
    from evenly.grouping.mapping import Mapping
    from evenly.grouping.splitting.planned import SplitMapping
    from evenly.spark.aggregate_by_key import aggregate_by_key
    from evenly.spark.apply_by_key import apply_by_key
    from evenly.spark.by_key import by_key
    from evenly.spark.check_placement import check_placement
    from evenly.spark.cost.by_cost import by_cost
    from evenly.spark.cost.candidates import recommend_cost_key
    from evenly.spark.cost.letters import failed_rows, good_rows
    from evenly.spark.cost.stream_by_cost import stream_by_cost
    from evenly.spark.cost.watch import CostWatch
    from evenly.spark.diagnosis import diagnose_checkpoint, diagnose_keys
    from evenly.spark.learning import learn_mapping
    from evenly.spark.merging import Merging
    from evenly.spark.placed_rows import placed_rows
    from evenly.spark.sink.send import send
    from evenly.spark.sink.send_stream import send_stream
    from evenly.spark.split import split_by_key
    from evenly.spark.streaming.stream_by_key import stream_by_key
    from evenly.spark.streaming.waiting import await_any_termination
    from evenly.spark.worker_errors import worker_errors

__all__ = [
    "CostModel",
    "CostWatch",
    "EvenlyError",
    "HttpPost",
    "Mapping",
    "Merging",
    "NumberedRow",
    "SplitMapping",
    "TcpLines",
    "aggregate_by_key",
    "apply_by_key",
    "await_any_termination",
    "by_cost",
    "by_key",
    "check_placement",
    "diagnose_checkpoint",
    "diagnose_keys",
    "failed_rows",
    "good_rows",
    "learn_mapping",
    "placed_rows",
    "recommend_cost_key",
    "send",
    "send_stream",
    "split_by_key",
    "stream_by_cost",
    "stream_by_key",
    "worker_errors",
]
__version__ = "0.1.0"

# Nothing that compiles kernels is loaded with the package: Spark's Python workers import it too, each anew.
_PLAIN = {
    "CostModel": "evenly.grouping.cost.model",
    "HttpPost": "evenly.emission.destinations",
    "Mapping": "evenly.grouping.mapping",
    "NumberedRow": "evenly.emission.destinations",
    "SplitMapping": "evenly.grouping.splitting.planned",
    "TcpLines": "evenly.emission.destinations",
}
_ON_SPARK = {
    "CostWatch": "evenly.spark.cost.watch",
    "Merging": "evenly.spark.merging",
    "aggregate_by_key": "evenly.spark.aggregate_by_key",
    "apply_by_key": "evenly.spark.apply_by_key",
    "await_any_termination": "evenly.spark.streaming.waiting",
    "by_cost": "evenly.spark.cost.by_cost",
    "by_key": "evenly.spark.by_key",
    "check_placement": "evenly.spark.check_placement",
    "diagnose_checkpoint": "evenly.spark.diagnosis",
    "diagnose_keys": "evenly.spark.diagnosis",
    "failed_rows": "evenly.spark.cost.letters",
    "good_rows": "evenly.spark.cost.letters",
    "learn_mapping": "evenly.spark.learning",
    "placed_rows": "evenly.spark.placed_rows",
    "recommend_cost_key": "evenly.spark.cost.candidates",
    "send": "evenly.spark.sink.send",
    "send_stream": "evenly.spark.sink.send_stream",
    "split_by_key": "evenly.spark.split",
    "stream_by_cost": "evenly.spark.cost.stream_by_cost",
    "stream_by_key": "evenly.spark.streaming.stream_by_key",
    "worker_errors": "evenly.spark.worker_errors",
}


def __getattr__(name: str) -> Any:
    if name in _PLAIN:
        return getattr(import_module(_PLAIN[name]), name)
    if name in _ON_SPARK:
        if find_spec("pyspark") is None:
            raise MissingDependency(f"evenly.{name} needs PySpark: pip install 'evenly[spark]'")
        return getattr(import_module(_ON_SPARK[name]), name)
    raise AttributeError(f"module 'evenly' has no attribute {name!r}")
