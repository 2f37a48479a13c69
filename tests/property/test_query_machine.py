"""A query under a changing mapping, over thousands of random orders of what can happen to it: threads, Spark, users, faults."""

import logging
import random
from collections import Counter, deque
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from evenly.keys import query_instructions as do
from evenly.keys.controller import BatchLoad, Decision
from evenly.keys.query_machine import EFFECT_BATCHES, REFUSALS_KEPT, QueryMachine

SEQUENCES, STEPS = 3_000, 100
CARRIED = (do.Check, do.StopRun, do.Enforce, do.Start, do.Note)


def mapping():
    return SimpleNamespace(expected_imbalance_pct=1.0)


class Controller:
    """Decides at random, and may break."""

    def __init__(self, rng, *, breaks):
        self.rng, self.breaks = rng, breaks
        self.decided, self.refusals, self.broke = 0, 0, False

    def _maybe_break(self):
        if self.rng.random() < self.breaks:
            self.broke = True
            raise LookupError("the controller is broken")

    def observe(self, load):
        self._maybe_break()
        assert load.rows.sum() > 0.0
        if self.rng.random() < 0.6:
            return Decision("keep", 1.0, 1.0)
        self.decided += 1
        return Decision(f"decision {self.decided}", 9.0, 1.0, 2.0, mapping())

    def changed(self, _, *, expected_pct):
        assert expected_pct == 1.0
        self._maybe_break()

    def refused(self):
        self.refusals += 1
        self._maybe_break()


class Thread:
    """Carries out, one by one, what followed from the event that it told."""

    def __init__(self, name, event):
        self.name, self.event = name, event
        self.todo, self.answer = deque(), None

    @property
    def waits(self):
        return bool(self.todo) and isinstance(self.todo[0], do.Wait)


class World:
    """Spark, the checkpoint, a bus of reports, and threads, which go on in any order."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        chance = self.rng.random
        self.faults = self.rng.choice([0.0, 0.1, 0.5])
        self.controller = Controller(self.rng, breaks=self.rng.choice([0.0, 0.0, 0.02])) if chance() < 0.9 else None
        self.machine = QueryMachine(version=1, controller=self.controller)
        self.counts = Counter()
        self.threads, self.bus = [], deque()
        self.number, self.run, self.version = 0, 0, 1
        self.active, self.error, self.alone = False, None, False
        self.truth, self.noted, self.tried = {}, set(), []
        self.stop_told, self.written = False, False
        self.start()

    # What threads do.

    def tell(self, event):
        """An event, and what must hold of its answer."""
        machine = self.machine
        before = (machine.handled, machine.drained, machine.failure)
        out = event()
        assert machine.handled >= before[0]
        assert machine.drained >= before[1]
        assert before[2] is None or machine.failure is before[2], "what ended a query stays what ended it"
        for instruction in out:
            self.counts[type(instruction).__name__] += 1
            if isinstance(instruction, do.Start):
                assert not self.stop_told, "never a start after a stop was asked for"
            if isinstance(instruction, (do.Check, do.StopRun)):
                assert machine.failure is None
                assert machine._change.asked or not (machine.over or self.stop_told), "a query that has ended decides nothing"
            if isinstance(instruction, do.Enforce):
                assert all(instruction.change is not change for change in self.tried), "no decision is acted upon twice"
                self.tried.append(instruction.change)
                assert not self.active, "the state of a run is not moved under it"
            if isinstance(instruction, do.Answer):
                assert instruction.error is not None or self.written, "a change that is not in force is refused"
            if isinstance(instruction, do.Log):
                assert "\n" not in instruction.message
                assert instruction.level in {logging.INFO, logging.WARNING, logging.ERROR}
        if machine.handled != before[0]:
            listed = [(batch.number, batch.version) for batch in machine.batches.all()[-2:]]
            assert all(self.truth[number] == version for number, version in listed)
            assert len(listed) < 2 or listed[0][0] < listed[1][0], "each batch once, in order"
        if not self.stop_told and machine.failure is None and not self.alone and not self.error:
            assert machine.changing or self.active, "a change is no end"
        return out

    def new_thread(self, name, event):
        thread = Thread(name, event)
        self.threads.append(thread)
        thread.todo.extend(self.tell(event))
        self.check_one_at_a_time()

    def check_one_at_a_time(self):
        under_way = [i for thread in self.threads for i in thread.todo if isinstance(i, CARRIED)]
        assert len(under_way) <= 1, "never two changes at once"
        assert self.machine.settled == (not under_way)

    def go_on(self, thread):
        """One step of a thread."""
        instruction = thread.todo.popleft()
        if isinstance(instruction, do.Wait):
            thread.todo.extend(self.tell(thread.event))
        elif isinstance(instruction, do.Answer):
            thread.answer = instruction
            self.counts["refused" if instruction.error else "answered"] += 1
        elif isinstance(instruction, do.StopRun) and self.active:
            self.end_run()  # which others may see before this thread does
            thread.todo.appendleft(instruction)
        else:
            thread.todo.extend(self.carry_out(instruction))
        self.check_one_at_a_time()

    def carry_out(self, instruction):
        fault = self.rng.random() < self.faults
        if isinstance(instruction, do.EndRun):
            self.end_run()
        if not isinstance(instruction, CARRIED):
            return ()
        if fault and not isinstance(instruction, do.Enforce):
            return self.fail(OSError(f"no {type(instruction).__name__}"))
        carried = {do.Check: self.machine.checked, do.StopRun: partial(self.machine.stopped, self.error)}
        if type(instruction) in carried:
            return self.tell(carried[type(instruction)])
        if isinstance(instruction, do.Note):
            return self.note(instruction.version)
        return self.enforce(fault=fault) if isinstance(instruction, do.Enforce) else self.start()

    def fail(self, error):
        ended_well = self.machine.over and self.machine.failure is None
        out = self.tell(partial(self.machine.failed, error))
        assert not ended_well or self.machine.failure is None, "what is done later does not undo a good end"
        return out

    def note(self, version):
        assert version == self.version > 1
        assert version not in self.noted, "the effect of a version is noted once"
        self.noted.add(version)
        return self.tell(self.machine.noted)

    def enforce(self, *, fault):
        machine = self.machine
        if fault and self.rng.random() < 0.3:
            return self.fail(OSError("no recovery"))
        self.written = not fault or self.rng.random() < 0.5
        self.version += self.written
        error = OSError("no space\nleft") if fault else None
        self.counts["in force though it raised"] += fault and self.written
        return self.tell(partial(machine.enforced, self.version, mapping(), error))

    def start(self):
        self.run += 1
        self.active, self.error, self.alone = True, None, False
        immovable = "it is in memory" if self.rng.random() < 0.02 else None
        return self.tell(partial(self.machine.started, stateful=self.rng.random() < 0.95, immovable=immovable))

    # What Spark does.

    def end_run(self):
        if self.active:
            self.active = False
            self.bus.append(("ended", self.run))

    def ends_alone(self):
        self.alone, self.error = True, RuntimeError("no such sink") if self.rng.random() < 0.5 else None
        self.counts["failed alone" if self.error else "ended alone"] += 1
        self.end_run()

    def batch_ends(self):
        rows = np.array([5.0, 1.0]) * (self.rng.random() < 0.9)
        self.bus.append(("batch", self.run, self.number, rows))
        self.truth[self.number] = self.version
        self.number += 1

    # What happens next.

    def possible(self):
        blocked = not self.machine.settled
        able = [partial(self.go_on, it) for it in self.threads if it.todo and not (it.waits and blocked)] * 4
        able.append(partial(self.new_thread, "seen", partial(self.machine.ended, self.run, self.error)))
        if self.active:
            able.pop()
            able += [self.batch_ends] * 4
            if self.rng.random() < 0.03:
                able.append(self.ends_alone)
        if self.bus and not any(it.todo for it in self.threads if it.name == "controller"):
            able += [self.next_report] * 4
        if self.rng.random() < 0.1:
            able.append(partial(self.new_thread, "asked", partial(self.machine.change_asked, mapping(), "asked for")))
        if self.rng.random() < 0.02:
            able.append(self.stop)
        if blocked and self.rng.random() < 0.02:
            able.append(self.interrupt)
        return able

    def next_report(self):
        kind, run, *batch = self.bus.popleft()
        if kind == "batch":
            number, rows = batch
            event = partial(self.machine.batch_seen, run, number, rows, BatchLoad(rows, None), None)
            self.new_thread("controller", event)
            if self.rng.random() < 0.1:
                self.new_thread("controller", event)  # and what is told twice counts once
        else:
            self.new_thread("controller", partial(self.machine.ended, run, self.error if run == self.run else None))
            self.new_thread("controller", partial(self.machine.all_seen, run))

    def stop(self):
        self.stop_told, changing = True, self.machine.changing
        self.new_thread("stop", self.machine.stop_asked)
        assert self.machine.changing == changing
        assert self.machine.over == (not changing), "a change that is under way is brought to its end"

    def interrupt(self):
        """The thread that carries out a change is interrupted, and tells that before it is gone."""
        thread = next(it for it in self.threads if any(isinstance(i, CARRIED) for i in it.todo))
        interrupted = next(i for i in thread.todo if isinstance(i, CARRIED))
        if isinstance(interrupted, do.StopRun):
            self.end_run()
        thread.todo = deque(self.fail(KeyboardInterrupt()))
        self.counts["interrupted"] += 1
        self.check_one_at_a_time()

    def play(self):
        for _ in range(STEPS):
            self.rng.choice(self.possible())()
            self.threads = [it for it in self.threads if it.todo or it.name == "asked"]

    def settle(self):
        """Nothing new happens; what is under way goes on."""
        for _ in range(10_000):
            able = [it for it in self.threads if it.todo and not (it.waits and not self.machine.settled)]
            if able:
                self.go_on(self.rng.choice(able))
            elif self.bus:
                self.next_report()
            else:
                break
        assert not any(it.todo for it in self.threads), "nobody waits for ever"


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
        "Check", "StopRun", "Enforce", "Start", "Note", "EndRun", "Unwatch", "Wait", "Log", "Answer", "answered", "refused",
        "in force though it raised", "failed alone", "ended alone", "interrupted",
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
        assert note == do.Note(1, pytest.approx(50.0))
        said = machine.failed(OSError("no space left"))
        assert [it.level for it in said] == ([logging.WARNING] if number == 0 else []), "said once"
    machine.batch_seen(1, 20, *load(3, 1), None)
    assert "λ is 50.0 %" in machine.noted()[0].message
    assert machine.batch_seen(1, 30, *load(3, 1), None) == ()
    changed(machine)
    seen = [machine.batch_seen(2, 40 + number, *load(1, 1), None) for number in range(EFFECT_BATCHES)]
    assert seen == [(), (), (do.Note(2, 0.0),)], "of each version anew"


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
        (said,) = machine.failed(ValueError(f"refusal {number}\nat length"))
        assert said.message.endswith(f"(change): refusal {number}")
    assert (len(machine.refusals), machine.refusals[0][:10]) == (REFUSALS_KEPT, "refusal 10")
    assert controller.refusals == REFUSALS_KEPT + 10


def test_a_controller_that_breaks_ends_the_watching_and_not_the_query():
    controller = Controller(random.Random(0), breaks=1.0)
    machine = running(controller)
    unwatch, said = sorted(machine.batch_seen(1, 0, *load(3, 1), None), key=lambda it: isinstance(it, do.Log))
    assert (unwatch, said.level) == (do.Unwatch(), logging.ERROR)
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
