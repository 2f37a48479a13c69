"""A user's own groupings and policies in the simulators, beside ours."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from evenly.emission.policies.catalogue import POLICIES
from evenly.errors import InvalidParameter
from evenly.lab.rivals.shuffle.least_loaded_channels import LeastLoadedChannels
from evenly.lab.rivals.shuffle.least_work import LeastWork
from evenly.lab.rivals.shuffle.posg import POSG
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.rivals.shuffle.shortest_queue import ShortestQueue
from evenly.lab.rivals.shuffle.virtual_finish import VirtualFinish
from evenly.lab.simulation import emission, keys, queueing
from evenly.lab.simulation.catalogue import SHUFFLE, Wanted
from evenly.lab.simulation.queueing import Stage, run
from evenly.streams import zipf
from evenly.testing import check_shuffle_grouping


class ByKey:
    """A grouping that knows nothing of ours."""

    name = "by-key"
    memory_bytes = 0

    def __init__(self, instances=4):
        self.instances = instances

    def route(self, keys, now_s):
        del now_s
        return (np.asarray(keys) % self.instances).astype(np.int32)


class Noting(ByKey):
    """Hears of queues, and keeps what it hears; a run has copies, which share this list."""

    heard: list = []  # noqa: RUF012 - shared on purpose

    def observe(self, queued, queued_bytes=None):
        del queued_bytes
        self.heard.append(np.asarray(queued).tolist())


@pytest.fixture
def stage():
    """Each tuple takes 10 ms, and one comes every ms."""
    return Stage.of(np.arange(40), np.full(40, 10.0), np.arange(40.0), instances=4)


def test_an_own_grouping_decides(stage):
    check_shuffle_grouping(ByKey)
    outcome = run(stage, ByKey(4))
    assert outcome.grouping == "by-key"
    assert outcome.assigned.tolist() == [key % 4 for key in range(40)]
    np.testing.assert_array_equal(outcome.completion_ms, run(stage, RoundRobin(4)).completion_ms)


def test_a_subclass_decides_and_not_its_parent(stage):
    class AllToZero(RoundRobin):
        def route(self, keys, now_s):
            del now_s
            return np.zeros(len(keys), np.int32)

    assert np.unique(run(stage, AllToZero(4)).assigned).tolist() == [0]


@pytest.mark.parametrize("kind", [POSG, VirtualFinish, ShortestQueue, LeastLoadedChannels])
def test_a_subclass_of_what_hears_messages_still_hears_them(kind):
    class First(kind):
        """Every other tuple to instance 0, whatever its parent says."""

        turns = 0

        def route(self, keys, now_s):
            self.turns += 1
            chosen = super().route(keys, now_s)
            return chosen * 0 if self.turns % 2 else chosen

    rng = np.random.default_rng(1)
    stage = Stage.of(rng.integers(0, 20, 500), rng.random(500) * 8, np.arange(500.0), instances=4)
    options = {"window": 16} if kind in (POSG, VirtualFinish) else {}
    outcome = run(stage, First(4, **options))
    assert (outcome.assigned[::2] == 0).all()
    assert outcome.messages > 0


def test_a_subclass_of_an_oracle_is_told_the_costs_of_the_stage():
    class Stubborn(LeastWork):
        pass

    stage = Stage.of([0, 0, 0, 0], [9.0, 1.0, 1.0, 1.0], [0.0] * 4, instances=2)
    assert run(stage, Stubborn(2, cost_ms=np.asarray)).assigned.tolist() == [0, 1, 1, 1]


def test_queues_are_told_from_time_to_time_or_before_every_tuple(stage):
    Noting.heard.clear()
    outcome = run(stage, Noting(4), refresh_ms=8.0)
    assert Noting.heard == [[2.0] * 4, [3.0] * 4, [4.0] * 4, [5.0, 5.0, 5.0, 6.0]]
    assert outcome.messages == 4 * 4

    class Own(Noting):
        sees_own_queues = True

    Noting.heard.clear()
    run(stage, Own(4))
    assert Noting.heard[:3] == [[0.0] * 4, [1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]
    assert len(Noting.heard) == 40


def test_a_subclass_of_round_robin_that_observes_is_told(stage):
    class Watching(RoundRobin):
        def observe(self, queued, queued_bytes=None):
            heard.append(len(queued))
            super().observe(queued, queued_bytes)

    heard: list[int] = []
    assert run(stage, Watching(4), refresh_ms=10.0).messages == 3 * 4
    assert heard == [4, 4, 4]
    assert run(stage, RoundRobin(4), refresh_ms=10.0).messages == 0


def test_the_given_grouping_is_not_changed_and_a_run_can_be_repeated(stage):
    class Sharing(VirtualFinish):
        pass

    for grouping in (Sharing(4, first_report=2), ShortestQueue(4)):
        first, second = run(stage, grouping), run(stage, grouping)
        assert first.assigned.tolist() == second.assigned.tolist()
    assert Sharing(4).route(range(4), 0.0).tolist() == [0, 1, 2, 3]


def test_each_scheduler_has_a_grouping_of_its_own():
    class Counting(RoundRobin):
        pass

    stage = Stage.of(range(6), np.ones(6), np.arange(6.0), instances=3, sources=[0, 0, 1, 0, 1, 1])
    assert run(stage, Counting(3)).assigned.tolist() == [0, 1, 0, 2, 1, 2]


class NoRoute:
    name, instances, memory_bytes = "no-route", 4, 0


class OutOfRange(ByKey):
    def route(self, keys, now_s):
        return super().route(keys, now_s) - 1


class Floats(ByKey):
    def route(self, keys, now_s):
        return super().route(keys, now_s) * 1.0


class TooMany(ByKey):
    def route(self, keys, now_s):
        del keys, now_s
        return np.zeros(2, np.int32)


class Deaf(ByKey):
    def receive(self, message):
        raise AssertionError(message)


class Locked(ByKey):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (NoRoute, "NoRoute is not a shuffle grouping: that has name, instances, memory_bytes and route"),
        (OutOfRange, r"by-key sent one tuple to array\(\[-1\]"),
        (Floats, "an instance from 0 to 3 for each tuple"),
        (TooMany, "an instance from 0 to 3 for each tuple"),
        (Deaf, "by-key has receive, but nothing would come: give it carried and instance"),
        (Locked, "grouping Locked cannot be copied .*__deepcopy__"),
    ],
)
def test_what_is_no_grouping_is_refused(stage, kind, said):
    with pytest.raises(InvalidParameter, match=said):
        run(stage, kind())


def test_exact_types_take_their_compiled_runs(stage, monkeypatch):
    """Without the plain simulators ours still run."""
    monkeypatch.setattr(queueing, "plain", None)
    monkeypatch.setattr(emission, "SlottedLink", None)
    monkeypatch.setattr(keys, "plain_loads", None)
    for make in SHUFFLE.values():
        assert run(stage, make(Wanted(4))).assigned.size == 40
    for policy in POLICIES.values():
        assert emission.run(emission.Arrivals.counted([[1, 1]]), policy()).max_backlog == 1
    settings = [keys.Setting(name, 4, learnt=10) for name in ("evenly", "dkg", "dkg-wosim", "o-apx", "universal", "modulo")]
    assert (keys.simulate(zipf(1.0, 50), settings, runs=1, evaluated=10).imbalance_pct >= 0.0).all()
