"""Dealing rows to instances: the same as row by row with a heap, and within LPT's bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from evenly.costs import BatchDealer, CostTable, deal, levels
from evenly.errors import InvalidCost, InvalidParameter

# Whole costs and speeds that are powers of two: every sum is exact, so ties are the same for both.
whole_levels = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), min_size=1, max_size=8)
loads_and_speeds = st.integers(1, 9).flatmap(
    lambda k: st.tuples(
        st.lists(st.integers(0, 300), min_size=k, max_size=k),
        st.lists(st.sampled_from([0.125, 0.25, 0.5, 1.0, 2.0, 4.0]), min_size=k, max_size=k),
        st.integers(0, k - 1),
    )
)


@given(whole_levels, loads_and_speeds, st.booleans())
def test_dealing_levels_is_dealing_rows_one_by_one_to_where_they_end_first(rows, stage, unequal):
    start_loads, speeds, start = stage
    speeds = speeds if unequal else [1.0] * len(speeds)
    rows = sorted(rows, key=lambda level: -level[1])
    loads = np.array(start_loads, np.float64)
    dealt = deal(
        np.array([n for n, _ in rows]), np.array([e for _, e in rows], float), loads, speeds=np.array(speeds), start=start
    )
    slow_loads = [float(load) for load in start_loads]
    for (n, cost), counts in zip(rows, dealt, strict=True):
        chosen = naive.dealt_one_by_one([float(cost)] * n, slow_loads, speeds=speeds, start=start)
        assert counts.tolist() == np.bincount(chosen, minlength=len(speeds)).tolist()
    assert loads.tolist() == slow_loads


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.booleans())
def test_with_any_costs_the_finish_times_are_those_of_the_heap(seed, instances, unequal):
    rng = np.random.default_rng(seed)
    counts, costs = rng.integers(0, 200, 12), np.sort(np.exp(rng.normal(0, 3, 12)))[::-1]
    speeds = rng.uniform(0.05, 3.0, instances) if unequal else np.ones(instances)
    loads = np.exp(rng.normal(0, 2, instances))
    slow = loads.tolist()
    deal(counts, costs, loads, speeds=speeds)
    naive.dealt_one_by_one(np.repeat(costs, counts).tolist(), slow, speeds=speeds.tolist())
    # Rounding may decide a tie the other way, which exchanges two instances of equal speed.
    assert (loads / speeds).max() == pytest.approx(max(np.array(slow) / speeds))
    assert loads.sum() == pytest.approx(sum(slow))


@given(st.lists(st.integers(1, 12), min_size=1, max_size=9), st.integers(1, 3))
def test_longest_first_ends_within_four_thirds_of_the_least_possible(costs, instances):
    costs = sorted(costs, reverse=True)
    loads = np.zeros(instances)
    deal(np.ones(len(costs), np.int64), np.array(costs, float), loads)
    assert loads.max() <= (4 / 3 - 1 / (3 * instances)) * naive.least_possible_maximum(costs, instances) + 1e-9


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 17, 1000]), st.floats(1e-9, 1e9))
def test_every_row_is_dealt_however_small_its_cost_is_beside_the_loads(seed, rows, scale):
    rng = np.random.default_rng(seed)
    loads = rng.random(7) * 1e6
    costs = np.sort(rng.random(5))[::-1] * 1e-6 * scale
    dealt = deal(np.full(5, rows), costs, loads, speeds=rng.uniform(0.5, 2.0, 7))
    assert dealt.sum(axis=1).tolist() == [rows] * 5
    assert (dealt >= 0).all()


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=200), st.floats(0.001, 1.0))
def test_levels_hold_like_estimates_from_the_most_expensive_down_and_keep_their_sum(estimates, step):
    values = np.array(estimates)
    of_row, costs = levels(values, step)
    assert costs[of_row].sum() == pytest.approx(values.sum())
    assert (np.diff(costs) <= 0.0).all()
    for level in range(costs.size):
        own = values[of_row == level]
        assert own.max() <= own.min() * (1 + step) * (1 + 1e-9)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 20),
    st.sampled_from(["longest-first", "arrival", "even"]),
    st.lists(st.integers(0, 300), min_size=1, max_size=4),
    st.booleans(),
)
def test_every_row_of_every_chunk_gets_an_instance_and_its_estimate_and_the_same_again(seed, instances, rule, chunks, unequal):
    rng = np.random.default_rng(seed)
    table = CostTable(np.arange(30), np.exp(rng.normal(0, 2, 31)))
    shares = rng.uniform(0.1, 1.0, instances) if unequal else None
    one, two = (BatchDealer(table, instances, rule=rule, start=seed % 50, shares=shares) for _ in range(2))
    loads = np.zeros(instances)
    for rows in chunks:
        ids = rng.integers(-5, 40, rows)
        placed, estimates = one.route(ids)
        assert (placed.dtype, placed.shape) == (np.int32, (rows,))
        assert ((placed >= 0) & (placed < instances)).all()
        assert estimates.tolist() == table.estimate(ids).tolist()
        assert two.route(ids)[0].tolist() == placed.tolist()
        loads += np.bincount(placed, estimates, instances)
    # "longest-first" counts a row at the mean of its level, which keeps the sum.
    assert one.loads.sum() == pytest.approx(loads.sum())
    assert one.loads == pytest.approx(loads, rel=0.02)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.booleans())
def test_the_arrival_rule_is_the_greedy_one(seed, instances, unequal):
    rng = np.random.default_rng(seed)
    table = CostTable(np.arange(9), 2.0 ** rng.integers(-3, 6, 10))
    shares = 2.0 ** rng.integers(0, 4, instances) if unequal else np.ones(instances)
    dealer = BatchDealer(table, instances, rule="arrival", start=seed % instances, shares=shares)
    loads = [0.0] * instances
    for _ in range(2):
        ids = rng.integers(0, 10, 150)
        costs = table.estimate(ids).tolist()
        assert dealer.route(ids)[0].tolist() == naive.dealt_one_by_one(
            costs, loads, speeds=shares.tolist(), start=seed % instances
        )


@given(st.integers(1, 12), st.integers(0, 100), st.sampled_from(["longest-first", "arrival", "even"]))
def test_a_router_begins_at_its_own_instance(instances, start, rule):
    one = BatchDealer(CostTable.constant(), instances, rule=rule, start=start)
    assert one.route(np.array([1]))[0].tolist() == [start % instances]


@given(st.integers(0, 2**32 - 1))
def test_shares_are_kept(seed):
    rng = np.random.default_rng(seed)
    shares = rng.uniform(0.2, 1.0, 6)
    table = CostTable(np.arange(50), rng.uniform(0.5, 2.0, 51))
    ids = rng.integers(0, 50, 6_000)
    for rule in ("longest-first", "arrival", "even"):
        placed, estimates = BatchDealer(table, 6, rule=rule, shares=shares).route(ids)
        given_out = np.bincount(placed, None if rule == "even" else estimates, 6)
        assert given_out / given_out.sum() == pytest.approx(shares / shares.sum(), rel=0.02)


def test_what_cannot_be_dealt_is_refused():
    for bad in (np.nan, -1.0, np.inf):
        with pytest.raises(InvalidCost, match=rf"estimates\[1\] is {bad}"):
            levels(np.array([1.0, bad]))
        with pytest.raises(InvalidCost, match=rf"loads\[0\] is {bad}"):
            BatchDealer(None, 2, loads=[bad, 1.0])
    with pytest.raises(InvalidParameter, match="instances must be a whole number from 1"):
        BatchDealer(None, 0)
    with pytest.raises(InvalidParameter, match="'shortest'"):
        BatchDealer(None, 2, rule="shortest")
    with pytest.raises(InvalidParameter, match="2 finite numbers above 0"):
        BatchDealer(None, 2, shares=[1.0, 0.0])
    with pytest.raises(InvalidParameter, match="step"):
        levels(np.ones(2), 0.0)
