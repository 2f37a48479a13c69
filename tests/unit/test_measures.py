"""Imbalance, deviation and loads."""

from __future__ import annotations

import numpy as np
import pytest

from evenly.errors import EmptyStream
from evenly.measures import imbalance_pct, instance_loads, sigma


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([5.0], 0.0),
        ([4, 4, 4], 0.0),
        ([10, 0], 100.0),
        ([100] + [0] * 9, 900.0),
        ([3, 1], 50.0),
        ([0.0, 0.0], 0.0),
        (np.array([12, 8], np.int32), 20.0),
    ],
)
def test_imbalance_is_how_far_the_greatest_load_is_above_the_mean(loads, expected):
    assert imbalance_pct(loads) == pytest.approx(expected)


def test_imbalance_does_not_depend_on_the_unit():
    loads = np.array([3.0, 1.0, 7.0])
    assert imbalance_pct(loads * 1000) == pytest.approx(imbalance_pct(loads))


@pytest.mark.parametrize(("loads", "expected"), [([5.0], 0.0), ([2, 4], 1.0), ([2, 4, 4, 4, 5, 5, 7, 9], 2.0)])
def test_sigma_is_the_deviation_of_the_whole_population(loads, expected):
    assert sigma(loads) == pytest.approx(expected)


@pytest.mark.parametrize("measure", [imbalance_pct, sigma])
def test_no_instances_have_no_measure(measure):
    with pytest.raises(EmptyStream, match="at least one"):
        measure([])


def test_loads_count_the_tuples_of_each_instance_idle_ones_too():
    loads = instance_loads(np.array([0, 2, 2], np.int32), 4)
    assert loads.tolist() == [1.0, 0.0, 2.0, 0.0]
    assert loads.dtype == np.float64


def test_loads_sum_the_weights_of_each_instance():
    assert instance_loads(np.array([0, 2, 2], np.int32), 3, [0.5, 1.0, 2.0]).tolist() == [0.5, 0.0, 3.0]


def test_no_tuples_load_nothing():
    assert instance_loads(np.zeros(0, np.int32), 3).tolist() == [0.0, 0.0, 0.0]
