"""What DKG promises: whole keys, nothing lost, heavy keys found, the same from one learner or from many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from evenly.errors import DamagedData, IncompatibleMerge, InvalidCost, InvalidParameter
from evenly.keys.dkg import DKG, KeyCounts
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.measures import imbalance_pct, instance_loads
from evenly.sketches import SpaceSaving, key_ids
from evenly.streams import zipf

SEEDS = st.integers(0, 2**32 - 1)
INSTANCES = st.integers(1, 12)


@st.composite
def weighted_streams(draw, n=2_000):
    """Keys with whole weights, 0 among them. Half-way other keys become the hot ones, so some are found late."""
    skew, half = zipf(draw(st.sampled_from([1.0, 2.0, 0.0])), n), draw(st.sampled_from([2_000, 500, 20, 1]))
    seed = draw(SEEDS)
    keys = np.concatenate([skew.draw(half, seed=seed), skew.draw(half, seed=seed + 1)])
    return keys, np.random.default_rng(draw(SEEDS)).integers(0, 5, keys.size).astype(float)


@st.composite
def parameters(draw):
    """Every parameter of a learner, as keywords."""
    theta = draw(st.sampled_from([0.02, 0.1, 0.3, 1.0]))
    epsilon = draw(st.sampled_from([None, theta / 10, theta * 0.9]))
    return {
        "instances": draw(INSTANCES),
        "theta": theta,
        "epsilon": epsilon,
        "mu": draw(st.floats(1.0, 6.0)),
        "seed": draw(SEEDS),
    }


def dealt(stream, count, seed):
    owner = np.random.default_rng(seed).integers(0, count, stream[0].size)
    return [tuple(part[owner == number] for part in stream) for number in range(count)]


def merged(learners):
    first, *others = learners
    for other in others:
        first.merge(other)
    return first


def space_saving_of(learner, stream):
    summary = SpaceSaving(math.ceil(1 / learner.epsilon))
    summary.update(*stream)
    return {key: (count, error) for key, count, error in zip(*(part.tolist() for part in summary.counters()), strict=True)}


def naive_build(learner, stream, counters, instances):
    mapping = learner.mapping(instances)
    keys, weights = stream[0].tolist(), stream[1].tolist()
    loads = naive.bucket_loads(keys, weights, a=mapping.a, b=mapping.b, buckets=math.ceil(learner.instances * learner.mu))
    return naive.BuiltDKG(counters, loads, a=mapping.a, b=mapping.b, theta=learner.theta, instances=instances)


def same_build(mapping, built):
    assert mapping.heavy_keys.tolist() == list(built.heavy)
    assert mapping.heavy_weights.tolist() == list(built.heavy.values())
    assert mapping.heavy_instances.tolist() == list(built.heavy_instances.values())
    assert mapping.bucket_weights.tolist() == built.buckets
    assert mapping.buckets.tolist() == built.bucket_instances


@given(weighted_streams(), parameters())
def test_the_build_is_that_of_the_obvious_loops(stream, options):
    learner = DKG(**options).fit(*stream)
    built = naive_build(learner, stream, space_saving_of(learner, stream), learner.instances)
    mapping = learner.mapping()
    same_build(mapping, built)
    assert mapping.assign(stream[0]).tolist() == [built.instance(key) for key in stream[0].tolist()]


@given(weighted_streams(n=100), parameters(), INSTANCES)
def test_with_few_keys_the_build_is_that_of_exact_counts_for_any_number_of_instances(stream, options, fewer):
    learner = DKG(**options).fit(*stream)
    instances = min(fewer, learner.instances)
    exact = {key: (count, 0.0) for key, count in naive.exact_counts(*(part.tolist() for part in stream)).items() if count > 0}
    same_build(learner.mapping(instances), naive_build(learner, stream, exact, instances))


@given(weighted_streams(), parameters(), SEEDS)
def test_every_tuple_of_a_key_goes_to_one_instance_in_range(stream, options, seed):
    mapping = DKG(**options).fit(*stream).mapping()
    keys = np.concatenate([stream[0], np.arange(100)])
    assigned = mapping.assign(keys)
    order = np.random.default_rng(seed).permutation(keys.size)
    assert np.array_equal(mapping.assign(keys[order]), assigned[order])
    assert len(set(zip(keys.tolist(), assigned.tolist(), strict=True))) == len(set(keys.tolist()))
    assert 0 <= assigned.min() <= assigned.max() < options["instances"]


@given(weighted_streams(), parameters(), st.integers(1, 8), SEEDS)
def test_the_weights_of_a_mapping_sum_to_the_total_also_after_merges(stream, options, count, seed):
    mapping = merged([DKG(**options).fit(*part) for part in dealt(stream, count, seed)]).mapping()
    assert mapping.heavy_weights.sum() + mapping.bucket_weights.sum() == stream[1].sum()
    assert mapping.fitted_loads.sum() == stream[1].sum()
    assert mapping.bucket_weights.min() >= 0.0


@given(weighted_streams(n=5), parameters(), st.integers(1, 8), SEEDS)
def test_rounding_of_float_weights_loses_nothing_and_leaves_no_bucket_negative(stream, options, count, seed):
    weights = np.random.default_rng(seed).pareto(1.0, stream[0].size)
    mapping = merged([DKG(**options).fit(*part) for part in dealt((stream[0], weights), count, seed)]).mapping()
    assert mapping.fitted_loads.sum() == pytest.approx(weights.sum(), rel=1e-6)
    assert mapping.bucket_weights.min() >= 0.0


@given(weighted_streams(), parameters())
def test_a_key_is_heavy_if_and_only_if_its_guaranteed_weight_reaches_theta_of_the_total(stream, options):
    learner = DKG(**options).fit(*stream)
    threshold = learner.theta * stream[1].sum()
    guaranteed = {key: count - error for key, (count, error) in space_saving_of(learner, stream).items()}
    heavy = learner.mapping().heavy_keys.tolist()
    assert set(heavy) == {key for key, weight in guaranteed.items() if weight >= threshold and stream[1].sum() > 0}
    true = naive.exact_counts(*(part.tolist() for part in stream))
    assert all(true[key] >= threshold for key in heavy)


def counted(learner, stream, keep=1.0):
    """The stream as counts: of all buckets, and of the heaviest `keep` of its keys."""
    keys, at = np.unique(stream[0], return_inverse=True)
    counts = np.bincount(at, stream[1], keys.size)
    heaviest = np.argsort(-counts, kind="stable")[: math.ceil(keep * keys.size)]
    ids = key_ids(keys[heaviest])
    buckets = np.bincount(learner.buckets_of(key_ids(stream[0])), stream[1], learner.bucket_count)
    return KeyCounts(buckets, ids, counts[heaviest])


@given(weighted_streams(n=10), parameters(), st.sampled_from([None, 700.0]))
def test_counts_teach_what_their_tuples_teach(stream, options, half_life):
    options |= {"epsilon": options["theta"] * 0.9 if options["theta"] < 0.1 else options["theta"] / 10}
    learner = DKG(**options, half_life=half_life).fit(stream[0][:5])
    before = learner.total
    learner.fit_counts(counted(learner, stream))
    assert learner.total == pytest.approx(before + stream[1].sum())
    if half_life is None:
        plain = DKG(**options).fit(stream[0][:5]).fit(*stream).mapping()
        assert learner.mapping().heavy_keys.tolist() == plain.heavy_keys.tolist()
        assert np.array_equal(learner.mapping().bucket_weights, plain.bucket_weights)


@given(weighted_streams(), parameters(), st.sampled_from([0.05, 0.5]))
def test_keys_that_were_not_counted_are_in_their_buckets(stream, options, keep):
    learner = DKG(**options)
    mapping = learner.fit_counts(counted(learner, stream, keep)).mapping()
    assert learner.total == stream[1].sum()
    assert mapping.fitted_loads.sum() == pytest.approx(stream[1].sum())
    doubled = counted(learner, stream)
    inflated = DKG(**options).fit_counts(KeyCounts(doubled.buckets, doubled.ids, 2.0 * doubled.counts))
    assert inflated.mapping().bucket_weights.min() >= 0.0
    assert inflated.total == stream[1].sum()


@given(weighted_streams(), parameters(), st.sampled_from([1.0, 0.5, 2.0**-100]))
def test_what_fades_weighs_less_and_is_placed_as_before(stream, options, factor):
    learner, faded = DKG(**options).fit(*stream), DKG(**options).fit(*stream).fade(factor)
    assert faded.total == pytest.approx(factor * learner.total)
    assert np.array_equal(faded.mapping().buckets, learner.mapping().buckets)
    assert faded.mapping().heavy_keys.tolist() == learner.mapping().heavy_keys.tolist()


def test_counts_and_factors_that_cannot_be_are_refused():
    learner = DKG(2)
    with pytest.raises(InvalidCost, match="buckets"):
        learner.fit_counts(KeyCounts(np.ones(3), np.zeros(0, np.uint64), np.zeros(0)))
    with pytest.raises(InvalidCost, match="counts"):
        learner.fit_counts(KeyCounts(np.ones(learner.bucket_count), np.ones(1, np.uint64), np.array([-1.0])))
    for factor in (0.0, 1.1, math.nan):
        with pytest.raises(InvalidParameter, match=str(factor)):
            learner.fade(factor)
    assert learner.total == 0.0


@given(weighted_streams(), parameters())
def test_a_key_above_theta_plus_epsilon_is_always_heavy(stream, options):
    learner = DKG(**options).fit(*stream)
    sure = (learner.theta + 1 / math.ceil(1 / learner.epsilon)) * stream[1].sum()
    true = naive.exact_counts(*(part.tolist() for part in stream))
    assert {key for key, weight in true.items() if weight > sure} <= set(learner.mapping().heavy_keys.tolist())


@given(weighted_streams(), parameters(), st.lists(st.integers(0, 4_000), max_size=5))
def test_how_the_stream_is_cut_into_calls_makes_no_difference(stream, options, cuts):
    cut = DKG(**options)
    for part in zip(*(np.split(column, sorted(cuts)) for column in stream), strict=True):
        cut.fit(*part)
    assert cut.to_bytes() == DKG(**options).fit(*stream).to_bytes()


@given(weighted_streams(), weighted_streams(), parameters())
def test_a_learner_read_back_goes_on_as_the_first_would(stream, more, options):
    learner = DKG(**options).fit(*stream)
    again = DKG.from_bytes(learner.to_bytes())
    assert again.fit(*more).to_bytes() == learner.fit(*more).to_bytes()
    assert again.mapping() == learner.mapping()


@given(parameters())
def test_nothing_learnt_gives_buckets_dealt_out_evenly(options):
    mapping = DKG(**options).mapping()
    assert np.ptp(np.bincount(mapping.buckets, minlength=mapping.instances)) <= 1
    assert mapping.heavy_keys.size == 0
    assert mapping.fitted_imbalance_pct == 0.0


@given(weighted_streams(), parameters())
def test_the_fitted_loads_are_those_of_the_stream_but_for_the_error_of_heavy_keys(stream, options):
    learner = DKG(**options).fit(*stream)
    mapping = learner.mapping()
    measured = instance_loads(mapping.assign(stream[0]), mapping.instances, stream[1])
    unsure = learner._heavy.estimate(mapping.heavy_keys)[1].sum()
    assert np.abs(mapping.fitted_loads - measured).max() <= unsure + 1e-6
    assert mapping.fitted_imbalance_pct >= mapping.least_imbalance_pct - 1e-9


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("make", [DKG, DKG.automatic])
@pytest.mark.parametrize("instances", [2, 10])
def test_learners_of_a_stream_dealt_at_random_balance_as_one_learner_does(alpha, make, instances):
    alone, together = [], []
    for seed in range(5):
        keys = zipf(alpha).draw(100_000, seed=seed)
        learnt, evaluated = keys[:80_000], keys[80_000:]
        parts = [make(instances, seed=seed).fit(*part) for part in dealt((learnt,), 8, seed)]
        for results, learner in ((alone, make(instances, seed=seed).fit(learnt)), (together, merged(parts))):
            results.append(imbalance_pct(instance_loads(learner.mapping().assign(evaluated), instances)))
    assert np.mean(together) == pytest.approx(np.mean(alone), abs=1.0)


@pytest.mark.parametrize("instances", [2, 10, 40])
def test_automatic_parameters_come_within_three_points_of_the_exact_schedule(instances):
    keys = zipf(1.0).draw(200_000, seed=4)
    learnt, exact = (
        grouping.fit(keys).mapping(instances).fitted_imbalance_pct for grouping in (DKG.automatic(instances), ExactGreedy())
    )
    assert learnt <= exact + 3.0


@pytest.mark.parametrize(
    ("instances", "counters", "buckets"),
    [
        (1, 128, 64),
        (10, 1_280, 640),
        (64, 8_192, 4_096),
        (1_000, 8_192, 64_000),
        (5_000, 8_192, 65_536),
        (10_000, 8_192, 65_536),
    ],
)
def test_automatic_parameters_are_as_fine_as_documented(instances, counters, buckets):
    learner = DKG.automatic(instances)
    assert learner.mapping().buckets.size == buckets
    assert math.ceil(1 / learner.epsilon) == counters
    assert learner.theta == pytest.approx(2 / counters)


def test_memory_does_not_grow_with_the_number_of_keys():
    sizes = {DKG(4).fit(np.arange(n)).memory_bytes for n in (1, 1_000, 200_000)}
    assert len(sizes) == 1


def test_more_instances_than_buckets_are_refused():
    assert DKG(2, mu=2.0).mapping(4).instances == 4
    with pytest.raises(InvalidParameter, match=r"5 instances .* has 4"):
        DKG(2, mu=2.0).mapping(5)


@pytest.mark.parametrize("other", [{"instances": 3}, {"theta": 0.2}, {"epsilon": 0.01}, {"mu": 3.0}, {"seed": 9}])
def test_learners_that_are_not_alike_are_not_merged(other):
    with pytest.raises(IncompatibleMerge, match=str(next(iter(other.values())))):
        DKG(2).merge(DKG(**{"instances": 2, **other}))


def test_a_refused_weight_leaves_the_learner_as_it_was():
    learner = DKG(2).fit([1, 2, 3])
    before = learner.to_bytes()
    with pytest.raises(InvalidCost, match=r"weights\[0\] is nan"):
        learner.fit([4, 5], [math.nan, 1.0])
    assert learner.to_bytes() == before


@pytest.mark.parametrize("data", [b"", b"nonsense", DKG(2).to_bytes()[:-30], SpaceSaving(3).to_bytes()])
def test_bytes_of_something_else_are_refused(data):
    with pytest.raises(DamagedData, match="dkg"):
        DKG.from_bytes(data)
