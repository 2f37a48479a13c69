"""Carrying out what a `QueryMachine` says, from several threads: one event at a time, nobody waits for ever."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from evenly.keys.query_instructions import Answer, Instruction, Instructions, Wait
from evenly.keys.query_machine import QueryMachine

Event = Callable[[], Instructions]
"""A method of the machine, with what it is told."""


class Carrying:
    """The machine is told events under a lock; what follows is carried out without it, by the thread that told the event.

    `step` carries out one instruction, and returns the event that says how it went, or None if nothing is to be said of it.
    What it raises is told to the machine as `failed` where the machine waits for an event, and is raised otherwise.
    """

    def __init__(self, machine: QueryMachine, step: Callable[[Instruction], Event | None]) -> None:
        self._machine, self._step = machine, step
        self.lock = threading.Condition()
        self._thread: int | None = None

    @property
    def on_this_thread(self) -> bool:
        """Whether this thread carries out what the machine waits for, and so must not wait for the machine."""
        return self._thread == threading.get_ident()

    def tell(self, event: Event) -> Answer | None:
        """Tell the machine what has happened, and carry out what it says until it says no more."""
        answer: Answer | None = None
        try:
            todo = deque(self._told(event))
            while todo:
                instruction = todo.popleft()
                if isinstance(instruction, Answer):
                    answer = instruction
                elif isinstance(instruction, Wait):
                    todo.extend(self._told(event, when_settled=True))
                else:
                    todo.extend(self._carried_out(instruction))
        except BaseException as error:
            # Such as Ctrl-C: nobody may wait for what this thread does no more.
            if self.on_this_thread:
                self.tell(partial(self._machine.failed, error))
            raise
        return answer

    def settle(self) -> None:
        """Wait until the machine is settled."""
        with self.lock:
            self.lock.wait_for(lambda: self._machine.settled)

    def heard(self, seen: Callable[[], bool], *, quiet_s: float) -> bool:
        """Wait until batches that were reported make this true; False if no report comes for `quiet_s` seconds."""
        machine = self._machine
        with self.lock:
            now = (machine.handled, machine.drained, machine.settled)
            while not self.lock.wait_for(lambda: not machine.watched or seen(), quiet_s):
                before, now = now, (machine.handled, machine.drained, machine.settled)
                if now == before and machine.settled:  # a change may take its time
                    return False
        return True

    def _carried_out(self, instruction: Instruction) -> Instructions:
        try:
            event = self._step(instruction)
        except Exception as error:
            if not self.on_this_thread:
                raise
            event = partial(self._machine.failed, error)
        return () if event is None else self._told(event)

    def _told(self, event: Event, *, when_settled: bool = False) -> Instructions:
        with self.lock:
            if when_settled:
                self.settle()
            instructions = event()
            self._thread = None if self._machine.settled else self._thread or threading.get_ident()
            self.lock.notify_all()
            return instructions
