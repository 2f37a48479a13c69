"""Sums by key are read as they were written, and nothing else is. Spark's own are in tests/spark/test_remember_weights.py."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenly.errors import DamagedData
from evenly.sketches.tuple_sums import key_hashes, tuple_sums

KEYS = st.integers(1, 300)


@st.composite
def sums_of_some(draw):
    keys = draw(KEYS)
    return keys, draw(st.dictionaries(st.integers(0, keys - 1), st.floats(allow_nan=False)))


@settings(max_examples=100, deadline=None)
@given(sums_of_some())
def test_each_sum_is_that_of_its_key(found):
    keys, sums = found
    read, there = tuple_sums(naive.tuple_sketch(sums), keys)
    assert {int(key): read[key] for key in np.flatnonzero(there)} == sums
    assert not read[~there].any()


@settings(max_examples=100, deadline=None)
@given(sums_of_some(), st.data())
def test_what_is_damaged_or_of_other_keys_is_refused(found, data):
    keys, sums = found
    image = naive.tuple_sketch(sums)
    with pytest.raises(DamagedData):
        tuple_sums(image[: data.draw(st.integers(0, len(image) - 1))], keys)
    with pytest.raises(DamagedData):
        tuple_sums(image + b"x", keys)
    with pytest.raises(DamagedData, match="other keys"):
        tuple_sums(naive.tuple_sketch({**sums, keys: 1.0}), keys)
    with pytest.raises(DamagedData, match="left out"):  # as one that estimates begins
        tuple_sums(bytes([3]) + image[1:], keys)


def test_keys_have_the_hashes_that_the_slow_way_gives():
    assert key_hashes(1_000).tolist() == [naive.murmur3_128(key) >> 1 for key in range(1_000)]
