"""What a mapping is expected to do with rows that it was not learnt from, held against rows that then come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.errors import DamagedData
from evenly.keys.dkg import DKG, KeyCounts
from evenly.keys.drift import rebuild
from evenly.keys.expectation import Expectation, Weighed, expectation
from evenly.keys.held_back import CountedRows, learnt_mapping
from evenly.keys.later_rows import LaterRows
from evenly.keys.mapping import Mapping
from evenly.measures.load import imbalance_pct, instance_loads
from evenly.sealed import sealed
from evenly.streams import zipf

RUNS = 12


def learner(instances):
    return lambda: DKG.automatic(instances, ids="xxhash64")


def counts(ids, instances, *, sketched):
    """Rows in the buckets of a learner, and their heaviest keys: all of them, or those that a sketch knows."""
    if sketched:
        return CountedRows(learner(instances)().fit_ids(ids).counts(), ids.size)
    own = learner(instances)()
    keys, found = np.unique(ids, return_counts=True)
    heavy = found >= 0.5 * own.theta * ids.size
    buckets = instance_loads(own.buckets_of(ids), own.bucket_count)
    return CountedRows(KeyCounts(buckets, keys[heavy], found[heavy].astype(float)), ids.size)


def learnt(parts, instances, *, sketched=False):
    """A mapping of partitions, held against the later half of each, and against the last half of them."""
    later = [np.concatenate([part[part.size // 2 :] for part in parts])]
    later += [np.concatenate(parts[len(parts) // 2 :])] * (len(parts) > 1)
    told = [counts(ids, instances, sketched=sketched) for ids in (np.concatenate(parts), *later)]
    return learnt_mapping(told[0], told[1:], learner(instances))


def mixed(ids):
    return ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def measured(mapping, ids):
    return imbalance_pct(instance_loads(mapping.assign_ids(ids), mapping.instances))


@pytest.mark.parametrize("sketched", [False, True])
@pytest.mark.parametrize("instances", [2, 8, 32])
@pytest.mark.parametrize(("alpha", "keys"), [(0.0, 500), (0.8, 50_000), (1.0, 2_000), (1.5, 5_000)])
def test_new_rows_of_the_same_kind_are_in_the_range(alpha, keys, instances, sketched):
    rows, partitions, inside, widths = 12_000, 4, 0, []
    for run in range(RUNS):
        ids = mixed(zipf(alpha, keys).draw(2 * rows, seed=run))
        seen, new = ids[:rows], ids[rows:]
        mapping = learnt(np.split(seen, partitions), instances, sketched=sketched)
        low, high = mapping.expected_range_pct
        assert low <= mapping.expected_imbalance_pct <= high
        inside += low <= measured(mapping, new) <= high
        widths.append(high - low)
    assert inside >= 0.9 * RUNS
    # It says something: the range is no wider than a few times what chance alone makes of so many rows.
    chance = 100.0 * np.sqrt(2.0 * np.log(max(instances, 2)) * instances / rows)
    assert np.mean(widths) < 4.0 * chance * max(1.0, np.sqrt(instances * zipf(alpha, keys).probabilities.max()))


def drifting(rows, keys, steps, seed):
    """Zipf keys, of which others become popular from step to step."""
    rng = np.random.default_rng(seed)
    ranks = zipf(1.0, keys).draw_ranks(rows, rng)
    step = np.arange(rows) * steps // rows
    names = np.array([rng.permutation(keys) for _ in range(steps)])
    return mixed(names[step, ranks])


@pytest.mark.parametrize("partitions", [1, 8])
def test_keys_that_change_show_in_the_range_though_the_past_is_even(partitions):
    for seed in range(4):
        ids = drifting(80_000, 2_000, 16, seed)
        seen, new = ids[:40_000], ids[40_000:]
        mapping = learnt(np.split(seen, partitions), 8)
        came = measured(mapping, new)
        assert mapping.fitted_imbalance_pct < 0.5
        assert came > 8.0
        assert mapping.expected_range_pct[1] > 0.7 * came


def test_a_change_between_partitions_shows_though_none_changes_in_itself():
    first, last = (mixed(zipf(0.5, 300).draw(20_000, seed=seed)) for seed in (4, 5))
    mapping = learnt([first, last], 8)
    unchanged = learnt([first[::2], first[1::2]], 8)
    assert mapping.expected_range_pct[1] > 15.0
    assert unchanged.expected_range_pct[1] < 10.0


def test_all_rows_make_the_mapping():
    ids = mixed(zipf(0.5, 300).draw(20_000, seed=4))
    mapping = learnt(np.split(ids, 4), 8)
    assert mapping.fitted_loads.sum() == ids.size
    assert mapping.fitted_imbalance_pct < 1.0


def test_nothing_learnt_says_nothing_of_new_rows():
    mapping = learnt([np.zeros(0, np.uint64)], 4)
    assert (mapping.expected_imbalance_pct, mapping.expected_range_pct) == (None, None)
    assert DKG(4).fit(np.arange(100)).mapping().expected_imbalance_pct is None


def test_one_row_alone_is_no_error():
    assert learnt([np.array([7], np.uint64)], 4).expectation is None


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=20), st.floats(1.0, 1e9), st.floats(1.0, 1e9), st.integers(0, 2**32))
def test_a_range_is_in_order_whatever_the_loads(loads, rows, new_rows, seed):
    capacities = np.random.default_rng(seed).uniform(0.1, 10.0, len(loads))
    weighed = Weighed(np.array(loads), rows)
    found = expectation(weighed, [weighed], new_rows=new_rows, capacities=capacities)
    assert (found is None) == (not any(loads))
    assert found is None or 0.0 <= found.low_pct <= found.imbalance_pct <= found.high_pct


def test_more_rows_say_it_more_closely():
    loads = np.array([30.0, 20.0, 25.0, 25.0])
    wide, narrow = (expectation(Weighed(loads, n), [Weighed(loads, n)], new_rows=1e9) for n in (1e3, 1e5))
    assert wide.low_pct < narrow.low_pct < 20.0 < narrow.high_pct < wide.high_pct


def test_instances_of_unequal_capacity_that_are_full_alike_are_even():
    even = Weighed(np.array([10.0, 20.0, 30.0]), 1e8)
    assert expectation(even, [even], new_rows=1e8, capacities=np.array([1.0, 2.0, 3.0])).high_pct < 0.1
    assert expectation(even, [even], new_rows=1e8).low_pct > 49.0


def test_held_against_later_keys_a_mapping_tells_what_to_expect():
    keys = zipf(0.5, 300).draw(40_000, seed=1)
    mapping = DKG.automatic(8).fit(keys[:20_000]).mapping()
    same, others = mapping.held_against(keys[20_000:]), mapping.held_against(keys[20_000:] + 1_000)
    assert mapping.expectation is None
    assert same.expected_range_pct[1] < 10.0 < others.expected_imbalance_pct
    assert others.expected_imbalance_pct == pytest.approx(measured(mapping, (keys[20_000:] + 1_000).astype(np.uint64)), rel=0.2)
    # Weights that differ say less than as many rows alike.
    uneven = mapping.held_against(keys[20_000:], np.where(np.arange(20_000) % 10 == 0, 10.0, 0.1))
    assert uneven.expectation.rows < 0.3 * same.expectation.rows


def test_the_range_is_kept_in_the_file_and_an_older_file_has_none():
    mapping = DKG.automatic(4).fit(np.arange(2_000) % 50).mapping().held_against(np.arange(2_000) % 50)
    again = Mapping.from_json(mapping.to_json())
    assert again == mapping
    assert again.expected_range_pct == mapping.expected_range_pct
    content = {name: value for name, value in mapping._content().items() if name != "expectation"}
    old = Mapping.from_json(sealed(content, kind="evenly.mapping", version=1))
    assert old.expectation is None
    assert old.fitted_imbalance_pct == mapping.fitted_imbalance_pct
    wrong = sealed(
        {**content, "expectation": {"imbalance_pct": 3.0, "low_pct": 5.0, "high_pct": 1.0, "rows": 1.0}},
        kind="evenly.mapping",
        version=1,
    )
    with pytest.raises(DamagedData, match="range"):
        Mapping.from_json(wrong)


def test_a_rebuilt_mapping_does_not_keep_what_was_expected_of_the_old_one():
    learnt = DKG.automatic(4).fit(np.arange(2_000) % 50)
    mapping = learnt.mapping().held_against(np.arange(2_000) % 50)
    assert rebuild(learnt, mapping).mapping.expectation is None


@given(st.lists(st.integers(1, 40), min_size=2, max_size=60))
def test_what_came_later_is_a_part_worth_looking_at(sizes):
    rows = LaterRows(lambda earlier, later: earlier + later)
    at = 0
    for size in sizes:
        left = size
        while left:
            take = min(left, int(rows.room) or -(-size // 2))
            rows.add(list(range(at, at + take)), take)
            at, left = at + take, left - take
    earlier, later = rows.cut()
    assert (earlier or []) + (later or []) == list(range(at))
    assert 0.25 * at <= len(later or []) <= 0.65 * at + 1


def test_counts_of_a_learner_teach_another_the_same():
    ids = mixed(zipf(0.5, 300).draw(20_000, seed=4))
    one = learner(8)().fit_ids(ids)
    other = learner(8)().fit_counts(one.counts())
    assert isinstance(one.counts(), KeyCounts)
    assert other.mapping().fitted_loads == pytest.approx(one.mapping().fitted_loads)


def test_a_range_reads_as_one():
    assert str(Expectation(3.0, 1.04, 9.96, 10.0)) == "1.0 to 10.0 %"
    assert str(Expectation(30.0, 1.04, 39.96, 10.0)) == "1 to 40 %"
