"""An instance's report and its meter: exact sums, bytes there and back, what is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from evenly.costs import CostMeter, InstanceReport
from evenly.errors import DamagedData, InvalidCost, InvalidKeys, InvalidParameter, NewerFormat


def measured(*, rows=500, columns=None):
    rng = np.random.default_rng(3)
    meter = CostMeter()
    meter.add(rng.integers(-40, 40, rows), rng.exponential(0.01, rows))
    return meter.report(
        instance=3,
        executor="host-7:4711",
        rows=rows + 2,
        estimated_s=4.5,
        first_s=1_700_000_000.25,
        last_s=1_700_000_009.5,
        completion_s=77.0,
        errors=2,
        columns=columns,
    )


def test_a_report_is_read_back_as_it_was():
    report = measured(columns={"length": np.arange(5), "cost μs": np.array([0.5, np.nan])})
    again = InstanceReport.from_bytes(report.to_bytes())
    assert again == report
    assert (again.instance, again.executor, again.rows, again.errors, again.timed) == (3, "host-7:4711", 502, 2, 500)
    assert (again.busy_s, again.estimated_s, again.completion_s) == (report.busy_s, 4.5, 77.0)
    assert (again.first_s, again.last_s, again.rest) == (1_700_000_000.25, 1_700_000_009.5, (0.0, 0.0, 0.0))
    for name in ("ids", "counts", "sums_s", "squares"):
        assert getattr(again, name).tolist() == getattr(report, name).tolist()
    assert list(again.columns) == ["length", "cost μs"]
    assert again.columns["length"].tolist() == [0, 1, 2, 3, 4]
    assert measured().columns is None
    assert InstanceReport.from_bytes(measured(columns={}).to_bytes()).columns == {}


def test_an_empty_report_is_read_back():
    report = CostMeter().report(instance=0)
    assert InstanceReport.from_bytes(report.to_bytes()) == report
    assert (report.rows, report.busy_s, report.ids.size, report.sampling) == (0, 0.0, 0, 1.0)


def test_any_damaged_byte_is_noticed():
    data = measured(rows=20).to_bytes()
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x5A
        with pytest.raises((DamagedData, NewerFormat)):
            InstanceReport.from_bytes(bytes(broken))
    for length in range(len(data)):
        with pytest.raises(DamagedData):
            InstanceReport.from_bytes(data[:length])
    with pytest.raises(DamagedData, match="4 bytes"):
        InstanceReport.from_bytes(b"none")


def test_a_later_format_is_named():
    data = bytearray(measured().to_bytes())
    data[4] = 9
    with pytest.raises(NewerFormat, match="format 9"):
        InstanceReport.from_bytes(bytes(data))


def test_a_report_has_at_most_256_kib_and_a_header():
    meter = CostMeter()
    meter.add(np.arange(100_000), np.ones(100_000))
    report = meter.report(instance=0)
    assert report.ids.size == 8_192
    assert len(report.to_bytes()) <= 256 * 1024 + 1_000
    assert report.counted == 100_000
    with pytest.raises(InvalidParameter, match="8193"):
        InstanceReport(0, "", 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, np.arange(8_193), *(np.ones(8_193) for _ in range(3))).to_bytes()


def test_a_row_that_stands_for_sixteen_counts_sixteen_and_says_that_it_is_one():
    meter = CostMeter()
    meter.add(np.array([1, 1, 2]), np.array([0.5, 1.5, 2.0]), weight=16)
    report = meter.report(instance=0)
    assert report.counts.tolist() == [32.0, 16.0]
    assert report.sums_s.tolist() == [32.0, 32.0]
    assert report.squares.tolist() == [16 * 2.5, 64.0]
    assert (report.rows, report.busy_s, report.timed, report.sampling) == (48, 64.0, 3, 1 / 16)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1e-9])
def test_a_cost_that_is_none_is_named_and_nothing_of_its_chunk_is_counted(bad):
    meter = CostMeter()
    with pytest.raises(InvalidCost, match=rf"costs_s\[2\] is {bad}"):
        meter.add(np.arange(4), np.array([1.0, 2.0, bad, 3.0]))
    with pytest.raises(InvalidCost, match=f"weight is {bad}"):
        meter.add(np.arange(1), np.ones(1), weight=bad)
    assert meter.report(instance=0).counted == 0.0


def test_what_is_no_row_of_ids_and_costs_is_refused():
    meter = CostMeter()
    with pytest.raises(InvalidKeys, match="float64"):
        meter.add(np.array([1.0]), np.array([1.0]))
    with pytest.raises(InvalidKeys, match="shape"):
        meter.add(np.array([[1]]), np.array([1.0]))
    with pytest.raises(InvalidCost, match="2 rows came with costs_s of shape"):
        meter.add(np.array([1, 2]), np.array([1.0]))
    with pytest.raises(InvalidCost, match="numbers of seconds"):
        meter.add(np.array([1]), np.array(["much"]))
    with pytest.raises(InvalidParameter, match="from 1 to 8192"):
        CostMeter(limit=0)
    with pytest.raises(InvalidParameter, match="column 'x'"):
        meter.report(instance=0, columns={"x": np.array(["a"])}).to_bytes()


def test_unsigned_ids_keep_their_bits():
    meter = CostMeter()
    meter.add(np.array([2**64 - 1], np.uint64), np.ones(1))
    assert meter.report(instance=0).ids.tolist() == [-1]


def test_workers_that_deal_and_measure_load_no_compiler():
    told = "import sys, evenly.costs; sys.exit('numba' in sys.modules or 'pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told]).returncode == 0
