"""Evenly keeps the parallel instances of a Spark stage equally busy.

`import evenly` needs neither Spark nor Java; the names below that work on DataFrames load pyspark when first used.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from evenly.errors import EvenlyError, MissingDependency

if TYPE_CHECKING:
    from evenly.costs.call_options import CallOptions
    from evenly.costs.group_times import GroupTimes
    from evenly.costs.model import CostModel
    from evenly.dataflow.builder import Flow
    from evenly.emission.destinations import HttpPost, NumberedRow, TcpLines
    from evenly.facts.emitting import emit_to
    from evenly.facts.reading import read_facts
    from evenly.facts.records import Fact
    from evenly.facts.sinks.json_lines import JsonLines
    from evenly.facts.sinks.opentelemetry import OpenTelemetry
    from evenly.facts.sinks.prometheus import Prometheus
    from evenly.keys.joins import JoinPlan
    from evenly.keys.mapping import Mapping
    from evenly.keys.split_mapping import SplitMapping
    from evenly.spark.costs.apply_by_cost import apply_by_cost
    from evenly.spark.costs.candidates import recommend_cost_key
    from evenly.spark.costs.skipped import failed_rows, good_rows
    from evenly.spark.costs.stream_apply_by_cost import stream_apply_by_cost
    from evenly.spark.costs.watch import CostWatch
    from evenly.spark.diagnosis import diagnose_checkpoint, diagnose_keys
    from evenly.spark.flows.run import run
    from evenly.spark.flows.unstable import find_peak
    from evenly.spark.flows.watch import FlowWatch
    from evenly.spark.java import provide_java
    from evenly.spark.keyed.aggregate_by_key import aggregate_by_key
    from evenly.spark.keyed.apply_by_key import apply_by_key
    from evenly.spark.keyed.by_key import by_key
    from evenly.spark.keyed.join_by_key import join_by_key, plan_join
    from evenly.spark.keyed.learning import learn_mapping
    from evenly.spark.keyed.merging import Merging
    from evenly.spark.keyed.split import split_by_key
    from evenly.spark.keyed.time_watch import TimeWatch
    from evenly.spark.keyed.write_by_key import write_by_key
    from evenly.spark.placing.check_placement import check_placement
    from evenly.spark.placing.explain import explain
    from evenly.spark.placing.placed_rows import placed_rows
    from evenly.spark.sending.send import send
    from evenly.spark.sending.stream_send import stream_send
    from evenly.spark.session import local_session
    from evenly.spark.streaming.keyed_query import KeyedQuery
    from evenly.spark.streaming.query_facts import QueryFacts
    from evenly.spark.streaming.running_query import RunningQuery
    from evenly.spark.streaming.stream_apply_by_key import stream_apply_by_key
    from evenly.spark.streaming.stream_by_key import stream_by_key
    from evenly.spark.streaming.waiting import await_any_termination
    from evenly.spark.worker_errors import worker_errors
    from evenly.watching.live import LiveWatch

__all__ = [
    "CallOptions",
    "CostModel",
    "CostWatch",
    "EvenlyError",
    "Fact",
    "Flow",
    "FlowWatch",
    "GroupTimes",
    "HttpPost",
    "JoinPlan",
    "JsonLines",
    "KeyedQuery",
    "LiveWatch",
    "Mapping",
    "Merging",
    "NumberedRow",
    "OpenTelemetry",
    "Prometheus",
    "QueryFacts",
    "RunningQuery",
    "SplitMapping",
    "TcpLines",
    "TimeWatch",
    "aggregate_by_key",
    "apply_by_cost",
    "apply_by_key",
    "await_any_termination",
    "by_key",
    "check_placement",
    "diagnose_checkpoint",
    "diagnose_keys",
    "emit_to",
    "explain",
    "failed_rows",
    "find_peak",
    "good_rows",
    "join_by_key",
    "learn_mapping",
    "local_session",
    "placed_rows",
    "plan_join",
    "provide_java",
    "read_facts",
    "recommend_cost_key",
    "run",
    "send",
    "split_by_key",
    "stream_apply_by_cost",
    "stream_apply_by_key",
    "stream_by_key",
    "stream_send",
    "worker_errors",
    "write_by_key",
]
__version__ = "0.1.0"

# Nothing that compiles kernels is loaded with the package: Spark's Python workers import it too, each anew.
_PLAIN = {
    "CallOptions": "evenly.costs.call_options",
    "CostModel": "evenly.costs.model",
    "Fact": "evenly.facts.records",
    "Flow": "evenly.dataflow.builder",
    "GroupTimes": "evenly.costs.group_times",
    "HttpPost": "evenly.emission.destinations",
    "JoinPlan": "evenly.keys.joins",
    "JsonLines": "evenly.facts.sinks.json_lines",
    "LiveWatch": "evenly.watching.live",
    "Mapping": "evenly.keys.mapping",
    "NumberedRow": "evenly.emission.destinations",
    "OpenTelemetry": "evenly.facts.sinks.opentelemetry",
    "Prometheus": "evenly.facts.sinks.prometheus",
    "SplitMapping": "evenly.keys.split_mapping",
    "TcpLines": "evenly.emission.destinations",
    "emit_to": "evenly.facts.emitting",
    "read_facts": "evenly.facts.reading",
}
_ON_SPARK = {
    "CostWatch": "evenly.spark.costs.watch",
    "FlowWatch": "evenly.spark.flows.watch",
    "KeyedQuery": "evenly.spark.streaming.keyed_query",
    "Merging": "evenly.spark.keyed.merging",
    "QueryFacts": "evenly.spark.streaming.query_facts",
    "RunningQuery": "evenly.spark.streaming.running_query",
    "TimeWatch": "evenly.spark.keyed.time_watch",
    "aggregate_by_key": "evenly.spark.keyed.aggregate_by_key",
    "apply_by_key": "evenly.spark.keyed.apply_by_key",
    "await_any_termination": "evenly.spark.streaming.waiting",
    "apply_by_cost": "evenly.spark.costs.apply_by_cost",
    "by_key": "evenly.spark.keyed.by_key",
    "check_placement": "evenly.spark.placing.check_placement",
    "diagnose_checkpoint": "evenly.spark.diagnosis",
    "diagnose_keys": "evenly.spark.diagnosis",
    "explain": "evenly.spark.placing.explain",
    "failed_rows": "evenly.spark.costs.skipped",
    "good_rows": "evenly.spark.costs.skipped",
    "join_by_key": "evenly.spark.keyed.join_by_key",
    "plan_join": "evenly.spark.keyed.join_by_key",
    "local_session": "evenly.spark.session",
    "learn_mapping": "evenly.spark.keyed.learning",
    "provide_java": "evenly.spark.java",
    "placed_rows": "evenly.spark.placing.placed_rows",
    "find_peak": "evenly.spark.flows.unstable",
    "recommend_cost_key": "evenly.spark.costs.candidates",
    "run": "evenly.spark.flows.run",
    "send": "evenly.spark.sending.send",
    "stream_send": "evenly.spark.sending.stream_send",
    "split_by_key": "evenly.spark.keyed.split",
    "stream_apply_by_cost": "evenly.spark.costs.stream_apply_by_cost",
    "stream_apply_by_key": "evenly.spark.streaming.stream_apply_by_key",
    "stream_by_key": "evenly.spark.streaming.stream_by_key",
    "worker_errors": "evenly.spark.worker_errors",
    "write_by_key": "evenly.spark.keyed.write_by_key",
}


if not TYPE_CHECKING:  # for a type checker a misspelt name is an error

    def __getattr__(name: str) -> Any:
        if name in _PLAIN:
            return getattr(import_module(_PLAIN[name]), name)
        if name in _ON_SPARK:
            if find_spec("pyspark") is None:
                raise MissingDependency(f"evenly.{name} needs PySpark: pip install 'evenly[spark]'")
            return getattr(import_module(_ON_SPARK[name]), name)
        near = get_close_matches(name, __all__, n=1)
        # With a name Python adds no proposal of its own.
        meant = f": did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module 'evenly' has no attribute {name!r}{meant}", name=name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
