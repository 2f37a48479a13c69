"""Which stages of a dataflow run in the same tasks on Spark, and what passes between tasks.

A shuffle ends tasks, and so does what is persisted because several stages read it. All else goes on in the same tasks: a
sink writes where its rows were made, and two Python workers with a condition between them run side by side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from evenly.dataflow.ends import FILES
from evenly.dataflow.graph import Dataflow, Edge
from evenly.dataflow.stages import Stage, stages_of

Way = tuple[str, str]
"""The names of the operators at the two ends of an edge."""


@dataclass(frozen=True)
class Counts:
    """What Spark does in a batch: stages, turns of tasks on all slots, sinks and those that are files, and rows that are
    shuffled and persisted for each row of the source."""

    stages: int
    turns: int
    sinks: int
    file_sinks: int
    moved: float
    kept: float


@dataclass
class Step:
    """Stages in the same tasks, in their order.

    `moved`: edges whose rows are shuffled to get here; rows that were persisted are shuffled by tasks of their own, those of
    `sent`. `kept`: operators whose rows are persisted when they leave.
    """

    stages: list[Stage] = field(default_factory=list)
    moved: list[Edge] = field(default_factory=list)
    sent: list[Edge] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    @property
    def operators(self) -> tuple[str, ...]:
        """All that runs in these tasks."""
        return tuple(name for stage in self.stages for name in stage.operators)


class Steps:
    """The steps of a dataflow, one behind the other as Spark runs them. `measured`: rows on an edge for one that enters its
    start, where that is known."""

    def __init__(self, flow: Dataflow, measured: Mapping[Way, float] | None = None) -> None:
        self.flow = flow
        self._measured = measured or {}
        self.stages = stages_of(flow)
        self.home = {name: stage for stage in self.stages for name in stage.operators}
        self._persisted = {name for stage in self.stages for name in self._kept_of(stage)}
        self.steps = self._grouped()

    def follows(self, edge: Edge) -> bool:
        """Whether the rows of an edge go on in the task that made them."""
        return edge.grouping == "forward" and edge.start not in self._persisted

    def _kept_of(self, stage: Stage) -> list[str]:
        """What is persisted of a stage: all that leaves it, if several read it."""
        if len(stage.exits) > 1 or any(self._readers(name) > 1 for name in stage.exits):
            return stage.exits
        return []

    def _readers(self, name: str) -> int:
        return sum(any(edge.start == name for edge in stage.inputs) for stage in self.stages)

    def _grouped(self) -> tuple[Step, ...]:
        of: dict[int, Step] = {}
        for stage in self.stages:
            before = [of[id(self.home[edge.start])] for edge in stage.inputs if self.follows(edge)]
            step = before[0] if before else Step()
            for other in before[1:]:
                if other is not step:
                    step.stages, step.moved = step.stages + other.stages, step.moved + other.moved
                    step.sent, step.kept = step.sent + other.sent, step.kept + other.kept
                    of |= {key: step for key, found in of.items() if found is other}
            step.stages.append(stage)
            moved = [edge for edge in stage.inputs if edge.grouping != "forward"]
            step.moved += moved
            step.sent += [edge for edge in moved if edge.start in self._persisted]
            step.kept += self._kept_of(stage)
            of[id(stage)] = step
        return _once([of[id(stage)] for stage in self.stages])

    def tasks(self, slots: int) -> dict[str, int]:
        """Tasks in which each operator runs on so many slots: as many as slots, where an edge does not name its instances."""
        found: dict[str, int] = {}
        for stage in self.stages:
            given = self.flow.by_name[stage.operators[0]].options.get("numPartitions", "")
            if not stage.inputs:
                tasks = int(given) if given.isdigit() and int(given) else slots
            elif stage.kind == "worker" and stage.fed_by is not None:
                tasks = found[stage.fed_by]
            else:  # a union has the tasks of all that it is of
                tasks = sum(
                    found[edge.start] if edge.grouping == "forward" else edge.instances or slots for edge in stage.inputs
                )
            found |= dict.fromkeys(stage.operators, tasks)
        return found

    def part(self, edge: Edge) -> float:
        """Rows on an edge for one that enters its start: as measured, or else as the edge says."""
        return self._measured.get((edge.start, edge.end), self.flow.part(edge))

    def rows(self) -> dict[str, float]:
        """Rows that enter each operator for one row of every source."""
        found: dict[str, float] = {}
        for name in self.flow.order:
            into = self.flow.into[name]
            found[name] = math.fsum(found[edge.start] * self.part(edge) for edge in into) if into else 1.0
        return found

    def counts(self, slots: int) -> Counts:
        """What Spark has to do in a batch, whatever the operators do."""
        tasks, rows = self.tasks(slots), self.rows()
        stages = turns = 0
        moved = kept = 0.0
        for step in self.steps:
            stages += 1 + len(step.sent)
            turns += self.turns(step, tasks, slots)
            moved += math.fsum(rows[edge.start] * self.part(edge) for edge in step.moved)
            kept += math.fsum(self.leaving(name, rows) for name in step.kept)
        return Counts(stages, turns, self.sinks, self.file_sinks, moved, kept)

    def turns(self, step: Step, tasks: Mapping[str, int], slots: int) -> int:
        """How often all slots begin a task of a step, those tasks with them that shuffle for it what was persisted."""
        own = math.ceil(max(tasks[name] for name in step.operators) / slots)
        return own + sum(math.ceil(tasks[edge.start] / slots) for edge in step.sent)

    def leaving(self, name: str, rows: Mapping[str, float]) -> float:
        """Rows that leave an operator for one of the source: as many as the edge has that has most of them."""
        return max((rows[name] * self.part(edge) for edge in self.flow.out_of[name]), default=0.0)

    @property
    def sinks(self) -> int:
        """Sinks that a batch writes, one after the other."""
        return sum(one.kind == "sink" for one in self.flow.operators)

    @property
    def file_sinks(self) -> int:
        """Those of them that are files."""
        return sum(one.kind == "sink" and one.format in FILES for one in self.flow.operators)


def _once(steps: list[Step]) -> tuple[Step, ...]:
    found: list[Step] = []
    for step in steps:
        if not any(step is one for one in found):
            found.append(step)
    return tuple(found)
