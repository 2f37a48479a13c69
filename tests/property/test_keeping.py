"""Whether a mapping is kept: rows like those promised leave it, rows that differ do not, and what is kept is bounded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenly.costs.group_report import GroupMeter, steady_groups
from evenly.errors import InvalidParameter
from evenly.keys.keeping import DRIFT_PCT, keeping, keeping_by_time
from evenly.keys.scheduling import largest_first
from evenly.measures.load import instance_loads

instances = st.integers(1, 64)


@settings(max_examples=60, deadline=None)
@given(instances, st.integers(0, 2**32 - 1), st.floats(0.0, 3.0), st.integers(0, 100_000))
def test_what_is_kept_is_near_what_was_promised_or_even(size, seed, skew, rows):
    draw = np.random.default_rng(seed)
    promised = draw.random(size) ** skew * 1_000.0
    carried = np.bincount(draw.integers(0, size, rows), minlength=size) * draw.random(size) ** skew
    found = keeping(promised, carried)
    assert found.rows == carried.sum()
    assert found.carried_pct >= 0.0
    if not found.anew and found.rows:
        # By chance alone the fullest of k instances has no more than this, however the rows are drawn.
        chance_pct = 100.0 * (
            8.0 * np.sqrt(size / found.rows * max(1.0, 1.0 + found.promised_pct / 100.0)) + 8.0 / np.sqrt(promised.sum() / size)
        )
        assert found.carried_pct <= found.promised_pct + DRIFT_PCT + chance_pct * (1.0 + found.promised_pct / 100.0)
    # More room to drift never turns a mapping that is kept into one that is not.
    if not found.anew:
        assert not keeping(promised, carried, drift_pct=2.0 * DRIFT_PCT).anew


@pytest.mark.parametrize("size", [2, 8, 100])
@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_rows_like_those_it_was_learnt_from_keep_it(size, skew):
    draw = np.random.default_rng(7)
    shares = 1.0 / np.arange(1, size + 1) ** skew
    shares /= shares.sum()
    anew, at_default = 0, 0
    for _ in range(200):
        learnt, new = draw.multinomial(500 * size, shares), draw.multinomial(500 * size, shares)
        anew += keeping(learnt.astype(float), new.astype(float), drift_pct=0.0).anew
        at_default += keeping(learnt.astype(float), new.astype(float)).anew
    assert anew <= 20
    assert at_default <= anew


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 64), st.integers(0, 2**32 - 1), st.floats(0.0, 300.0))
def test_many_rows_are_off_by_the_threshold_at_most(size, seed, more_pct):
    draw = np.random.default_rng(seed)
    promised = 1e7 * (1.0 + draw.random(size))
    moved = promised.copy()
    moved[draw.integers(size)] *= 1.0 + more_pct / 100.0
    found = keeping(promised, moved)
    near = min(found.carried_pct, abs(found.carried_pct - found.promised_pct))
    assert found.anew == (near > DRIFT_PCT)
    # What is told of few of these rows may be chance.
    assert not keeping(promised, moved, told=1.0).anew


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 64), st.integers(0, 2**32 - 1), st.integers(-300, 90), st.integers(-300, 90), st.floats(1.0, 1e6))
def test_of_weights_the_unit_decides_nothing(size, seed, promised_in, carried_in, told):
    draw = np.random.default_rng(seed)
    promised, carried = draw.random(size) ** 2.0 * 1_000.0, draw.random(size) ** 2.0 * 1_000.0
    one = keeping(promised, carried, told=told, learnt_on=told)
    other = keeping(promised * 10.0**promised_in, carried * 10.0**carried_in, told=told, learnt_on=told)
    assert other.anew == one.anew
    assert other.carried_pct == pytest.approx(one.carried_pct)
    # What was learnt on few rows promises less.
    assert one.anew or not keeping(promised, carried, told=told, learnt_on=1.0).anew


def test_a_key_that_was_too_hot_and_still_is_leaves_it_and_one_that_cooled_does_not():
    hot = np.array([50_000.0, 10_000, 10_000, 10_000])
    assert not keeping(hot, hot).anew
    cooled = keeping(hot, np.array([30_000.0, 10_000, 10_000, 10_000]))
    assert cooled.anew
    assert cooled.carried_pct == pytest.approx(100.0)
    assert not keeping(hot, np.full(4, 10_000.0)).anew  # nothing is to be gained


def test_no_rows_tell_nothing_and_nothing_promised_is_an_even_spread():
    assert not keeping(np.ones(4), np.zeros(4)).anew
    assert not keeping(np.zeros(4), np.full(4, 1_000.0)).anew
    assert keeping(np.zeros(4), np.array([4_000.0, 0, 0, 0])).anew
    assert not keeping(np.zeros(4), np.array([1.0, 0, 0, 0])).anew  # one row is on one instance
    assert not keeping(np.ones(1), np.array([9.0])).anew


def test_it_refuses_what_does_not_fit():
    with pytest.raises(InvalidParameter, match="2 instances"):
        keeping(np.ones(2), np.ones(3))
    with pytest.raises(InvalidParameter, match="drift_pct"):
        keeping(np.ones(2), np.ones(2), drift_pct=-1.0)


def times_of(rng, noise, groups=200, instances=8):
    """What groups of a mapping were expected to take, and took: by instance, and as reports."""
    expected = rng.lognormal(0.0, 1.0, groups)
    took = expected * rng.lognormal(0.0, noise, groups)
    at = largest_first(expected, instances)
    reports = []
    for instance in range(instances):
        meter = GroupMeter()
        for key in np.flatnonzero(at == instance).tolist():
            meter.add(key, 10, took[key])
        reports.append(meter.report(instance))
    return instance_loads(at, instances, expected), instance_loads(at, instances, took), reports


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("groups", [40, 1_000])
def test_times_that_vary_as_they_did_leave_a_mapping_be_and_others_do_not(noise, groups):
    rng = np.random.default_rng(5)
    anew, changed = [], []
    for _ in range(60):
        promised, busy, reports = times_of(rng, noise, groups)
        steady = steady_groups(reports, noise**2)
        anew.append(keeping_by_time(promised, busy, groups=steady).anew)
        slower = busy * np.where(np.arange(8) == busy.argmax(), 4.0, 1.0)
        changed.append(keeping_by_time(promised, slower, groups=steady).anew)
    assert np.mean(anew) <= 0.1
    assert np.mean(changed) >= 0.9


def test_no_times_say_nothing():
    promised = np.array([1.0, 2.0])
    assert not keeping_by_time(promised, np.zeros(2), groups=5.0).anew
    assert not keeping_by_time(np.zeros(2), promised, groups=5.0).anew
    assert keeping_by_time(promised, np.array([9.0, 0.1]), groups=1e6).carried_pct == pytest.approx(97.8, abs=0.1)
