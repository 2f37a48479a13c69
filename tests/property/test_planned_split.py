"""What a planned split promises: every light key whole, loads that add up, and never a worse λ than whole keys."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenly.errors import DamagedData, InvalidParameter, NewerFormat
from evenly.kernels import routing
from evenly.keys.dkg import DKG
from evenly.keys.hot_keys import hot_keys, poured, split_hot_keys
from evenly.keys.mapping import Mapping
from evenly.keys.scheduling import largest_first
from evenly.keys.split_mapping import PlannedSplit, SplitMapping
from evenly.lab.rivals.splitting.dkg_pkg import DKGPKG
from evenly.lab.rivals.splitting.w_choices import WChoices
from evenly.measures import imbalance_pct, instance_loads
from evenly.sealed import checksum
from evenly.testing import check_splitting_grouping

WAYS = st.sampled_from(["dkg+pkg", "w-choices"])
IDS = st.integers(0, 2**64 - 1)
SMALL = 1e-6


@st.composite
def mappings(draw):
    """Whole-key mappings, greedy as DKG makes them or arbitrary, often with keys hotter than an instance."""
    instances = draw(st.integers(1, 12))
    weights = st.floats(0.0, 1e3)
    light = draw(st.lists(weights, min_size=1, max_size=30))
    heavy = draw(st.dictionaries(IDS, st.floats(0.001, 1e4), max_size=8))
    room = None
    if draw(st.booleans()):
        room = np.array(draw(st.lists(st.floats(0.2, 5.0), min_size=instances, max_size=instances)))
    all_weights = np.array([*heavy.values(), *light])
    if draw(st.booleans()):
        places = largest_first(all_weights, instances, room)
    else:
        at = st.integers(0, instances - 1)
        places = np.array(draw(st.lists(at, min_size=all_weights.size, max_size=all_weights.size)), np.int32)
    return Mapping(
        instances=instances,
        buckets=places[len(heavy) :],
        a=0,
        b=0,
        heavy_keys=np.array(list(heavy), np.uint64),
        heavy_instances=places[: len(heavy)],
        heavy_weights=np.array(list(heavy.values())),
        bucket_weights=np.array(light),
        ids="xxhash64",
        columns=("user",),
        capacities=room,
    )


def fair_share(mapping):
    total = mapping.fitted_loads.sum()
    return (
        total / mapping.instances if mapping.capacities is None else total * mapping.capacities.max() / mapping.capacities.sum()
    )


@given(mappings(), WAYS)
def test_exactly_the_keys_above_a_fair_share_are_split_and_hot_keys_lists_them(mapping, way):
    plan = split_hot_keys(mapping, way=way)
    ratio = mapping.heavy_weights / fair_share(mapping)
    assume(not np.isclose(ratio, 1.0, rtol=SMALL).any())
    above = mapping.heavy_keys[ratio > 1.0] if mapping.instances > 1 else []
    assert set(plan.split_keys().tolist()) == set(np.array(above, np.uint64).tolist())
    listed = hot_keys(mapping)
    assert {key.id for key in listed} == set(plan.split_keys().tolist())
    assert [key.share for key in listed] == sorted((key.share for key in listed), reverse=True)
    assert plan.needs_merge == bool(listed)


@given(mappings(), WAYS)
def test_loads_add_up_for_each_split_key_and_in_all(mapping, way):
    plan = split_hot_keys(mapping, way=way)
    assert plan.fitted_loads.sum() == pytest.approx(mapping.fitted_loads.sum())
    weights = dict(zip(mapping.heavy_keys.tolist(), mapping.heavy_weights.tolist(), strict=True))
    for number, key in enumerate(plan.split_keys().tolist()):
        here = slice(plan.starts[number], plan.starts[number + 1])
        assert plan.part_loads[here].sum() == pytest.approx(weights[key])
        assert sum(plan.shares(key).values()) == pytest.approx(1.0)
        assert len(plan.shares(key)) == plan.parts[here].size, "a part's instance is named once"


@given(mappings(), WAYS, st.floats(0.0, 50.0))
def test_the_expected_imbalance_is_never_above_that_of_whole_keys(mapping, way, slack_pct):
    plan = split_hot_keys(mapping, way=way, slack_pct=slack_pct)
    assert plan.fitted_imbalance_pct <= mapping.fitted_imbalance_pct + SMALL


@given(mappings())
def test_few_parts_cost_at_most_the_slack_and_w_choices_is_the_lower_of_both(mapping):
    few, everywhere = split_hot_keys(mapping, way="dkg+pkg", slack_pct=1.0), split_hot_keys(mapping, way="w-choices")
    assert few.fitted_imbalance_pct <= (100.0 + everywhere.fitted_imbalance_pct) * 1.01 - 100.0 + SMALL
    assert few.parts.size <= max(few.split.size * mapping.instances, 0)


@given(mappings(), WAYS, st.lists(st.tuples(IDS, IDS), max_size=60))
def test_a_light_key_is_on_one_instance_and_a_split_key_on_its_parts(mapping, way, tuples):
    plan = split_hot_keys(mapping, way=way)
    pairs = [*tuples, *((int(key), spread) for key in mapping.heavy_keys for _, spread in tuples)]
    ids, spread = (np.array([pair[side] for pair in pairs], np.uint64) for side in (0, 1))
    assigned = plan.assign_ids(ids, spread)
    split = set(plan.split_keys().tolist())
    for key, at in zip(ids.tolist(), assigned.tolist(), strict=True):
        if key in split:
            assert at in plan.shares(key)
        else:
            assert at == plan.light.assign_ids(np.array([key], np.uint64))[0]


@given(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=12), st.integers(0, 2**32))
def test_tuples_of_a_split_key_come_to_each_part_in_its_share(loads, seed):
    light = Mapping(instances=len(loads), buckets=np.zeros(1, np.int32), a=0, b=0)
    parts = np.arange(len(loads), dtype=np.int32)
    plan = SplitMapping(light, np.array([7], np.uint64), np.array([0, len(loads)]), parts, np.array(loads))
    spread = np.random.default_rng(seed).integers(0, 2**64, 40_000, np.uint64)
    found = np.bincount(plan.assign_ids(np.full(spread.size, 7, np.uint64), spread), minlength=len(loads)) / spread.size
    assert np.allclose(found, np.array(loads) / sum(loads), atol=0.015)


@given(st.lists(st.tuples(st.floats(0.0, 100.0), st.floats(0.1, 10.0)), min_size=1, max_size=20), st.floats(0.001, 1e3))
def test_water_fills_the_lowest_levels_first(instances, water):
    loads, room = (np.array([pair[side] for pair in instances]) for side in (0, 1))
    given_out = poured(loads, room, water)
    assert given_out.min() >= 0.0
    assert given_out.sum() == pytest.approx(water)
    level = (loads + given_out) / room
    wet = given_out > 1e-9 * water
    assert level[wet].max() == pytest.approx(level[wet].min(), rel=1e-6), "all that got some are level"
    assert (level[~wet] >= level[wet].max() * (1.0 - 1e-6)).all(), "and no other is lower"


@pytest.mark.parametrize("way", ["dkg+pkg", "w-choices"])
@pytest.mark.parametrize("capacities", [None, [1.0, 1.0, 2.0, 2.0, 0.5, 1.0, 1.0, 1.0]])
def test_where_only_the_hot_key_stood_in_the_way_nothing_is_left_of_the_imbalance(way, capacities):
    keys = np.where(np.arange(80_000) % 2 == 0, 0, 1 + np.arange(80_000) % 997)
    mapping = DKG.automatic(8).fit(keys).mapping(8, capacities=capacities)
    plan = split_hot_keys(mapping, way=way)
    assert mapping.least_imbalance_pct > 90.0
    assert plan.fitted_imbalance_pct < 1.1
    sent = PlannedSplit(plan).route(keys)
    assert imbalance_pct(instance_loads(sent, 8), capacities) < 5.0
    assert len(plan.shares(0)) == {"dkg+pkg": 4, "w-choices": 8}[way]


def test_the_fewest_parts_that_fit_are_taken():
    weights = np.array([2.5, 1.2])
    mapping = Mapping(
        instances=8,
        buckets=np.arange(64, dtype=np.int32) % 8,
        a=0,
        b=0,
        heavy_keys=np.array([3, 9], np.uint64),
        heavy_instances=np.array([0, 1], np.int32),
        heavy_weights=weights,
        bucket_weights=np.full(64, (8.0 - weights.sum()) / 64),
    )
    plan = split_hot_keys(mapping)
    assert [len(plan.shares(3)), len(plan.shares(9))] == [3, 2]
    assert plan.fitted_imbalance_pct < 1.0


def test_below_one_fair_share_keys_are_split_that_are_too_coarse_to_balance():
    three = np.array([1.0, 1.0, 1.0])
    mapping = Mapping(
        instances=2,
        buckets=np.zeros(1, np.int32),
        a=0,
        b=0,
        heavy_keys=np.array([1, 2, 3], np.uint64),
        heavy_instances=np.array([0, 0, 1], np.int32),
        heavy_weights=three,
        bucket_weights=np.zeros(1),
    )
    assert split_hot_keys(mapping).fitted_imbalance_pct == pytest.approx(100.0 / 3.0)
    assert split_hot_keys(mapping, above=0.5).fitted_imbalance_pct == pytest.approx(0.0)


@given(mappings(), WAYS)
def test_it_survives_being_saved(mapping, way):
    plan = split_hot_keys(mapping, way=way)
    again = SplitMapping.from_json(plan.to_json())
    assert again == plan
    ids = np.arange(200, dtype=np.uint64)
    ids = np.concatenate([ids, np.repeat(plan.split_keys(), 20)])
    spread = routing.mix(np.arange(ids.size, dtype=np.uint64))
    assert np.array_equal(again.assign_ids(ids, spread), plan.assign_ids(ids, spread))


def saved_plan():
    keys = np.where(np.arange(1_000) % 2 == 0, 0, np.arange(1_000))
    return split_hot_keys(DKG(4, theta=0.05).fit(keys).mapping(columns=("user",)))


def test_a_file_that_was_cut_changed_or_is_of_another_kind_is_refused(tmp_path):
    plan = saved_plan()
    plan.save(tmp_path / "plan.json")
    assert SplitMapping.load(tmp_path / "plan.json") == plan
    text = plan.to_json()
    for broken in (text[:-5], text.replace('"part_loads": [', '"part_loads": [1, '), "[]", plan.light.to_json()):
        with pytest.raises(DamagedData, match="this text"):
            SplitMapping.from_json(broken)
    content = json.loads(text)
    del content["checksum"]
    with pytest.raises(NewerFormat, match="version 99"):
        SplitMapping.from_json(json.dumps({**content, "format_version": 99}))
    content["parts"] = [99 for _ in content["parts"]]
    with pytest.raises(DamagedData, match="instances 0 to 3"):
        SplitMapping.from_json(json.dumps({**content, "checksum": checksum(content)}))


def test_planned_senders_keep_the_contract_of_splitting_groupings():
    plan = saved_plan()
    check_splitting_grouping(lambda: PlannedSplit(plan))
    assert PlannedSplit(plan).name == DKGPKG.name
    assert PlannedSplit(split_hot_keys(DKG(4).fit([1, 1]).mapping(), way="w-choices")).name == WChoices.name


def test_what_is_out_of_range_is_refused():
    mapping = DKG(4).fit([1, 1, 2]).mapping()
    for options, told in (
        ({"way": "pkg"}, "'pkg'"),
        ({"above": 0.0}, "0.0"),
        ({"above": 1.5}, "1.5"),
        ({"slack_pct": -1.0}, "-1.0"),
    ):
        with pytest.raises(InvalidParameter, match=told):
            split_hot_keys(mapping, **options)
    with pytest.raises(InvalidParameter, match="77 is not the id"):
        split_hot_keys(mapping).shares(77)


def test_with_one_instance_or_nothing_learnt_nothing_is_split():
    assert not split_hot_keys(DKG(1).fit([1, 1, 1]).mapping()).needs_merge
    assert not split_hot_keys(DKG(4).mapping()).needs_merge
    assert hot_keys(DKG(4).mapping()) == ()
