"""What CostSketch promises, for one sketch and for merged ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from evenly.errors import DamagedData, EmptyStream, IncompatibleMerge, InvalidCost
from evenly.sketches import CostSketch, SpaceSaving, UniversalHash
from evenly.streams import spread_costs, zipf

SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 60))
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def measured_streams(draw):
    """Keys with whole costs in ms, which floats sum exactly."""
    keys = zipf(draw(st.sampled_from([0.5, 1.0, 2.0])), 300).draw(draw(st.sampled_from([1_000, 200, 20, 1])), seed=draw(SEEDS))
    return keys, np.random.default_rng(draw(SEEDS)).integers(0, 65, keys.size).astype(float)


def sketch_of(stream, shape, seed=0):
    sketch = CostSketch(*shape, seed=seed)
    sketch.update(*stream)
    return sketch


def naive_of(stream, shape, seed=0):
    hashes = [UniversalHash(shape[1], seed=seed, row=row) for row in range(shape[0])]
    pair = naive.CountMinPair([(drawn.a, drawn.b) for drawn in hashes], shape[1])
    pair.update(stream[0].tolist(), stream[1].tolist())
    return pair


@given(measured_streams(), SHAPES, st.integers())
def test_frequency_and_cost_are_those_of_a_dictionary_of_cells(stream, shape, seed):
    sketch, pair = sketch_of(stream, shape, seed), naive_of(stream, shape, seed)
    asked = [*np.unique(stream[0]).tolist(), *range(10**9, 10**9 + 50)]
    assert sketch.frequency(asked).tolist() == [pair.frequency(key) for key in asked]
    assert sketch.cost(asked).tolist() == [pair.cost(key) for key in asked]


@given(measured_streams(), SHAPES)
def test_frequency_is_never_below_the_truth(stream, shape):
    true = naive.exact_counts(stream[0].tolist())
    assert (sketch_of(stream, shape).frequency(list(true)) >= list(true.values())).all()


@given(measured_streams(), SHAPES, SEEDS)
def test_cost_lies_between_the_least_and_the_greatest_seen(stream, shape, seed):
    keys, _ = stream
    costs = np.random.default_rng(seed).uniform(0.5, 70.0, keys.size)
    estimates = sketch_of((keys, costs), shape).cost([*keys.tolist(), 10**9])
    rounding = 1e-9
    assert costs.min() - rounding <= estimates.min() <= estimates.max() <= costs.max() + rounding


@given(measured_streams())
def test_a_key_in_an_empty_cell_is_given_the_mean_cost_or_what_the_caller_says(stream):
    sketch = sketch_of(stream, (4, 5_000))
    absent = np.arange(10**9, 10**9 + 200)
    absent = absent[sketch.frequency(absent) == 0]
    assert absent.size > 0
    assert sketch.mean_cost == stream[1].mean()
    assert set(sketch.cost(absent).tolist()) == {stream[1].sum() / stream[1].size}
    assert set(sketch.cost(absent, unseen=7.5).tolist()) == {7.5}


def test_what_the_caller_says_of_unseen_keys_changes_nothing_for_seen_ones():
    sketch = sketch_of((np.array([1, 1]), np.array([2.0, 4.0])), (4, 55))
    assert sketch.cost([1], unseen=99.0).tolist() == [3.0]


@given(measured_streams(), SEEDS, st.integers(2, 6), SHAPES)
def test_merged_sketches_equal_one_sketch_of_all_tuples(stream, seed, count, shape):
    owner = np.random.default_rng(seed).integers(0, count, stream[0].size)
    first, *others = [sketch_of((stream[0][owner == part], stream[1][owner == part]), shape) for part in range(count)]
    for other in others:
        first.merge(other)
    assert first.to_bytes() == sketch_of(stream, shape).to_bytes()


@given(measured_streams(), measured_streams(), SHAPES, st.integers(-(2**63), 2**63 - 1))
def test_a_sketch_read_back_goes_on_as_the_first_would(stream, more, shape, seed):
    sketch = sketch_of(stream, shape, seed)
    again = CostSketch.from_bytes(sketch.to_bytes())
    for one in (sketch, again):
        one.update(*more)
    assert again.to_bytes() == sketch.to_bytes()
    assert again.cost(more[0]).tolist() == sketch.cost(more[0]).tolist()


def test_a_sketch_of_any_seed_can_be_saved():
    assert CostSketch.from_bytes(CostSketch(seed=2**64).to_bytes()).seed == 2**64


@given(measured_streams(), SHAPES)
def test_every_row_holds_every_tuple_and_all_the_cost(stream, shape):
    tuples, costs = sketch_of(stream, shape).matrices
    assert tuples.shape == costs.shape == shape
    assert (tuples.sum(axis=1) == stream[0].size).all()
    assert (costs.sum(axis=1) == stream[1].sum()).all()


@pytest.mark.parametrize(("epsilon", "delta", "shape"), [(0.05, 0.1, (4, 55)), (0.5, 0.5, (1, 6)), (0.01, 0.001, (10, 272))])
def test_precision_gives_the_papers_shape(epsilon, delta, shape):
    sketch = CostSketch.for_precision(epsilon=epsilon, delta=delta)
    assert (sketch.rows, sketch.columns) == shape


def test_the_over_estimate_stays_within_the_precision_for_most_keys_and_seeds():
    keys = zipf(1.0, 2_000).draw(20_000, seed=3)
    costs = np.ones(keys.size)
    true = naive.exact_counts(keys.tolist())
    too_high = [
        sketch_of((keys, costs), (4, 55), seed).frequency(list(true)) - list(true.values()) > 0.05 * keys.size
        for seed in range(20)
    ]
    assert np.mean(too_high) <= 0.1


def test_costs_that_depend_on_the_key_are_learnt():
    cost_of = spread_costs(1_000, seed=1)
    ranks = zipf(1.5, 1_000).draw_ranks(50_000, np.random.default_rng(1))
    sketch = sketch_of((ranks, cost_of[ranks]), (4, 55))
    assert sketch.cost([0, 1, 2]) == pytest.approx(cost_of[:3], rel=0.15)


def test_memory_does_not_grow_with_the_stream():
    small, large = (sketch_of((np.arange(n), np.ones(n)), (4, 55)) for n in (1, 100_000))
    assert small.memory_bytes == large.memory_bytes == 4 * 55 * 16 + 4 * 16
    assert (small.tuples, large.tuples) == (1, 100_000)


def test_an_empty_sketch_has_no_mean_cost():
    with pytest.raises(EmptyStream):
        CostSketch().cost([1])
    assert CostSketch().cost([1], unseen=4.0).tolist() == [4.0]
    assert CostSketch().frequency([1]).tolist() == [0.0]


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_a_refused_cost_leaves_the_sketch_as_it_was(bad):
    sketch = sketch_of((np.arange(9), np.ones(9)), (4, 55))
    before = sketch.to_bytes()
    with pytest.raises(InvalidCost, match=rf"costs\[2\] is {bad}"):
        sketch.update([1, 2, 3], [1.0, 1.0, bad])
    assert sketch.to_bytes() == before


@pytest.mark.parametrize(
    "other", [CostSketch(3, 55), CostSketch(4, 54), CostSketch(4, 55, seed=1)], ids=["rows", "columns", "seed"]
)
def test_sketches_that_are_not_alike_are_not_merged(other):
    with pytest.raises(IncompatibleMerge, match=f"{other.rows} x {other.columns} one with seed {other.seed}"):
        CostSketch().merge(other)


@pytest.mark.parametrize("data", [b"", b"nonsense", CostSketch().to_bytes()[:-30], SpaceSaving(3).to_bytes()])
def test_bytes_of_something_else_are_refused(data):
    with pytest.raises(DamagedData, match="cost-sketch"):
        CostSketch.from_bytes(data)
