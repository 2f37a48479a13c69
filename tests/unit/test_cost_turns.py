"""Rows dealt in turn: every instance as many, and about the same work, whatever the parts of the input."""

from __future__ import annotations

import numpy as np
import pytest

from evenly.costs.dealing import BatchDealer
from evenly.costs.table import CostTable
from evenly.costs.turns import COST_BITS, first_instance, in_turn, packed


def dealt(costs, parts, instances):
    """Each part sorts its rows and deals them in turn."""
    out = np.empty(costs.size, np.int64)
    for part in range(parts):
        here = np.arange(part * costs.size // parts, (part + 1) * costs.size // parts)
        out[here[np.argsort(-costs[here], kind="stable")]] = in_turn(np.arange(here.size), part, instances)
    return out


def over_the_mean(costs, placed, instances):
    loads = np.bincount(placed, costs, instances)
    return loads.max() / loads.mean()


@pytest.mark.parametrize("instances", [1, 2, 8, 64])
@pytest.mark.parametrize("part", [0, 1, 2, 199])
@pytest.mark.parametrize("rows", [0, 1, 5, 64, 1_000])
def test_every_row_has_an_instance_and_instances_as_many_rows(instances, part, rows):
    placed = in_turn(np.arange(rows), part, instances)
    counts = np.bincount(placed, minlength=instances)
    assert counts.size == instances
    assert np.ptp(counts) <= 1


@pytest.mark.parametrize(("parts", "most"), [(1, 1.02), (4, 1.03), (8, 1.04), (200, 1.10)])
def test_instances_have_about_the_same_work(parts, most):
    """Where equal numbers of rows leave 12 % uneven; 200 parts have 10 rows each."""
    rng = np.random.default_rng(3)
    even, ours, dealer = [], [], []
    for _ in range(20):
        costs = rng.exponential(1.0, 2_000) ** 1.3
        even.append(over_the_mean(costs, rng.permutation(2_000) % 8, 8))
        ours.append(over_the_mean(costs, dealt(costs, parts, 8), 8))
        table = CostTable(np.arange(2_000), np.r_[costs, 1.0])
        dealer.append(over_the_mean(costs, BatchDealer(table, 8).route(np.arange(2_000))[0], 8))
    assert np.mean(dealer) <= np.mean(ours) < most < np.mean(even)


def test_what_parts_leave_over_does_not_pile_up():
    """200 parts of one row each: each instance gets some, though each part would give its row to its first."""
    counts = np.bincount([int(in_turn(np.zeros(1, np.int64), part, 8)[0]) for part in range(200)], minlength=8)
    assert counts.min() > 15
    assert counts.max() < 35
    assert len({first_instance(part, 64) for part in range(0, 16, 2)}) == 8


def test_an_estimate_and_its_rank_are_one_number():
    costs = np.array([0.5, 2e-9, 0.02, 0.5, 1e9, 1e-15])
    values = packed(CostTable(np.arange(5), costs))
    assert (values >> COST_BITS).tolist() == [1, 3, 2, 1, 0, 4]
    estimates_ns = values & ((1 << COST_BITS) - 1)
    assert estimates_ns[:4].tolist() == [500_000_000, 2, 20_000_000, 500_000_000]
    assert estimates_ns[-1] == 1  # none is free
    many = packed(CostTable(np.arange(16_384), np.linspace(1e-6, 1e3, 16_385)))
    assert (np.diff(many) < 0).all()
    assert (many > 0).all()
