"""What workers tell, added up by operator and one by one."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest

from evenly.costs.meter import CostMeter
from evenly.costs.report import InstanceReport
from evenly.dataflow.reports import Counted, WorkerReport, by_instance, measured

pytest.importorskip("pyspark")
from evenly.worker.calling import Calls
from evenly.worker.executing import Work, executor
from evenly.worker.many_results import many_results
from evenly.worker.results import Shape


def report(instance, rows, busy_s, *, begun_s=0.0, ended_s=10.0, threads=1, cpu_s=1.0, peak=100):
    return WorkerReport(instance, begun_s, ended_s, cpu_s, peak, (Counted("op", rows, 2 * rows, busy_s, threads),))


def test_an_operator_is_added_up_over_its_instances():
    found = measured([report(0, 10, 4.0), report(1, 30, 8.0, begun_s=2.0, ended_s=12.0, cpu_s=3.0, peak=300)])["op"]
    assert (found.rows_in, found.rows_out, found.busy_s, found.instances, found.span_s) == (40, 80, 12.0, 2, 12.0)
    assert found.waiting_s == 8.0
    assert found.busy_pct == 60.0
    assert found.rate == pytest.approx(40 / 12.0)
    assert found.imbalance_pct == pytest.approx(100.0 / 3.0)
    assert found.cpu_pct == 20.0
    assert found.peak_bytes == 300


def test_threads_wait_too():
    assert measured([report(0, 1, 15.0, threads=4)])["op"].waiting_s == 25.0


def test_an_instance_without_rows_does_not_stretch_its_stage():
    """One dealt by cost that had no row does not know when it began."""
    empty = WorkerReport.of_costs(CostMeter().report(instance=3), "op", 1)
    found = measured([report(0, 5, 1.0, begun_s=1e9, ended_s=1e9 + 2.0), empty])["op"]
    assert (found.span_s, found.instances, found.rows_in) == (2.0, 2, 5)


def test_reports_by_cost_are_told_like_others():
    meter = CostMeter()
    meter.add(np.array([1, 2]), np.array([0.5, 1.5]))
    found = measured([WorkerReport.of_costs(meter.report(instance=0, first_s=5.0, last_s=8.0), "op", 2)])["op"]
    assert (found.rows_in, found.busy_s, found.span_s, found.threads, found.waiting_s) == (2, 2.0, 3.0, 2, 4.0)
    assert found.cpu_pct is None
    assert found.peak_bytes is None


def test_rows_that_leave_an_operator_by_cost_are_those_that_it_gave():
    shape = Shape(pa.schema([("v", pa.int64())]))
    results = pa.list_(pa.struct([("v", pa.int64())]))
    calls = Calls(many_results(lambda row: [row.v] * row.v, shape))
    work = Work(calls, Shape(pa.schema([("results", results)])), ("v",))
    *_, told = executor(work)(iter([pa.RecordBatch.from_pydict({"v": [0, 1, 5]})]))
    report = InstanceReport.from_bytes(told.column(1)[0].as_py())
    found = measured([WorkerReport.of_costs(report, "op", 1)])["op"]
    assert (found.rows_in, found.rows_out, found.selectivity) == (3, 6, 2.0)


def test_instances_are_in_order_and_small():
    reports = [WorkerReport.from_bytes(report(at, at, 1.0).to_bytes()) for at in reversed(range(10_000))]
    found = by_instance(reports)["op"]
    assert found.instance.tolist() == list(range(10_000)) == found.rows_in.tolist()
    assert found.rate[50] == 5.0
    assert sum(sys.getsizeof(it) for it in vars(found).values()) < 1_000_000
    assert measured(reports)["op"].instances == 10_000
