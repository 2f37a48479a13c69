"""A mapping that is dealt out over another number of instances keeps what it knows, and stays even."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenly.errors import InvalidParameter
from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.keys.resizing import heaviest_share, most_instances, placeable, resized
from evenly.streams import zipf


@cache
def learnt(instances):
    keys = zipf(1.0).draw(5_000, seed=1)
    return DKG.automatic(instances).fit(keys).mapping(instances), keys


@settings(max_examples=30)
@given(before=st.sampled_from([2, 3, 8, 24]), after=st.integers(1, 96))
def test_every_key_has_an_instance_and_loads_are_those_of_the_rows(before, after):
    mapping, keys = learnt(before)
    if after > most_instances(mapping):
        with pytest.raises(InvalidParameter, match="serves at most"):
            resized(mapping, after)
        return
    found = resized(mapping, after)
    assert found.instances == after
    assigned = found.assign(keys)
    assert 0 <= assigned.min() <= assigned.max() < after
    assert found.fitted_loads.sum() == pytest.approx(mapping.fitted_loads.sum())
    assert found.fitted_imbalance_pct <= max(found.least_imbalance_pct, 0.0) + 8.0


@pytest.mark.parametrize("before", [1, 2, 7, 64, 1_000, 3_000, 10_000])
def test_four_times_as_many_instances_can_be_served(before):
    mapping = DKG.automatic(before).mapping(before)
    assert most_instances(mapping) >= min(4 * before, 10_000)


def test_back_and_forth_it_is_the_same_mapping():
    mapping, _ = learnt(8)
    there = resized(mapping, 5)
    assert resized(there, 8).buckets.tolist() == mapping.buckets.tolist()
    assert resized(mapping, 8) is mapping


def test_what_is_expected_of_new_rows_is_not_said_of_another_number():
    mapping, keys = learnt(8)
    assert resized(mapping.held_against(keys), 4).expectation is None


def test_things_to_place_are_keys_where_there_are_few():
    few = DKG.automatic(16).fit(np.repeat(np.arange(5), 100)).mapping()
    assert placeable(few) == 5
    assert heaviest_share(few) == pytest.approx(0.2)
    nothing = DKG.automatic(16).mapping()
    assert placeable(nothing) == 0
    assert heaviest_share(nothing) == 0.0
    assert resized(nothing, 4).instances == 4


def test_why_a_number_was_chosen_is_saved_with_it():
    mapping, _ = learnt(4)
    assert Mapping.from_json(mapping.to_json()).chosen == ""
    assert "chosen" not in mapping.to_json()
    chosen = replace(mapping, chosen="as many as slots")
    assert Mapping.from_json(chosen.to_json()).chosen == "as many as slots"
    assert "as many as slots" in chosen._repr_html_()
    assert chosen == mapping
    assert chosen.identity == mapping.identity
