"""What the greedy schedule promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import naive
from evenly.keys.scheduling import largest_first

FEW_DIFFERENT = st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.0, 5.0])


@given(st.lists(st.one_of(FEW_DIFFERENT, st.floats(0.0, 1e6)), max_size=60), st.integers(1, 20))
@example([0.0] * 7, 3)
@example([5.0, 0.0, 0.0, 0.0, 0.0, 1.0], 3)
@example([], 4)
def test_the_schedule_is_that_of_the_obvious_loop(weights, instances):
    assert largest_first(np.array(weights), instances).tolist() == naive.largest_first(weights, instances)


@given(st.lists(st.one_of(FEW_DIFFERENT, st.integers(1, 50).map(float)), max_size=8), st.integers(1, 4))
@example([3.0, 3.0, 2.0, 2.0, 2.0], 2)
@example([5.0, 5.0, 4.0, 4.0, 3.0, 3.0, 3.0], 3)
def test_the_maximum_load_is_within_grahams_bound_of_the_least_possible(weights, instances):
    placed = largest_first(np.array(weights), instances)
    most = max(naive.loads_of(placed.tolist(), weights, instances))
    bound = (4 / 3 - 1 / (3 * instances)) * naive.least_possible_maximum(weights, instances)
    assert most <= bound * (1 + 1e-12)


@pytest.mark.parametrize("instances", [2, 3, 4])
def test_grahams_bound_is_reached_by_his_example(instances):
    weights = [float(w) for w in range(2 * instances - 1, instances, -1) for _ in range(2)] + [float(instances)] * 3
    placed = largest_first(np.array(weights), instances)
    most = max(naive.loads_of(placed.tolist(), weights, instances))
    least = naive.least_possible_maximum(weights, instances)
    assert most == pytest.approx((4 / 3 - 1 / (3 * instances)) * least)


@given(st.integers(0, 100), st.integers(1, 20))
def test_items_that_weigh_nothing_are_dealt_out_evenly(items, instances):
    shares = np.bincount(largest_first(np.zeros(items), instances), minlength=instances)
    assert np.ptp(shares) <= 1


def test_items_of_which_nothing_is_known_fill_the_emptiest_instances():
    assert largest_first(np.array([9.0, 4.0, 0.0, 0.0, 0.0, 0.0]), 3).tolist() == [0, 1, 2, 2, 1, 2]


def test_equal_weights_go_in_order_and_equal_loads_to_the_lowest_instance():
    assert largest_first(np.array([1.0, 2.0, 2.0, 1.0]), 2).tolist() == [0, 0, 1, 1]


def test_ten_thousand_instances_are_served_in_the_order_of_their_number():
    assert np.array_equal(largest_first(np.ones(20_000), 10_000), np.tile(np.arange(10_000), 2))
