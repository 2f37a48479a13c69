"""The meter: exact for the ids it tells, exact in all, bounded whatever comes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from evenly.costs import CostMeter, InstanceReport

rows = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9), st.integers(0, 1000)), max_size=120)


@given(rows, st.lists(st.integers(0, 120), max_size=4))
def test_sums_are_exact_however_the_rows_are_cut(told, cuts):
    ids = np.array([key for key, _ in told], np.int64)
    costs = np.array([cost for _, cost in told], np.float64)
    meter = CostMeter()
    for part in np.split(np.arange(ids.size), sorted(min(cut, ids.size) for cut in cuts)):
        meter.add(ids[part], costs[part])
    report = InstanceReport.from_bytes(meter.report(instance=0).to_bytes())
    counts, sums = naive.exact_counts(ids.tolist()), naive.exact_counts(ids.tolist(), costs.tolist())
    assert report.ids.tolist() == sorted(counts)
    assert report.counts.tolist() == [counts[key] for key in sorted(counts)]
    assert report.sums_s.tolist() == [sums[key] for key in sorted(counts)]
    assert report.squares.sum() == (costs**2).sum()


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 3))
def test_what_does_not_fit_is_folded_and_totals_stay(seed, limit, chunks):
    rng = np.random.default_rng(seed)
    meter = CostMeter(limit=limit)
    ids, costs = rng.integers(0, 60, (chunks, 70_000)), rng.integers(0, 50, (chunks, 70_000)).astype(np.float64)
    ids[:, :35_000] = 7
    for chunk in range(chunks):
        meter.add(ids[chunk], costs[chunk])
    report = meter.report(instance=0)
    assert report.ids.size <= limit
    assert report.counted == ids.size
    assert report.sums_s.sum() + report.rest[1] == costs.sum()
    assert report.squares.sum() + report.rest[2] == (costs**2).sum()
    # The costliest id by far is among those told, with all of its rows.
    assert report.counts[report.ids == 7] == pytest.approx([(ids == 7).sum()])


@given(st.integers(0, 2**32 - 1), st.integers(1, 8_192))
def test_memory_does_not_grow_with_the_keys(seed, limit):
    rng = np.random.default_rng(seed)
    meter = CostMeter(limit=limit)
    for _ in range(3):
        meter.add(rng.integers(-(2**63), 2**63 - 1, 70_000), rng.random(70_000))
        assert meter.memory_bytes <= 2 * limit * 32 + 3 * 8 * 65_536 + 100
