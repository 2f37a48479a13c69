"""What decides on Spark how batches are dealt by cost, run without Spark; and one's own in its place."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from evenly.costs.dealing import BatchDealer
from evenly.costs.meter import CostMeter
from evenly.costs.model import CostModel
from evenly.costs.scheduler import CostScheduler, SchedulerState
from evenly.costs.table import CostTable
from evenly.costs.turns import in_turn
from evenly.errors import EmptyStream, InvalidCost, InvalidParameter
from evenly.lab.rivals.shuffle.round_robin import RoundRobin
from evenly.lab.simulation.batches import EvenScheduler, run_batch, run_batches

INSTANCES = 8
COST_S = np.random.default_rng(1).exponential(0.1, 50)


def batches(count, *, rows=400, seed=2, factor=1.0):
    drawn = np.random.default_rng(seed).integers(0, COST_S.size, (count, rows))
    return [(keys, COST_S[keys] * factor) for keys in drawn]


def test_the_first_batch_is_dealt_evenly_and_what_is_learnt_from_it_nearly_reaches_the_bound():
    learning, even = (run_batches(batches(4), kind(INSTANCES)) for kind in (CostScheduler, EvenScheduler))
    assert [one.way for one in learning] == ["evenly", "routers", "routers", "routers"]
    assert learning[0].completion_s.tolist() == even[0].completion_s.tolist()
    for one, before in zip(learning[1:], even[1:], strict=True):
        assert one.bound_s <= one.batch_s < 1.03 * one.bound_s < before.batch_s
        assert one.completion_s_mean < 0.6 * before.completion_s_mean, "short rows are first within an instance"


def test_every_row_is_run_once_where_it_was_dealt():
    for (_, costs), one in zip(batches(3), run_batches(batches(3), CostScheduler(INSTANCES)), strict=True):
        work = np.bincount(one.partition, costs, INSTANCES)
        ends = [one.completion_s[one.partition == instance].max() for instance in range(INSTANCES)]
        np.testing.assert_allclose(ends, work)
        np.testing.assert_allclose(one.bound_s, max(costs.sum() / INSTANCES, costs.max()))


def learnt():
    meter = CostMeter()
    for keys, costs in batches(20, seed=9):
        meter.add(keys, costs)
    return CostModel(("key",)).learn(meter.report(instance=0))


def test_in_turn_is_what_the_columns_of_spark_compute():
    (batch,) = batches(1)
    scheduler = CostScheduler(INSTANCES, model=learnt())
    (one,) = run_batches([batch], scheduler, ways=("in turn",), parts=1, objective="batch-time")
    assert one.way == "in turn"
    counts = np.bincount(one.partition, minlength=INSTANCES)
    assert counts.max() - counts.min() <= 1
    costliest_first = np.argsort(-COST_S[batch[0]], kind="stable")
    expected = in_turn(np.arange(400), 0, INSTANCES)
    for cost in np.unique(batch[1]):  # rows of one cost are dealt in any order
        alike = np.flatnonzero(batch[1][costliest_first] == cost)
        assert sorted(one.partition[costliest_first][alike]) == sorted(expected[alike])


def test_a_change_of_costs_is_noticed_as_on_spark():
    turned = np.random.default_rng(3).permutation(COST_S)
    first = batches(3)
    after = [(keys, turned[keys]) for keys, _ in batches(3, seed=4)]
    scheduler = CostScheduler(INSTANCES)
    ran = run_batches(first + after, scheduler)
    assert ran[3].batch_s > 1.1 * ran[3].bound_s, "the batch that it learns the change from"
    assert ran[4].batch_s < 1.05 * ran[4].bound_s
    assert scheduler.state is SchedulerState.ROUND_ROBIN, "the scheduler that was given is as it was"
    again = run_batches(first + after, scheduler)
    assert [one.completion_s.tolist() for one in again] == [one.completion_s.tolist() for one in ran]


def test_a_slow_executor_gets_less():
    slowness = [1.0] * 7 + [3.0]
    ran = run_batches(batches(3), CostScheduler(INSTANCES), slowness=slowness)
    assert ran[0].batch_s > 2.0 * ran[0].bound_s
    assert ran[1].reason == "executors differ in speed"
    assert ran[1].batch_s < 1.15 * ran[1].bound_s
    assert ran[1].partition.max() >= INSTANCES, "in more, smaller pieces"
    for one in ran:
        assert one.bound_s <= one.batch_s


def test_an_own_scheduler_decides():
    class AllEven(CostScheduler):
        def decide(self, batch_id, **known):
            return EvenScheduler(self.instances).decide(batch_id, **known)

    even = run_batches(batches(2), EvenScheduler(INSTANCES))
    own = run_batches(batches(2), AllEven(INSTANCES))
    assert [one.completion_s.tolist() for one in own] == [one.completion_s.tolist() for one in even]


def test_one_batch_by_a_dealer_is_what_its_rule_says():
    (keys, costs) = batches(1)[0]
    exact = CostTable(np.arange(COST_S.size), np.append(COST_S, COST_S.mean()))
    one = run_batch(keys, costs, BatchDealer(exact, 4, rule="arrival"), objective="arrival")
    assert one.partition.tolist() == naive.dealt_one_by_one(costs.tolist(), [0.0] * 4)
    longest = run_batch(keys, costs, BatchDealer(exact, 4))
    assert longest.batch_s < one.batch_s
    assert longest.completion_s_mean < one.completion_s_mean


def test_a_dealer_of_ones_own():
    class Halves:
        instances = 2

        def route(self, ids):
            return np.asarray(ids, np.int64) % 2, np.zeros(len(ids))

    one = run_batch([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0], Halves())
    assert one.partition.tolist() == [0, 1, 0, 1]
    assert one.completion_s.tolist() == [1.0, 2.0, 4.0, 6.0]
    assert (one.batch_s, one.bound_s) == (6.0, 5.0)
    slow = run_batch([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0], Halves(), slowness=[2.0, 1.0])
    assert slow.completion_s.tolist() == [2.0, 2.0, 8.0, 6.0]


class OneTooMany:
    instances = 2

    def route(self, ids):
        return np.full(len(ids), 2), np.zeros(len(ids))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: run_batches(batches(1), RoundRobin(2)), InvalidParameter, "RoundRobin is not a batch scheduler"),
        (lambda: run_batch([1], [1.0], RoundRobin(2)), InvalidParameter, "RoundRobin is not a dealer of batches"),
        (lambda: run_batch([1], [1.0], OneTooMany()), InvalidParameter, "OneTooMany must give each of 1 rows an instance"),
        (lambda: run_batch([], [], OneTooMany()), EmptyStream, "a batch without rows"),
        (lambda: run_batch([1], [-1.0], OneTooMany()), InvalidCost, "-1"),
        (lambda: run_batch([1], [1.0], BatchDealer(None, 1), objective="soon"), InvalidParameter, "got 'soon'"),
        (lambda: run_batches(batches(1), EvenScheduler(2), slowness=[1.0]), InvalidParameter, "slowness must be 2"),
        (lambda: run_batches(batches(1), EvenScheduler(2), parts=0), InvalidParameter, "parts must be a whole number"),
        (lambda: EvenScheduler(0), InvalidParameter, "got 0"),
    ],
)
def test_what_cannot_be_run_says_why(call, error, said):
    with pytest.raises(error, match=said):
        call()
