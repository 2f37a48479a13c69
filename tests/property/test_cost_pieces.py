"""Executors of unequal speed: batches cut in pieces end near the ideal, and a slow one is noticed at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenly.costs import CostMeter, CostModel, Speeds, pieces
from evenly.errors import DamagedData, InvalidParameter

seeds = st.integers(0, 2**32 - 1)


def in_any_order(shares, slots, rng):
    """The batch time over the ideal, whichever slots get the first pieces."""
    return max(naive.list_scheduled(shares, rng.permutation(slots).tolist()) for _ in range(5)) * sum(slots)


@given(st.lists(st.floats(0.2, 3.0), min_size=2, max_size=16), seeds)
def test_a_batch_cut_in_pieces_ends_within_the_slack_of_the_ideal(speeds, seed):
    shares = pieces(speeds, len(speeds))
    if max(speeds) <= 1.2 * min(speeds):
        assert shares.tolist() == [1 / len(speeds)] * len(speeds)
        return
    assert shares.sum() == pytest.approx(1.0)
    assert (np.diff(shares) <= 0.0).all()
    assert (shares > 0.0).all()
    assert len(speeds) <= shares.size <= 16 * len(speeds)
    if shares.size < 16 * len(speeds):
        assert in_any_order(shares, speeds, np.random.default_rng(seed)) <= 1.1 + 1e-9


def test_seven_fast_and_one_slow_executor():
    slots = [1.0] * 7 + [0.25]
    ideal = 1 / sum(slots)
    cut = pieces(slots, 8)
    assert in_any_order(cut, slots, np.random.default_rng(1)) <= 1.1
    assert naive.list_scheduled([1 / 8] * 8, slots) > 3.5 * ideal  # what equal shares would take
    assert cut.size <= 80
    fine = pieces(slots, 8, slack=0.02, most=400)
    assert in_any_order(fine, slots, np.random.default_rng(1)) <= 1.02
    assert pieces({"a": 1.0, "b": 0.25}, 8).size > 8  # executors have slots; there are more of these than executors


def test_one_instance_and_unknown_speeds_are_one_piece_each():
    assert pieces([], 3).tolist() == [1 / 3] * 3
    assert pieces([1.0, 0.1], 1).tolist() == [1.0]
    assert pieces([1.0, 1.19], 4).tolist() == [0.25] * 4


def test_the_number_of_pieces_is_bounded_however_slow_an_executor_is():
    assert pieces([1.0, 1e-9], 2).size <= 32
    assert pieces([1.0, 1e-9], 2, most=5).size <= 5
    for arguments, options in (
        ((([1.0, 0.0], 2)), {}),
        (([1.0], 0), {}),
        (([1.0], 2), {"slack": 0.0}),
        (([1.0], 4), {"most": 3}),
    ):
        with pytest.raises(InvalidParameter):
            pieces(*arguments, **options)


def report(rng, executor, *, slower=1.0, rows=100, keys=20, instance=0, noise=0.2):
    meter = CostMeter()
    ids = rng.integers(0, keys, rows)
    meter.add(ids, slower * (1 + ids % 7) * 1e-3 * rng.gamma(noise**-2, noise**2, rows))
    return meter.report(instance=instance, executor=executor)


@given(seeds, st.sampled_from([0.25, 0.5, 2.0]), st.booleans())
def test_another_speed_is_noticed_from_one_report(seed, speed, known):
    rng = np.random.default_rng(seed)
    model = CostModel().learn(report(rng, "x:1", rows=1_000)) if known else None
    usual = [report(rng, f"host:{at}", instance=at) for at in range(7)]
    speeds = Speeds().learn([*usual, report(rng, "other:9", slower=1 / speed, instance=7)], model)
    assert speeds.uneven
    assert speeds.of("other:9") == pytest.approx(speed, rel=0.3)
    assert [speeds.of(f"host:{at}") for at in range(7)] == pytest.approx([1.0] * 7, abs=0.2)
    assert speeds.of("never seen") == 1.0
    assert pieces(speeds.values, 8).size > 8


@given(seeds, st.sampled_from([0.25, 0.5]))
def test_an_executor_that_becomes_slow_is_noticed_in_the_same_batch(seed, speed):
    rng = np.random.default_rng(seed)
    speeds = Speeds()
    for _ in range(5):
        speeds.learn([report(rng, f"host:{at}", instance=at) for at in range(4)])
        assert not speeds.uneven
    speeds.learn([report(rng, f"host:{at}", instance=at, slower=1 / speed if at == 2 else 1.0) for at in range(4)])
    assert speeds.uneven
    assert min(speeds.all(), key=speeds.of) == "host:2"
    for _ in range(6):
        speeds.learn([report(rng, f"host:{at}", instance=at) for at in range(4)])
    assert not speeds.uneven  # and it is forgiven


@settings(derandomize=True)  # a statement about chance
@given(seeds, st.integers(2, 8), st.sampled_from([3, 20, 100]))
def test_chance_is_not_taken_for_speed(seed, executors, rows):
    """Costs with a standard deviation of twice their mean: sums of few rows differ by far more than 1.2, and say little."""
    rng = np.random.default_rng(seed)
    speeds = Speeds()
    uneven = 0
    for _ in range(10):
        speeds.learn([report(rng, f"host:{at}", rows=rows, keys=1, noise=2.0, instance=at) for at in range(executors)])
        uneven += speeds.uneven
    assert uneven <= 2


@given(seeds, st.floats(0.1, 10.0))
def test_a_change_for_all_executors_is_nobodys_speed(seed, factor):
    rng = np.random.default_rng(seed)
    model = CostModel().learn(report(rng, "x:1", rows=2_000))
    speeds = Speeds().learn([report(rng, f"host:{at}", slower=factor, rows=400) for at in range(4)], model)
    assert speeds.values == pytest.approx(np.ones(4), abs=0.15)


def test_an_executor_that_is_gone_is_forgotten_and_speeds_are_read_back():
    rng = np.random.default_rng(1)
    speeds = Speeds().learn([report(rng, "gone:1", slower=4.0), *(report(rng, f"host:{at}") for at in range(3))])
    again = Speeds.of_content(speeds.content())
    assert again == speeds
    assert speeds.copy() == speeds
    for _ in range(8):
        assert "gone:1" in speeds.all()
        speeds.learn([report(rng, f"host:{at}") for at in range(3)])
    assert sorted(speeds.all()) == ["host:0", "host:1", "host:2"]
    assert speeds != again
    assert Speeds().learn([]) == Speeds()
    assert Speeds().learn([CostMeter().report(instance=0, executor="host:1")]).all() == {}
    with pytest.raises(DamagedData):
        Speeds.of_content({"host:1": [1.0]})
