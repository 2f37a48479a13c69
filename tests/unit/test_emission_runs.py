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
from evenly.lab.simulation.emission import COMPILED, Arrivals, run
from evenly.measures.backlog import jain

POLICIES = [LBF, WeightedLBF, RRB, SkippingRoundRobin, FCFS, LongestWaiting]


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_a_compiled_run_is_what_the_policy_object_chooses_slot_by_slot(data):
    """A subclass without changes runs in the plain loop."""
    queues, slots = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 25))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    counts = rng.poisson(data.draw(st.sampled_from([0.1, 0.3, 1.0])), (slots, queues))
    unequal = data.draw(st.booleans())
    sizes = rng.integers(1, 5, counts.sum()) if unequal else np.ones(counts.sum(), np.int64)
    speeds = rng.choice([0.5, 1.0, 2.0], queues) if unequal else np.ones(queues)
    policy = data.draw(st.sampled_from(POLICIES))
    arrivals = Arrivals.counted(counts, sizes=sizes, slot_ms=1.0)
    options = {"count_arrivals": data.draw(st.booleans()), "speeds": speeds, "sampled": range(1, slots + 1)}
    fast, slow = run(arrivals, policy(), **options), run(arrivals, type(policy.__name__, (policy,), {})(), **options)
    assert fast.delays_ms.tolist() == slow.delays_ms.tolist()
    for told in ("emission", "max_backlog", "max_backlog_size", "idle_slots"):
        assert getattr(fast, told) == getattr(slow, told)
    assert fast.backlogs.tolist() == slow.backlogs.tolist()


def test_every_policy_with_a_compiled_run_is_compared():
    assert set(POLICIES) == COMPILED.keys()


class Last:
    """A policy that knows nothing of ours: the last queue that has something."""

    name = "last"
    work_conserving = True

    def choose(self, backlogs):
        return int(np.flatnonzero(backlogs.tuples).max(initial=0))


def test_the_plain_loop_by_hand():
    """Three queues, one slot of time in each; a tuple of queue 2 takes two slots, one of queue 1 half a slot, so one."""
    arrivals = Arrivals.counted([[1, 1, 1], [0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]], sizes=[1, 1, 2, 2], slot_ms=1.0)
    seen = run(arrivals, Last(), speeds=[1.0, 2.0, 1.0], sampled=[1, 3, 5])
    assert seen.emission == "last"
    assert seen.delays_ms.tolist() == [5.0, 4.0, 0.0, 0.0]  # queue 0 never, queue 1 in slot 4, queue 2 in slots 0 and 2
    assert (seen.max_backlog, seen.max_backlog_size, seen.idle_slots) == (1, 1, 0)
    assert seen.backlogs.tolist() == [[1, 1, 0], [1, 1, 0], [1, 0, 0]]
    unseen = run(arrivals, Last(), speeds=[1.0, 2.0, 1.0], count_arrivals=False)
    assert unseen.delays_ms[0] == 0.0  # nothing waits before slot 0: queue 0 has the turn, and sends what comes


def test_an_own_policy_is_not_changed_by_a_run():
    class Mine(RRB):
        pass

    policy, arrivals = Mine(), Arrivals.counted([[2, 1], [0, 0], [0, 0]])
    assert run(arrivals, policy).delays_ms.tolist() == run(arrivals, policy).delays_ms.tolist()
    assert policy.choose(Backlogs.of([1, 1])) == 0


@pytest.mark.parametrize(
    ("chosen", "said"), [(3, "last chose 3: choose must give a queue from 0 to 1"), (-1, "chose -1"), (None, "chose None")]
)
def test_a_policy_that_chooses_no_queue_is_refused(chosen, said):
    policy = type("Wrong", (Last,), {"choose": lambda _self, _backlogs: chosen})()
    with pytest.raises(InvalidParameter, match=said):
        run(Arrivals.counted([[1, 1]]), policy)


def test_what_is_no_policy_is_refused():
    with pytest.raises(InvalidParameter, match="object is not an emission policy: that has name, work_conserving and choose"):
        run(Arrivals.counted([[1]]), object())


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
        (lambda: Arrivals.recorded([1.0], [0, 1]), InvalidParameter, "one value per tuple"),
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
