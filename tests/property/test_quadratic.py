"""The quadratic cost of a key, and the count of distinct keys that its estimate rests on."""

import itertools

import numpy as np
import pytest

from evenly.errors import IncompatibleMerge, InvalidParameter
from evenly.kernels import distinct
from evenly.keys.dkg import DKG
from evenly.lab.rivals.keys.quadratic_dkg import QuadraticDKG
from evenly.measures import instance_loads, sigma
from evenly.streams import zipf
from evenly.testing import check_grouping


def squared_loads(mapping, keys):
    values, counts = np.unique(keys, return_counts=True)
    return instance_loads(mapping.assign(values), mapping.instances, counts.astype(float) ** 2)


def mean_sigma(alpha, instances, **parameters):
    found = []
    for seed in range(12):
        keys = zipf(alpha).draw(100_000, seed=seed)
        mapping = QuadraticDKG(instances, seed=seed, **parameters).fit(keys[:80_000]).mapping()
        found.append(sigma(squared_loads(mapping, keys[80_000:])))
    return float(np.mean(found))


@pytest.mark.parametrize("count", [0, 1, 5, 40, 300, 5_000])
def test_distinct_keys_are_counted_within_the_error_of_64_registers(count):
    found = []
    for seed in range(50):
        keys = np.random.default_rng(seed).integers(0, 2**63, count).astype(np.uint64)
        registers = np.zeros((1, 64), np.uint8)
        for _ in range(2):  # a key seen again changes nothing
            distinct.update(keys, np.uint64(0), np.uint64(0), registers)
        found += distinct.estimate(registers).tolist()
    assert np.mean(found) == pytest.approx(count, rel=0.08, abs=0.05)
    assert np.std(found) <= 0.2 * count


def test_the_distinct_estimate_balances_better_than_the_square_of_a_bucket():
    assert mean_sigma(1.0, 2) < 0.8 * mean_sigma(1.0, 2, buckets="squared")


@pytest.mark.parametrize(("mu", "published"), [(4.0, 1.98e6), (16.0, 1.28e6), (32.0, 1.01e6)])
def test_more_buckets_repair_the_squared_estimate_as_published(mu, published):
    assert mean_sigma(1.0, 2, buckets="squared", mu=mu) == pytest.approx(published, rel=0.35)


def test_it_keeps_the_contract_of_a_grouping():
    check_grouping(lambda: QuadraticDKG(4))


@pytest.mark.parametrize("buckets", ["distinct", "squared"])
def test_a_learner_read_back_goes_on_as_the_first_would(buckets):
    keys = zipf(1.0, 2_000).draw(20_000, seed=4)
    learner = QuadraticDKG(4, buckets=buckets).fit(keys[:12_000])
    again = QuadraticDKG.from_bytes(learner.to_bytes())
    assert again.fit(keys[12_000:]).mapping() == learner.fit(keys[12_000:]).mapping()
    assert again.to_bytes() == learner.to_bytes()


def test_merged_learners_count_a_key_of_both_once():
    keys = zipf(1.0, 2_000).draw(20_000, seed=4)
    merged = QuadraticDKG(4).fit(keys[:9_000]).merge(QuadraticDKG(4).fit(keys[9_000:]))
    assert np.array_equal(merged._registers, QuadraticDKG(4).fit(keys)._registers)


def test_learners_of_another_cost_are_not_merged():
    makers = (DKG, QuadraticDKG, lambda instances: QuadraticDKG(instances, buckets="squared"))
    for one, other in itertools.permutations(makers, 2):
        with pytest.raises(IncompatibleMerge):
            one(4).merge(other(4))


def test_a_half_life_with_counts_that_do_not_forget_is_refused():
    with pytest.raises(InvalidParameter, match=r"half_life is 50\.0"):
        QuadraticDKG(4, half_life=50.0)


def test_another_estimate_is_refused():
    with pytest.raises(InvalidParameter, match="cubed"):
        QuadraticDKG(4, buckets="cubed")
