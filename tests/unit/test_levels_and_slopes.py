"""Measures that several decisions share: the level to which work rises, and how fast something grows."""

from __future__ import annotations

import numpy as np
import pytest

from evenly.measures.slope import slope
from evenly.measures.water_level import water_level


@pytest.mark.parametrize("seed", range(20))
def test_water_fills_what_is_below_its_level_and_nothing_else(seed):
    rng = np.random.default_rng(seed)
    loads, room = rng.exponential(10.0, 1 + seed), rng.uniform(0.5, 2.0, 1 + seed)
    water = float(rng.exponential(20.0))
    level = water_level(loads, room, water)
    assert np.maximum(level * room - loads, 0.0).sum() == pytest.approx(water)


def test_loads_of_one_level_rise_together():
    assert water_level(np.array([4.0, 2.0]), np.array([2.0, 1.0]), 6.0) == pytest.approx(4.0)
    assert water_level(np.zeros(3), np.ones(3), 0.0) == 0.0


def test_the_slope_is_that_of_a_straight_line_and_0_where_x_stands_still():
    x = np.array([1.0, 2.0, 4.0])
    assert slope(x, 3.0 * x + 7.0) == pytest.approx(3.0)
    assert slope(np.full(3, 2.0), x) == 0.0
