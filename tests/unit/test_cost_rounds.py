"""Rows of unknown cost in five rounds of pieces: exact sizes, nothing lost where costs are alike, much gained where not."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from evenly.costs import CostMeter
from evenly.costs.chance import unevenness
from evenly.costs.placing import DEALING_WAYS, against_pieces, choose_first_dealing
from evenly.costs.rounds import ROUNDS, joined, left_by_pieces, piece_of, shares


def dealt(rows, parts, instances):
    """The piece of each row, where every part of the input has as many, or one more."""
    return np.concatenate([piece_of(np.arange((rows + part) // parts), part, instances) for part in range(parts)])


def ends(costs, pieces, slots):
    """When the last slot ends, over the mean: slots take pieces in order as they come free."""
    work = np.bincount(pieces, costs, minlength=ROUNDS * slots)
    return naive.list_scheduled(work.tolist(), [1.0] * slots) * slots / costs.sum()


@pytest.mark.parametrize("instances", [1, 2, 3, 8, 64, 1_000])
def test_pieces_descend_and_are_all_of_the_rows(instances):
    cut = shares(instances)
    assert cut.size == 5 * instances
    assert cut.sum() == pytest.approx(1.0)
    assert (np.diff(cut) <= 0.0).all()
    assert cut[::instances] * instances == pytest.approx([0.45, 0.33, 0.132, 0.0528, 0.0352])


@pytest.mark.parametrize("instances", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("part", [0, 1, 2, 199])
@pytest.mark.parametrize("rows", [0, 1, 5, 64, 1_000])
def test_an_instance_gets_as_many_rows_of_a_part_as_the_others(instances, part, rows):
    counts = np.bincount(piece_of(np.arange(rows), part, instances), minlength=ROUNDS * instances)
    assert np.ptp(counts.reshape(ROUNDS, instances).sum(axis=0)) <= 1


@pytest.mark.parametrize(("rows", "parts"), [(20_000, 1), (2_000, 4), (500, 4), (2_000, 200), (500, 200), (2_000, 1_000)])
@pytest.mark.parametrize("instances", [2, 8, 32])
def test_pieces_have_their_share_of_the_rows_however_many_parts_the_input_has(rows, parts, instances):
    counts = np.bincount(dealt(rows, parts, instances), minlength=ROUNDS * instances)
    assert np.abs(counts - rows * shares(instances)).max() <= 6


def test_rows_side_by_side_go_to_different_instances():
    """Behind a sort rows that are alike lie side by side."""
    pieces = piece_of(np.arange(8_000), 0, 8)
    assert all(len(set(turn % 8)) == 8 for turn in pieces.reshape(-1, 8))


@pytest.mark.parametrize("instances", [2, 3, 8, 32])
def test_costs_that_are_alike_end_together_as_with_equal_parts(instances):
    assert naive.list_scheduled(shares(instances).tolist(), [1.0] * instances) * instances == pytest.approx(1.0)
    rows = 500 * instances
    assert ends(np.ones(rows), dealt(rows, 4, instances), instances) < 1.03


@pytest.mark.parametrize(("rows", "saved"), [(500, 0.10), (2_000, 0.06)])
def test_costs_that_differ_end_earlier_than_with_equal_parts(rows, saved):
    rng = np.random.default_rng(5)
    equal, ours = [], []
    for _ in range(40):
        costs = rng.exponential(1.0, rows) ** 1.5
        equal.append(np.bincount(rng.permutation(rows) % 8, costs).max() * 8 / costs.sum())
        ours.append(ends(costs, dealt(rows, 4, 8), 8))
    assert np.mean(ours) < np.mean(equal) - saved


def report(number, busy_s):
    meter = CostMeter()
    meter.add(np.zeros(1, np.int64), np.array([busy_s]))
    return meter.report(instance=number, executor="a:1", rows=1, busy_s=busy_s)


def test_pieces_are_told_by_instances_as_slots_that_come_free_would_take_them():
    told = joined([report(number, busy_s) for number, busy_s in enumerate([9.0, 4.0, 5.0, 3.0, 2.0])][::-1], 3)
    assert [(one.instance, one.busy_s) for one in told] == [(0, 9.0), (1, 4.0), (2, 5.0), (1, 3.0), (2, 2.0)]
    assert joined([], 3) == []


def test_pieces_of_a_moment_are_not_one_slots_work():
    """Their measured times need not overlap, however many slots ran them at once."""
    busy_s = np.zeros(3)
    for one in joined([report(number, 1e-6) for number in range(9)], 3):
        busy_s[one.instance] += one.busy_s
    assert busy_s.tolist() == [3e-6] * 3


@pytest.mark.parametrize(("cv", "instances", "rows"), [(0.5, 8, 2_000), (1.2, 8, 500), (1.8, 8, 2_000), (1.2, 32, 2_000)])
def test_what_pieces_leave_uneven_is_what_a_simulation_has(cv, instances, rows):
    """Within a fifth, or a hundredth of the work."""
    rng, cut = np.random.default_rng(7), shares(instances)
    bounds = np.rint(np.append(0.0, np.cumsum(cut)) * rows).astype(int)
    found = []
    for _ in range(150):
        sums = np.append(0.0, np.cumsum(rng.gamma(1 / cv**2, cv**2, rows)))
        works = np.diff(sums[bounds])
        found.append(naive.list_scheduled(works.tolist(), [1.0] * instances) * instances / sums[-1] - 1.0)
    told = left_by_pieces(unevenness(cv, rows, instances), 0.0, instances)
    assert told == pytest.approx(np.mean(found), rel=0.2, abs=0.01)


def test_behind_a_giant_comes_what_a_simulation_has():
    rng, cut = np.random.default_rng(7), shares(8)
    bounds = np.rint(np.append(0.0, np.cumsum(cut)) * 2_000).astype(int)
    costs, found = np.ones(2_000), []
    costs[0] = 850.0  # 30 % of all
    for _ in range(300):
        works = np.add.reduceat(rng.permutation(costs), bounds[:-1])
        found.append(naive.list_scheduled(works.tolist(), [1.0] * 8) * 8 / costs.sum() - 1.0)
    assert left_by_pieces(0.0, 850.0 / costs.sum() * 8, 8) == pytest.approx(np.mean(found), abs=0.05)


@pytest.mark.parametrize(
    ("known", "against"),
    [
        ({"slots": 8}, ""),
        ({"slots": 4}, ""),
        ({"slots": 9}, "there are more slots (9) than instances (8)"),
        ({"slots": None}, "there may be more slots than instances (8)"),
        ({"slots": None, "pieces": True}, ""),
        ({"slots": 8, "pieces": False}, "each instance is to be one task"),
    ],
)
def test_a_first_run_goes_in_pieces_where_instances_fill_all_slots(known, against):
    found = against_pieces(8, **known)
    assert found.startswith(against)
    assert bool(found) == bool(against)
    choice = choose_first_dealing(found)
    assert choice.way == ("evenly" if against else "in pieces")
    assert not choice.by_cost
    assert choice.way not in DEALING_WAYS
    assert choice.reason.startswith(f"{choice.way}: nothing is known of costs yet")
    assert against in choice.reason


def test_pieces_that_take_long_to_start_must_be_asked_for():
    assert against_pieces(204, slots=204) == ""
    assert "1,025 pieces" in against_pieces(205, slots=205)
    assert against_pieces(205, slots=205, pieces=True) == ""
    assert against_pieces(1, slots=1, pieces=True) == "there is one instance"
