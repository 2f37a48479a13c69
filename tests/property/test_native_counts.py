"""What an engine counts in one pass, and the mapping that is made of it: as if every row had been read."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.keys.dkg import DKG
from evenly.keys.native_counts import ORDERS, NativeCounts, fine_buckets, octave_bit
from evenly.keys.sampled_rows import counts_of
from evenly.keys.turns import TURNS, later_turns
from evenly.measures.load import imbalance_pct, instance_loads
from evenly.streams import zipf


def mixed(keys):
    return keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def learner(instances):
    return lambda: DKG.automatic(instances, ids="xxhash64")


def places(parts):
    return {
        "rows": np.concatenate([np.arange(part.size) for part in parts]),
        "partitions": np.concatenate([np.full(part.size, number) for number, part in enumerate(parts)]),
    }


def counted(parts, instances, weights=None):
    """What the aggregates of Spark give for partitions of ids, by the obvious way."""
    buckets = fine_buckets(learner(instances)())
    ids = np.concatenate(parts)
    weights = np.ones(ids.size) if weights is None else weights
    at = places(parts)
    octave = {order: np.floor(np.log2(at[order] + 1)).astype(int) for order in ORDERS}
    sums = [weights, *(np.where(octave[order] % TURNS == turn, weights, 0.0) for order in ORDERS for turn in (1, 2))]
    keys, of = np.unique(ids, return_inverse=True)
    by_id = np.column_stack([np.bincount(of, one, keys.size) for one in sums])
    fine = keys.view(np.int64) % buckets
    numbers, place = np.unique(fine, return_inverse=True)
    whole = np.column_stack([np.bincount(place, one, numbers.size) for one in by_id.T])
    heaviest_first = np.lexsort((-by_id[:, 0] * (1.0 + (keys >> np.uint64(44)) / 2.0**44), fine))
    winners = heaviest_first[np.unique(fine[heaviest_first], return_index=True)[1]]
    seen = sum({1 << (octave_bit(order) + each) for order in ORDERS for each in set(octave[order].tolist())})
    return NativeCounts(numbers, whole, keys[winners], by_id[winners], float(np.square(weights).sum()), seen, ids.size)


@pytest.mark.parametrize("instances", [1, 8, 1_000])
def test_all_rows_are_in_the_mapping_and_its_loads_are_those_of_the_rows(instances):
    ids = mixed(zipf(1.0, 5_000).draw(30_000, seed=1))
    mapping = counted(np.split(ids, 5), instances).mapping(learner(instances))
    assert mapping.fitted_loads.sum() == ids.size
    assert mapping.fitted_loads == pytest.approx(instance_loads(mapping.assign_ids(ids), instances))


@pytest.mark.parametrize(("alpha", "keys"), [(0.0, 40), (0.8, 50_000), (1.5, 5_000)])
def test_it_is_as_even_as_what_is_learnt_from_every_row(alpha, keys):
    ids = mixed(zipf(alpha, keys).draw(30_000, seed=2))
    mapping, best = counted(np.split(ids, 3), 8).mapping(learner(8)), learner(8)().fit_ids(ids).mapping()
    assert mapping.fitted_imbalance_pct < best.fitted_imbalance_pct + 0.5


def test_weights_and_not_rows_are_evened_out():
    ids = mixed(np.arange(4_000) % 400)
    weights = np.square(1.0 + np.arange(4_000) % 400)
    of_weights, of_rows = (counted([ids], 8, one).mapping(learner(8)) for one in (weights, None))
    assert imbalance_pct(instance_loads(of_weights.assign_ids(ids), 8, weights)) < 1.0
    assert imbalance_pct(instance_loads(of_rows.assign_ids(ids), 8, weights)) > 3.0


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_keys_that_change_in_either_order_show_in_the_range(partitions):
    first, last = (mixed(zipf(0.5, 300).draw(20_000, seed=seed) + 1_000 * seed) for seed in (4, 5))
    mapping = counted(np.array_split(np.concatenate([first, last]), partitions), 8).mapping(learner(8))
    steady = counted(np.array_split(np.concatenate([first, first]), partitions), 8).mapping(learner(8))
    assert mapping.expected_range_pct[1] > 15.0
    assert steady.expected_range_pct[1] < 10.0


def test_no_rows_and_one_row_expect_nothing():
    one = counted([mixed(np.array([7]))], 4)
    assert one.mapping(learner(4)).expectation is None
    none = NativeCounts(*(part[:0] for part in (one.fine, one.weights, one.ids, one.own_weights)), 0.0, 0, 0.0)
    assert none.mapping(learner(4)).fitted_loads.sum() == 0.0


def test_what_is_read_is_bounded_whatever_the_number_of_instances():
    for instances in (1, 3, 16, 100, 1_000, 10_000):
        own = learner(instances)()
        assert fine_buckets(own) % own.bucket_count == 0
        assert 4_000 < fine_buckets(own) <= 65_536


@given(st.lists(st.integers(1, 100), min_size=2, max_size=40), st.integers(0, 2**32))
def test_sums_of_fractions_do_not_depend_on_their_order(rows, seed):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.0, 3.0, len(rows))
    ids = mixed(np.array(rows))
    order = rng.permutation(len(rows))
    one, other = (counted([ids], 4, weights).coarse(), counted([ids[order]], 4, weights[order]).coarse())
    assert (one.weights[:, 0] == other.weights[:, 0]).all()
    assert one.weights[:, 0].sum() == pytest.approx(weights.sum(), rel=1e-5)


@given(st.lists(st.lists(st.integers(0, 9)), min_size=1, max_size=4), st.sampled_from([1, 8]), st.integers(1, 50))
def test_rows_that_are_in_memory_here_are_counted_as_aggregates_would(parts, buckets_of, stands):
    """Few ids, some of one fine bucket, so that the heaviest differ and tie; and ids below 0."""
    parts = [np.array([mixed(np.array(key)) if key % 2 else 8_192 * key for key in part], np.uint64) for part in parts]
    ids, weights = np.concatenate(parts), np.full(sum(map(len, parts)), float(stands))
    buckets = fine_buckets(learner(buckets_of)())
    assert_same(counts_of(ids, places(parts), buckets, stands=stands), counted(parts, buckets_of, weights))


def test_many_rows_in_memory_here_take_200_bytes_each():
    parts = np.split(mixed(zipf(0.5, 50_000).draw(100_000, seed=8)), 5)
    at, ids, buckets = places(parts), np.concatenate(parts), fine_buckets(learner(16)())
    tracemalloc.start()
    found = counts_of(ids, at, buckets)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert_same(found, counted(parts, 16))
    assert most < 200 * ids.size


def assert_same(one, other):
    for name in ("fine", "weights", "ids", "own_weights"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    told = (one.squares, one.octaves, one.rows)
    assert told == (other.squares, other.octaves, other.weights[:, 0].sum())


@given(st.integers(2, 5_000_000))
def test_what_came_later_is_a_part_worth_looking_at(rows):
    last = int(math.log2(rows))
    sums = [0, 0, 0]
    for octave in range(last + 1):
        sums[octave % TURNS] += min(2**octave, rows - 2**octave + 1)
    turns = later_turns(sums, last)
    share = sum(sums[turn] for turn in turns) / rows
    assert last % TURNS in turns
    assert 0.25 <= share <= (0.8 if rows > 3 else 1.0)
