"""What groups take, by rows and by key: what `GroupTimes` and `least_regret` promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from evenly.costs.group_curve import binned, fitted
from evenly.costs.group_report import GroupMeter, GroupReport, array_of, most_groups, text_of
from evenly.costs.group_times import KIND, UNKNOWN, VERSION, GroupTimes
from evenly.costs.rounds import group_shares
from evenly.errors import DamagedData
from evenly.keys.dkg import DKG
from evenly.keys.regret import GuessedKeys, guessed_mapping, least_regret
from evenly.keys.scheduling import largest_first
from evenly.measures.load import imbalance_pct, instance_loads
from evenly.sealed import sealed

SEEDS = st.integers(0, 2**32 - 1)
COSTS = {
    "constant": lambda n: 0.1 + 0.0 * n,
    "linear": lambda n: 1e-3 * n,
    "with a fixed part": lambda n: 0.05 + 1e-3 * n,
    "n log n": lambda n: 1e-4 * n * np.log2(n + 1.0),
    "quadratic": lambda n: 1e-4 + 1e-5 * n**2,
}


def sizes(rng, groups=300):
    return np.maximum(1.0, np.floor(rng.lognormal(4.0, 1.2, groups)))


def reported(rows, seconds, *, limit=8192, instance=0):
    meter = GroupMeter(limit=limit)
    for key, (size, took) in enumerate(zip(rows.tolist(), seconds.tolist(), strict=True)):
        if meter.add(key, int(size), took):
            meter.name(key, took, f"key {key}")
    return meter.report(instance)


def curve_off(seed, cost):
    """How far a curve from wild times is off in the mean, as a logarithm; the same everywhere would leave the balance."""
    rng = np.random.default_rng(seed)
    rows = sizes(rng)
    true = COSTS[cost](rows)
    wild = np.where(rng.random(rows.size) < 0.02, 100.0, 1.0)
    found = fitted(binned(rows, true * rng.lognormal(0.0, 0.1, rows.size) * wild))
    assert found.low.exponent <= found.likely.exponent <= found.high.exponent
    off = np.log(found.likely.seconds(rows) / true)
    return np.average(np.abs(off - np.average(off, weights=true)), weights=true)


@pytest.mark.parametrize("cost", sorted(COSTS))
def test_the_curve_finds_the_cost_by_rows_among_wild_times(cost):
    off = [curve_off(seed, cost) for seed in range(100)]
    assert np.median(off) < 0.1
    assert np.quantile(off, 0.98) < 0.2


def test_groups_of_one_size_leave_the_exponent_open():
    found = fitted(binned(np.full(50, 100.0), np.full(50, 1.0)))
    assert found.exponent_unsure > 0.5
    assert found.low.exponent < 0.5
    assert found.high.exponent > 1.5
    assert found.likely.seconds([100.0, 200.0]) == pytest.approx([1.0, 2.0])


@given(SEEDS, st.sampled_from(sorted(COSTS)), st.floats(0.0, 1.5))
def test_an_estimate_is_between_the_curve_and_what_was_measured(seed, cost, spread):
    rng = np.random.default_rng(seed)
    rows = sizes(rng, 100)
    took = COSTS[cost](rows) * rng.lognormal(0.0, spread, rows.size)
    times = GroupTimes().learn([reported(rows, took)])
    ids = np.arange(100)
    ends = np.stack([times.curve.seconds(rows), took])
    found = times.estimate(ids, rows)
    assert (found > 0.0).all()
    assert (found >= ends.min(axis=0) * 0.999999).all()
    assert (found <= ends.max(axis=0) * 1.000001).all()
    assert (times.estimates.seconds_of(ids, rows * 3.0) > 0.0).all()


def deviating_off(seed):
    """How far estimates are off of all time where each key has a factor of its own: for its rows, and for twice as many."""
    rng = np.random.default_rng(seed)
    rows, factor = sizes(rng), rng.lognormal(0.0, 1.0, 300)
    true, ids = 1e-3 * rows * factor, np.arange(300)
    times, noisy = GroupTimes(), GroupTimes()
    for _ in range(3):
        times.learn([reported(rows, true * rng.lognormal(0.0, 0.1, 300))])
        noisy.learn([reported(rows, 1e-3 * rows * rng.lognormal(0.0, 0.5, 300))])
    between, noise = noisy.variances
    assert between < noise
    return [np.abs(times.estimate(ids, n * rows) - n * true).sum() / true.sum() for n in (1.0, 2.0)]


def test_keys_that_deviate_are_known_and_noise_is_not_believed():
    off = np.array([deviating_off(seed) for seed in range(60)])
    assert off[:, 0].max() < 0.12
    # A key of twice the rows takes what its factor and the curve say.
    assert np.quantile(off[:, 1], 0.95) < 0.4


def single_key_off(seed):
    """How far the estimate of a key is off that takes ten times as long each time, where all others differ by noise alone."""
    rng = np.random.default_rng(seed)
    rows = sizes(rng)
    slow = np.where(np.arange(300) == 5, 10.0, 1.0)
    times = GroupTimes()
    for _ in range(3):
        times.learn([reported(rows, 1e-3 * rows * slow * rng.lognormal(0.0, 0.4, 300))])
    return abs(np.log(times.estimate([5], rows[5:6])[0] / (1e-2 * rows[5])))


def test_one_slow_key_is_believed_though_times_vary_and_no_other_key_deviates():
    off = np.array([single_key_off(seed) for seed in range(60)])
    assert np.median(off) < np.log(2.0)  # drawn to the curve it would be off by ten
    assert off.max() < np.log(4.0)


@pytest.mark.parametrize(
    ("name", "kind", "change"),
    [
        ("bins", "<f8", lambda told: told * np.nan),
        ("bins", "<f8", lambda told: -told),
        ("ids", "<i8", lambda told: told[::-1]),
        ("ids", "<i8", lambda told: told * 0),
        ("factors", "<f8", lambda told: told * np.nan),
        ("factors", "<f8", lambda told: told * 0.0),
        ("factors", "<f8", lambda told: told + 1e4),
    ],
)
def test_what_was_never_measured_is_refused(name, kind, change):
    rows = np.array([1.0, 10.0, 100.0])
    content = GroupTimes().learn([reported(rows, 1e-3 * rows)])._content()
    damaged = content | {name: text_of(change(array_of(content[name], kind)))}
    for wrong in (damaged, content | {"at": [10**30]}, content | {"names": {str(10**30): "a"}}):
        with pytest.raises(DamagedData):
            GroupTimes.from_json(sealed(wrong, kind=KIND, version=VERSION))


def uneven_after_a_change(seed, change):
    """How far above the least λ is, by true times of keys with factors of their own, in the four runs after they changed."""
    rng = np.random.default_rng(seed)
    rows = sizes(rng, 1_000)
    true, times, ids, found = 1e-3 * rows * rng.lognormal(0.0, 1.0, rows.size), GroupTimes(), np.arange(rows.size), []
    for run in range(8):
        true = true * change if run == 4 else true
        times.learn([reported(rows, true * rng.lognormal(0.0, 0.15, rows.size))])
        if run >= 4:
            least = imbalance_pct(instance_loads(largest_first(true, 8), 8, true))
            at = largest_first(times.estimate(ids, rows), 8)
            found.append(imbalance_pct(instance_loads(at, 8, true)) - least)
    return found


def test_a_change_of_all_times_is_followed_at_once():
    """Another machine, a busy one, or another function: only what keys take beside each other places them."""
    steady, slower = (np.array([uneven_after_a_change(seed, by) for seed in range(8)]) for by in (1.0, 100.0))
    assert np.mean(slower) < np.mean(steady) + 1.0


def test_keys_that_have_become_slow_are_followed():
    some = np.where(np.arange(1_000) % 200 == 7, 100.0, 1.0)
    after = np.mean([uneven_after_a_change(seed, some) for seed in range(8)], axis=0)
    assert after[3] < 10.0  # where all runs count alike it is above 40 then


@given(SEEDS, st.integers(1, 80), st.integers(2, 400))
def test_memory_is_bounded_and_totals_stay(seed, capacity, limit):
    rng = np.random.default_rng(seed)
    rows = sizes(rng)
    took = 1e-3 * rows * rng.lognormal(0.0, 1.0, rows.size)
    report = reported(rows, took, limit=limit)
    assert report.ids.size <= limit
    assert report.groups == 300
    assert report.busy_s == pytest.approx(np.maximum(took, 1e-6).sum())
    times = GroupTimes(capacity=capacity).learn([report])
    assert times.keys <= capacity
    assert times.estimate(np.arange(300), rows).sum() == pytest.approx(took.sum(), rel=0.5)


@given(SEEDS, st.floats(0.01, 1.0))
def test_merging_is_commutative_and_saving_keeps_all(seed, factor):
    rng = np.random.default_rng(seed)
    rows = sizes(rng, 60)
    one = GroupTimes(["k"], ["int"]).learn([reported(rows, 1e-3 * rows)])
    other = GroupTimes(["k"], ["int"]).learn([reported(rows[::-1], 1e-5 * rows**2 * rng.lognormal(0.0, 1.0, 60))])
    other.forget(factor)
    there, back = one.copy().merge(other), other.copy().merge(one)
    assert there.estimate(np.arange(60), rows) == pytest.approx(back.estimate(np.arange(60), rows))
    assert GroupTimes.from_json(there.to_json()) == there
    assert there.names == GroupTimes.from_json(there.to_json()).names
    report = reported(rows, 1e-3 * rows, limit=10)
    again = GroupReport.from_bytes(report.to_bytes())
    assert again.to_bytes() == report.to_bytes()


def test_all_reports_together_have_a_bound():
    assert [most_groups(instances) for instances in (1, 8, 100, 10_000)] == [8192, 4096, 327, 64]


@given(SEEDS, st.integers(1, 9), st.integers(1, 40), st.integers(1, 5), st.booleans())
def test_the_placement_is_that_of_the_obvious_loop(seed, instances, items, guesses, in_pieces):
    weights = np.random.default_rng(seed).integers(1, 9, (guesses, items)).astype(np.float64)
    full = np.maximum(weights.sum(axis=1) / instances, weights.max(axis=1))
    parts = (weights / full[:, None]).T
    shares = group_shares(instances) if in_pieces else None
    room = (np.ones(instances) if shares is None else instances * shares).tolist()
    assert least_regret(weights, instances, shares=shares).tolist() == naive.least_full(parts.tolist(), room)


@given(SEEDS, st.integers(1, 12), st.integers(1, 80))
def test_one_guess_is_placed_as_ever(seed, instances, items):
    weights = np.random.default_rng(seed).pareto(1.0, items) + 0.01
    loads = instance_loads(least_regret(weights[None, :], instances), instances, weights)
    ever = instance_loads(largest_first(weights, instances), instances, weights)
    assert np.sort(loads) == pytest.approx(np.sort(ever))


@given(SEEDS, st.integers(2, 12))
def test_by_every_guess_the_fullest_instance_is_near_what_is_possible(seed, instances):
    rows = sizes(np.random.default_rng(seed), 60 * instances)
    guesses = np.stack([rows**exponent for exponent in UNKNOWN])
    placed = least_regret(guesses, instances)
    for weights in (*guesses, rows * np.log2(rows + 1.0), rows**1.5):
        full = max(weights.sum() / instances, weights.max())
        assert instance_loads(placed, instances, weights).max() <= 1.25 * full


def ends_over_bound(rng, cost, instances):
    """How long a first run takes over what is possible, whole instances and pieces of them."""
    rows = sizes(rng, 60 * instances)
    took = cost(rows, rng)
    guesses = np.stack([rows**exponent for exponent in UNKNOWN])
    shares = group_shares(instances)
    bound = max(took.sum() / instances, took.max())
    whole = instance_loads(least_regret(guesses, instances), instances, took).max()
    placed = least_regret(guesses, instances, shares=shares)
    loads = instance_loads(placed, shares.size, took)
    return whole / bound, naive.list_scheduled(loads.tolist(), [1.0] * instances) / bound


@pytest.mark.parametrize("name", sorted(COSTS))
def test_pieces_take_little_more_where_rows_tell_the_time(name):
    found = [ends_over_bound(np.random.default_rng(seed), lambda n, _: COSTS[name](n), 8) for seed in range(20)]
    assert max(pieces for _, pieces in found) <= 1.12


def test_pieces_even_out_what_only_the_key_tells():
    def hidden(rows, rng):
        return rows * rng.lognormal(0.0, 1.0, rows.size)

    whole, pieces = np.array([ends_over_bound(np.random.default_rng(seed), hidden, 8) for seed in range(40)]).T
    assert np.median(pieces - 1.0) <= 0.6 * np.median(whole - 1.0)


@given(SEEDS, st.integers(1, 40), st.integers(0, 300))
def test_pieces_have_every_key_once_and_the_fullest_is_the_first(seed, instances, keys):
    rng = np.random.default_rng(seed)
    ids, learner = rng.integers(0, 2**63, keys, np.uint64), DKG.automatic(instances, ids="xxhash64")
    weights = np.stack([rng.pareto(1.2, keys) + 0.1 for _ in range(3)])
    buckets = np.stack([instance_loads(learner.buckets_of(ids), learner.bucket_count, row) for row in weights])
    shares = group_shares(instances)
    mapping = guessed_mapping(GuessedKeys(ids, weights, buckets), learner, shares=shares)
    assert mapping.instances == 5 * instances == shares.size
    assert shares.sum() == pytest.approx(1.0)
    loads = instance_loads(mapping.assign_ids(ids), mapping.instances, weights[0])
    assert (np.diff(loads) <= 1e-9 * loads.sum()).all()
    assert loads.sum() == pytest.approx(weights[0].sum())


@given(SEEDS, st.integers(1, 40), st.integers(0, 300))
def test_a_mapping_has_every_key_once_and_its_fullest_instance_first(seed, instances, keys):
    rng = np.random.default_rng(seed)
    ids, learner = rng.integers(0, 2**63, keys, np.uint64), DKG.automatic(instances, ids="xxhash64")
    weights = np.stack([rng.pareto(1.2, keys) + 0.1 for _ in range(3)])
    buckets = np.stack([instance_loads(learner.buckets_of(ids), learner.bucket_count, row) for row in weights])
    mapping = guessed_mapping(GuessedKeys(ids, weights, buckets), learner)
    loads = instance_loads(mapping.assign_ids(ids), instances, weights[0])
    assert loads == pytest.approx(mapping.fitted_loads)
    if keys:
        assert loads[0] == pytest.approx(loads.max())
