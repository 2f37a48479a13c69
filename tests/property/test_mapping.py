"""What a Mapping promises: one instance per key, the same after it is saved and read back, and no broken file read."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from evenly.errors import DamagedData, InvalidParameter, NewerFormat
from evenly.keys.dkg import DKG
from evenly.keys.mapping import FORMAT, FORMAT_VERSION, Mapping
from evenly.measures import imbalance_pct
from evenly.sealed import checksum, sealed
from evenly.sketches import key_ids
from evenly.streams import zipf

WEIGHTS = st.floats(0.0, 1e12)
IDS = st.integers(0, 2**64 - 1)
SAVED = DKG(3, theta=0.05).fit(zipf(1.5, 100).draw(1_000, seed=1)).mapping(columns=("user",)).to_json()


@st.composite
def mappings(draw):
    instances = draw(st.integers(1, 9))
    place = st.integers(0, instances - 1)
    buckets = draw(st.lists(place, min_size=1, max_size=20))
    heavy = draw(st.dictionaries(IDS, st.tuples(place, WEIGHTS), max_size=20))
    ids = draw(st.sampled_from(["integer", "xxhash64"]))
    return Mapping(
        instances=instances,
        buckets=np.array(buckets, np.int32),
        a=draw(st.integers(1, naive.PRIME - 1)) if ids == "integer" else 0,
        b=draw(st.integers(0, naive.PRIME - 1)) if ids == "integer" else 0,
        heavy_keys=np.array(list(heavy), np.uint64),
        heavy_instances=np.array([instance for instance, _ in heavy.values()], np.int32),
        heavy_weights=np.array([weight for _, weight in heavy.values()], np.float64),
        bucket_weights=np.array(draw(st.lists(WEIGHTS, min_size=len(buckets), max_size=len(buckets))), np.float64),
        grouping=draw(st.sampled_from(["dkg", "o-apx", "ä"])),
        ids=ids,
        columns=tuple(draw(st.lists(st.text(max_size=5), max_size=3))),
        version=draw(st.integers(1, 10**6)),
    )


def naive_instance(mapping, key):
    heavy = dict(zip(mapping.heavy_keys.tolist(), mapping.heavy_instances.tolist(), strict=True))
    if key in heavy:
        return heavy[key]
    if mapping.a == 0:
        signed = key - 2**64 if key >= 2**63 else key
        return int(mapping.buckets[signed % mapping.buckets.size])
    return int(mapping.buckets[naive.universal_bucket(mapping.a, mapping.b, key, mapping.buckets.size)])


@given(mappings(), st.lists(IDS, max_size=50))
def test_a_key_goes_by_its_own_entry_or_else_by_its_bucket(mapping, ids):
    ids = [*ids, *mapping.heavy_keys.tolist()]
    assigned = mapping.assign_ids(np.array(ids, np.uint64))
    assert assigned.dtype == np.int32
    assert assigned.tolist() == [naive_instance(mapping, key) for key in ids]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(1, 9))
def test_without_a_hash_a_key_goes_by_its_remainder(keys, instances):
    mapping = Mapping(instances=instances, buckets=np.arange(instances, dtype=np.int32), a=0, b=0)
    assert mapping.assign(keys).tolist() == [key % instances for key in keys]


def test_without_a_hash_heavy_keys_go_by_their_own_entry_too():
    entry = {"heavy_keys": np.array([1], np.uint64), "heavy_instances": np.array([3], np.int32), "heavy_weights": np.ones(1)}
    mapping = Mapping(instances=4, buckets=np.arange(4, dtype=np.int32), a=0, b=0, **entry)
    assert mapping.assign([1]).tolist() == [3]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_with_sparks_ids_integers_are_hashed_first_in_whatever_they_come(keys):
    mapping = replace(Mapping.from_json(SAVED), a=0, b=0, ids="xxhash64")
    values = np.array(keys, np.int64)
    expected = mapping.assign_ids(key_ids(values, hash_integers=True)).tolist()
    for given_as in (values, keys, pa.array(keys, pa.int64()), pa.chunked_array([pa.array(keys, pa.int64())])):
        assert mapping.assign(given_as).tolist() == expected


@given(mappings(), st.lists(IDS, max_size=20))
def test_a_mapping_read_back_is_equal_and_routes_alike(tmp_path_factory, mapping, ids):
    path = tmp_path_factory.getbasetemp() / "mapping.json"
    mapping.save(path)
    again = Mapping.load(path)
    assert again == mapping
    assert hash(again) == hash(mapping)
    assert Mapping.from_json(mapping.to_json().encode()) == mapping
    asked = np.array([*ids, *mapping.heavy_keys.tolist()], np.uint64)
    assert np.array_equal(again.assign_ids(asked), mapping.assign_ids(asked))
    assert np.array_equal(again.fitted_loads, mapping.fitted_loads)


@given(mappings(), st.sampled_from(["version", "b", "instances"]))
def test_mappings_that_differ_in_one_number_are_not_equal(mapping, name):
    other = replace(mapping, **{name: getattr(mapping, name) + 1})
    assert other != mapping
    assert (other.placing == mapping.placing) == (name == "version")


@given(mappings())
def test_fitted_loads_are_the_weights_summed_by_instance(mapping):
    placed = [*mapping.heavy_instances.tolist(), *mapping.buckets.tolist()]
    weights = [*mapping.heavy_weights.tolist(), *mapping.bucket_weights.tolist()]
    assert mapping.fitted_loads == pytest.approx(naive.loads_of(placed, weights, mapping.instances))
    assert mapping.fitted_imbalance_pct == pytest.approx(imbalance_pct(mapping.fitted_loads))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=7), st.integers(1, 4))
def test_no_placement_of_whole_keys_has_less_than_the_least_imbalance(weights, instances):
    mapping = DKG(instances, theta=0.001).fit(np.arange(len(weights)), weights).mapping()
    best = naive.least_possible_maximum(weights, instances) * instances / sum(weights) - 1
    assert mapping.least_imbalance_pct <= 100 * best + 1e-9
    if max(weights) * instances >= sum(weights):
        assert mapping.least_imbalance_pct == pytest.approx(100 * (max(weights) * instances / sum(weights) - 1))


def test_a_mapping_of_nothing_expects_no_imbalance():
    mapping = Mapping(instances=3, buckets=np.arange(3, dtype=np.int32), a=1, b=0)
    assert (mapping.least_imbalance_pct, mapping.fitted_imbalance_pct) == (0.0, 0.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"heavy_keys": [5, 5], "heavy_instances": [0, 1], "heavy_weights": [1.0, 1.0]},  # would be looked for for ever
        {"heavy_keys": [5], "heavy_instances": [0], "heavy_weights": [float("nan")]},
        {"bucket_weights": [-1.0, 1.0, 1.0]},
        {"bucket_weights": [1e308, 1e308, float("inf")]},
        {"capacities": [1.0, 0.0, 1.0]},
        {"instances": 3.0},
    ],
)
def test_what_no_mapping_has_is_refused(wrong):
    mapping = Mapping(instances=3, buckets=np.arange(3, dtype=np.int32), a=1, b=0, bucket_weights=np.ones(3))
    assert Mapping.from_json(mapping.to_json()) == mapping
    with pytest.raises(DamagedData, match="damaged"):
        Mapping.from_json(sealed(mapping._content() | wrong, kind=FORMAT, version=FORMAT_VERSION))


@given(st.integers(0, len(SAVED) - 1))
def test_a_truncated_file_is_refused(length):
    with pytest.raises(DamagedData, match="damaged"):
        Mapping.from_json(SAVED[:length])


@given(st.sampled_from([at for at, letter in enumerate(SAVED) if letter.isdigit()]), st.integers(1, 9))
def test_a_changed_digit_is_noticed_or_changes_nothing(at, step):
    text = f"{SAVED[:at]}{(int(SAVED[at]) + step) % 10}{SAVED[at + 1 :]}"
    try:
        mapping = Mapping.from_json(text)
    except (DamagedData, NewerFormat):
        return
    assert mapping == Mapping.from_json(SAVED)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        b"\xff\xfe\x00\xd8",
        "12",
        "null",
        "[]",
        "{}",
        '{"format": "other"}',
        '{"format": "evenly.mapping"}',
        '{"format": "evenly.mapping", "format_version": "one"}',
        '{"format": "evenly.mapping", "format_version": 1}',
        '{"format": "evenly.mapping", "format_version": 1, "checksum": "0"}',
    ],
)
def test_what_is_no_saved_mapping_is_refused_with_the_name_of_the_file(tmp_path, text):
    path = tmp_path / "users.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DamagedData, match=r"users\.json"):
        Mapping.load(path)


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5_000], ids=["deep", "long number"])
def test_json_that_python_does_not_take_is_refused_too(text):
    with pytest.raises(DamagedData):
        Mapping.from_json(text)


def test_a_file_of_a_newer_format_is_refused_even_if_all_else_in_it_is_new():
    with pytest.raises(NewerFormat, match="format version 2"):
        Mapping.from_json(json.dumps({"format": "evenly.mapping", "format_version": 2, "places": []}))


@pytest.mark.parametrize("failing", ["replace", "fdopen"])
def test_a_failed_save_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch, failing):
    def fail(*_args, **_options):
        raise OSError("disk full")

    old, new = Mapping.from_json(SAVED), replace(Mapping.from_json(SAVED), version=2)
    old.save(tmp_path / "mapping.json")
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="disk full"):
        new.save(tmp_path / "mapping.json")
    assert [path.name for path in tmp_path.iterdir()] == ["mapping.json"]
    assert Mapping.load(tmp_path / "mapping.json") == old


def test_a_saved_mapping_can_be_read_by_other_users(tmp_path):
    Mapping.from_json(SAVED).save(tmp_path / "mapping.json")
    assert (tmp_path / "mapping.json").stat().st_mode & 0o044 == 0o044


def test_an_interrupted_save_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(_self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Mapping, "to_json", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Mapping.from_json(SAVED).save(tmp_path / "mapping.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"buckets": np.array([0, 3], np.int32)}, "instances 0 to 2"),
        ({"buckets": np.array([-1, 0], np.int32)}, "instances 0 to 2"),
        ({"buckets": np.zeros(0, np.int32)}, "instances 0 to 2"),
        ({"instances": 0}, "instances 0 to -1"),
        ({"heavy_instances": np.array([3], np.int32)}, "instances 0 to 2"),
        ({"heavy_instances": np.array([-1], np.int32)}, "instances 0 to 2"),
        ({"heavy_instances": np.zeros(2, np.int32)}, "one instance and one weight for each heavy key"),
        ({"heavy_weights": np.zeros(2)}, "one instance and one weight for each heavy key"),
        ({"bucket_weights": np.zeros(3)}, "2 buckets came with 3 weights"),
    ],
)
def test_a_mapping_that_cannot_route_is_refused(change, told):
    sound = {
        "instances": 3,
        "buckets": np.array([0, 1], np.int32),
        "a": 1,
        "b": 0,
        "heavy_keys": np.array([7], np.uint64),
        "heavy_instances": np.array([2], np.int32),
        "heavy_weights": np.ones(1),
    }
    assert Mapping(**sound).assign([7]).tolist() == [2]
    with pytest.raises(InvalidParameter, match=told):
        Mapping(**{**sound, **change})


def test_a_saved_mapping_that_names_an_instance_out_of_range_is_refused():
    content = {**json.loads(SAVED), "instances": 1}
    del content["checksum"]
    content["checksum"] = checksum(content)
    with pytest.raises(DamagedData, match="instances 0 to 0"):
        Mapping.from_json(json.dumps(content))
