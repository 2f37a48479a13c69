"""Groupings that react to queues: each is the obvious loop, and keeps what it promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from evenly.costs.base import ReactiveGrouping, ShuffleGrouping
from evenly.errors import InvalidKeys, InvalidParameter
from evenly.lab.rivals.shuffle.least_loaded_channels import LeastLoadedChannels
from evenly.lab.rivals.shuffle.load_aware import LoadAwareShuffle
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.testing import check_shuffle_grouping

SEEDS = st.integers(0, 2**32 - 1)
INSTANCES = st.integers(1, 12)

SHUFFLE = {
    "round-robin": lambda: RoundRobin(4),
    "load-aware": lambda: LoadAwareShuffle(4),
    "load-aware, many instances": lambda: LoadAwareShuffle(300, queue_capacity=4_000.0, seed=1),
    "least-loaded-channels": lambda: LeastLoadedChannels(4),
    "least-loaded-channels, of all": lambda: LeastLoadedChannels(3, look=10),
}


@pytest.mark.parametrize("name", SHUFFLE)
def test_every_shuffle_grouping_keeps_the_contract(name):
    assert isinstance(SHUFFLE[name](), ShuffleGrouping)
    assert isinstance(SHUFFLE[name](), ReactiveGrouping)
    assert SHUFFLE[name]().name == name.split(",")[0]
    check_shuffle_grouping(SHUFFLE[name])


class StartsAgain(RoundRobin):
    def route(self, keys, now_s):
        self._next = 1
        return super().route(keys, now_s)


class WideIntegers(RoundRobin):
    def route(self, keys, now_s):
        return super().route(keys, now_s).astype(np.int64)


class OneTooFew(RoundRobin):
    def route(self, keys, now_s):
        return super().route(keys, now_s)[1:]


class Unseeded(LoadAwareShuffle):
    def observe(self, queued, queued_bytes=None):
        self._rng = np.random.default_rng()
        super().observe(queued, queued_bytes)


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (StartsAgain, "cut into calls"),
        (WideIntegers, "int32"),
        (OneTooFew, "one instance per tuple"),
        (Unseeded, "cut into|same"),
    ],
)
def test_a_shuffle_grouping_that_breaks_a_promise_is_caught(kind, promise):
    with pytest.raises(AssertionError, match=promise):
        check_shuffle_grouping(lambda: kind(4))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), INSTANCES)
def test_round_robin_differs_by_one_tuple_at_most(sizes, instances):
    grouping = RoundRobin(instances)
    sent = np.concatenate([grouping.route(range(size), 0.0) for size in sizes])
    assert sent.tolist() == [number % instances for number in range(sum(sizes))]
    assert np.ptp(np.bincount(sent, minlength=instances)) <= 1


@given(st.integers(1, 300), SEEDS, st.floats(1.0, 500.0), st.integers(1, 25))
def test_load_aware_weights_follow_the_queues_and_the_ring_follows_the_weights(instances, seed, capacity, observations):
    grouping = LoadAwareShuffle(instances, queue_capacity=capacity, seed=seed)
    rng = np.random.default_rng(seed)
    size = max(1_000, 5 * instances)
    weights = [100] * instances
    for _ in range(observations):
        queued = rng.integers(0, 100, instances).tolist()
        grouping.observe(queued)
        least = min(waiting / capacity for waiting in queued)
        for instance, waiting in enumerate(queued):
            near = waiting / capacity <= least + 0.05
            weights[instance] = min(100, weights[instance] + 1) if near else max(0, weights[instance] - 10)
    assert grouping.weights.tolist() == weights
    places = np.bincount(grouping.route(range(size), 0.0), minlength=instances)
    shares = np.array(weights) / sum(weights) * size
    assert (places >= np.floor(shares)).all()
    assert not places[np.array(weights) == 0].any()
    assert np.array_equal(places, np.bincount(grouping.route(range(size), 1.0), minlength=instances))


def test_load_aware_cuts_the_flow_to_a_crowded_instance_and_lets_it_come_back():
    grouping = LoadAwareShuffle(4, queue_capacity=100)
    for _ in range(10):
        grouping.observe([90, 2, 3, 1])
    assert set(grouping.route(range(1_000), 0.0).tolist()) == {1, 2, 3}
    for _ in range(50):
        grouping.observe([0, 0, 0, 0])
    assert np.bincount(grouping.route(range(1_000), 0.0))[0] == pytest.approx(1_000 * 50 / 350, abs=3)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=9), st.integers(1, 12), st.integers(1, 40)
)
def test_least_loaded_channels_is_the_obvious_loop_and_never_passes_over_a_shorter_queue(queues, look, tuples):
    queued, queued_bytes = ([float(value) for value in column] for column in zip(*queues, strict=True))
    grouping = LeastLoadedChannels(len(queues), look=look)
    grouping.observe(queued, queued_bytes)
    sent = grouping.route(range(tuples), 0.0).tolist()
    assert sent == naive.next_channels(queued, queued_bytes, tuples, look=grouping.look, current=-1)
    at = -1
    for chosen in sent:
        assert queued[chosen] == min(queued[(at + step) % len(queued)] for step in range(1, grouping.look + 1))
        queued[chosen] += 1
        at = chosen
    grouping.observe([0.0] * len(queues))
    assert grouping.route(range(1), 0.0).tolist() == [(at + 1) % len(queues)]


def test_what_the_caller_reports_is_not_changed_by_routing():
    reported = np.array([3.0, 0.0])
    grouping = LeastLoadedChannels(2)
    grouping.observe(reported)
    grouping.route(range(100), 0.0)
    assert reported.tolist() == [3.0, 0.0]


OUT_OF_RANGE = [
    *((make, value) for make in (RoundRobin, LoadAwareShuffle, LeastLoadedChannels) for value in (0, 10_001, "4")),
    *((lambda v: LoadAwareShuffle(4, queue_capacity=v), value) for value in (0.0, -1.0, math.inf, math.nan)),
    *((lambda v: LeastLoadedChannels(4, look=v), value) for value in (0, -1, 2.5)),
]


@pytest.mark.parametrize(
    ("make", "value"), [pytest.param(make, value, id=f"{row}: {value!r}") for row, (make, value) in enumerate(OUT_OF_RANGE)]
)
def test_a_parameter_out_of_range_is_refused_by_its_value(make, value):
    with pytest.raises(InvalidParameter) as refused:
        make(value)
    assert str(value) in str(refused.value)


@pytest.mark.parametrize("make", [RoundRobin, LoadAwareShuffle, LeastLoadedChannels])
@pytest.mark.parametrize(
    ("queued", "said"),
    [([1.0, -2.0], r"queued\[1\] is -2"), ([math.nan, 0.0], r"queued\[0\] is nan"), ([1.0], r"\(1,\)"), (["long", 1], "long")],
)
def test_queues_that_cannot_be_are_refused_and_change_nothing(make, queued, said):
    grouping, other = make(2), make(2)
    with pytest.raises(InvalidParameter, match=said):
        grouping.observe(queued)
    assert grouping.route(range(50), 0.0).tolist() == other.route(range(50), 0.0).tolist()


def test_bytes_that_cannot_be_are_refused():
    with pytest.raises(InvalidParameter, match=r"queued_bytes\[0\] is -1"):
        LeastLoadedChannels(1).observe([1.0], [-1.0])


@pytest.mark.parametrize("name", SHUFFLE)
def test_keys_that_are_no_sequence_are_refused(name):
    with pytest.raises(InvalidKeys, match="5"):
        SHUFFLE[name]().route(5, 0.0)
