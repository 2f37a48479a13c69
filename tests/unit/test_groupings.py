"""The baselines beside DKG: each does what its name says."""

from __future__ import annotations

import numpy as np
import pytest

from evenly.keys.base import KeyGrouping
from evenly.keys.dkg import DKG
from evenly.lab.rivals.keys.exact_greedy import ExactGreedy
from evenly.lab.rivals.keys.modulo import Modulo
from evenly.lab.rivals.keys.one_instance import OneInstance
from evenly.lab.rivals.keys.universal import Universal
from evenly.sketches import UniversalHash
from evenly.streams import zipf

KEYS = zipf(1.0, 300).draw(5_000, seed=5)


@pytest.mark.parametrize(
    ("grouping", "name"),
    [
        (DKG(2), "dkg"),
        (ExactGreedy(), "o-apx"),
        (Universal(), "universal"),
        (Modulo(), "modulo"),
        (OneInstance(), "one-instance"),
    ],
)
def test_a_grouping_follows_the_protocol_and_its_mapping_carries_its_name(grouping, name):
    assert isinstance(grouping, KeyGrouping)
    assert grouping.name == grouping.mapping(2).grouping == name


def test_universal_sends_a_key_where_its_hash_says():
    for seed in (0, 8):
        assert np.array_equal(Universal(seed=seed).mapping(7).assign(KEYS), UniversalHash(7, seed=seed)(KEYS))


def test_modulo_sends_a_key_by_its_remainder_never_below_zero():
    assert Modulo().mapping(3).assign([-4, -3, -1, 0, 1, 5]).tolist() == [2, 0, 2, 0, 1, 2]


def test_one_instance_sends_every_key_to_the_first():
    assert set(OneInstance().mapping(10).assign(KEYS).tolist()) == {0}


@pytest.mark.parametrize("make", [Universal, Modulo, OneInstance])
def test_what_does_not_learn_holds_nothing_and_maps_the_same_whatever_it_saw(make):
    assert make().memory_bytes == 0
    assert make().fit(KEYS).mapping(4) == make().mapping(4)


def test_exact_greedy_knows_the_load_of_every_key():
    mapping = ExactGreedy().fit(KEYS).mapping(4)
    keys, counts = np.unique(KEYS, return_counts=True)
    assert mapping.heavy_keys.tolist() == keys.tolist()
    assert mapping.heavy_weights.tolist() == counts.tolist()
    assert mapping.fitted_loads.tolist() == np.bincount(mapping.assign(KEYS), minlength=4).tolist()


def test_exact_greedy_sums_weights_and_merges_by_key():
    one = ExactGreedy().fit([1, 2, 1], [1.0, 5.0, 2.0])
    other = ExactGreedy().fit([3, 1], [4.0, 0.5])
    mapping = one.merge(other).mapping(2)
    assert dict(zip(mapping.heavy_keys.tolist(), mapping.heavy_weights.tolist(), strict=True)) == {1: 3.5, 2: 5.0, 3: 4.0}


def test_exact_greedy_sends_keys_it_never_saw_by_a_hash():
    unseen = np.arange(10**9, 10**9 + 1_000)
    assert np.array_equal(ExactGreedy(seed=2).fit(KEYS).mapping(5).assign(unseen), UniversalHash(5, seed=2)(unseen))


def test_text_keys_are_learnt_and_routed_as_any_other():
    texts = np.array([f"user {key}" for key in KEYS])
    mapping = DKG(4, theta=0.02).fit(texts).mapping()
    assert mapping.fitted_loads.tolist() == np.bincount(mapping.assign(texts), minlength=4).tolist()
    assert mapping.heavy_keys.size > 0


def test_a_missing_key_can_be_the_heaviest():
    keys = [None] * 50 + [f"user {i}" for i in range(50)]
    mapping = DKG(2).fit(keys).mapping()
    assert mapping.heavy_weights.tolist() == [50.0]
    assert mapping.assign([None])[0] == mapping.heavy_instances[0]
