"""Whether batches keep up, and the verdict on a run beside its plan."""

from __future__ import annotations

import pytest

from evenly.dataflow.reports import FlowBatch
from evenly.planning.observed.keeping_up import keeping_up
from evenly.planning.observed.verdict import verdict
from flow_batches import PLAN, batch, measured


def alike(count, took_s, rows=1_000, **more):
    return [batch(number, rows, took_s, **more) for number in range(count)]


def test_too_few_batches_say_nothing():
    assert keeping_up([], 1.0).held is None
    assert keeping_up(alike(4, 0.5), 1.0).held is None  # the first two do not count
    assert keeping_up([batch(number, 0, 5.0) for number in range(9)], 1.0).held is None


def test_batches_within_the_trigger_hold_and_longer_ones_do_not():
    assert keeping_up(alike(8, 0.9), 1.0).held is True
    late = keeping_up(alike(8, 1.2), 1.0)
    assert late.held is False
    assert "batches take 1.2 s, and one is due every 1 s" in late.why


def test_a_slow_start_and_one_slow_batch_are_no_break():
    batches = [batch(0, 900, 20.0), batch(1, 900, 9.0), *(batch(at, 900, 3.0 if at == 4 else 0.5) for at in range(2, 9))]
    assert keeping_up(batches, 1.0).held is True


def test_rows_that_wait_longer_and_longer_are_a_break_though_batches_are_short():
    batches = [batch(at, 1_000, 0.9, completion_s=1.0 + 0.5 * at) for at in range(8)]
    assert keeping_up(batches, 1.0).held is False
    assert keeping_up([batch(at, 1_000, 0.9, completion_s=1.4) for at in range(8)], 1.0).held is True


def test_without_a_trigger_growing_batches_are_a_break():
    assert keeping_up([batch(at, 100 * 2**at, 0.1 * 2**at) for at in range(8)], None).held is False
    assert keeping_up(alike(8, 3.0), None).held is True


def run(took_s, waits_s, works_s):
    return [batch(at, 1_000, took_s, measured("waits", 1_000, waits_s), measured("works", 1_000, works_s)) for at in range(8)]


def test_the_operator_of_the_longest_stage_broke():
    told = verdict(run(1.6, 0.3, 1.2), PLAN, trigger_s=1.0)
    assert (told.held, told.broke) == (False, "works")
    assert str(told).startswith("did not hold: works broke first at 1,000 rows/s: batches take 1.6 s")
    assert verdict(run(0.8, 0.3, 0.4), PLAN, trigger_s=1.0).broke == ""


def test_the_rate_is_what_was_offered_where_that_is_known():
    batches = [batch(at, 1_000, 1.6, interval_s=1.6, rate=900.0) for at in range(8)]
    assert verdict(batches, trigger_s=1.0).rate == 900.0
    batches[-1] = batch(8, 1_000, 1.6, interval_s=1.6, rate=800.0)  # it changed on the way
    assert verdict(batches, trigger_s=1.0).rate == pytest.approx(6_000 / 1.6 / 6, rel=0.2)


def test_of_operators_in_one_worker_the_busier_broke():
    batches = [
        batch(at, 100, 2.0, measured("idle", 100, 1.5, busy_pct=10.0), measured("busy", 100, 1.5, busy_pct=85.0))
        for at in range(8)
    ]
    assert verdict(batches, trigger_s=1.0).broke == "busy"


def test_planned_predicted_and_observed_stand_side_by_side():
    told = verdict(run(0.8, 0.35, 0.3), PLAN, trigger_s=1.0)
    waits, works = told.operators
    assert (waits.operator, waits.planned_threads, waits.threads, waits.predicted_rate) == ("waits", 8, 1, 1_000.0)
    assert waits.predicted_stage_s == pytest.approx(PLAN.stages[1].seconds(1_000))
    assert (waits.stage_s, works.stage_s) == (0.35, 0.3)
    assert told.rate == pytest.approx(1_000.0)
    assert told.predicted_batch_s == pytest.approx(PLAN.batch_s(1_000))
    assert told.predicted_peak_rate == PLAN.peak_rate
    assert told.predicted_to_break == PLAN.first_to_break


def test_without_a_plan_and_without_batches_there_is_still_a_verdict():
    assert str(verdict([], trigger_s=1.0)) == "not known: 0 of 3 batches that are needed to tell"
    told = verdict(run(0.8, 0.3, 0.3))
    assert told.held
    assert told.planned_rate is None
    assert [it.planned_threads for it in told.operators] == [None, None]
    unheard = [FlowBatch(at, 0.5, {}) for at in range(9)]  # Spark has not told of them, and no operator was measured
    assert verdict(unheard).rate is None


def test_the_mean_completion_is_over_rows_not_batches():
    batches = [batch(at, 1_000 if at == 5 else 1, 0.5, completion_s=9.0 if at == 5 else 1.0) for at in range(8)]
    assert verdict(batches, trigger_s=1.0).completion.mean_s == pytest.approx(9_005 / 1_005)
