"""Automatic parameters and unequal instances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.errors import InvalidParameter
from evenly.keys.dkg import DKG
from evenly.keys.parameters import choose
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.measures import imbalance_pct, instance_loads
from evenly.streams import zipf


@given(st.integers(1, 200), st.integers(100_000, 4_000_000))
def test_a_memory_budget_is_kept_by_the_learner(instances, memory_bytes):
    chosen = choose(instances, memory_bytes=memory_bytes)
    assert chosen.memory_bytes <= memory_bytes
    assert DKG.automatic(instances, memory_bytes=memory_bytes).memory_bytes <= memory_bytes


@given(st.integers(1, 64), st.floats(0.5, 50.0))
def test_a_wanted_imbalance_is_expected_of_what_is_chosen(instances, wanted):
    chosen = choose(instances, imbalance_pct=wanted)
    assert chosen.expected_imbalance_pct() <= wanted + 1e-9
    assert chosen.expected_imbalance_pct(tuples=1_000) > chosen.expected_imbalance_pct(tuples=1_000_000)


@pytest.mark.parametrize("instances", [2, 5, 10, 40])
@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5])
def test_the_expectation_holds_for_the_tuples_learnt_from(instances, alpha):
    keys = zipf(alpha, 5_000).draw(50_000, seed=instances)
    learner = DKG.automatic(instances).fit(keys)
    reached = imbalance_pct(instance_loads(learner.mapping().assign(keys), instances))
    least = imbalance_pct(instance_loads(ExactGreedy().fit(keys).mapping(instances).assign(keys), instances))
    assert reached <= least + choose(instances).expected_imbalance_pct()


def test_what_cannot_be_had_is_refused_with_the_figures():
    with pytest.raises(InvalidParameter, match="at least 32,800 for 100 instances, got 1,000"):
        choose(100, memory_bytes=1_000)
    with pytest.raises(InvalidParameter, match="allow more"):
        choose(100, memory_bytes=100_000, imbalance_pct=0.1)
    with pytest.raises(InvalidParameter, match="-1"):
        choose(4, imbalance_pct=-1.0)


@given(st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=1, max_size=8), st.integers(0, 5))
def test_instances_are_loaded_in_proportion_to_their_capacity(capacities, seed):
    keys = zipf(0.5, 3_000).draw(30_000, seed=seed)
    mapping = DKG.automatic(len(capacities)).fit(keys).mapping(capacities=capacities)
    loads = instance_loads(mapping.assign(keys), len(capacities))
    assert imbalance_pct(loads, capacities) < 6.0
    assert mapping.fitted_imbalance_pct == pytest.approx(imbalance_pct(loads, capacities), abs=0.5)


def test_equal_capacities_give_the_mapping_without_capacities():
    learner = DKG(5).fit(zipf(1.0, 500).draw(10_000, seed=1))
    plain, equal = learner.mapping(), learner.mapping(capacities=[2.0] * 5)
    assert np.array_equal(plain.buckets, equal.buckets)
    assert np.array_equal(plain.heavy_instances, equal.heavy_instances)


@pytest.mark.parametrize("capacities", [[1.0], [1.0, 0.0], [1.0, -2.0], [1.0, float("nan")], [[1.0, 2.0]]])
def test_capacities_that_make_no_sense_are_refused(capacities):
    with pytest.raises(InvalidParameter, match="capacities"):
        DKG(2).mapping(capacities=capacities)
