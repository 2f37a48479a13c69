"""Batches of a dataflow and plans for them, made up."""

from __future__ import annotations

from evenly.dataflow.files import parse_dataflow
from evenly.dataflow.reports import Completion, FlowBatch, Measured
from evenly.planning.micro_batches import CurvePoint, EngineCosts, SlotCurve, SparkModels, plan_on_spark

FLOW = parse_dataflow(
    """
dataflow: made up
operators:
  source: {kind: source, format: replay, path: in}
  waits: {kind: row, function: "a:b", schema: "x long"}
  works: {kind: row, function: "a:c", schema: "x long", threads: 2}
  sink: {kind: sink, format: noop}
edges:
  - {from: source, to: waits, grouping: shuffle}
  - {from: waits, to: works, grouping: shuffle, instances: 4}
  - [works, sink]
"""
)
MODELS = SparkModels(
    EngineCosts(slots=2, batch_s=0.1),
    {
        "waits": SlotCurve("waits", (CurvePoint(1, 200.0), CurvePoint(8, 1_600.0))),
        "works": SlotCurve("works", (CurvePoint(1, 2_000.0), CurvePoint(2, 2_000.0))),
    },
)
PLAN = plan_on_spark(FLOW, MODELS, rate=1_000.0, slots=2, trigger_s=1.0)


def measured(operator, rows, span_s, *, threads=1, busy_pct=90.0, cpu_pct=20.0, imbalance_pct=1.0, instances=2):
    whole_s = instances * threads * span_s
    busy_s = whole_s * busy_pct / 100.0
    return Measured(
        operator,
        rows,
        rows,
        busy_s,
        instances,
        imbalance_pct,
        span_s,
        threads,
        whole_s - busy_s,
        cpu_pct,
        2**20,
    )


def batch(number, rows, took_s, *operators, interval_s=1.0, completion_s=None, rate=None):
    told = None if completion_s is None else Completion(rows, completion_s, completion_s, 2.0 * completion_s)
    found = {it.operator: it for it in operators}
    return FlowBatch(number, 0.9 * took_s, found, rows, 1_000.0 + interval_s * number, took_s, told, rate)
