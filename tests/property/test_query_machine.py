"""A query under a changing mapping, over thousands of random orders of what can happen to it: threads, Spark, users, faults."""

import logging
import random
from collections import Counter
from functools import partial

import numpy as np
import pytest
from query_world import Controller, World, mapping

from evenly.keys import query_instructions as do
from evenly.keys.controller import BatchLoad, Decision
from evenly.keys.query_machine import EFFECT_BATCHES, REFUSALS_KEPT, QueryMachine

SEQUENCES = 3_000


def test_whatever_happens_in_whatever_order():
    happened = Counter()
    for seed in range(SEQUENCES):
        world = World(seed)
        machine = world.machine
        world.play()
        world.settle()
        assert machine.settled, seed
        assert not machine.changing
        assert machine.over >= world.stop_told
        if not world.active:
            world.tell(partial(machine.ended, world.run, world.error))
            assert machine.over
            assert (machine.failure is None) <= (world.error is None), "a run that has failed has not ended well"
        asked = [it for it in world.threads if it.name == "asked"]
        assert all(it.answer is not None for it in asked), "who asked is answered"
        if world.stop_told:
            assert not world.active
        if world.controller is not None and not world.controller.broke:
            assert machine.handled == world.number - 1, "every report is taken in"
            assert world.counts["Unwatch"] == machine.over
        assert world.counts["Unwatch"] <= 1
        assert len(machine.refusals) <= REFUSALS_KEPT
        happened.update(world.counts)
    rare = {name: happened[name] for name in (
        "Check", "StopRun", "Enforce", "Start", "Note", "EndRun", "Unwatch", "Wait", "Log", "Refused", "Answer",
        "answered", "refused", "in force though it raised", "failed alone", "ended alone", "interrupted",
    )}  # fmt: skip
    assert min(rare.values()) > 30, rare


def load(*rows):
    return np.array(rows), BatchLoad(np.array(rows), None)


def running(controller, **given):
    machine = QueryMachine(version=1, controller=controller, **given)
    assert machine.started() == ()
    return machine


def changed(machine, version=2):
    """A change that is asked for, and all that it takes."""
    assert machine.change_asked(mapping(), "asked for") == (do.Check(running=True),)
    assert machine.checked() == (do.StopRun(),)
    (enforce,) = machine.stopped()
    assert enforce.change.reason == "asked for"
    assert machine.enforced(version, mapping()) == (do.Start(),)
    assert machine.started() == (do.Answer(version, None),)


class Calm(Controller):
    def __init__(self):
        super().__init__(random.Random(0), breaks=0.0)

    def observe(self, _):
        return Decision("keep", 1.0, 1.0)


class Eager(Calm):
    def observe(self, _):
        return Decision("change", 9.0, 1.0, 2.0, mapping())


def test_a_batch_is_listed_under_its_own_version_also_when_the_next_run_has_begun():
    machine = running(Calm())
    machine.batch_seen(1, 0, *load(3, 1), None)
    changed(machine)
    changed(machine, 3)
    for run, number in ((1, 1), (1, 1), (2, 2), (3, 3)):
        assert machine.batch_seen(run, number, *load(3, 1), (4, 0)) == ()
    assert [(batch.number, batch.version) for batch in machine.batches.all()] == [(0, 1), (1, 1), (2, 2), (3, 3)]
    machine.all_seen(2)
    machine.batch_seen(2, 4, *load(3, 1), None)
    assert machine.handled == 3, "a run whose last report has come has no more"
    machine.all_seen(1)
    assert machine.drained == 2


def test_the_effect_is_noted_once_and_again_until_it_is_written():
    machine = running(Calm(), effect_known=False)
    for number in range(EFFECT_BATCHES - 1):
        assert machine.batch_seen(1, number, *load(3, 1), None) == ()
    for number in range(2):
        (note,) = machine.batch_seen(1, 10 + number, *load(3, 1), None)
        assert note == do.Note(1, {"after_pct": pytest.approx(50.0)})
        said = machine.failed(OSError("no space left"))
        assert [it.level for it in said] == ([logging.WARNING] if number == 0 else []), "said once"
    machine.batch_seen(1, 20, *load(3, 1), None)
    assert "λ is 50.0 %" in machine.noted()[0].message
    assert machine.batch_seen(1, 30, *load(3, 1), None) == ()
    changed(machine)
    seen = [machine.batch_seen(2, 40 + number, *load(1, 1), None) for number in range(EFFECT_BATCHES)]
    assert seen == [(), (), (do.Note(2, {"after_pct": 0.0}),)], "of each version anew"


def test_what_was_decided_is_done_after_the_note_whether_or_not_that_was_written():
    for written in (False, True):
        machine = running(Eager(), effect_known=False)
        for number in range(EFFECT_BATCHES - 1):
            machine.batch_seen(1, number, *load(3, 1), None)
            machine.failed(ValueError("not yet"))
        (note,) = machine.batch_seen(1, 10, *load(3, 1), None)
        assert isinstance(note, do.Note)
        out = machine.noted() if written else machine.failed(OSError("no space left"))
        assert out[-1] == do.Check(running=True)


def test_refusals_are_bounded_and_the_controller_hears_of_each():
    controller = Eager()
    machine = running(controller)
    for number in range(REFUSALS_KEPT + 10):
        assert machine.batch_seen(1, number, *load(3, 1), None) == (do.Check(running=True),)
        said, refused = machine.failed(ValueError(f"refusal {number}\nat length"))
        assert said.message.endswith(f"(change): refusal {number}")
        assert (refused.why, refused.change.reason) == (f"refusal {number}", "change")
    assert (len(machine.refusals), machine.refusals[0][:10]) == (REFUSALS_KEPT, "refusal 10")
    assert controller.refusals == REFUSALS_KEPT + 10


def test_a_controller_that_breaks_ends_the_watching_and_not_the_query():
    controller = Controller(random.Random(0), breaks=1.0)
    machine = running(controller)
    told = {type(it): it for it in machine.batch_seen(1, 0, *load(3, 1), None)}
    assert told.keys() == {do.Unwatch, do.Log, do.Refused}
    assert (told[do.Log].level, told[do.Refused].change) == (logging.ERROR, None)
    assert told[do.Refused].why == machine.refusals[0]
    assert machine.refusals == ("the controller has ended, and the mapping stays as it is: the controller is broken",)
    assert (machine.failure, machine.over, machine.watched) == (None, False, False)
    changed(machine)


def test_a_query_that_has_failed_says_so_to_who_asks_for_a_change_and_one_that_has_ended_well_changes_without_a_start():
    machine, error = running(None), RuntimeError("no such sink")
    machine.ended(1, error)
    assert machine.change_asked(mapping(), "asked for") == (do.Answer(1, error),)
    machine = running(None)
    machine.ended(1)
    assert machine.change_asked(mapping(), "asked for") == (do.Check(running=False),)
    assert not machine.changing
    machine.checked()
    machine.stopped()
    assert machine.enforced(2, mapping()) == (do.Answer(2, None),)


def test_a_query_that_another_stops_while_it_is_to_be_stopped_for_a_change_is_not_started_again():
    machine = running(None)
    machine.change_asked(mapping(), "asked for")
    machine.checked()
    assert [type(it) for it in machine.stopped(by_another=True)] == [do.Log, do.Enforce]
    assert machine.enforced(2, mapping()) == (do.Answer(2, None),)
    assert (machine.failure, machine.over, machine.settled, machine.changing) == (None, True, True, False)


@pytest.mark.parametrize("seen", ["checking", "stopping", "stopped"])
def test_a_query_that_fails_while_it_is_to_be_stopped_for_a_change_is_not_started_again(seen):
    machine, error = running(None), RuntimeError("no such sink")
    machine.change_asked(mapping(), "asked for")
    if seen == "checking":
        machine.ended(1, error)
        assert machine.checked() == (do.Answer(1, error),)
    else:
        assert machine.checked() == (do.StopRun(),)
        if seen == "stopping":
            machine.ended(1, error)
        assert machine.stopped(error) == (do.Answer(1, error),)
    assert (machine.failure, machine.over, machine.settled) == (error, True, True)
