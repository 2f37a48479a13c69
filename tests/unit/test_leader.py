"""The leader of a link decides as its policy does, though it asks in the cheapest way."""

from __future__ import annotations

import os

import numpy as np
import pytest

from evenly.emission.link.leader import Leader
from evenly.emission.link.segment import BYTES, HEAD_NS, PID, PLACES, SENT, SPEED, TUPLES, Segment, segment_path
from evenly.emission.policies.base import Backlogs
from evenly.emission.policies.catalogue import POLICIES, new_policy
from evenly.emission.policies.largest_backlog import LBF

QUEUES, INTERVAL_NS = 7, 10**7


@pytest.fixture
def segment(tmp_path):
    opened = Segment.open(segment_path("leader", tmp_path))
    places = [opened.join(INTERVAL_NS, "any") for _ in range(QUEUES)]
    yield opened
    for place in places:
        opened.leave(place)
    opened.dispose()


def report(segment, tuples, sizes_bytes, heads, speeds):
    for row, *numbers in zip(segment.rows, tuples, sizes_bytes, heads, speeds, strict=False):
        row[TUPLES], row[BYTES], row[HEAD_NS], row[SPEED] = (int(number) for number in numbers)
        row[SENT] += 1  # it moves, so it is not stalled


def signals(segment):
    return [place for place in range(QUEUES) if segment.signal(place).value]


@pytest.mark.parametrize("name", POLICIES)
def test_the_signal_goes_where_the_policy_says(segment, name):
    """With few different numbers, so that there are ties; the state of a round-robin goes along."""
    rng = np.random.default_rng(5)
    leader, policy = Leader(segment, new_policy(name)), new_policy(name)
    for _ in range(300):
        tuples = rng.integers(0, 4, QUEUES)
        if np.count_nonzero(tuples) < 2:
            continue
        sizes, heads, speeds = tuples * rng.integers(0, 3, QUEUES), rng.integers(1, 4, QUEUES), rng.integers(1, 4, QUEUES)
        report(segment, tuples, sizes, heads, speeds)
        assert leader.decide(1, INTERVAL_NS) == 1
        assert signals(segment) == [policy.choose(Backlogs.of(tuples, sizes_bytes=sizes, heads=heads, speeds=speeds))]


def test_a_ranked_policy_with_a_choice_of_its_own_is_asked_for_it(segment):
    class Smallest(LBF):
        def choose(self, backlogs):
            return int(np.argmin(np.where(backlogs.tuples > 0, backlogs.tuples, np.inf)))

    report(segment, [9, 0, 4, 2, 7, 3, 8], [1] * QUEUES, [1] * QUEUES, [1] * QUEUES)
    Leader(segment, Smallest()).decide(1, INTERVAL_NS)
    assert signals(segment) == [3]


def test_a_queue_of_a_process_that_is_gone_is_not_chosen(segment):
    """Its row is there, and nobody holds its lock."""
    segment.header[PLACES] = QUEUES + 1
    segment.rows[QUEUES][PID] = os.getpid() + 1
    segment.rows[QUEUES][TUPLES] = 1_000
    report(segment, [1, 2, 1, 1, 1, 1, 1], [1] * QUEUES, [1] * QUEUES, [1] * QUEUES)
    leader = Leader(segment, LBF())
    leader.decide(1, INTERVAL_NS)
    assert signals(segment) == [1]
    assert segment.rows[QUEUES][PID] == 0
