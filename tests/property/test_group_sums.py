"""Groups that were counted before any was timed, once times are known: `GroupSums` against counting them again."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenly.costs.group_curve import GroupCurve
from evenly.costs.group_report import GroupMeter, steady_groups
from evenly.costs.group_sums import GroupSums
from evenly.costs.group_times import UNKNOWN, GroupEstimates, GroupTimes
from evenly.keys.dkg import DKG
from evenly.keys.regret import GuessedKeys, guessed_mapping
from evenly.measures.load import imbalance_pct, instance_loads
from evenly.worker.group_loads import GroupLoads

SEEDS = st.integers(0, 2**32 - 1)
BUCKETS, MOST = 512, 64


def groups(rng, number=5_000):
    ids = rng.integers(-(2**63), 2**63, number, dtype=np.int64)
    return ids, np.maximum(1, rng.lognormal(2.0, 1.2, number)).astype(np.int64)


def counted(ids, rows, estimates):
    """What a worker tells of groups by these estimates."""
    (told,) = GroupLoads(estimates, BUCKETS, MOST)(iter([pa.record_batch({"id": ids, "count": rows})]))
    row = {name: column[0].as_py() for name, column in zip(told.schema.names, told.columns, strict=True)}
    sums = np.zeros((estimates.guesses, BUCKETS))
    sums[:, np.frombuffer(row["at"], np.int32)] = np.frombuffer(row["buckets"]).reshape(estimates.guesses, -1)
    return np.frombuffer(row["ids"], np.int64), np.frombuffer(row["rows"], np.int64), sums


def before_times(ids, rows):
    told, sizes, sums = counted(ids, rows, GroupTimes().estimates)
    return GroupSums(told, sizes.astype(np.float64), sums)


def curves(*exponents):
    return tuple(GroupCurve(0.02, 3e-3, exponent) for exponent in exponents)


def no_keys(*exponents):
    return GroupEstimates(curves(*exponents), np.empty(0, np.int64), np.empty(0), np.empty(0), 1.3)


@settings(max_examples=30)
@given(SEEDS)
def test_it_is_exact_for_exponents_that_were_counted(seed):
    ids, rows = groups(np.random.default_rng(seed))
    estimates = no_keys(*UNKNOWN)
    _, sums = before_times(ids, rows).seconds(estimates)
    np.testing.assert_allclose(sums, counted(ids, rows, estimates)[2], rtol=1e-6)


@settings(max_examples=30)
@given(SEEDS, st.floats(0.1, 1.99))
def test_between_them_a_bucket_is_never_too_small_and_single_groups_are_exact(seed, exponent):
    ids, rows = groups(np.random.default_rng(seed))
    estimates, before = no_keys(exponent), before_times(ids, rows)
    weights, sums = before.seconds(estimates)
    np.testing.assert_allclose(weights, estimates.seconds_of(before.ids, before.rows))
    assert (sums >= counted(ids, rows, estimates)[2] * (1.0 - 1e-6)).all()


@settings(max_examples=30)
@given(SEEDS)
def test_keys_that_were_timed_count_as_they_were(seed):
    rng = np.random.default_rng(seed)
    ids, rows = groups(rng)
    seen = np.sort(rng.choice(ids.size, 500, replace=False))
    seen = seen[np.argsort(ids[seen])]
    estimates = GroupEstimates(curves(1.0), ids[seen], rows[seen].astype(float), rng.lognormal(0.0, 1.0, seen.size))
    told = before_times(ids, rows).with_timed(estimates)
    assert np.isin(ids[seen], told.ids).all()
    assert np.unique(told.ids).size == told.ids.size
    _, sums = told.seconds(estimates)
    np.testing.assert_allclose(sums, counted(ids, rows, estimates)[2], rtol=1e-6)


def test_a_key_of_few_rows_that_takes_long_has_an_entry_of_its_own():
    rng = np.random.default_rng(3)
    ids, rows = groups(rng)
    before = before_times(ids, rows)
    slow = int(np.flatnonzero(~np.isin(ids, before.ids))[0])
    estimates = GroupEstimates(curves(1.0), ids[slow : slow + 1], rows[slow : slow + 1].astype(float), np.array([1e3]))
    told = before.with_timed(estimates)
    learner = DKG.automatic(8, ids="xxhash64")
    mapping = guessed_mapping(GuessedKeys(told.ids.view(np.uint64), *told.seconds(estimates)), learner)
    alone = mapping.heavy_keys.view(np.int64) == ids[slow]
    assert mapping.heavy_weights[alone].tolist() == pytest.approx([1e3])


@pytest.mark.parametrize("exponent", [0.3, 0.75, 1.2, 1.7, 2.2])
def test_the_mapping_is_as_even_as_one_by_groups_that_are_counted_again(exponent):
    rng = np.random.default_rng(7)
    learner = DKG.automatic(8, ids="xxhash64")
    for _ in range(5):
        ids, rows = groups(rng)
        took_s = (0.01 + 1e-3 * rows.astype(float) ** exponent) * rng.lognormal(0.0, 0.3, ids.size)
        meter = GroupMeter()
        for group in zip(ids.tolist(), rows.tolist(), took_s.tolist(), strict=True):
            meter.add(*group)
        estimates = GroupTimes().learn([meter.report(0)]).estimates
        loads = GroupLoads(GroupTimes().estimates, learner.bucket_count, learner.counters)
        first = loads.longest(ids, loads.estimates.seconds_of(ids, rows), rows)
        bucket = (ids.view(np.uint64) % np.uint64(learner.bucket_count)).astype(np.int64)
        sums = np.stack([instance_loads(bucket, learner.bucket_count, rows.astype(float) ** one) for one in UNKNOWN])
        told = GroupSums(first[0], first[2].astype(float), sums).with_timed(estimates)
        mapping = guessed_mapping(GuessedKeys(told.ids.view(np.uint64), *told.seconds(estimates)), learner)
        assert imbalance_pct(instance_loads(mapping.assign_ids(ids.view(np.uint64)), 8, took_s)) < 5.0


def test_one_long_group_moves_more_than_many_short_ones():
    def report(*seconds):
        meter = GroupMeter()
        for key, took_s in enumerate(seconds):
            meter.add(key, 10, took_s)
        return meter.report(0)

    assert steady_groups([report(*[1.0] * 50), report(*[1.0] * 50)], 1.0) == pytest.approx(100.0)
    assert steady_groups([report(*[1.0] * 100)], 0.25) == pytest.approx(400.0)
    assert steady_groups([report(*[1.0] * 50, 50.0)], 1.0) < 5.0
    assert steady_groups([], 1.0) == 0.0
