"""DKG without sparse-item mapping, consistent hashing and KIP: each follows its rule and keeps its promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

import naive
from evenly.errors import IncompatibleMerge, InvalidCost, InvalidKeys, InvalidParameter
from evenly.kernels import hashing
from evenly.keys.base import KeyGrouping
from evenly.keys.dkg import DKG
from evenly.lab.rivals.keys.consistent_hashing import ConsistentHashing, ring
from evenly.lab.rivals.keys.kip import KIP
from evenly.lab.rivals.keys.wosim import WOSIM
from evenly.measures import imbalance_pct, instance_loads
from evenly.sketches import UniversalHash
from evenly.sketches.hashing import derive
from evenly.streams import zipf
from evenly.testing import check_grouping

KEYS = zipf(1.0, 3_000).draw(30_000, seed=5)
SKEWED = zipf(2.0, 3_000).draw(30_000, seed=6)
UNSEEN = np.arange(10**9, 10**9 + 50_000)

GROUPINGS = {
    "dkg-wosim": lambda: WOSIM(4),
    "dkg-wosim, fine": lambda: WOSIM(4, theta=0.01, seed=3),
    "consistent": ConsistentHashing,
    "consistent, fine": lambda: ConsistentHashing(theta=0.01, points=7, buckets=999, seed=3),
    "kip": lambda: KIP(4),
    "kip, fine": lambda: KIP(9, theta=0.002, heavy_per_instance=1, slack=0.1, points=7, buckets=999, seed=3),
}


@pytest.mark.parametrize("name", GROUPINGS)
def test_every_grouping_keeps_the_contract_and_its_mapping_carries_its_name(name):
    grouping = GROUPINGS[name]()
    assert isinstance(grouping, KeyGrouping)
    assert grouping.name == grouping.mapping(4).grouping == name.split(",")[0]
    check_grouping(GROUPINGS[name])


@pytest.mark.parametrize("instances", [1, 3, 50])
@pytest.mark.parametrize("make", [WOSIM, lambda _: ConsistentHashing(), KIP], ids=["dkg-wosim", "consistent", "kip"])
def test_the_contract_holds_for_other_numbers_of_instances(make, instances):
    check_grouping(lambda: make(instances), instances=instances)


@pytest.mark.parametrize("name", GROUPINGS)
def test_the_mapping_expects_the_loads_that_come_and_memory_does_not_grow(name):
    mapping = GROUPINGS[name]().fit(KEYS % 200).mapping(4)
    assert mapping.fitted_loads == pytest.approx(instance_loads(mapping.assign(KEYS % 200), 4))
    assert len({GROUPINGS[name]().fit(np.arange(n)).memory_bytes for n in (1, 1_000, 100_000)}) == 1


@pytest.mark.parametrize("name", GROUPINGS)
def test_weights_count_as_so_many_tuples_and_bad_ones_are_refused(name):
    weights = KEYS % 3
    weighted = GROUPINGS[name]().fit(KEYS % 200, weights).mapping(4)
    assert weighted == GROUPINGS[name]().fit(np.repeat(KEYS % 200, weights)).mapping(4)
    with pytest.raises(InvalidCost, match=r"\[1\] is -1"):
        GROUPINGS[name]().fit([1, 2], [1.0, -1.0])
    with pytest.raises(InvalidKeys):
        GROUPINGS[name]().fit([0.5])


@pytest.mark.parametrize("make", [lambda seed: WOSIM(2, seed=seed), lambda seed: ConsistentHashing(seed=seed)])
def test_learners_that_are_not_alike_are_not_merged(make):
    with pytest.raises(IncompatibleMerge, match="7"):
        make(0).merge(make(7))


# WOSIM


@pytest.mark.parametrize("keys", [KEYS, SKEWED], ids=["zipf-1", "zipf-2"])
@pytest.mark.parametrize("instances", [1, 2, 7])
def test_wosim_schedules_heavy_keys_alone_and_hashes_the_rest(keys, instances):
    mapping = WOSIM(instances, theta=0.03, seed=4).fit(keys).mapping()
    heavy = DKG(instances, theta=0.03, seed=4).fit(keys).mapping()
    assert mapping.heavy_keys.tolist() == heavy.heavy_keys.tolist() != []
    assert mapping.heavy_instances.tolist() == naive.largest_first(heavy.heavy_weights.tolist(), instances)
    assert np.array_equal(mapping.assign(UNSEEN), UniversalHash(instances, seed=4)(UNSEEN))


def test_wosim_serves_the_instances_it_was_made_for():
    with pytest.raises(InvalidParameter, match=r"4 instances, got 5"):
        WOSIM(4).mapping(5)


# The ring


def points_of(instance, count, seed):
    names = (np.uint64(instance) << np.uint64(32)) | np.arange(count, dtype=np.uint64)
    return (hashing.xxh64_words(names, np.uint64(derive(seed, "ring", 2**64))) >> np.uint64(32)).tolist()


@pytest.mark.parametrize("points", [[1], [3, 5, 2], [0, 4, 0, 9], [20] * 12])
def test_an_arc_belongs_to_the_first_point_from_its_beginning_on(points):
    on_ring = {instance: points_of(instance, count, 8) for instance, count in enumerate(points) if count}
    assert ring(np.array(points), 500, seed=8).tolist() == naive.arcs(on_ring, 500)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("instances", [1, 2, 5, 16, 40])
def test_an_instance_more_takes_its_share_and_moves_no_light_key_between_old_ones(instances, seed):
    grouping = ConsistentHashing(seed=seed).fit(KEYS)
    before, after = (grouping.mapping(count).assign(UNSEEN) for count in (instances, instances + 1))
    moved = before != after
    assert set(after[moved].tolist()) == {instances}
    assert moved.mean() == pytest.approx(1 / (instances + 1), rel=0.4)


def test_on_average_an_instance_more_takes_one_part_of_all():
    for instances in (3, 10):
        taken = []
        for seed in range(30):
            before, after = (ConsistentHashing(seed=seed).mapping(count).buckets for count in (instances, instances + 1))
            taken.append((before != after).mean())
        assert np.mean(taken) == pytest.approx(1 / (instances + 1), rel=0.06)


def test_more_points_make_more_equal_arcs():
    spread = [np.std(np.bincount(ConsistentHashing(points=points).mapping(10).buckets)) for points in (1, 20, 400)]
    assert spread[0] > 2 * spread[1] > 4 * spread[2]


def test_consistent_hashing_pins_heavy_keys_where_the_ring_brings_least():
    mapping = ConsistentHashing(theta=0.02, seed=1).fit(KEYS).mapping(5)
    loads = instance_loads(mapping.buckets, 5, mapping.bucket_weights).tolist()
    assert mapping.heavy_keys.size > 3
    for item in sorted(range(mapping.heavy_keys.size), key=lambda item: -mapping.heavy_weights[item]):
        assert mapping.heavy_instances[item] == loads.index(min(loads))
        loads[mapping.heavy_instances[item]] += mapping.heavy_weights[item]
    assert mapping.fitted_loads == pytest.approx(loads)


# KIP


def shares_of(mapping):
    return (mapping.heavy_weights / mapping.fitted_loads.sum()).tolist()


def homes_of(mapping, instances):
    return [naive.universal_bucket(mapping.a, mapping.b, key, instances) for key in mapping.heavy_keys.tolist()]


@pytest.mark.parametrize("keys", [KEYS, SKEWED, KEYS % 5], ids=["zipf-1", "zipf-2", "few"])
@pytest.mark.parametrize("instances", [1, 2, 5, 30])
@pytest.mark.parametrize("slack", [0.0, 0.001, 0.2])
def test_kip_places_heavy_keys_by_its_rule(keys, instances, slack):
    first = KIP(instances, slack=slack, seed=2).fit(keys).mapping()
    homes = homes_of(first, instances)
    assert first.heavy_instances.tolist() == naive.isolated_keys(
        shares_of(first), homes, homes, instances=instances, slack=slack
    )
    other = KIP(3, seed=9).fit(KEYS[::2]).mapping()
    after = KIP(instances, slack=slack, seed=2).fit(keys).mapping(instances, previous=other)
    kept = other.assign_ids(after.heavy_keys).tolist()
    assert after.heavy_instances.tolist() == naive.isolated_keys(
        shares_of(after), kept, homes, instances=instances, slack=slack
    )
    assert (first.version, after.version) == (1, 2)


@pytest.mark.parametrize("keys", [KEYS, SKEWED, KEYS % 5], ids=["zipf-1", "zipf-2", "few"])
@pytest.mark.parametrize("instances", [1, 2, 5, 30])
def test_kip_built_again_moves_nothing(keys, instances):
    learner = KIP(instances, seed=3).fit(keys)
    first = learner.mapping()
    again = learner.mapping(instances, previous=first)
    assert np.array_equal(again.assign(keys), first.assign(keys))
    assert np.array_equal(again.assign(UNSEEN), first.assign(UNSEEN))


def test_kip_moves_less_when_it_knows_the_mapping_in_force():
    moved = {"kept": 0.0, "fresh": 0.0}
    for seed in range(10):
        keys = zipf(1.0, 3_000).draw(60_000, seed=seed)
        drifted = np.where(keys[30_000:] % 4 == 0, keys[30_000:] + 1, keys[30_000:])
        first = KIP(8, seed=100).fit(keys[:30_000]).mapping()
        later = KIP(8, seed=200 + seed).fit(drifted)
        for name, mapping in (("kept", later.mapping(8, previous=first)), ("fresh", later.mapping(8))):
            heavy = mapping.heavy_keys
            moved[name] += (first.assign_ids(heavy) != mapping.assign_ids(heavy)).mean()
    assert moved["kept"] < moved["fresh"] / 2


@pytest.mark.parametrize(("instances", "per_instance"), [(2, 2), (4, 3)])
def test_kip_places_no_more_keys_than_wanted_and_the_heaviest_of_them(instances, per_instance):
    mapping = KIP(instances, theta=0.001, heavy_per_instance=per_instance).fit(KEYS).mapping()
    keys, counts = np.unique(KEYS, return_counts=True)
    heaviest = keys[np.argsort(-counts, kind="stable")[: instances * per_instance]]
    assert set(mapping.heavy_keys.tolist()) == set(heaviest.tolist())
    assert mapping.fitted_loads.sum() == KEYS.size


def test_kip_fills_up_instances_with_light_keys_to_one_level():
    keys = np.concatenate([np.full(30_000, 1), np.full(10_000, 2), zipf(0.0, 20_000).draw(80_000, seed=1) + 10])
    mapping = KIP(4, points=2_000, seed=1).fit(keys).mapping()
    assert set(mapping.heavy_keys.tolist()) == {1, 2}
    assert mapping.fitted_imbalance_pct < 6.0
    over = KIP(4, points=2_000, seed=1).fit(np.concatenate([keys, np.full(300_000, 1)])).mapping()
    assert mapping.assign([1])[0] not in over.buckets


def test_kip_follows_other_numbers_of_instances():
    learner = KIP(8, seed=1).fit(KEYS)
    eight = learner.mapping()
    for instances in (3, 20):
        mapping = learner.mapping(instances, previous=eight)
        assert mapping.instances == instances
        assert 0 <= mapping.assign(KEYS).min() <= mapping.assign(KEYS).max() < instances


# Imbalance for Zipf-2: 20 runs against an independent reproduction with 10,000


@pytest.fixture(scope="module")
def runs():
    return [zipf(2.0).draw(100_000, seed=seed) for seed in range(20)]


def imbalances(runs, instances, make):
    mappings = [make(seed).fit(keys[:80_000]).mapping(instances) for seed, keys in enumerate(runs)]
    assigned = [mapping.assign(keys[80_000:]) for mapping, keys in zip(mappings, runs, strict=True)]
    return np.array([imbalance_pct(instance_loads(one, instances)) for one in assigned])


@pytest.mark.parametrize(("instances", "expected"), [(2, 45.6), (10, 531.6)])
def test_wosim_is_as_unbalanced_as_reproduced(runs, instances, expected):
    found = imbalances(runs, instances, lambda seed: WOSIM(instances, seed=seed))
    assert abs(found.mean() - expected) <= 4 * found.std(ddof=1) / math.sqrt(found.size) + 0.1


@pytest.mark.parametrize("instances", [2, 10])
def test_kip_balances_as_dkg_does_and_a_ring_alone_does_not(runs, instances):
    dkg, kip, consistent = (
        imbalances(runs, instances, make).mean()
        for make in (
            lambda seed: DKG(instances, seed=seed),
            lambda seed: KIP(instances, seed=seed),
            lambda seed: ConsistentHashing(seed=seed),
        )
    )
    assert kip == pytest.approx(dkg, abs=0.5)
    assert consistent > dkg + 2.0


# What is refused

OUT_OF_RANGE = [
    (WOSIM, (0, 10_001, 2.5, True)),
    (lambda v: WOSIM(2, theta=v), (0.0, 1.5, math.nan)),
    (lambda v: WOSIM(2, epsilon=v), (0.0, 0.2)),
    (lambda v: ConsistentHashing(points=v), (0, 10_001, 1.5)),
    (lambda v: ConsistentHashing(buckets=v), (0, 1_000_001, "9")),
    (lambda v: ConsistentHashing(theta=v), (0.0, math.nan)),
    (lambda v: ConsistentHashing().mapping(v), (0, 10_001, 2.0)),
    (lambda v: ConsistentHashing(buckets=10).mapping(v), (11,)),
    (KIP, (0, 10_001, None)),
    (lambda v: KIP(2, heavy_per_instance=v), (0, 101, 1.5)),
    (lambda v: KIP(2, slack=v), (-0.1, 1.1, math.nan)),
    (lambda v: KIP(2, points=v), (0, 10_001)),
    (lambda v: KIP(2, buckets=v), (0, 1_000_001)),
    (lambda v: KIP(2, theta=v), (0.0, 1.5)),
    (lambda v: KIP(2, buckets=10).mapping(v), (0, 11)),
]


@pytest.mark.parametrize(
    ("make", "value"),
    [pytest.param(make, value, id=f"{row}: {value!r}") for row, (make, values) in enumerate(OUT_OF_RANGE) for value in values],
)
def test_a_parameter_out_of_range_is_refused_by_its_value(make, value):
    with pytest.raises(InvalidParameter) as refused:
        make(value)
    assert str(value) in str(refused.value)
