"""Every guarantee of the emission policies, against all schedules of small instances and against plain loops."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenly.emission.policies.base import Backlogs
from evenly.emission.policies.catalogue import POLICIES, new_policy
from evenly.emission.policies.first_come import FCFS
from evenly.emission.policies.largest_backlog import LBF
from evenly.emission.policies.longest_waiting import LongestWaiting
from evenly.emission.policies.round_robin import RRB
from evenly.emission.policies.skipping_round_robin import SkippingRoundRobin
from evenly.emission.policies.weighted_backlog import WeightedLBF
from evenly.errors import InvalidParameter
from evenly.lab.simulation.emission import Arrivals, run
from evenly.testing import check_emission

CONSERVING = [LBF, WeightedLBF, SkippingRoundRobin, FCFS, LongestWaiting]


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_keeps_the_contract(name):
    check_emission(partial(new_policy, name))
    assert new_policy(name).name == name


def least_largest_backlog(counts) -> int:
    """The smallest possible max over t and i of B_i(t), by trying every queue in every slot (equation 1 of the paper)."""
    best = {(0,) * len(counts[0]): 0}
    for slot in counts:
        following: dict[tuple[int, ...], int] = {}
        for state, worst in best.items():
            for chosen in range(len(state)):
                new = tuple(max(b + a - (i == chosen), 0) for i, (b, a) in enumerate(zip(state, slot, strict=True)))
                reached = max(worst, *new)
                following[new] = min(following.get(new, reached), reached)
        best = following
    return min(best.values())


def small_instances(most=3):
    return st.integers(1, 4).flatmap(
        lambda queues: st.lists(st.lists(st.integers(0, most), min_size=queues, max_size=queues), min_size=1, max_size=7)
    )


def bound(queues: int) -> int:
    return 3 + math.ceil(math.log2(queues))


@given(small_instances())
def test_lbf_stays_within_its_bound_of_the_best_schedule(counts):
    best = least_largest_backlog(counts)
    arrivals = Arrivals.counted(counts)
    assert best <= run(arrivals, LBF()).max_backlog <= bound(len(counts[0])) * best
    # To the letter, LBF does not see what arrives: it can be one tuple off where the best schedule has none.
    assert run(arrivals, LBF(), count_arrivals=False).max_backlog <= bound(len(counts[0])) * best + 1


@given(small_instances(1))
def test_lbf_is_best_where_no_queue_need_ever_wait(counts):
    one_each = [[int(i == slot.index(max(slot))) * max(slot) for i in range(len(slot))] for slot in counts]
    assert least_largest_backlog(one_each) == 0
    assert run(Arrivals.counted(one_each), LBF()).max_backlog == 0


def test_to_the_letter_the_bound_fails_where_the_best_schedule_keeps_all_queues_empty():
    counts = [[0, 1]]
    assert least_largest_backlog(counts) == 0
    assert run(Arrivals.counted(counts), LBF(), count_arrivals=False).max_backlog == 1


def test_the_papers_round_robin_keeps_no_such_bound():
    counts = [[2, 0], *[[1, 0]] * 9]
    best = least_largest_backlog(counts)
    assert best == 1
    assert run(Arrivals.counted(counts), RRB()).max_backlog > bound(2) * best


@given(small_instances(), st.sampled_from(CONSERVING))
def test_rules_that_never_waste_a_slot_have_the_same_total_delay(counts, policy):
    arrivals = Arrivals.counted(counts)
    total = run(arrivals, FCFS()).delays_ms.sum()
    assert run(arrivals, policy()).delays_ms.sum() == pytest.approx(total)
    assert run(arrivals, RRB()).delays_ms.sum() >= total - 1e-9


@given(small_instances(), st.sampled_from([*CONSERVING, RRB]))
def test_no_rule_has_a_smaller_longest_delay_than_first_come_first_served(counts, policy):
    arrivals = Arrivals.counted(counts)
    longest = run(arrivals, FCFS()).delay_ms_max
    assert run(arrivals, LongestWaiting()).delay_ms_max == longest
    assert run(arrivals, policy()).delay_ms_max >= longest


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.integers(1, 99), st.sampled_from([0.5, 1.0, 3.0]))
def test_weighted_lbf_is_lbf_for_equal_sizes_and_speeds(tuples, size, speed):
    seen = Backlogs.of(tuples, sizes_bytes=np.array(tuples) * size, speeds=np.full(len(tuples), speed))
    assert WeightedLBF().choose(seen) == LBF().choose(seen)


@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1, max_size=40))
def test_no_queue_has_two_turns_while_a_waiting_one_has_none(slots):
    policy = SkippingRoundRobin()
    since = [0] * 4
    for tuples in slots:
        chosen = policy.choose(Backlogs.of([tuples[0] + 1, *tuples[1:]]))
        since[chosen] += 1
        if chosen == 0:
            since = [0] * 4
        assert max(since) <= 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=6))
def test_longest_waiting_looks_at_backlogs_only_among_equals(queues):
    tuples, heads = zip(*queues, strict=True)
    if not any(tuples):
        return
    chosen = LongestWaiting().choose(Backlogs.of(tuples, heads=heads))
    oldest = min(head for count, head in queues if count)
    assert heads[chosen] == oldest
    assert tuples[chosen] == max(count for count, head in queues if count and head == oldest)
    first = FCFS().choose(Backlogs.of(tuples, heads=heads))
    assert first == next(i for i, (count, head) in enumerate(queues) if count and head == oldest)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Backlogs.of([]), "no queue"),
        (lambda: Backlogs.of([1, -2]), r"tuples\[1\] is -2"),
        (lambda: Backlogs.of([1, math.nan]), r"tuples\[1\] is nan"),
        (lambda: Backlogs.of("ab"), "tuples must be numbers"),
        (lambda: Backlogs.of([[1, 2]]), "one number for each queue"),
        (lambda: Backlogs.of([1], sizes_bytes=[-1]), r"sizes_bytes\[0\] is -1"),
        (lambda: Backlogs.of([1], sizes_bytes=[1, 2]), "one number for each queue"),
        (lambda: Backlogs.of([1], speeds=[0]), r"speeds\[0\] is 0"),
        (lambda: Backlogs.of([1], heads=[math.inf]), r"heads\[0\] is inf"),
        (lambda: Backlogs.of([1], heads=[1, 2]), "one time for each of 1"),
        (lambda: Backlogs.of([1], heads=["x"]), "heads must be times"),
        (lambda: FCFS().choose(Backlogs.of([1])), "heads="),
        (lambda: LongestWaiting().choose(Backlogs.of([1])), "heads="),
        (lambda: new_policy("lfb"), "there is no emission policy 'lfb': choose from lbf"),
    ],
)
def test_what_cannot_be_is_refused_with_its_value(make, said):
    with pytest.raises(InvalidParameter, match=said):
        make()


class Broken:
    name, work_conserving = "broken", True

    def __init__(self, choose):
        self._choose = choose

    def choose(self, backlogs):
        return self._choose(backlogs)


class Fickle:
    name, work_conserving, made = "fickle", False, 0

    def __init__(self):
        type(self).made += 1
        self.number = self.made

    def choose(self, backlogs):
        return self.number % backlogs.queues


def spoil(backlogs):
    chosen = LBF().choose(backlogs)
    backlogs.tuples[0] += 1
    return chosen


@pytest.mark.parametrize(
    ("make", "promise"),
    [
        (lambda: Broken(lambda backlogs: backlogs.queues), "out of range"),
        (lambda: Broken(lambda _: -1), "out of range"),
        (lambda: Broken(lambda backlogs: np.argmax(backlogs.tuples)), "plain int"),
        (lambda: Broken(lambda backlogs: int(np.argmin(backlogs.tuples))), "empty queue was chosen"),
        (lambda: Broken(spoil), "must not change"),
        (Fickle, "same choices"),
    ],
)
def test_a_policy_that_breaks_a_promise_is_caught(make, promise):
    with pytest.raises(AssertionError, match=promise):
        check_emission(make)
