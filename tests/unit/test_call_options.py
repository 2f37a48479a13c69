"""How a function is called, as one object: it checks itself, and says what is wrong with which value."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import evenly
from evenly.errors import InvalidParameter


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"batch_rows": 0}, "batch_rows must be a whole number from 1 to 1000000, got 0"),
        ({"batch_rows": 2.5}, "batch_rows .*got 2.5"),
        ({"threads": 0}, "threads must be a whole number from 1 to 1000, got 0"),
        ({"threads": None}, "threads .*got None"),
        ({"threads": True}, "threads .*got True"),
        ({"on_error": "ignore"}, "on_error must be one of 'fail', 'skip', got 'ignore'"),
        ({"on_error": ["skip"]}, r"on_error .*got \['skip'\]"),
        ({"retries": -1}, "retries must be a whole number from 0 to 100, got -1"),
        ({"time_limit_s": 0}, "time_limit_s must be a number of seconds above 0, or None, got 0"),
        ({"time_limit_s": float("nan")}, "time_limit_s .*got nan"),
        ({"time_limit_s": float("inf")}, "time_limit_s .*got inf"),
        ({"time_limit_s": "30"}, "time_limit_s .*got '30'"),
        ({"time_limit_s": True}, "time_limit_s .*got True"),
    ],
)
def test_a_value_out_of_its_range_is_named(given, told):
    with pytest.raises(InvalidParameter, match=told):
        evenly.CallOptions(**given)
    with pytest.raises(InvalidParameter, match=told):
        replace(evenly.CallOptions(), **given)


def test_it_is_a_value():
    """Plain numbers whatever they were, compared by content, the same after pickling, and never changed."""
    given = evenly.CallOptions(
        batch_rows=np.int64(500), threads=np.int32(8), on_error="skip", retries=np.uint8(2), time_limit_s=np.float32(30)
    )
    assert given == evenly.CallOptions(batch_rows=500, threads=8, on_error="skip", retries=2, time_limit_s=30.0)
    assert [type(value) for value in vars(given).values()] == [int, int, str, int, float]
    assert pickle.loads(pickle.dumps(given)) == given
    assert (given.skip, evenly.CallOptions().skip) == (True, False)
    with pytest.raises(FrozenInstanceError):
        given.threads = 3
