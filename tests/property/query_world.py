"""A world in which a `QueryMachine` lives: Spark, a checkpoint, users and threads, which do what they may in any order."""

import logging
import random
from collections import Counter, deque
from functools import partial
from types import SimpleNamespace

import numpy as np

from evenly.keys import query_instructions as do
from evenly.keys.controller import BatchLoad, Decision
from evenly.keys.query_machine import QueryMachine

STEPS = 100
CARRIED = (do.Check, do.StopRun, do.Enforce, do.Start, do.Note)


def mapping():
    return SimpleNamespace(fitted_imbalance_pct=1.0)


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

    kept_pct = None

    def moved(self, seconds):
        assert seconds == 1.0
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
        return self.tell(partial(self.machine.started, stateful=self.rng.random() < 0.95, immovable=immovable, stood_s=1.0))

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
