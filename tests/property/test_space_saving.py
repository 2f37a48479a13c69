"""What SpaceSaving promises, for one summary and for merged ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenly.errors import DamagedData, IncompatibleMerge, InvalidCost
from evenly.sketches import SpaceSaving
from evenly.streams import zipf

CAPACITIES = st.one_of(st.integers(1, 40), st.sampled_from([150, 300]))
SEEDS = st.integers(0, 2**32 - 1)
SKEWS = st.sampled_from([0.0, 0.5, 1.0, 2.0])


@st.composite
def streams(draw, *, tuples=(6_000, 3_000, 1_000, 300, 0)):
    """Keys of more kinds than there are places, so that counters are let go; half-way others become the hot ones."""
    stream, half = zipf(draw(SKEWS), draw(st.sampled_from([3_000, 1_000, 300]))), draw(st.sampled_from(tuples)) // 2
    seed = draw(SEEDS)
    return np.concatenate([stream.draw(half, seed=seed), stream.draw(half, seed=seed + 1)])


def whole_weights(keys, seed):
    """Weights whose sums floats hold exactly, 0 among them."""
    return np.random.default_rng(seed).integers(0, 9, keys.size).astype(float)


def broken_promises(summary, keys, weights=None, rounding=0.0):
    true = naive.exact_counts(keys.tolist(), None if weights is None else weights.tolist())
    estimates, errors = summary.estimate(np.array(list(true), np.int64))
    return list(
        naive.broken_space_saving_promises(
            true,
            summary.capacity,
            estimates=dict(zip(true, zip(estimates.tolist(), errors.tolist(), strict=True), strict=True)),
            counted=set(summary.counters()[0].tolist()),
            floor=summary.floor,
            rounding=rounding,
        )
    )


def summary_of(keys, capacity, weights=None):
    summary = SpaceSaving(capacity)
    summary.update(keys, weights)
    return summary


def merged(parts, capacity, weights=None):
    first, *others = [
        summary_of(part, capacity, None if weights is None else own)
        for part, own in zip(parts, parts if weights is None else weights, strict=True)
    ]
    for other in others:
        first.merge(other)
    return first


def dealt(array, owner, count):
    return [array[owner == part] for part in range(count)]


@given(streams(), CAPACITIES)
def test_every_bound_holds_for_counted_tuples(keys, capacity):
    summary = summary_of(keys, capacity)
    assert summary.total == keys.size
    assert broken_promises(summary, keys) == []


@given(streams(), CAPACITIES, SEEDS)
def test_every_bound_holds_for_whole_weights(keys, capacity, seed):
    weights = whole_weights(keys, seed)
    summary = summary_of(keys, capacity, weights)
    assert summary.total == weights.sum()
    assert broken_promises(summary, keys, weights) == []


@given(streams(), CAPACITIES, SEEDS)
def test_every_bound_holds_for_float_weights_up_to_rounding(keys, capacity, seed):
    weights = np.random.default_rng(seed).pareto(1.0, keys.size)
    assert broken_promises(summary_of(keys, capacity, weights), keys, weights, rounding=1e-12) == []


@given(streams(tuples=(8_000, 2_000)), CAPACITIES, st.integers(2, 8), SEEDS)
def test_every_bound_holds_after_a_merge_of_any_partition_of_the_stream(keys, capacity, count, seed):
    owner = np.random.default_rng(seed).integers(0, count, keys.size)
    summary = merged(dealt(keys, owner, count), capacity)
    assert summary.total == keys.size
    assert broken_promises(summary, keys) == []


@given(streams(), CAPACITIES, st.integers(2, 8), SEEDS)
def test_every_bound_holds_after_a_merge_of_parts_that_share_no_key(keys, capacity, count, seed):
    weights = whole_weights(keys, seed)
    owner = keys % count
    summary = merged(dealt(keys, owner, count), capacity, dealt(weights, owner, count))
    assert broken_promises(summary, keys, weights) == []


@pytest.mark.parametrize("at_sampled_places", [1.0, 100.0])
@given(st.sampled_from([128, 200, 256]), st.integers(1, 400), st.integers(2, 600))
@settings(max_examples=20)
def test_every_bound_holds_where_the_counters_that_are_sampled_mislead(at_sampled_places, capacity, some, outlier):
    """Letting go looks at every 2nd to 4th counter first: those are all alike here, and unlike the rest."""
    places = 4 * capacity
    weights = np.ones(places + 2_000)
    sampled = np.arange(0, places, places // 256)
    weights[:places] = 101.0 - at_sampled_places
    weights[sampled[:some]] = at_sampled_places
    weights[outlier] = 99.0
    keys = np.arange(weights.size)
    assert broken_promises(summary_of(keys, capacity, weights), keys, weights) == []


@given(streams(), streams(), streams(), CAPACITIES)
@settings(max_examples=40)
def test_a_merged_summary_can_be_updated_and_merged_again(before, other, after, capacity):
    summary = summary_of(before, capacity).merge(summary_of(other, capacity))
    summary.update(after)
    summary.merge(summary_of(other, capacity))
    assert broken_promises(summary, np.concatenate([before, other, after, other])) == []


@given(streams(), CAPACITIES, SEEDS, st.lists(st.integers(0, 6_000), max_size=6))
def test_how_the_stream_is_cut_into_calls_makes_no_difference(keys, capacity, seed, cuts):
    weights = whole_weights(keys, seed)
    cut = SpaceSaving(capacity)
    for part, own in zip(np.split(keys, sorted(cuts)), np.split(weights, sorted(cuts)), strict=True):
        cut.update(part, own)
    assert cut.to_bytes() == summary_of(keys, capacity, weights).to_bytes()


def test_how_the_stream_is_cut_makes_no_difference_to_float_weights_either():
    rng = np.random.default_rng(2)
    keys, weights = rng.integers(0, 50, 1_000), rng.random(1_000)
    cut = SpaceSaving(4)
    for at in range(0, 1_000, 10):
        cut.update(keys[at : at + 10], weights[at : at + 10])
    assert cut.to_bytes() == summary_of(keys, 4, weights).to_bytes()


@given(streams(), streams(), CAPACITIES)
def test_a_summary_read_back_goes_on_as_the_first_would(keys, more, capacity):
    summary = summary_of(keys, capacity)
    again = SpaceSaving.from_bytes(summary.to_bytes())
    for one in (summary, again):
        one.update(more)
    assert again.to_bytes() == summary.to_bytes()
    assert np.array_equal(again.estimate(keys), summary.estimate(keys))


@given(streams(), CAPACITIES, SEEDS)
def test_a_weight_is_as_good_as_that_many_tuples(keys, capacity, seed):
    weights = whole_weights(keys, seed)
    repeated = summary_of(np.repeat(keys, weights.astype(int)), capacity)
    assert summary_of(keys, capacity, weights).to_bytes() == repeated.to_bytes()


@given(st.lists(st.integers(0, 200), max_size=2_000), CAPACITIES)
def test_counts_are_exact_while_all_keys_have_a_counter(keys, capacity):
    summary = summary_of(np.array(keys, np.int64), capacity)
    ids, counts, errors = summary.counters()
    assert dict(zip(ids.tolist(), counts.tolist(), strict=True)) == naive.exact_counts(keys)
    assert not errors.any()


@given(streams(), CAPACITIES)
def test_counters_come_largest_first_and_by_id_where_equal(keys, capacity):
    ids, counts, errors = summary_of(keys, capacity).counters()
    rows = list(zip((-counts).tolist(), ids.tolist(), strict=True))
    assert rows == sorted(rows)
    assert ids.size == counts.size == errors.size


@given(streams(), CAPACITIES, st.floats(0.0, 1.0))
def test_heavy_gives_only_sure_keys_or_else_misses_none(keys, capacity, quantile):
    summary = summary_of(keys, capacity)
    true = naive.exact_counts(keys.tolist())
    threshold = float(np.quantile([1.0, *summary.counters()[1]], quantile))
    sure, _, _ = summary.heavy(threshold)
    assert all(true[key] >= threshold for key in sure.tolist())
    assert all(key in sure for key, count, error in zip(*summary.counters(), strict=True) if count - error >= threshold)
    threshold = max(threshold, np.nextafter(summary.total / capacity, np.inf))
    possible, _, _ = summary.heavy(threshold, certain=False)
    assert {key for key, weight in true.items() if weight >= threshold} <= set(possible.tolist())


@given(streams(tuples=(20_000, 1_000)), CAPACITIES)
@settings(max_examples=20)
def test_memory_does_not_grow_with_the_stream(keys, capacity):
    empty = SpaceSaving(capacity)
    most = max(4 * capacity, 256)
    summary = summary_of(keys, capacity)
    assert summary.memory_bytes == empty.memory_bytes
    assert min(capacity, np.unique(keys).size) <= len(summary) <= most


@given(streams(), CAPACITIES)
def test_a_key_without_a_counter_is_given_the_floor_twice(keys, capacity):
    summary = summary_of(keys, capacity)
    estimate, error = summary.estimate([10**12])
    assert (estimate.tolist(), error.tolist()) == ([summary.floor], [summary.floor])


def test_a_refused_weight_leaves_the_summary_as_it_was():
    summary = summary_of(np.arange(10), 4)
    before = summary.to_bytes()
    with pytest.raises(InvalidCost, match=r"weights\[1\] is -2.0"):
        summary.update([1, 2], [1.0, -2.0])
    assert summary.to_bytes() == before


def test_text_and_integers_and_nulls_are_counted():
    summary = SpaceSaving(4)
    summary.update(["a", None, "a", b"a"])
    assert [part.tolist() for part in summary.estimate(["a", None, "b"])] == [[3.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


def test_summaries_of_different_capacity_are_not_merged():
    with pytest.raises(IncompatibleMerge, match="4 and 5"):
        SpaceSaving(4).merge(SpaceSaving(5))


SAVED = summary_of(zipf(1.0, 500).draw(5_000, seed=1), 4).to_bytes()


@given(st.integers(0, len(SAVED) - 1))
def test_truncated_bytes_are_refused(length):
    with pytest.raises(DamagedData, match="space-saving"):
        SpaceSaving.from_bytes(SAVED[:length])


def test_no_flipped_bit_gives_another_summary_or_another_error():
    for bit in range(0, 8 * len(SAVED), 7):
        flipped = bytearray(SAVED)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            again = SpaceSaving.from_bytes(bytes(flipped))
        except DamagedData:
            continue
        assert again.to_bytes() == SAVED
