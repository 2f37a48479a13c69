"""The compiled link, slot by slot what a plain loop over the policy objects does, and the reproduced numbers of the paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenly.emission.policies.base import Backlogs
from evenly.emission.policies.first_come import FCFS
from evenly.emission.policies.largest_backlog import LBF
from evenly.emission.policies.longest_waiting import LongestWaiting
from evenly.emission.policies.round_robin import RRB
from evenly.emission.policies.skipping_round_robin import SkippingRoundRobin
from evenly.emission.policies.weighted_backlog import WeightedLBF
from evenly.errors import EmptyStream, InvalidCost, InvalidParameter
from evenly.lab.simulation.emission import Arrivals, run
from evenly.measures.backlog import jain

POLICIES = [LBF, WeightedLBF, RRB, SkippingRoundRobin, FCFS, LongestWaiting]


def plain(counts, sizes, speeds, policy, *, count_arrivals):
    """Queues as lists of (tuple, arrival slot); what `Outcome` holds, the slow and obvious way."""
    queues: list[list[tuple[int, int]]] = [[] for _ in counts[0]]
    delays, after, idle, free_at, number = {}, [], 0, 0, 0
    largest = largest_size = 0

    def seen():
        return Backlogs.of(
            [len(queue) for queue in queues],
            sizes_bytes=[sum(sizes[j] for j, _ in queue) for queue in queues],
            heads=[queue[0][1] if queue else 0 for queue in queues],
            speeds=speeds,
        )

    for t, slot in enumerate(counts):
        before = seen()
        for i, arrived in enumerate(slot):
            for _ in range(arrived):
                queues[i].append((number, t))
                number += 1
        if t >= free_at:
            chosen = policy.choose(seen() if count_arrivals else before)
            if queues[chosen]:
                j, came = queues[chosen].pop(0)
                delays[j] = t - came
                free_at = t + max(1, math.ceil(sizes[j] / speeds[chosen]))
            else:
                idle += 1
        largest = max(largest, *map(len, queues))
        largest_size = max(largest_size, *(sum(sizes[j] for j, _ in queue) for queue in queues))
        after.append([len(queue) for queue in queues])
    for queue in queues:
        for j, came in queue:
            delays[j] = len(counts) - came
    return sorted(delays.values()), largest, largest_size, after, idle


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_a_run_is_what_the_policy_objects_decide_one_by_one(data):
    queues, slots = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 25))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    counts = rng.poisson(data.draw(st.sampled_from([0.1, 0.3, 1.0])), (slots, queues))
    unequal = data.draw(st.booleans())
    sizes = rng.integers(1, 5, counts.sum()) if unequal else np.ones(counts.sum(), np.int64)
    speeds = rng.choice([0.5, 1.0, 2.0], queues) if unequal else np.ones(queues)
    policy, count_arrivals = data.draw(st.sampled_from(POLICIES)), data.draw(st.booleans())
    arrivals = Arrivals.counted(counts, sizes=sizes, slot_ms=1.0)
    outcome = run(arrivals, policy(), count_arrivals=count_arrivals, speeds=speeds, sampled=range(1, slots + 1))
    delays, largest, largest_size, after, idle = plain(
        counts.tolist(), sizes.tolist(), speeds.tolist(), policy(), count_arrivals=count_arrivals
    )
    assert sorted(outcome.delays_ms) == delays
    assert (outcome.max_backlog, outcome.max_backlog_size, outcome.idle_slots) == (largest, largest_size, idle)
    assert outcome.backlogs.tolist() == after


def test_recorded_arrivals_are_the_counted_ones():
    times_ms, queue = [0.35, 0.0, 0.31, 0.09, 0.12], [1, 0, 0, 1, 1]
    recorded = Arrivals.recorded(times_ms, queue, slot_ms=0.1)
    counted = Arrivals.counted([[1, 1], [0, 1], [0, 0], [1, 1]], slot_ms=0.1)
    assert (recorded.slots, recorded.queues, recorded.tuples) == (4, 2, 5)
    for policy in POLICIES:
        assert run(recorded, policy()).delays_ms.tolist() == run(counted, policy()).delays_ms.tolist()
    assert Arrivals.recorded([5.0], [0], queues=3).queues == 3


def test_the_same_seed_gives_the_same_arrivals_at_the_rate_asked_for():
    one, same, other = (Arrivals.poisson(10, 1_000, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.traffic.slots, same.traffic.slots)
    assert not np.array_equal(one.traffic.slots, other.traffic.slots)
    assert one.tuples == pytest.approx(10_000, rel=0.05)
    by_slot = np.zeros((10_000, 10), np.int64)
    np.add.at(by_slot, (one.traffic.slots, one.traffic.queues), 1)
    assert by_slot.mean() == pytest.approx(0.1, rel=0.05)
    assert by_slot.var() == pytest.approx(0.1, rel=0.08)  # of a Poisson variable as large as its mean
    assert by_slot.sum(axis=0).min() > 850
    assert Arrivals.poisson(3, 0.0).tuples == 0
    assert run(Arrivals.poisson(3, 0.0), LBF()).delay_ms_mean == 0.0


@pytest.mark.parametrize(
    ("policy", "count_arrivals", "backlog", "delay_ms", "longest_ms"),
    [
        (RRB, True, 6.9, 0.94, 6.5),
        (LBF, False, 3.1, 0.14, 1.6),
        (LBF, True, 2.1, 0.05, 1.5),
        (SkippingRoundRobin, True, 3.1, 0.05, 1.0),
        (LongestWaiting, True, 3.0, 0.05, 0.6),
    ],
)
def test_at_500_tuples_a_second_it_has_the_reproduced_numbers(policy, count_arrivals, backlog, delay_ms, longest_ms):
    outcomes = [run(Arrivals.poisson(10, 500, seed=seed), policy(), count_arrivals=count_arrivals) for seed in range(40)]
    assert np.mean([one.max_backlog for one in outcomes]) == pytest.approx(backlog, abs=0.4)
    assert np.mean([one.delay_ms_mean for one in outcomes]) == pytest.approx(delay_ms, abs=0.02)
    assert np.mean([one.delay_ms_max for one in outcomes]) == pytest.approx(longest_ms, abs=0.4)
    assert all(one.delay_ms_mean <= one.delay_ms_p99 <= one.delay_ms_max for one in outcomes)


def test_jain_is_one_for_equal_backlogs_and_one_over_n_for_one_queue():
    assert jain([[2, 2, 2, 2], [0, 7, 0, 0], [0, 0, 0, 0]]).tolist()[:2] == [1.0, 0.25]
    assert math.isnan(jain([0, 0])[0])
    assert jain([0, 0], empty=1.0).tolist() == [1.0]


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: Arrivals.poisson(0, 1.0), InvalidParameter, "queues must be a whole number from 1"),
        (lambda: Arrivals.poisson(1, -1.0), InvalidParameter, "rate_per_s must be at least 0 and finite, got -1"),
        (lambda: Arrivals.poisson(1, 1.0, slots=0), InvalidParameter, "slots must be"),
        (lambda: Arrivals.poisson(1, 1.0, slot_ms=0.0), InvalidParameter, "slot_ms must be above 0 and finite, got 0"),
        (lambda: Arrivals.counted([[1, -1]]), InvalidParameter, r"counts\[0, 1\] is -1"),
        (lambda: Arrivals.counted([]), InvalidParameter, "slots x queues"),
        (lambda: Arrivals.counted([[2]], sizes=[1]), InvalidCost, "2 tuples came with sizes"),
        (lambda: Arrivals.counted([[2]], sizes=[1, 0]), InvalidCost, r"sizes\[1\] is 0"),
        (lambda: Arrivals.recorded([], []), EmptyStream, "nothing was recorded"),
        (lambda: Arrivals.recorded([1.0], [0, 1]), InvalidParameter, "one value a tuple"),
        (lambda: Arrivals.recorded([math.nan], [0]), InvalidParameter, "finite, got nan"),
        (lambda: Arrivals.recorded([1.0], [-1]), InvalidParameter, "got -1 to -1"),
        (lambda: Arrivals.recorded([1.0], [3], queues=2), InvalidParameter, "0 to 1, got 3 to 3"),
        (lambda: run(Arrivals.counted([[1]]), LBF(), sampled=[2]), InvalidParameter, "sampled must ascend from 1 to 1"),
        (lambda: run(Arrivals.counted([[1]]), LBF(), speeds=[0.0]), InvalidParameter, "speeds must be above 0"),
    ],
)
def test_what_cannot_be_is_refused_with_its_value(make, error, said):
    with pytest.raises(error, match=said):
        make()


def test_a_policy_of_ones_own_has_no_compiled_run():
    class Mine(LBF):
        name = "mine"

    with pytest.raises(InvalidParameter, match="no compiled run of 'mine'"):
        run(Arrivals.counted([[1]]), Mine())
