"""What the default shuffle scheduler promises wherever it runs: few messages, and never to lose to taking turns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenly.errors import InvalidParameter
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.rivals.shuffle.virtual_finish import Correction, VirtualFinish
from evenly.lab.simulation.queueing import Stage, constant_arrivals, gap_for, run
from evenly.streams import spread_costs, zipf

TUPLES, KEYS = 32_768, 4_096


def stage(keys, costs, k, provisioned_pct, **options):
    arrivals = constant_arrivals(keys.size, gap_for(costs, k, provisioned_pct=provisioned_pct))
    return Stage.of(keys, costs, arrivals, instances=k, **options)


def drawn(seed, *, tuples=TUPLES):
    return zipf(1.0, KEYS).draw_ranks(tuples, np.random.default_rng(seed))


def bursts(seed, length):
    """Keys of 1 to 64 ms, each for so many tuples one after the other as chance has it, `length` on average."""
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(1.0 / length, 2 * TUPLES // length + 100)
    keys = np.repeat(rng.integers(0, KEYS, lengths.size), lengths)[:TUPLES]
    return keys, rng.integers(1, 65, KEYS).astype(float)[keys]


def gain(one: Stage, grouping) -> float:
    before = run(one, RoundRobin(one.instances)).completion_ms_mean
    return before / run(one, grouping).completion_ms_mean


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 16]), st.sampled_from([1, 64]), st.sampled_from([2, 1024]))
def test_of_any_1000_tuples_of_an_instance_few_lead_to_a_message(seed, most, first_report, window):
    """However wrong predictions are, and however often it should report."""
    rng = np.random.default_rng(seed)
    options = {"theta": 0.0, "first_report": first_report, "window": window, "messages_per_1000": most}
    beside = VirtualFinish(3, **options).instance(0)
    tickets = np.stack([rng.normal(0.0, 1e6, 2_500), np.zeros(2_500), np.zeros(2_500)], axis=1)
    quiet = rng.integers(0, 2_000)
    tickets[quiet : quiet + 500, 0] = np.nan
    spoke = np.array([len(beside.execute([7], 1.0, float(j), tickets[j])) for j in range(2_500)])
    in_windows = np.convolve(spoke, np.ones(1_000), "valid")
    assert in_windows.max() <= most
    assert spoke.sum() >= 2 * most - 1, "and it does speak"


@pytest.mark.parametrize("seed", range(2))
def test_messages_of_a_whole_run_are_bounded_where_costs_are_extreme(seed):
    keys = drawn(seed)
    costs = np.where(np.random.default_rng(seed).random(KEYS) < 0.1, 100.0, 1.0)[keys]
    assert run(stage(keys, costs, 5, 100.0), VirtualFinish(5)).messages <= 16 * TUPLES / 1_000 + 16 * 5


def test_one_instance_says_nothing():
    keys = drawn(1, tuples=4_000)
    one = stage(keys, spread_costs(KEYS, seed=1)[keys], 1, 100.0)
    assert run(one, VirtualFinish(1)).messages == 0
    assert VirtualFinish(1).instance(0).execute([1] * 100, [9.0] * 100, np.arange(100.0), np.zeros((100, 3))) == []


@pytest.mark.parametrize("bad", [0, -1, 1.5, 1_001])
def test_a_bound_that_is_none_is_refused(bad):
    with pytest.raises(InvalidParameter, match="messages_per_1000"):
        VirtualFinish(2, messages_per_1000=bad)


@pytest.mark.parametrize("k", [2, 5, 10])
@pytest.mark.parametrize("provisioned_pct", [90.0, 100.0, 101.0, 300.0])
def test_where_all_tuples_cost_the_same_the_turns_go_on(k, provisioned_pct):
    """At 100 % a queue that arises by leaving them never goes away."""
    for seed in range(3):
        one = stage(drawn(seed, tuples=8_000), np.full(8_000, 10.0), k, provisioned_pct)
        assert gain(one, VirtualFinish(k)) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("length", "provisioned_pct"), [(20, 115.0), (50, 100.0), (200, 115.0), (20, 150.0)])
def test_bursts_of_one_key_are_shared_as_well_as_in_turn(length, provisioned_pct):
    gains = [gain(stage(*bursts(seed, length), 5, provisioned_pct), VirtualFinish(5)) for seed in range(4)]
    assert np.mean(gains) >= 0.99


@pytest.mark.parametrize("provisioned_pct", [150.0, 300.0])
def test_with_ample_capacity_nothing_is_lost(provisioned_pct):
    for seed in range(4):
        keys = drawn(seed)
        one = stage(keys, spread_costs(KEYS, seed=seed)[keys], 5, provisioned_pct)
        assert gain(one, VirtualFinish(5)) >= 0.99


@pytest.mark.parametrize(
    ("provisioned_pct", "far_ms"), [(115.0, [0, 0, 0, 0, 100]), (150.0, [0, 25, 50, 75, 100]), (115.0, [0, 2, 5, 7, 10])]
)
def test_a_way_in_the_load_model_is_no_loss(provisioned_pct, far_ms):
    pairs = []
    for seed in range(4):
        keys = drawn(seed)
        one = stage(keys, spread_costs(KEYS, seed=seed)[keys], 5, provisioned_pct, tuple_latency_ms=np.array(far_ms) * 1.0)
        pairs.append([gain(one, VirtualFinish(5)), gain(one, VirtualFinish(5, latency_ms=far_ms))])
    without, given = np.mean(pairs, axis=0)
    assert given >= 0.99 * without


@pytest.mark.parametrize(("sign", "shared"), [(1.0, True), (-1.0, False)])
def test_what_instances_correct_in_common_counts_for_the_silent_ones(sign, shared):
    """Instances 0 and 1 are late by turns, alike or not; 2 never speaks."""
    scheduler = VirtualFinish(3)
    for round_number in range(1, 6):
        scheduler.receive(Correction(0, round_number, 40.0 * round_number))
        scheduler.receive(Correction(1, round_number, sign * 40.0 * round_number))
    before = scheduler.finish_ms
    scheduler.receive(Correction(0, 6, 1_000.0))
    moved = scheduler.finish_ms - before
    assert moved[0] > 0.0
    assert (moved[2] > 0.0) == shared
    assert moved[1] == moved[2] <= moved[0]
