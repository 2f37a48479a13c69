"""Several threads that tell one machine: what each must do is done once, and nobody waits for ever."""

import threading
from functools import partial
from types import SimpleNamespace

import pytest

from evenly.keys import query_instructions as do
from evenly.keys.query_machine import QueryMachine
from evenly.spark.streaming.carrying import Carrying
from waiting import PATIENT_S

MAPPING = SimpleNamespace(fitted_imbalance_pct=1.0)


class Driver:
    """Steps that take as long as a test wants, and what was under way at a time."""

    def __init__(self):
        self.machine = QueryMachine(version=1)
        self.carrying = Carrying(self.machine, self.step)
        self.version, self.under_way, self.most, self.raises = 1, 0, 0, {}
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.carrying.tell(self.machine.started)

    def step(self, instruction):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            if type(instruction) in self.raises:
                raise self.raises.pop(type(instruction))
            return self.event(instruction)
        finally:
            self.under_way -= 1

    def event(self, instruction):
        match instruction:
            case do.Check():
                self.entered.set()
                assert self.go_on.wait(PATIENT_S)
                return self.machine.checked
            case do.StopRun():
                return self.machine.stopped
            case do.Enforce():
                self.version += 1
                return partial(self.machine.enforced, self.version, MAPPING)
            case do.Start():
                return self.machine.started
        return None

    def change(self):
        return self.carrying.tell(partial(self.machine.change_asked, MAPPING, "asked for"))


def test_changes_of_many_threads_come_one_after_the_other():
    driver, answers = Driver(), []
    threads = [threading.Thread(target=lambda: answers.append(driver.change())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENT_S)
    assert sorted(answer.version for answer in answers) == list(range(2, 10))
    assert driver.most == 1
    assert driver.machine.settled


@pytest.mark.parametrize("step", [do.Check, do.StopRun, do.Enforce, do.Start])
def test_an_interrupted_thread_leaves_nobody_waiting(step):
    driver = Driver()
    driver.raises[step] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        driver.change()
    assert driver.machine.settled
    assert not driver.carrying.on_this_thread
    answer = driver.change()
    if step is do.Check:
        assert (answer.version, answer.error) == (2, None)
    else:
        assert isinstance(answer.error, KeyboardInterrupt), "it was stopped and not started again"


def test_what_a_step_raises_is_the_answer_and_what_a_stop_raises_is_raised():
    driver = Driver()
    driver.raises[do.Check] = ValueError("no")
    assert str(driver.change().error) == "no"
    driver.raises[do.EndRun] = OSError("the batch does not end")
    with pytest.raises(OSError, match="does not end"):
        driver.carrying.tell(driver.machine.stop_asked)
    assert driver.machine.over


def test_a_stop_during_a_change_is_told_at_once_and_nothing_is_started():
    driver = Driver()
    driver.go_on.clear()
    change = threading.Thread(target=driver.change)
    change.start()
    assert driver.entered.wait(PATIENT_S)
    assert not driver.carrying.on_this_thread
    driver.carrying.tell(driver.machine.stop_asked)
    assert driver.machine.changing
    driver.go_on.set()
    driver.carrying.settle()
    change.join(PATIENT_S)
    assert (driver.machine.over, driver.machine.run, driver.version) == (True, 1, 2)


def test_reports_are_waited_for_as_long_as_they_come():
    class Silent:
        observe = changed = refused = None

    machine = QueryMachine(version=1, controller=Silent())
    carrying = Carrying(machine, lambda _: None)
    carrying.tell(machine.started)
    assert not carrying.heard(lambda: machine.drained >= 1, quiet_s=0.01)
    told = threading.Timer(0.05, lambda: carrying.tell(partial(machine.all_seen, 1)))
    told.start()
    assert carrying.heard(lambda: machine.drained >= 1, quiet_s=PATIENT_S)
    told.join()
    carrying.tell(partial(machine.unwatchable, ValueError("no")))
    assert carrying.heard(lambda: False, quiet_s=0.01), "there is nothing to wait for"
