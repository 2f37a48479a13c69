"""Tables in which two comparisons find a key."""

import numpy as np
import pytest

from evenly.keys.cuckoo import in_places, two_choice_tables


@pytest.mark.parametrize("count", [1, 2, 3, 100, 5_000])
def test_every_heavy_key_is_found_by_two_look_ups(count):
    ids = np.unique(np.random.default_rng(count).integers(0, 2**64, count, dtype=np.uint64))
    first, second = two_choice_tables(ids)
    bits = np.uint64(first.size.bit_length() - 1)
    for place, key in enumerate(ids):
        assert first[int(key & np.uint64(first.size - 1))] == place or second[int(key >> (np.uint64(64) - bits))] == place


def test_a_free_place_holds_the_first_value_and_any_other_its_own():
    assert in_places(np.array([-1, 1, 0, 2], np.int32), np.array([7, 8, 9])).tolist() == [7, 8, 7, 9]
