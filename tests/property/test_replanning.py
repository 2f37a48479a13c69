"""Planning again while a dataflow runs: what it promises for any sequence of batches."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from evenly.dataflow.reports import FlowBatch
from evenly.dataflow.tuning import Tuning
from evenly.planning.observed.replanning import MOST_TRIED_THREADS, Change, Outcome, Replanner
from flow_batches import FLOW, PLAN, batch, measured

SPANS = st.floats(0.001, 20.0)
PERCENT = st.floats(0.0, 100.0)


def replanner(patience=3, cap=None, **more):
    return Replanner(FLOW, PLAN, Tuning(dict(PLAN.threads), rows_per_batch=cap), patience=patience, **more)


@st.composite
def observed(draw, number):
    rows = draw(st.sampled_from([None, 0, 1, 10, 1_000, 50_000]))
    operators = [
        measured(
            name, rows or 0, draw(SPANS), busy_pct=draw(PERCENT), cpu_pct=draw(st.none() | PERCENT), imbalance_pct=draw(PERCENT)
        )
        for name in draw(st.sampled_from([(), ("waits",), ("works",), ("waits", "works")]))
    ]
    if draw(st.booleans()):
        return FlowBatch(number, 1.0, {it.operator: it for it in operators}, rows)
    return batch(number, rows, draw(SPANS), *operators, interval_s=draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])))


@st.composite
def sequences(draw):
    made = [draw(observed(0)) for _ in range(draw(st.integers(1, 4)))]
    picks = draw(st.lists(st.integers(0, len(made) - 1), max_size=60))
    return [made[pick] for pick in picks]


@settings(max_examples=200)
@given(sequence=sequences(), patience=st.integers(1, 4), cap=st.none() | st.integers(1, 2_000), tells=st.booleans())
def test_whatever_is_observed_changes_stay_within_what_is_allowed(sequence, patience, cap, tells):
    machine = replanner(patience, cap, source_tells=tells)
    quiet, pending = 0, None
    for at, one in enumerate(sequence):
        before = machine.tuning
        moved = FlowBatch(at, one.seconds, one.operators, one.rows, one.began_s and one.began_s + 2.0 * at, one.whole_s)
        events = machine.observe(moved)
        quiet += bool(moved.rows) and moved.began_s is not None
        if not events:
            assert machine.tuning == before
            continue
        assert quiet >= patience  # nothing before so many batches that say something
        for event in events:
            assert str(event)
            if isinstance(event, Outcome):
                assert event.change is pending
                pending = None
            elif event.recommended:
                assert machine.tuning == before
            else:
                assert pending is None  # one at a time
                pending = event
                assert event.reason
                assert event.expected
        quiet = 0
    tuning = machine.tuning
    assert all(1 <= threads <= MOST_TRIED_THREADS for threads in tuning.threads.values())
    assert tuning.threads["works"] == PLAN.threads["works"]  # the description says how many
    assert set(tuning.instances) <= {("source", "waits"), ("waits", "works")}
    assert tuning.rows_per_batch is None or tuning.rows_per_batch >= 1
    assert tells or tuning.rows_per_batch == cap


@given(one=observed(0), cap=st.integers(1, 2_000))
def test_while_batches_are_alike_it_comes_to_rest(one, cap):
    machine = replanner(2, cap, source_tells=True)
    events = [
        machine.observe(FlowBatch(at, one.seconds, one.operators, one.rows, one.began_s and one.began_s + at, one.whole_s))
        for at in range(400)
    ]
    assert not any(events[200:])


def shown(machine, count, waits_s, *, rows=1_000, cpu_pct=10.0, took_s=None, first=0, imbalance_pct=1.0, works_s=0.2):
    """What `count` batches bring about; how long they take depends on the threads, as for a function that waits."""
    events = []
    for at in range(first, first + count):
        threads = machine.tuning.threads.get("waits", 1)
        span_s = waits_s / threads
        waits = measured("waits", rows, span_s, threads=threads, cpu_pct=cpu_pct, imbalance_pct=imbalance_pct)
        events += machine.observe(batch(at, rows, took_s or 0.1 + span_s + works_s, waits, measured("works", rows, works_s)))
    return events


def test_a_function_that_waits_longer_than_its_model_gets_more_threads_and_keeps_them():
    machine = replanner()
    assert PLAN.threads["waits"] == 8
    change, outcome = shown(machine, 8, 8 * 1.0)
    assert isinstance(change, Change)
    assert (change.kind, change.of, change.before, change.after) == ("threads", "waits", 8, 16)
    assert "takes 1 s in place of 0.312 s with 1,000 rows" in change.reason
    assert change.expected == "a stage of 0.5 s in place of 1 s"
    assert isinstance(outcome, Outcome)
    assert outcome.kept
    assert "2.00 times as fast as before" in str(outcome)
    assert machine.tuning.threads["waits"] == 16


def test_threads_that_bring_nothing_are_taken_back_and_not_tried_again():
    machine, events = replanner(), []
    for at in range(40):
        waits = measured("waits", 1_000, 1.0, cpu_pct=10.0)
        events += machine.observe(batch(at, 1_000, 1.3, waits, measured("works", 1_000, 0.2)))
    assert [str(event.kind) for event in events if isinstance(event, Change)] == ["threads", "slots"]
    (outcome,) = (event for event in events if isinstance(event, Outcome))
    assert not outcome.kept
    assert "taken back to 8" in str(outcome)
    assert machine.tuning.threads["waits"] == 8


def test_a_function_that_computes_gets_a_recommendation_of_slots_once():
    machine = replanner()
    events = shown(machine, 30, 8 * 1.0, cpu_pct=99.0)
    (change,) = events
    assert (change.kind, change.recommended, change.before) == ("slots", True, 2)
    assert change.after > 2
    assert machine.tuning.threads["waits"] == 8


def test_uneven_tasks_are_made_finer():
    (change, *_) = shown(replanner(), 3, 8 * 1.0, imbalance_pct=80.0)
    assert (change.kind, change.of, change.before, change.after) == ("instances", "source -> waits", 2, 8)


def test_what_has_many_tasks_already_is_not_made_coarser():
    """A session whose shuffles have 200 tasks, and edges that do not say how many."""
    machine = replanner(usual_instances=200)
    events = shown(machine, 6, 8 * 1.0, imbalance_pct=80.0)
    assert [event.kind for event in events if isinstance(event, Change)] == ["threads"]


def test_batches_as_planned_change_nothing():
    assert shown(replanner(), 50, 8 * 0.32, works_s=0.25) == []


def test_two_batches_are_no_reason_and_others_between_begin_anew():
    machine, events = replanner(), []
    for turn in range(10):
        events += shown(machine, 2, 8 * 1.0, first=3 * turn)
        events += shown(machine, 1, 8 * 0.32, first=3 * turn + 2, works_s=0.25)
    assert events == []


def test_a_batch_that_is_too_short_for_what_waits_gets_more_rows_and_one_too_long_fewer():
    machine = replanner(cap=500, source_tells=True)
    short = [
        batch(at, 500, 0.4, measured("waits", 500, 0.16), measured("works", 500, 0.125), interval_s=0.5) for at in range(3)
    ]
    (change,) = [event for one in short for event in machine.observe(one)]
    assert (change.kind, change.before, change.after) == ("rows per batch", 500, 1_187)
    assert machine.tuning.rows_per_batch == 1_187
    machine = replanner(cap=2_000, source_tells=True)
    long = [
        batch(at, 2_000, 2.0, measured("waits", 2_000, 0.62), measured("works", 2_000, 0.5), interval_s=2.0) for at in range(3)
    ]
    (change,) = [event for one in long for event in machine.observe(one)]
    assert (change.kind, change.after) == ("rows per batch", 950)


def test_a_rate_far_below_the_plan_recommends_fewer_slots_and_batches_without_rows_nothing():
    plan_rate = PLAN.rate
    machine = replanner()
    few = [batch(at, 100, 0.15, interval_s=1.0) for at in range(10)]
    assert few[0].rows < 0.5 * plan_rate
    events = [event for one in few for event in machine.observe(one)]
    assert [(event.kind, event.before, event.after) for event in events] == [("slots", 2, 1)]
    assert [event for at in range(20) for event in replanner().observe(batch(at, 0, 9.0))] == []
