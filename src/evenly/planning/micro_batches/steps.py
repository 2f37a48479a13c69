"""Which stages of a dataflow run in the same tasks on Spark, and what passes between tasks.

A shuffle ends tasks, and so does what is persisted because several stages read it. All else goes on in the same tasks: a
sink writes where its rows were made, and two Python workers with a condition between them run side by side. What one shuffle
deals out together is made in one step, by tasks of each that makes some of it. An operator of Spark itself that was seen to
shuffle its rows (`FrameCost.shuffles`) ends tasks too: it and what goes on behind it are a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from evenly.dataflow.ends import FILES
from evenly.dataflow.graph import Dataflow, Edge
from evenly.dataflow.stages import Stage, stages_of
from evenly.dataflow.tuning import Way
from evenly.planning.micro_batches.frame_costs import FrameCost


@dataclass(frozen=True)
class Counts:
    """What Spark does in a batch: stages, turns of tasks on all slots and of Python workers in them, sinks and those that are
    files, and rows that are shuffled and persisted for each row of the source."""

    stages: int
    turns: int
    sinks: int
    file_sinks: int
    moved: float
    kept: float
    workers: int = 0


@dataclass
class Step:
    """Stages in the same tasks, in their order.

    `moved`: edges whose rows are shuffled to get here. `sent`: what tasks of their own do to that end, each with the edges
    whose rows they read: they shuffle what was persisted, or look which keys there are. `kept`: operators whose rows are
    persisted when they leave. `own`: the operator of Spark itself whose own shuffle began it ("": none).
    """

    stages: list[Stage] = field(default_factory=list)
    moved: list[Edge] = field(default_factory=list)
    sent: list[list[Edge]] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    own: str = ""

    @property
    def operators(self) -> tuple[str, ...]:
        """All that runs in these tasks."""
        return tuple(name for stage in self.stages for name in stage.operators)


class Steps:
    """The steps of a dataflow, one behind the other as Spark runs them. `measured`: rows on an edge for one that enters its
    start, where that is known; `frames`: what was measured of operators of Spark itself, by their names."""

    def __init__(
        self, flow: Dataflow, measured: Mapping[Way, float] | None = None, frames: Mapping[str, FrameCost] | None = None
    ) -> None:
        self.flow = flow
        self.frames = frames or {}
        self._measured = measured or {}
        self.stages = stages_of(flow)
        self.home = {name: stage for stage in self.stages for name in stage.operators}
        self._persisted = {name for stage in self.stages for name in self._kept_of(stage)}
        self.steps = self._grouped()

    def follows(self, edge: Edge) -> bool:
        """Whether the rows of an edge go on in the task that made them."""
        return edge.grouping == "forward" and edge.start not in self._persisted and not self._shuffles(edge.end)

    def _shuffles(self, name: str) -> bool:
        return name in self.frames and self.frames[name].shuffles > 0

    def _kept_of(self, stage: Stage) -> list[str]:
        """What is persisted of a stage: all that leaves it, if several read it."""
        if len(stage.exits) > 1 or any(self._readers(name) > 1 for name in stage.exits):
            return stage.exits
        return []

    def _readers(self, name: str) -> int:
        """How often what leaves an operator is read. Most batches of a stream do not learn the mapping of an edge by key."""
        return sum(any(edge.start == name for edge in stage.inputs) for stage in self.stages)

    def _grouped(self) -> tuple[Step, ...]:
        of: dict[int, Step] = {}
        for stage in self.stages:
            before = [of[id(self.home[edge.start])] for edge in stage.inputs if self.follows(edge)]
            step = _merged(before, of)
            step.stages.append(stage)
            of[id(stage)] = step
            if self._shuffles(stage.operators[0]) and all(edge.grouping == "forward" for edge in stage.inputs):
                step.own = stage.operators[0]
                step.sent += [[edge] for edge in stage.inputs if edge.start in self._persisted]
            for edges in _dealt_together(stage):
                made = [edge for edge in edges if edge.start not in self._persisted]
                _merged([of[id(self.home[edge.start])] for edge in made], of)
                step.moved += edges
                step.sent += [edges] * (not made)
            step.kept += self._kept_of(stage)
        return _once([of[id(stage)] for stage in self.stages])

    def ends(self, step: Step) -> list[Stage]:
        """The last stages of a step: one for each kind of task that it has."""
        followed = {id(self.home[edge.start]) for stage in step.stages for edge in stage.inputs if self.follows(edge)}
        return [stage for stage in step.stages if id(stage) not in followed]

    def tasks(self, slots: int) -> dict[str, int]:
        """Tasks in which each operator runs on so many slots: as many as slots, where an edge does not name its instances."""
        found: dict[str, int] = {}
        for stage in self.stages:
            given = self.flow.by_name[stage.operators[0]].options.get("numPartitions", "")
            if not stage.inputs:
                tasks = int(given) if given.isdigit() and int(given) else slots
            elif stage.kind == "worker" and stage.fed_by is not None:
                tasks = found[stage.fed_by]
            elif self._shuffles(stage.operators[0]):
                tasks = self.frames[stage.operators[0]].tasks or slots
            else:  # a union has the tasks of all that it is of
                tasks = sum(found[edge.start] for edge in stage.inputs if edge.grouping == "forward")
                tasks += sum(edges[0].instances or slots for edges in _dealt_together(stage))
            found |= dict.fromkeys(stage.operators, tasks)
        return found

    def tasks_of(self, step: Step, tasks: Mapping[str, int]) -> int:
        """All tasks of a step."""
        return sum(tasks[stage.operators[0]] for stage in self.ends(step))

    def part(self, edge: Edge) -> float:
        """Rows that an edge brings for one that enters its start: as measured, or else as the edge says."""
        found = self._measured.get((edge.start, edge.end))
        if found is None:
            return self.flow.part(edge)
        return found * (edge.instances or 1) if edge.grouping == "duplicate" else found

    def rows(self) -> dict[str, float]:
        """Rows that enter each operator for one row of every source."""
        found: dict[str, float] = {}
        for name in self.flow.order:
            into = self.flow.into[name]
            found[name] = math.fsum(self.on(edge, found) for edge in into) if into else 1.0
        return found

    def on(self, edge: Edge, rows: Mapping[str, float]) -> float:
        """Rows that an edge brings to its end for one of the source."""
        return rows[edge.start] * self.part(edge)

    def counts(self, slots: int) -> Counts:
        """What Spark has to do in a batch, whatever the operators do."""
        tasks, rows = self.tasks(slots), self.rows()
        stages = turns = workers = 0
        moved = kept = 0.0
        for step in self.steps:
            stages += 1 + len(step.sent)
            turns += self.turns(step, tasks, slots)
            workers += self.workers(step, tasks, slots)
            moved += math.fsum(self.on(edge, rows) for edge in step.moved)
            kept += math.fsum(self.leaving(name, rows) for name in step.kept)
        return Counts(stages, turns, self.sinks, self.file_sinks, moved, kept, workers)

    def turns(self, step: Step, tasks: Mapping[str, int], slots: int) -> int:
        """How often all slots begin a task of a step, the tasks with them that prepare what is shuffled."""
        own = math.ceil(self.tasks_of(step, tasks) / slots)
        return own + sum(math.ceil(sum(tasks[edge.start] for edge in edges) / slots) for edges in step.sent)

    def workers(self, step: Step, tasks: Mapping[str, int], slots: int) -> int:
        """How often all slots begin with a Python worker of a step."""
        found = [stage for stage in step.stages if stage.kind in ("worker", "cost")]
        return sum(math.ceil(tasks[stage.operators[0]] / slots) for stage in found)

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


def _dealt_together(stage: Stage) -> list[list[Edge]]:
    """The edges to a stage whose rows are shuffled, those that one shuffle has together."""
    alike: dict[tuple[object, ...], list[Edge]] = {}
    for edge in stage.inputs:
        if edge.grouping != "forward":
            alike.setdefault((edge.grouping, edge.columns, edge.instances), []).append(edge)
    return list(alike.values())


def _merged(steps: list[Step], of: dict[int, Step]) -> Step:
    """Steps that turn out to be one; a new one if there is none."""
    first = steps[0] if steps else Step()
    for other in steps[1:]:
        if other is not first and any(other is one for one in of.values()):
            first.stages += other.stages
            first.moved += other.moved
            first.sent += other.sent
            first.kept += other.kept
            of |= {key: first for key, found in of.items() if found is other}
    return first
