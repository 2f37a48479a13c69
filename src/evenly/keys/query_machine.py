"""What a streaming query under a changing mapping does next: what happened goes in, what to do comes out.

No Spark, no thread, no clock. Each method of `QueryMachine` is an event, and returns the instructions that follow from it. They
are carried out in order by who told the event (`evenly.spark.streaming.keyed_query`), who tells how each of them went:

    instruction     ends with
    Check           checked, or failed
    StopRun         stopped, or failed
    Enforce         enforced, or failed
    Start           started, or failed
    Note            noted, or failed
    others          nothing

Events may be told at any time, by any thread, one at a time. tests/property/test_query_machine.py has what holds for all of
their orders: one change at a time, no start after a stop was asked for, no failure told as a good end, every batch once and
under the version that it ran under, and from every state a way to `settled`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from evenly.kernels.types import F64
from evenly.keys.batches import BatchLog
from evenly.keys.controller import BatchLoad, Decision, DriftController
from evenly.keys.mapping import Mapping
from evenly.keys.query_instructions import (
    Answer,
    Change,
    Check,
    EndRun,
    Enforce,
    Instruction,
    Instructions,
    Log,
    Note,
    Refused,
    Start,
    StopRun,
    Unwatch,
    Wait,
)

EFFECT_BATCHES = 3
REFUSALS_KEPT = 1_000

_Told = TypeVar("_Told")


class Busy(StrEnum):
    """What is being carried out."""

    NOTING = "noting"
    CHECKING = "checking"
    STOPPING = "stopping"
    ENFORCING = "enforcing"
    STARTING = "starting"


class QueryMachine:
    """One query over all its runs. It begins as it is being started for the first time: tell `started`.

    `version` is the one in force, and `effect_known` whether λ after it has been noted. Without a `controller` no batch is
    watched. What a controller raises ends the watching, not the query: its results are right under any mapping.
    """

    def __init__(self, *, version: int, effect_known: bool = True, controller: DriftController | None = None) -> None:
        self.version = version
        self.run = 0
        self.handled, self.drained = -1, 0
        self.failure: BaseException | None = None
        self.over = False
        self.watched = controller is not None
        self.batches = BatchLog()
        self._controller = controller
        self._busy: Busy | None = Busy.STARTING
        self._versions: dict[int, int] = {}
        self._stopping = self._enforced = False
        self._decides = False
        self._immovable_told = False
        self._effect_known, self._effect_unwritten = effect_known, False
        self._effect: list[float] = []
        self._refusals: deque[str] = deque(maxlen=REFUSALS_KEPT)
        self._change: Change | None = None
        self._refusal: BaseException | None = None
        self._out: list[Instruction] = []

    @property
    def settled(self) -> bool:
        """Whether nothing is being carried out that an event must end."""
        return self._busy is None

    @property
    def changing(self) -> bool:
        """Whether a change is under way after which the query goes on: it has not ended, though it may be stopped."""
        return self._busy not in {None, Busy.NOTING} and not self.over

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why changes that the controller decided on are not in force, the last ones."""
        return tuple(self._refusals)

    def version_of(self, run: int) -> int | None:
        """The version that a run began under; None of one whose batches have all been seen."""
        return self._versions.get(run)

    def batch_seen(self, run: int, number: int, rows: F64, load: BatchLoad, read: tuple[int, ...] | None) -> Instructions:
        """The report of a batch came. Reports come in the order of batches, maybe after the next run has been started."""
        if run not in self._versions or number <= self.handled or not self.watched:
            return ()
        if self._busy is not None:
            return (Wait(),)
        self.handled = number
        if rows.sum() > 0.0:
            self.batches.add(number, self._versions[run], rows, read)
            if run == self.run and self._decides:
                self._observe(load)
        return self._flushed()

    def change_asked(self, mapping: Mapping, reason: str) -> Instructions:
        """A user wants another mapping. Of a query that has ended well it comes into force for its next start."""
        if self.failure is not None:
            return (Answer(self.version, self.failure),)
        if self._busy is not None:
            return (Wait(),)
        self._begin(Change(mapping, reason, mapping.fitted_imbalance_pct, asked=True))
        return self._flushed()

    def checked(self) -> Instructions:
        """The change can be brought in force, as far as can be seen."""
        asked = self._change is not None and self._change.asked
        if self.failure is not None or ((self.over or self._stopping) and not asked):
            self._settle()
        else:
            self._do(Busy.STOPPING, StopRun())
        return self._flushed()

    def stopped(self, error: BaseException | None = None, *, by_another: bool = False) -> Instructions:
        """The run has stopped for the change; or it had failed by itself before, or was stopped `by_another` meanwhile."""
        self.failure = self.failure or error
        if by_another and not self._stopping:
            self._stopping = True
            self._say(logging.INFO, "stopped by another while a change of the mapping waited: it is not started again")
        if self.failure is not None or self._change is None:
            self.over = True
            self._settle()
        else:
            self._do(Busy.ENFORCING, Enforce(self._change))
        return self._flushed()

    def enforced(self, version: int, mapping: Mapping, refusal: BaseException | None = None) -> Instructions:
        """What is in force now: what is written counts, whether or not bringing it in force raised."""
        if version == self.version:
            self._refusal = refusal
        else:
            if refusal is not None:
                self._say(logging.WARNING, f"version {version} is in force, though that raised: {_first_line(refusal)}")
            expected_pct = None if self._change is None else self._change.expected_pct
            self.version = version
            self._enforced = True
            self._effect, self._effect_known, self._effect_unwritten = [], False, False
            self._tell(lambda controller: controller.changed(mapping, expected_pct=expected_pct))
        if self.over or self._stopping:
            self._settle()
        else:
            self._do(Busy.STARTING, Start())
        return self._flushed()

    def started(self, *, stateful: bool = True, immovable: str | None = None, stood_s: float | None = None) -> Instructions:
        """A run was started under the version in force. `immovable`: why no change can ever be brought in force.

        `stood_s` is how long the query stood still for a change.
        """
        if stood_s is not None and self._enforced:
            self._tell(lambda controller: controller.moved(stood_s))
        self._enforced = False
        self.run += 1
        self._versions[self.run] = self.version
        self._decides = stateful and immovable is None
        if self.watched and stateful and immovable is not None and not self._immovable_told:
            self._immovable_told = True
            self._refusals.append(immovable)
            self._out.append(Refused(immovable))
            self._say(logging.WARNING, f"the mapping will stay as it is, whatever λ is: {immovable}")
        if self._stopping:
            self._out.append(EndRun())
        self._settle()
        return self._flushed()

    def failed(self, error: BaseException) -> Instructions:
        """What was to be carried out raised."""
        if self._busy is Busy.NOTING:
            if not self._effect_unwritten:
                lambda_ = f"λ after version {self.version} ({_mean(self._effect):.1f} %)"
                self._say(logging.WARNING, f"{lambda_} could not be written and will be tried again: {_first_line(error)}")
            self._effect_unwritten = True
            self._go_on()
        elif self._busy is Busy.CHECKING or (self._busy is not None and self.over):
            self._refusal = error
            self._settle()
        elif self._busy is not None:
            # It was stopped and did not start again: whoever waits for it must not take that for a good end.
            self.over, self.failure = True, self.failure or error
            self._say(logging.ERROR, f"stopped for a change of the mapping and not started again: {_first_line(error)}")
            self._settle()
        return self._flushed()

    def noted(self) -> Instructions:
        """λ was written into the entry of the version in force."""
        self._say(logging.INFO, f"λ is {_mean(self._effect):.1f} % after version {self.version} of the mapping")
        self._effect, self._effect_known = [], True
        self._go_on()
        return self._flushed()

    def stop_asked(self) -> Instructions:
        """A user wants the query to stop. A change that is under way is brought to its end, without a start."""
        self._stopping = True
        self.over = self.over or not self.changing
        self._out.append(EndRun())
        self._unwatch_if_drained()
        return self._flushed()

    def ended(self, run: int, error: BaseException | None = None) -> Instructions:
        """A run was seen to have ended, by itself or by a stop; of a stop for a change that is no news."""
        if run == self.run and self._busy not in {Busy.ENFORCING, Busy.STARTING}:
            self.failure = self.failure or error
            self.over = self.over or self._busy is not Busy.STOPPING
            self._unwatch_if_drained()
        return self._flushed()

    def all_seen(self, run: int) -> Instructions:
        """A run has ended, and no report of its batches or of earlier ones will come any more."""
        self.drained = max(self.drained, run)
        self._versions = {of: version for of, version in self._versions.items() if of > run}
        self._unwatch_if_drained()
        return self._flushed()

    def unwatchable(self, error: BaseException) -> Instructions:
        """Batches cannot be watched any more. The query goes on under the mapping that it has."""
        self._lose(error)
        return self._flushed()

    def _observe(self, load: BatchLoad) -> None:
        decision = self._tell(lambda controller: controller.observe(load))
        if decision is None:
            return
        self._change = self._wanted(decision)
        if not self._effect_known and load.rows.sum() > 0.0:
            self._effect = [*self._effect, load.imbalance_pct][:EFFECT_BATCHES]
            if len(self._effect) == EFFECT_BATCHES:
                kept_pct = self._tell(lambda controller: controller.kept_pct)
                kept = {} if kept_pct is None else {"kept_pct": kept_pct}
                self._do(Busy.NOTING, Note(self.version, {"after_pct": _mean(self._effect), **kept}))
                return
        self._go_on()

    def _wanted(self, decision: Decision) -> Change | None:
        if decision.mapping is None:
            return None
        figures = {"before_pct": decision.now_pct, "moved_load_pct": decision.moved_load_pct}
        return Change(decision.mapping, decision.reason, decision.expected_pct, figures)

    def _go_on(self) -> None:
        """To what was decided, unless the query has ended meanwhile."""
        self._busy, change, self._change = None, self._change, None
        if change is not None and not self.over:
            self._begin(change)

    def _begin(self, change: Change) -> None:
        self._change = change
        self._do(Busy.CHECKING, Check(running=not self.over))

    def _settle(self) -> None:
        """A change, or the first start, has come to its end."""
        change, refusal = self._change, self._refusal
        self._busy = self._change = self._refusal = None
        self.over = self.over or self._stopping
        if change is not None and refusal is not None:
            self._say(logging.WARNING, f"a change of the mapping was refused ({change.reason}): {_first_line(refusal)}")
            self._out.append(Refused(_first_line(refusal), change))
            if not change.asked:
                self._refusals.append(str(refusal))
                self._tell(lambda controller: controller.refused())
        if change is not None and change.asked:
            self._out.append(Answer(self.version, refusal or self.failure))
        self._unwatch_if_drained()

    def _unwatch_if_drained(self) -> None:
        if self.over and self.drained >= self.run:
            self._unwatch()

    def _tell(self, event: Callable[[DriftController], _Told]) -> _Told | None:
        """What the controller answers. One that raises is asked no more."""
        if self._controller is None or not self.watched:
            return None
        try:
            return event(self._controller)
        except Exception as error:  # noqa: BLE001 - whatever it is, the query is right without it
            self._lose(error)
            return None

    def _lose(self, error: BaseException) -> None:
        if self.watched and not self.over:
            told = f"the controller has ended, and the mapping stays as it is: {_first_line(error)}"
            self._refusals.append(told)
            self._out.append(Refused(told))
            self._say(logging.ERROR, told)
        self._unwatch()

    def _unwatch(self) -> None:
        if self.watched:
            self.watched = self._decides = False
            self._out.append(Unwatch())

    def _do(self, busy: Busy, instruction: Instruction) -> None:
        self._busy = busy
        self._out.append(instruction)

    def _say(self, level: int, message: str) -> None:
        self._out.append(Log(level, message))

    def _flushed(self) -> Instructions:
        told, self._out = tuple(self._out), []
        return told


def _mean(values: list[float]) -> float:
    return sum(values) / max(len(values), 1)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
