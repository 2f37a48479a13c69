"""Groupings that decide tuple by tuple: each is the obvious loop, and keeps what it promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from evenly.errors import EmptyStream, IncompatibleMerge, InvalidKeys, InvalidParameter
from evenly.keys.base import SplittingGrouping
from evenly.keys.dkg import DKG
from evenly.lab.rivals.splitting.cam import CAM
from evenly.lab.rivals.splitting.d_choices import DChoices
from evenly.lab.rivals.splitting.dkg_pkg import DKGPKG
from evenly.lab.rivals.splitting.partial_key import PKG
from evenly.lab.rivals.splitting.w_choices import WChoices
from evenly.measures import imbalance_pct, instance_loads
from evenly.sketches import SpaceSaving
from evenly.streams import zipf
from evenly.testing import check_splitting_grouping

SEEDS = st.integers(0, 2**32 - 1)
INSTANCES = st.integers(1, 12)
LEARNT = zipf(1.0, 500).draw(20_000, seed=1)

SPLITTING = {
    "pkg": lambda: PKG(4),
    "pkg, distinct": lambda: PKG(4, distinct=True, seed=3),
    "pkg, one instance": lambda: PKG(1, distinct=True),
    "d-choices": lambda: DChoices(4),
    "d-choices, many instances": lambda: DChoices(60, seed=2),
    "w-choices": lambda: WChoices(4),
    "w-choices, high threshold": lambda: WChoices(9, threshold=0.3, counters=7),
    "dkg+pkg": lambda: DKGPKG(4).fit(LEARNT),
    "dkg+pkg, fine": lambda: DKGPKG(4, theta=0.01, mu=20.0, seed=3).fit(LEARNT),
    "cam": lambda: CAM(4),
    "cam, small": lambda: CAM(4, remembered=30, seed=2),
}


@st.composite
def streams(draw, n=200, most=1_500):
    """Skewed keys, of fewer kinds than a Space Saving has places unless `n` says otherwise."""
    skew = zipf(draw(st.sampled_from([1.0, 2.0, 0.0])), n)
    return skew.draw(draw(st.sampled_from([most, most // 3, 20, 1])), seed=draw(SEEDS))


def hashes_of(sender):
    return [(int(a), int(b)) for a, b in sender._hashes]


def copies(keys, sent):
    """The instances of each key."""
    places = {}
    for key, instance in zip(keys.tolist(), sent.tolist(), strict=True):
        places.setdefault(key, set()).add(instance)
    return places


def exact_counter():
    counts = {}

    def count(key):
        counts[key] = counts.get(key, 0.0) + 1.0
        return counts

    return count


def space_saving_counter(capacity):
    summary = SpaceSaving(capacity)

    def count(key):
        summary.update([key])
        keys, counts, _ = summary.counters()
        return dict(zip(keys.tolist(), counts.tolist(), strict=True))

    return count


# What all of them promise


@pytest.mark.parametrize("name", SPLITTING)
def test_every_splitting_grouping_keeps_the_contract(name):
    assert isinstance(SPLITTING[name](), SplittingGrouping)
    assert SPLITTING[name]().name == name.split(",")[0]
    check_splitting_grouping(SPLITTING[name])


class SaysNoMerge(PKG):
    needs_merge = False


class HidesItsSplitKeys(PKG):
    def split_keys(self):
        return np.zeros(0, np.uint64)


class ForgetsBetweenCalls(PKG):
    def route(self, keys):
        self._loads[:] = 0
        return super().route(keys)


class Grows(PKG):
    seen = 0

    def route(self, keys):
        self.seen += len(keys)
        return super().route(keys)

    @property
    def memory_bytes(self):
        return self.seen


class OutOfRange(PKG):
    def route(self, keys):
        return super().route(keys) + np.int32(1)


class Moody(PKG):
    """Every object has another seed."""

    made = 0

    def __init__(self, instances):
        type(self).made += 1
        super().__init__(instances, seed=self.made // 3)


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (SaysNoMerge, "must say that a merge is needed"),
        (HidesItsSplitKeys, "a key went to two instances"),
        (ForgetsBetweenCalls, "cut into calls"),
        (Grows, "memory must not grow"),
        (OutOfRange, "out of range"),
        (Moody, "same tuples"),
    ],
)
def test_a_splitting_grouping_that_breaks_a_promise_is_caught(kind, promise):
    with pytest.raises(AssertionError, match=promise):
        check_splitting_grouping(lambda: kind(4))


# PKG


@given(streams(), INSTANCES, SEEDS, st.booleans())
def test_pkg_is_the_obvious_loop(keys, instances, seed, distinct):
    sender = PKG(instances, distinct=distinct, seed=seed)
    expected = naive.partial_key(keys.tolist(), hashes_of(sender), instances, distinct=distinct)
    assert sender.route(keys).tolist() == expected


@given(streams(), streams(), INSTANCES, SEEDS, st.booleans())
def test_pkg_has_a_key_on_at_most_two_instances_whatever_the_number_of_senders(one, other, instances, seed, distinct):
    sent = np.concatenate([PKG(instances, distinct=distinct, seed=seed).route(part) for part in (one, other)])
    assert max(map(len, copies(np.concatenate([one, other]), sent).values())) <= 2


@given(st.integers(2, 12), SEEDS, st.integers(0, 2**62))
def test_distinct_candidates_share_a_key_evenly(instances, seed, key):
    loads = np.sort(np.bincount(PKG(instances, distinct=True, seed=seed).route(np.full(10, key)), minlength=instances))
    assert loads[-2:].tolist() == [5, 5]


# D-Choices and W-Choices


@given(streams(), INSTANCES, SEEDS, st.sampled_from([None, 0.001, 0.1, 1.0]))
def test_w_choices_is_the_obvious_loop(keys, instances, seed, threshold):
    sender = WChoices(instances, threshold=threshold, seed=seed)
    options = {"threshold": sender.threshold, "counts": exact_counter()}
    assert sender.route(keys).tolist() == naive.head_choices(keys.tolist(), hashes_of(sender), instances, **options)


@given(streams(), st.integers(1, 60), SEEDS, st.sampled_from([None, 0.001, 0.1]), st.sampled_from([0.0, 1e-4, 0.05]))
def test_d_choices_is_the_obvious_loop(keys, instances, seed, threshold, epsilon):
    sender = DChoices(instances, threshold=threshold, epsilon=epsilon, seed=seed)
    options = {"threshold": sender.threshold, "counts": exact_counter(), "epsilon": epsilon}
    assert sender.route(keys).tolist() == naive.head_choices(keys.tolist(), hashes_of(sender), instances, **options)


@pytest.mark.parametrize(("make", "epsilon"), [(WChoices, None), (DChoices, 1e-4)])
@pytest.mark.parametrize("alpha", [0.6, 1.2])
def test_the_head_is_that_of_a_space_saving_where_keys_are_too_many_to_count(make, epsilon, alpha):
    keys = zipf(alpha, 3_000).draw(1_500, seed=3)
    sender = make(30, threshold=0.02, seed=5)
    counts = space_saving_counter(100)
    expected = naive.head_choices(
        keys.tolist(), hashes_of(sender), 30, threshold=sender.threshold, counts=counts, epsilon=epsilon
    )
    assert sender.counters == 100
    assert sender.route(keys).tolist() == expected


@given(streams(n=3_000), st.integers(3, 12), SEEDS)
def test_a_key_that_never_had_half_the_threshold_stays_with_its_two_candidates(keys, instances, seed):
    sender = WChoices(instances, seed=seed)
    places = copies(keys, sender.route(keys))
    seen, largest = {}, {}
    for total, key in enumerate(keys.tolist(), start=1):
        seen[key] = seen.get(key, 0) + 1
        largest[key] = max(largest.get(key, 0.0), seen[key] / total)
    for key, share in largest.items():
        if share <= sender.threshold / 2:
            assert places[key] <= set(naive.two_candidates(hashes_of(sender), key, instances))


@given(streams(n=3_000), INSTANCES, SEEDS)
def test_w_choices_with_all_keys_in_the_head_balances_perfectly(keys, instances, seed):
    sent = WChoices(instances, threshold=1e-6, counters=4_000, seed=seed).route(keys)
    assert np.ptp(np.bincount(sent, minlength=instances)) <= 1


@given(streams(most=300), st.integers(2, 100), SEEDS)
def test_d_choices_has_a_key_on_no_more_instances_than_it_has_choices(keys, instances, seed):
    sender = DChoices(instances, seed=seed)
    sent, most = [], 2
    for key in keys:
        sent.append(sender.route(np.array([key]))[0])
        most = max(most, sender.choices)
    assert max(map(len, copies(keys, np.array(sent)).values())) <= most <= instances


# DKG + PKG


@given(streams(n=2_000), streams(n=2_000), INSTANCES, SEEDS, st.sampled_from([0.02, 0.1, 1.0]))
def test_dkg_with_pkg_is_the_obvious_loop(learnt, keys, instances, seed, theta):
    sender = DKGPKG(instances, theta=theta, seed=seed).fit(learnt)
    known = DKG(instances, theta=theta, seed=seed).fit(learnt).mapping()
    heavy = dict(zip(known.heavy_keys.tolist(), known.heavy_weights.tolist(), strict=True))
    keys = np.concatenate([keys, learnt])
    expected, split = naive.split_heavy(
        keys.tolist(), heavy, known.bucket_weights.tolist(), a=known.a, b=known.b, instances=instances
    )
    assert sender.route(keys).tolist() == expected
    assert set(sender.split_keys().tolist()) == split
    assert all(len(places) <= (2 if key in split else 1) for key, places in copies(keys, np.array(expected)).items())


def test_dkg_with_pkg_must_learn_before_it_routes():
    for ask in (lambda sender: sender.route([1, 2]), lambda sender: sender.split_keys()):
        with pytest.raises(EmptyStream, match="0 tuples"):
            ask(DKGPKG(2))
        with pytest.raises(EmptyStream, match="call fit"):
            ask(DKGPKG(2).fit([]))


def test_dkg_with_pkg_makes_a_new_schedule_when_it_has_learnt_more():
    sender = DKGPKG(2).fit([1] * 10)
    assert sender.split_keys().tolist() == [1]
    assert sender.fit([2] * 1_000).split_keys().tolist() == [2]
    assert sender.merge(DKGPKG(2).fit([3] * 100_000)).split_keys().tolist() == [3]
    with pytest.raises(IncompatibleMerge, match=r"0\.3"):
        sender.merge(DKGPKG(2, theta=0.3))


# cAM


@given(streams(), INSTANCES, SEEDS, st.sampled_from([1, 7, 1_000]))
def test_cam_is_the_obvious_loop(keys, instances, seed, remembered):
    sender = CAM(instances, remembered=remembered, seed=seed)
    expected = naive.where_seen(keys.tolist(), hashes_of(sender), instances, remembered=remembered)
    assert sender.route(keys).tolist() == expected


@given(streams(), streams(), INSTANCES, SEEDS)
def test_cam_keeps_a_key_on_one_instance_a_sender_and_on_two_at_most(one, other, instances, seed):
    first, second = (CAM(instances, seed=seed).route(part) for part in (one, other))
    assert max(map(len, copies(one, first).values())) == 1
    places = copies(np.concatenate([one, other]), np.concatenate([first, second]))
    assert max(map(len, places.values())) <= 2


# Imbalance for Zipf-2, against an independent reproduction with 10,000 runs

RUNS = 40


@pytest.fixture(scope="module")
def runs():
    return [zipf(2.0).draw(100_000, seed=seed) for seed in range(RUNS)]


def imbalances(runs, instances, make):
    sent = [make(seed, keys[:80_000]).route(keys[80_000:]) for seed, keys in enumerate(runs)]
    return np.array([imbalance_pct(instance_loads(one, instances)) for one in sent])


def near(values, expected, *, rounding=0.1):
    """Within four standard errors of the mean of so few runs."""
    return abs(values.mean() - expected) <= 4 * values.std(ddof=1) / math.sqrt(values.size) + rounding


PKG_MEANS = dict(zip(range(2, 11), [20.3, 43.7, 68.7, 96.0, 124.6, 153.2, 183.3, 213.0, 240.5], strict=True))
DISTINCT_MEANS = {2: 0.0, 3: 11.5, 4: 34.9, 5: 61.8}
DKGPKG_MEANS = dict(zip(range(2, 11), [0.0, 1.4, 21.6, 52.0, 82.4, 112.8, 143.2, 173.6, 204.0], strict=True))


@pytest.mark.parametrize(("instances", "expected"), PKG_MEANS.items())
def test_pkg_is_as_unbalanced_as_reproduced(runs, instances, expected):
    assert near(imbalances(runs, instances, lambda seed, _: PKG(instances, seed=seed)), expected)


@pytest.mark.parametrize(("instances", "expected"), DISTINCT_MEANS.items())
def test_pkg_with_distinct_candidates_is_as_unbalanced_as_reproduced(runs, instances, expected):
    assert near(imbalances(runs, instances, lambda seed, _: PKG(instances, distinct=True, seed=seed)), expected)


@pytest.mark.parametrize(("instances", "expected"), DKGPKG_MEANS.items())
def test_dkg_with_pkg_is_as_unbalanced_as_reproduced(runs, instances, expected):
    found = imbalances(runs, instances, lambda seed, learnt: DKGPKG(instances, seed=seed).fit(learnt))
    assert found.mean() == pytest.approx(expected, abs=1.0)


@pytest.mark.parametrize("make", [DChoices, WChoices])
@pytest.mark.parametrize("instances", [2, 5, 10])
def test_d_and_w_choices_balance_with_few_copies(runs, make, instances):
    assert imbalances(runs[:10], instances, lambda seed, _: make(instances, seed=seed)).mean() < 0.05
    keys = runs[0][80_000:]
    places = copies(keys, make(instances).route(keys))
    assert 1.1 < sum(map(len, places.values())) / len(places) < 1.6


# What is refused


OUT_OF_RANGE = [
    *((make, value) for make in (PKG, DChoices, WChoices, DKGPKG, CAM) for value in (0, -1, 10_001, 2.5, True)),
    *((lambda v: WChoices(4, threshold=v), value) for value in (0.0, -0.1, 1.5, math.nan)),
    *((lambda v: WChoices(4, counters=v), value) for value in (0, -5, 1.5)),
    *((lambda v: DChoices(4, threshold=v), value) for value in (0.0, 2.0)),
    *((lambda v: DChoices(4, epsilon=v), value) for value in (-0.1, 1.1, math.nan)),
    *((lambda v: DKGPKG(4, theta=v), value) for value in (0.0, 1.5)),
    *((lambda v: DKGPKG(4, mu=v), value) for value in (0.5, math.nan)),
    *((lambda v: CAM(4, remembered=v), value) for value in (0, -1, 2.5)),
]


@pytest.mark.parametrize(
    ("make", "value"), [pytest.param(make, value, id=f"{row}: {value!r}") for row, (make, value) in enumerate(OUT_OF_RANGE)]
)
def test_a_parameter_out_of_range_is_refused_by_its_value(make, value):
    with pytest.raises(InvalidParameter) as refused:
        make(value)
    assert str(value) in str(refused.value)


@pytest.mark.parametrize("name", SPLITTING)
def test_text_and_missing_keys_are_keys_like_any_other_and_floats_are_refused(name):
    sender, other = SPLITTING[name](), SPLITTING[name]()
    assert sender.route(["a", None, "b", "a"]).tolist() == other.route([b"a", None, b"b", b"a"]).tolist()
    with pytest.raises(InvalidKeys):
        sender.route([0.5])
