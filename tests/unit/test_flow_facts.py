"""What a record says of a dataflow's batch, computed again by hand."""

from __future__ import annotations

import pytest

from evenly.dataflow.files import parse_dataflow
from evenly.dataflow.reports import Counted, FlowBatch, WorkerReport, by_instance, measured
from evenly.facts.of_flows import flow_batch
from evenly.planning.micro_batches import CurvePoint, EngineCosts, SlotCurve, SparkModels, plan_on_spark

WORDS = """
dataflow: words
operators:
  lines: {kind: source, format: rate}
  split: {kind: row, function: "a:split", schema: "word string"}
  score: {kind: row, function: "a:score", schema: "word string", threads: %d}
  kept: {kind: sink, format: noop}
edges:
  - [lines, split]
  - {from: split, to: score, selectivity: 10.0}
  - [score, kept]
"""
TWO_SOURCES = """
dataflow: two
operators:
  left: {kind: source, format: rate}
  right: {kind: source, format: rate}
  one: {kind: row, function: "a:one", schema: "x long"}
  other: {kind: row, function: "a:other", schema: "x long"}
  kept: {kind: sink, format: noop}
edges:
  - [left, one]
  - {from: right, to: other, grouping: duplicate, instances: 3}
  - {from: one, to: kept}
  - {from: other, to: kept}
"""


def task(instance, *operators):
    """One that ran for ten seconds; of each operator its name, rows that entered and left, how long it was busy, threads."""
    return WorkerReport(instance, 0.0, 10.0, float("nan"), 0, tuple(Counted(*one) for one in operators))


def told(flow, reports, plan=None, seconds=10.0):
    return flow_batch(FlowBatch(3, seconds, measured(reports)), by_instance(reports), flow, plan)


def test_rows_are_those_of_the_source_though_an_operator_makes_more_of_them():
    flow = parse_dataflow(WORDS % 1, file="words")
    batch = told(flow, [task(0, ("split", 60, 600, 1.0), ("score", 600, 600, 2.0)), task(1, ("split", 40, 400, 1.0))])
    assert batch.rows == 100
    assert [(one.name, one.rows) for one in batch.operators] == [("split", 100), ("score", 600)]


def test_rows_of_two_sources_add_up_and_copies_count_once():
    flow = parse_dataflow(TWO_SOURCES, file="two")
    batch = told(flow, [task(0, ("one", 50, 50, 1.0)), *(task(at, ("other", 70, 70, 1.0)) for at in range(3))])
    assert batch.rows == 120


def test_a_batch_is_planned_by_the_rows_of_its_source():
    flow = parse_dataflow(WORDS % 1, file="words")
    curves = {name: SlotCurve(name, (CurvePoint(1, rate),)) for name, rate in (("split", 100.0), ("score", 1_000.0))}
    plan = plan_on_spark(flow, SparkModels(EngineCosts(slots=2, batch_s=0.1), curves), rate=10.0, slots=2, trigger_s=10.0)
    batch = told(flow, [task(0, ("split", 100, 1_000, 1.0), ("score", 1_000, 1_000, 1.0))], plan)
    assert batch.planned_ms == pytest.approx(1e3 * plan.batch_s(100))


@pytest.mark.parametrize(("threads", "bound_s"), [(1, 9.0), (2, 8.0)])
def test_operators_of_one_worker_waste_what_its_longest_task_does_and_not_each_for_itself(threads, bound_s):
    """One after the other they add up; with threads they are at work at once, and the longer one counts."""
    flow = parse_dataflow(WORDS % threads, file="words")

    def busy(instance, split_s, score_s):
        return task(instance, ("split", 10, 10, split_s), ("score", 10, 10, score_s * threads, threads))

    alike = told(flow, [busy(0, 8.0, 2.0), busy(1, 2.0, 8.0)])
    assert alike.bound_ms == pytest.approx(10_000.0)
    uneven = told(flow, [busy(0, 8.0, 2.0), busy(1, 4.0, 4.0)])
    assert uneven.bound_ms == pytest.approx(1e3 * bound_s)
