"""Evenly or by cost: the formula against drawn costs, and that routing is paid for or left."""

from __future__ import annotations

import numpy as np
import pytest

from evenly.costs import CostMeter, CostModel, choose_dealing
from evenly.costs.chance import expected_maximum, unevenness
from evenly.costs.placing import DEALING_WAYS
from evenly.errors import InvalidParameter


def learnt(keys, costs_s, expressions=("key",)):
    meter = CostMeter()
    meter.add(np.asarray(keys), np.asarray(costs_s, np.float64))
    return CostModel(expressions).learn(meter.report(instance=0))


def varied(rows=2_000, mean_s=0.008, seed=1):
    """Keys that explain all of costs with a standard deviation of about 1.3 times their mean."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 100, rows)
    costs = rng.lognormal(0.0, 1.0, 100)
    return learnt(keys, costs[keys] * mean_s / costs[keys].mean())


def alike(rows=2_000):
    return learnt(np.arange(rows) % 20, np.full(rows, 0.008))


@pytest.mark.parametrize("instances", [2, 8, 64])
def test_the_expected_maximum_is_that_of_drawn_values(instances):
    drawn = np.random.default_rng(0).standard_normal((20_000, instances)).max(axis=1).mean()
    assert expected_maximum(instances) == pytest.approx(drawn, rel=0.05)
    assert expected_maximum(1) == 0.0


@pytest.mark.parametrize("rows", [2_000, 20_000])
def test_what_equal_numbers_of_rows_leave_uneven_is_as_the_formula_says(rows):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        sums = rng.exponential(1.0, (8, rows // 8)).sum(axis=1)
        found.append(sums.max() / sums.mean() - 1.0)
    assert unevenness(1.0, rows, 8) == pytest.approx(np.mean(found), rel=0.1)


def gained_and_promised(rows, keys, skew, noise, seed, instances=8):
    """Longest first by the estimates of one batch, on others of the same kind."""
    rng = np.random.default_rng(seed)
    often = np.arange(1.0, keys + 1.0) ** -skew
    cost_of = rng.lognormal(0.0, 1.0, keys)

    def batch():
        drawn = rng.choice(keys, rows, p=often / often.sum())
        return drawn, cost_of[drawn] * rng.lognormal(0.0, noise, rows)

    model, gained = learnt(*batch()), []
    for _ in range(4):
        drawn, costs = batch()
        even = np.mean([max(part.sum() for part in np.array_split(rng.permutation(costs), instances)) for _ in range(10)])
        hoped, took = np.zeros(instances), np.zeros(instances)
        estimates = model.estimate(drawn)
        for row in np.argsort(-estimates, kind="stable"):
            at = hoped.argmin()
            hoped[at] += estimates[row]
            took[at] += costs[row]
        gained.append(1.0 - took.max() / even)
    return np.mean(gained), model.gain_for(rows, instances)


@pytest.mark.parametrize(
    ("rows", "keys", "skew", "noise"),
    [
        (1_000, 100, 1.0, 0.0),
        (1_000, 5_000, 1.0, 0.0),
        (1_000, 100_000, 0.8, 0.0),
        (2_000, 2_000, 0.5, 0.3),
        (2_000, 300, 1.2, 0.5),
    ],
    ids=["known keys", "many new keys", "nearly all new", "seen a few times", "noisy"],
)
def test_what_is_promised_is_gained_on_the_next_batch_whatever_is_new_in_it(rows, keys, skew, noise):
    gained, promised = np.mean([gained_and_promised(rows, keys, skew, noise, seed) for seed in range(6)], axis=0)
    assert promised == pytest.approx(gained, abs=0.02)


@pytest.mark.parametrize("half_life_rows", [None, 1_000, 500, 250])
def test_keys_that_come_back_each_day_are_known_however_fast_is_forgotten(half_life_rows):
    costs = np.random.default_rng(9).lognormal(0.0, 1.0, 1_000)
    model = CostModel(("key",), half_life_rows=half_life_rows)
    for _ in range(4):
        meter = CostMeter()
        meter.add(np.arange(1_000), costs)
        model.learn(meter.report(instance=0))
    gained = 1.0 - costs.sum() / 8.0 / np.mean([largest_sum(costs, seed) for seed in range(20)])
    assert model.gain_for(1_000, 8) == pytest.approx(gained, abs=0.03)
    assert choose_dealing(model, 8, rows=1_000).by_cost


def largest_sum(costs, seed, instances=8):
    return max(part.sum() for part in np.array_split(np.random.default_rng(seed).permutation(costs), instances))


def test_a_giant_under_a_new_key_each_day_is_promised_no_more_than_one_under_the_same():
    rng = np.random.default_rng(0)
    cost_of = rng.lognormal(0.0, 1.0, 100)
    days = [rng.integers(0, 100, 990) for _ in range(6)]

    def promised(giant):
        model = CostModel(("key",))
        for day, keys in enumerate(days):
            meter = CostMeter()
            meter.add(np.append(keys, giant(day)), np.append(cost_of[keys], 600.0))
            model.learn(meter.report(instance=0))
        return choose_dealing(model, 8, rows=991).promised

    least_s, even_s = 600.0, np.mean([largest_sum(np.append(cost_of[days[0]], 600.0), seed) for seed in range(20)])
    assert promised(lambda day: 1_000 + day) == pytest.approx(promised(lambda _: 1_000), abs=0.01)
    assert 0.0 < promised(lambda day: 1_000 + day) < 1.0 - least_s / even_s


def test_few_costly_rows_are_dealt_by_cost_and_the_figures_are_told():
    assert not choose_dealing(varied(), 8, rows=2_000).by_cost, "a batch of two seconds is over before routing has paid"
    decision = choose_dealing(varied(mean_s=0.08), 8, rows=2_000)
    assert decision.by_cost
    assert 0.03 < decision.gain < decision.promised < 0.2
    assert decision.reason.startswith("by cost")
    assert "2,000 rows" in decision.reason


def test_nothing_saved_is_told_without_a_sign():
    costs = learnt(np.arange(400) % 20, np.random.default_rng(0).exponential(1e-6, 400))
    decision = choose_dealing(costs, 2, rows=400, ways=("in turn",))
    assert -0.0005 < decision.promised < 0.0
    assert "saves 0.0% of" in decision.reason


def test_the_promise_falls_with_the_root_of_the_rows():
    few, many = (choose_dealing(varied(), 8, rows=rows).promised for rows in (2_000, 200_000))
    assert few > 6.0 * many
    assert varied().gain == pytest.approx(few, abs=0.03)  # of its last batch, were it dealt perfectly


def test_cheap_rows_and_wide_rows_go_out_evenly():
    cheap = varied(mean_s=10e-6)
    assert not choose_dealing(cheap, 8, rows=100_000_000).by_cost
    model = varied(mean_s=0.03)
    assert choose_dealing(model, 8, rows=2_000, row_bytes=1e4, slots=8).by_cost
    assert not choose_dealing(model, 8, rows=2_000, row_bytes=1e7, slots=8).by_cost


def test_one_router_never_gets_100_million_rows_or_wide_ones():
    giant = learnt(np.minimum(np.arange(10_000), 1), np.r_[0.3 / 0.7 * 9_999 * 1e-3, np.full(9_999, 1e-3)])
    assert choose_dealing(giant, 8, rows=10_000, row_bytes=100.0).way == "one router"
    # Dealt evenly its instance has the giant, 30 % of all, and an eighth of the rest; by cost the giant alone.
    promised = choose_dealing(giant, 8, rows=10_000, row_bytes=100.0)
    assert promised.even_s / giant.mean_s / 10_000 == pytest.approx(0.3 + 0.7 / 8, rel=0.02)
    assert promised.promised == pytest.approx(1.0 - 0.3 / (0.3 + 0.7 / 8), abs=0.01)
    many = learnt(np.minimum(np.arange(100_000), 1), np.r_[0.3 / 0.7 * 99_999 * 1e-3, np.full(99_999, 1e-3)])
    # A router sees 10,000 rows at a time, and has dealt out 45 % of them, on average, when the giant comes.
    share = 0.3 + 0.45 * 0.7 / 8
    assert choose_dealing(many, 8, rows=100_000, row_bytes=100.0).promised == pytest.approx(1 - share / 0.3875, abs=0.02)
    assert choose_dealing(giant, 8, rows=10_000, row_bytes=1e6).way != "one router"
    assert choose_dealing(giant, 8, rows=10_000, row_bytes=None).way != "one router"
    assert choose_dealing(varied(), 8, rows=100_000_000, row_bytes=100.0).way != "one router"


def test_constant_costs_and_what_is_not_known_go_out_evenly():
    assert not choose_dealing(alike(), 8, rows=2_000).by_cost
    assert not choose_dealing(CostModel(("key",)), 8, rows=2_000).by_cost
    assert not choose_dealing(varied(), 8, rows=None).by_cost
    assert not choose_dealing(varied(), 1, rows=2_000).by_cost
    with pytest.raises(InvalidParameter, match="got 0"):
        choose_dealing(varied(), 0, rows=2_000)


def test_short_rows_first_may_take_what_the_batch_time_does_not_gain():
    model = varied(mean_s=0.0004)
    options = {"rows": 400_000, "slots": 8}
    assert "short rows first" in choose_dealing(model, 8, objective="completion", **options).reason
    assert choose_dealing(model, 8, objective="completion", **options).by_cost
    assert not choose_dealing(model, 8, objective="batch-time", **options).by_cost


def test_more_routers_leave_more_over():
    model = varied(rows=500)
    few, many = (choose_dealing(model, 8, rows=500, partitions=routers).cost_s for routers in (1, 32))
    assert few < many


def test_the_rows_of_the_last_batch_are_remembered_saved_and_merged():
    model = varied(rows=700)
    assert model.batch_rows == 700
    assert CostModel.from_json(model.to_json()).batch_rows == model.copy().batch_rows == 700
    assert varied(rows=300).merge(model).batch_rows == 700


def test_many_bytes_are_dealt_in_turn_and_few_by_routers():
    model, wide = varied(mean_s=0.03), {"partitions": 4, "row_bytes": 1e6, "slots": 8}
    assert choose_dealing(model, 8, rows=2_000, **wide).way == "in turn"
    assert choose_dealing(model, 8, rows=2_000, **wide, ways=DEALING_WAYS[1:]).way != "in turn"
    assert choose_dealing(model, 8, rows=2_000, partitions=4, slots=8).way == "routers"
    long = varied(rows=500, mean_s=10.0)  # the start of Python is nothing to these, and what is left over is a row or two
    assert choose_dealing(long, 8, rows=500, partitions=4, row_bytes=100.0).way == "one router"
    assert choose_dealing(long, 8, rows=500, partitions=4).reason.startswith("by cost, by routers: ")


def noise(mean_s=0.02, rows=2_000):
    """The key does not tell what rows cost."""
    return learnt(np.arange(rows) % 20, np.random.default_rng(3).gamma(0.5, 2.0 * mean_s, rows))


@pytest.mark.parametrize("objective", ["completion", "batch-time"])
def test_what_no_key_tells_goes_out_in_pieces_where_that_saves_more_than_their_tasks_take(objective):
    def way(model, rows=2_000, **more):
        return choose_dealing(model, 8, rows=rows, slots=8, objective=objective, **more)

    cut = way(noise(), pieces=True)
    assert cut.way == "in pieces"
    assert not cut.by_cost
    assert cut.gain > 0.01
    assert cut.reason.startswith("in pieces: small pieces save ")
    assert "their tasks take" in cut.reason
    assert way(noise()).way == "evenly"
    assert way(noise(mean_s=0.0004), pieces=True).way == "evenly", "a batch of a tenth of a second"
    assert way(noise(), rows=2_000_000, pieces=True).way == "evenly", "so many rows even out"
    assert way(alike(), pieces=True).way == "evenly"


def test_what_a_key_tells_goes_out_by_cost_all_the_same():
    assert choose_dealing(varied(mean_s=0.08), 8, rows=2_000, pieces=True).by_cost
    assert choose_dealing(varied(mean_s=0.08), 8, rows=2_000, pieces=True, objective="batch-time").by_cost


def test_a_giant_among_many_wide_rows_goes_out_in_pieces():
    """Routers see it when half of the others are dealt, and wide rows are not for one router."""
    rows = 100_000
    costs = learnt(np.minimum(np.arange(rows), 1), np.r_[0.3 / 0.7 * (rows - 1) * 3e-4, np.full(rows - 1, 3e-4)])
    choice = choose_dealing(costs, 8, rows=rows, row_bytes=1e4, slots=2, pieces=True)
    assert choice.way == "in pieces"
    assert choice.gain > 0.05
