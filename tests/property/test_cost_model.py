"""The cost model: what its docstring promises, on streams of every kind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.costs import CostMeter, CostModel
from evenly.streams import zipf

MIB = 1024 * 1024
seeds = st.integers(0, 2**32 - 1)


def report(ids, costs, *, instance=0, weight=1.0):
    meter = CostMeter()
    meter.add(np.asarray(ids), np.asarray(costs, np.float64), weight=weight)
    return meter.report(instance=instance, executor=f"host:{instance}")


def some_report(rng, *, keys=30, rows=80, instance=0):
    return report(rng.integers(0, keys, rows), rng.exponential(0.01, rows), instance=instance)


@given(seeds, st.integers(1, 40))
def test_an_estimate_lies_between_the_means_and_above_zero(seed, keys):
    rng = np.random.default_rng(seed)
    ids, costs = rng.integers(0, keys, 200), rng.exponential(1.0, 200) * (1 + rng.integers(0, keys, 200) % 5)
    model = CostModel().learn(report(ids, costs))
    of_keys = {key: costs[ids == key].mean() for key in np.unique(ids)}
    for key, estimate in zip(of_keys, model.estimate(np.array(list(of_keys))), strict=True):
        low, high = sorted((of_keys[key], costs.mean()))
        assert low * (1 - 1e-9) <= estimate <= high * (1 + 1e-9)
    once = [mean for key, mean in of_keys.items() if (ids == key).sum() == 1]
    low, high = sorted((np.mean(once) if once else costs.mean(), costs.mean()))
    assert low * (1 - 1e-9) <= model.estimate(np.array([10**12]))[0] <= high * (1 + 1e-9)
    assert model.mean_s == pytest.approx(costs.mean())
    assert model.rows == 200


@given(seeds, st.integers(1, 50))
def test_merging_is_commutative_to_the_last_bit(seed, capacity):
    rng = np.random.default_rng(seed)
    parts = [some_report(rng, keys=60, rows=200) for _ in range(2)]
    one, other = (CostModel(("user",), capacity=capacity).learn(part) for part in parts)
    assert one.copy().merge(other) == other.copy().merge(one)
    assert one.copy().merge(other) != one


@given(seeds, st.integers(2, 6), st.randoms(use_true_random=False))
def test_the_order_of_a_batchs_reports_does_not_matter(seed, instances, order):
    rng = np.random.default_rng(seed)
    reports = [some_report(rng, keys=300, rows=400, instance=at) for at in range(instances)]
    one = CostModel(capacity=100).learn_all(reports)
    order.shuffle(reports)
    other = CostModel(capacity=100).learn_all(reports)
    ids = np.arange(300)
    assert one.rows == other.rows == 400 * instances
    assert one.estimate(ids) == pytest.approx(other.estimate(ids))


@given(seeds, st.integers(1, 500))
def test_totals_are_exact_whatever_is_folded(seed, capacity):
    rng = np.random.default_rng(seed)
    model, costs = CostModel(capacity=capacity), []
    for _ in range(3):
        costs.append(rng.integers(0, 100, 400).astype(np.float64))
        model.learn(report(rng.integers(0, 1_000, 400), costs[-1]))
    assert model.keys <= capacity
    assert model.rows == 1_200
    assert model.mean_s == pytest.approx(np.mean(costs))


@given(seeds)
def test_a_shrunk_estimate_is_better_than_the_mean_of_a_key_and_than_the_mean_of_all(seed):
    rng = np.random.default_rng(seed)
    keys = 400
    true = rng.gamma(4.0, 0.25, keys)
    often = np.arange(1, keys + 1) ** -0.8
    ids = rng.choice(keys, 3_000, p=often / often.sum())
    costs = rng.gamma(2.0, true[ids] / 2.0)
    model = CostModel().learn(report(ids, costs))
    seen = np.unique(ids)
    raw = np.array([costs[ids == key].mean() for key in seen])
    off = ((model.estimate(seen) - true[seen]) ** 2).mean()
    assert off < ((raw - true[seen]) ** 2).mean()
    assert off < ((costs.mean() - true[seen]) ** 2).mean()


@given(seeds, st.sampled_from(["exponential", "uniform", "lognormal"]), st.sampled_from([1.0, 16.0]))
def test_costs_that_no_key_explains_are_constant_however_they_vary(seed, kind, weight):
    rng = np.random.default_rng(seed)
    draw = {"exponential": rng.standard_exponential, "uniform": rng.random, "lognormal": lambda size: rng.lognormal(0, 1, size)}
    rows = draw[kind](20_000)
    model = CostModel().learn(report(rng.integers(0, 200, 20_000), rows, weight=weight))
    assert model.constant, (model, model.variances)
    assert 0.0 <= model.gain < 0.01


@given(seeds)
def test_a_few_wild_costs_do_not_make_it_believe_that_keys_explain_nothing(seed):
    """Keys of 0.1 to 3.6 ms, a thousand rows, and now and then a row that was kept waiting for 100 ms."""
    rng = np.random.default_rng(seed)
    often = 1.0 / np.arange(1, 4_097)
    ids = rng.choice(4_096, 1_000, p=often / often.sum())
    costs = 1e-4 + 3.5e-3 * (ids % 64) / 63
    costs[rng.choice(1_000, 5, replace=False)] += 0.1
    model = CostModel().learn(report(ids, costs))
    assert not model.constant, (model, model.variances)


@given(seeds, st.floats(1.5, 100.0), st.floats(0.02, 0.5))
def test_costs_that_a_key_explains_are_not_constant(seed, factor, share):
    rng = np.random.default_rng(seed)
    ids = (rng.random(5_000) < share).astype(np.int64)
    model = CostModel().learn(report(ids, (1 + (factor - 1) * ids) * rng.gamma(100.0, 0.01, 5_000)))
    assert not model.constant or share * (factor - 1) < 0.1
    assert model.estimate(np.array([1]))[0] / model.estimate(np.array([0]))[0] == pytest.approx(factor, rel=0.1)


@given(seeds)
def test_what_is_kept_is_not_what_happened_to_be_measured_high(seed):
    """Ten keys among tens of thousands that are seen once, in tables too small: the ten are known, and nothing is too high."""
    rng = np.random.default_rng(seed)
    meter, true, highest = CostMeter(limit=64), np.array([1.0, 3.0] * 5), 0.0
    for _ in range(2):
        ids = np.where(rng.random(30_000) < 0.5, rng.integers(0, 10, 30_000), rng.integers(10, 2**62, 30_000))
        costs = np.where(ids < 10, true[ids % 10], 2.0) * rng.standard_exponential(30_000)
        meter.add(ids, costs)
        highest = max(highest, costs[ids >= 10].max())
    model = CostModel(capacity=32).learn(meter.report(instance=0))
    assert model.estimate(np.arange(10)) == pytest.approx(true, rel=0.15)
    assert model.estimate(np.array([-1])) == pytest.approx([2.0], rel=0.1)
    assert model.table.costs_s.max() < 0.5 * highest
    assert model.gain_of_few > 0.005


@given(seeds)
def test_keys_that_never_come_back_say_nothing(seed):
    rng = np.random.default_rng(seed)
    model = CostModel().learn(report(np.arange(500), rng.exponential(1.0, 500)))
    assert np.ptp(model.estimate(np.arange(600))) == 0.0
    assert not model.constant  # too little was seen to say that there is nothing
    assert model.learn(report(np.arange(1_000, 9_000), rng.exponential(1.0, 8_000))).gain == 0.0
    model.learn(report(np.arange(10_000, 18_000), rng.exponential(1.0, 8_000)))
    assert model.constant


@given(seeds, st.floats(10.0, 1e5))
def test_a_row_weighs_half_after_a_half_life(seed, half_life):
    rng = np.random.default_rng(seed)
    model = CostModel(half_life_rows=half_life).learn(some_report(rng, rows=50)).learn(some_report(rng, rows=80))
    assert model.rows == pytest.approx(80 + 50 * 0.5 ** (80 / half_life), abs=0.05)


@given(seeds, st.integers(1, 300), st.none() | st.floats(1.0, 1e6))
def test_a_model_is_read_back_and_goes_on_as_before(seed, capacity, half_life):
    rng = np.random.default_rng(seed)
    model = CostModel(("a", "length(b)"), capacity=capacity, half_life_rows=half_life)
    for _ in range(2):
        model.learn(some_report(rng, keys=500, rows=300))
    again = CostModel.from_json(model.to_json())
    assert again == model
    assert again.expressions == ("a", "length(b)")
    more = some_report(rng)
    assert again.learn(more) == model.learn(more)


def test_a_hundred_million_rows_of_millions_of_keys_fit_in_one_mib():
    """Scaled: every row stands for a hundred. A million of them in 32 reports, of 4 million keys that are about as likely."""
    rng = np.random.default_rng(5)
    model = CostModel(("user",))
    for instance in range(32):
        ids = np.concatenate([rng.integers(0, 4_000_000, 25_000), zipf(1.0, 50_000).draw(6_250, seed=instance) + 10**12])
        model.learn(report(ids * 2_654_435_761, rng.exponential(0.01, ids.size), instance=instance, weight=100.0))
        model.estimate(ids)
        assert model.memory_bytes <= MIB
    assert model.keys == 16_384
    assert len(model.to_json()) <= MIB
    assert model.rows == pytest.approx(1_000_000)


@given(seeds, st.lists(st.integers(1, 30_000), min_size=1, max_size=4))
def test_memory_is_bounded_whatever_the_stream(seed, batches):
    rng = np.random.default_rng(seed)
    model = CostModel()
    for rows in batches:
        model.learn_all([report(rng.integers(-(2**63), 2**63 - 1, rows), rng.random(rows)) for _ in range(3)])
        model.estimate(np.arange(3))
        assert model.memory_bytes <= MIB
