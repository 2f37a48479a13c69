"""The scheduler's states, one by one: from round-robin to run, even dealing and back, resynchronising, slow executors."""

from __future__ import annotations

import json

import numpy as np
import pytest

from evenly.costs import CostMeter, CostModel, CostScheduler, InstanceReport, SchedulerState
from evenly.errors import DamagedData, InvalidCost, InvalidParameter


def steady(ids):
    return 1.0 + ids


def reversed_costs(ids):
    return 12.0 - ids


def alike(ids):
    return np.ones(ids.size)


def report(instance, *, cost=steady, seed=0, rows=60, keys=12, every=1, executor=None, noise=True):
    rng = np.random.default_rng([seed, instance])
    ids = rng.integers(0, keys, rows)
    meter = CostMeter()
    meter.add(ids, cost(ids) * (rng.gamma(100.0, 0.01, rows) if noise else 1.0), weight=every)
    return meter.report(instance=instance, executor=executor or f"host:{instance}", rows=rows * every)


def batch(scheduler, batch_id, *, cost=steady, **options):
    every = scheduler.decide(batch_id).time_every
    reports = [report(at, cost=cost, seed=batch_id, every=every, **options) for at in range(scheduler.instances)]
    assert scheduler.report(batch_id, reports)
    return scheduler.decide(batch_id + 1)


def test_round_robin_until_every_instance_has_reported():
    scheduler = CostScheduler(3)
    decision = scheduler.decide(0)
    assert (decision.state, decision.even, decision.time_every) == (SchedulerState.ROUND_ROBIN, True, 1)
    assert decision.shares.tolist() == [1 / 3] * 3
    assert "3 of 3 instances" in decision.reason
    scheduler.report(0, [report(0)])
    assert "2 of 3 instances" in scheduler.decide(1).reason
    scheduler.report(1, [report(2), report(1)])
    decision = scheduler.decide(2)
    assert (decision.state, decision.even, decision.time_every) == (SchedulerState.RUN, False, 1)
    assert decision.model.rows == pytest.approx(180, abs=0.1)


def test_a_task_without_rows_has_reported_too():
    scheduler = CostScheduler(2)
    scheduler.report(0, [report(0), CostMeter().report(instance=1, executor="host:1")])
    assert scheduler.state is SchedulerState.RUN


def test_an_instance_that_never_reports_does_not_hold_up_the_others():
    scheduler = CostScheduler(5)
    for batch_id in range(3):
        assert scheduler.state is SchedulerState.ROUND_ROBIN
        scheduler.report(batch_id, [report(0, seed=batch_id)])
    assert scheduler.state is SchedulerState.RUN


def test_batches_that_report_nothing_leave_it_where_it_is():
    scheduler = CostScheduler(2)
    for batch_id in range(9):
        assert scheduler.report(batch_id, [])
    assert scheduler.decide(9).state is SchedulerState.ROUND_ROBIN
    assert scheduler.last_batch == 8


def test_a_batch_is_counted_once_and_an_older_one_not_at_all():
    scheduler = CostScheduler(2)
    assert scheduler.report(5, [report(0), report(1)])
    for batch_id in (5, 4, 0):
        assert not scheduler.report(batch_id, [report(0, seed=9), report(1, seed=9)])
    assert scheduler.model.rows == 120
    assert scheduler.last_batch == 5


def test_of_two_reports_of_one_instance_the_fuller_counts():
    full, short = report(0, rows=60), report(0, rows=20)
    for reports in ([full, short], [short, full], [full, full, short]):
        scheduler = CostScheduler(1)
        scheduler.report(0, reports)
        assert scheduler.model.rows == 60


def test_a_refused_report_leaves_it_as_it_was():
    scheduler = CostScheduler(2)
    batch(scheduler, 0)
    before = CostScheduler.from_json(scheduler.to_json())
    broken = InstanceReport(
        1, "host:1", 1, 1.0, 0.0, 0.0, 0.0, 0.0, 0, np.array([1]), np.ones(1), np.array([np.nan]), np.ones(1)
    )
    with pytest.raises(InvalidCost, match="instance 1"):
        scheduler.report(1, [report(0), broken])
    assert scheduler == before
    assert scheduler.report(1, [report(0), report(1)])


def test_constant_costs_are_dealt_evenly_and_watched_and_left_when_they_differ():
    scheduler = CostScheduler(4)
    decision = batch(scheduler, 0, cost=alike)
    assert (decision.state, decision.even, decision.time_every) == (SchedulerState.RUN, True, 16)
    for batch_id in range(1, 6):
        decision = batch(scheduler, batch_id, cost=alike)
        assert (decision.even, decision.time_every) == (True, 16)
    decision = batch(scheduler, 6, cost=steady)
    assert (decision.even, decision.time_every) == (False, 1)
    assert scheduler.resynchronised == 1
    estimates = decision.model.estimate(np.arange(12))
    assert estimates == pytest.approx(steady(np.arange(12)), rel=0.2)


def test_a_slow_drift_away_from_constant_costs_is_noticed_too():
    scheduler = CostScheduler(4, half_life_rows=2_000)
    assert batch(scheduler, 0, cost=alike).even
    for batch_id in range(1, 60):
        decision = batch(scheduler, batch_id, cost=lambda ids, step=batch_id: 1.0 + step * 0.02 * (ids % 2))
    assert not decision.even


def test_costs_that_change_are_learnt_anew_in_the_same_batch():
    scheduler = CostScheduler(4)
    for batch_id in range(20):
        batch(scheduler, batch_id)
    decision = batch(scheduler, 20, cost=reversed_costs)
    assert decision.state is SchedulerState.RUN
    assert scheduler.resynchronised == 1
    for batch_id in range(21, 24):
        decision = batch(scheduler, batch_id, cost=reversed_costs)
    assert scheduler.resynchronised <= 2
    assert decision.model.estimate(np.arange(12)) == pytest.approx(reversed_costs(np.arange(12)), abs=0.6)


def test_a_machine_that_is_slower_for_all_keys_is_no_contradiction():
    scheduler = CostScheduler(4)
    for batch_id in range(10):
        batch(scheduler, batch_id)
    decision = batch(scheduler, 10, cost=lambda ids: 3.0 * steady(ids))
    assert scheduler.resynchronised == 0
    assert decision.model.estimate(np.arange(12)) == pytest.approx(3.0 * steady(np.arange(12)), rel=0.1)


def test_costs_that_the_key_does_not_decide_at_all_go_back_to_round_robin():
    scheduler = CostScheduler(4)
    for batch_id in range(10):
        batch(scheduler, batch_id)
    states = []
    for batch_id in range(10, 20):
        changing = np.random.default_rng(batch_id).permutation(12) ** 3.0 + 1.0
        states.append(batch(scheduler, batch_id, cost=lambda ids, now=changing: now[ids]).state)
    assert SchedulerState.ROUND_ROBIN in states
    for batch_id in range(20, 30):
        decision = batch(scheduler, batch_id)
    assert decision.state is SchedulerState.RUN
    assert decision.model.estimate(np.arange(12)) == pytest.approx(steady(np.arange(12)), rel=0.35)


def test_a_slow_executor_gets_less_from_the_next_batch_on():
    scheduler = CostScheduler(8)
    for batch_id in range(3):
        assert batch(scheduler, batch_id).shares.size == 8
    reports = [report(at, seed=3, cost=(lambda ids: 4.0 * steady(ids)) if at == 5 else steady) for at in range(8)]
    scheduler.report(3, reports)
    decision = scheduler.decide(4)
    assert decision.shares.size > 8
    assert not decision.even
    assert decision.shares.max() < 0.5 / 8
    assert scheduler.speeds.of("host:5") < 0.5
    assert scheduler.resynchronised == 0
    # What it measured is told as a usual executor's cost.
    assert decision.model.estimate(np.arange(12)) == pytest.approx(steady(np.arange(12)), rel=0.1)


def test_a_slow_executor_is_noticed_in_the_first_batch_and_with_constant_costs():
    scheduler = CostScheduler(4)
    reports = [report(at, cost=(lambda ids: 4.0 * alike(ids)) if at == 0 else alike) for at in range(4)]
    scheduler.report(0, reports)
    decision = scheduler.decide(1)
    assert (decision.even, decision.shares.size > 4) == (False, True)


def test_what_an_earlier_run_has_learnt_is_used_at_once_and_left_as_it_is():
    learnt = CostModel(("user",)).learn(report(0, rows=500))
    scheduler = CostScheduler(4, model=learnt)
    decision = scheduler.decide(0)
    assert (decision.state, decision.even, decision.model) == (SchedulerState.RUN, False, learnt)
    batch(scheduler, 0)
    assert learnt.rows == 500


def test_a_decision_does_not_change_when_the_scheduler_learns():
    scheduler = CostScheduler(2)
    batch(scheduler, 0)
    decision = scheduler.decide(1)
    before = decision.model.copy()
    batch(scheduler, 1)
    assert decision.model == before


def test_damaged_state_and_bad_parameters_are_named():
    scheduler = CostScheduler(2)
    batch(scheduler, 0)
    text = scheduler.to_json()
    for broken in (text[:-9], "{}", text.replace('"state": "run"', '"state": "off"'), CostModel().to_json()):
        with pytest.raises(DamagedData, match="costs/7"):
            CostScheduler.from_json(broken, source="costs/7.json")
    assert json.loads(text)["format_version"] == 1
    for bad in (0, -1, 2**20 + 1):
        with pytest.raises(InvalidParameter, match=str(bad)):
            CostScheduler(bad)
