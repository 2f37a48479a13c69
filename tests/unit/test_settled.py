"""What a worker has loaded is left out of what is looked through for garbage, whichever of its tasks loaded it."""

import sys
import types

import pytest

from evenly.worker import settled


@pytest.fixture
def frozen(monkeypatch):
    """How many modules there were, each time that what is loaded was left out."""
    times = []
    monkeypatch.setattr(settled, "_settled", [])
    monkeypatch.setattr(settled, "running_task", object)
    monkeypatch.setattr(settled.gc, "collect", lambda: None)
    monkeypatch.setattr(settled.gc, "freeze", lambda: times.append(len(sys.modules)))
    return times


def load(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))


def test_what_the_first_task_loads_after_it_began_is_left_out_by_the_second(frozen, monkeypatch):
    settled.settle()
    load(monkeypatch, "loaded_by_the_first_task")
    settled.settle()
    assert frozen == [frozen[0], frozen[0] + 1]


def test_tasks_that_load_nothing_leave_nothing_more_out(frozen):
    for _ in range(3):
        settled.settle()
    assert len(frozen) == 1


def test_a_function_that_loads_in_every_call_does_not_keep_the_garbage_of_each(frozen, monkeypatch):
    for number in range(100):
        load(monkeypatch, f"loaded_by_call_{number}")
        settled.settle()
    assert len(frozen) == 16


def test_outside_of_a_task_nothing_is_left_out(frozen, monkeypatch):
    monkeypatch.setattr(settled, "running_task", lambda: None)
    settled.settle()
    assert frozen == []
