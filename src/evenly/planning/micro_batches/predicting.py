"""How long the steps of a dataflow take in a batch.

Operators that share a slot:

- In one Python worker without threads, one thread walks every row through all of them: their times add up.
- In one worker with threads each operator has its own, and rows flow from one to the next: the slowest decides, but all of
  them compute on one core, whose time adds up.
- Two workers in the same tasks (a condition is between them): Spark hands rows from one to the other by ten thousands. So
  the second begins when the first has made as many, or all; from then on they run side by side on the slot's core.
- An operator of Spark itself runs beside the workers in its tasks, as one of them that only computes. One that shuffles its
  rows is done before what follows it begins: its time adds up.
- What reaches a worker from several others, without a shuffle, is made in tasks of each: their times add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from evenly.dataflow.stages import IN_WORKER, Stage
from evenly.planning.micro_batches.curves import CurvePoint
from evenly.planning.micro_batches.engine import EngineCosts
from evenly.planning.micro_batches.models import SparkModels
from evenly.planning.micro_batches.plan import PlannedStage
from evenly.planning.micro_batches.steps import Step, Steps

ARROW_ROWS = 10_000
"""Rows that Spark hands to a Python worker at once (`spark.sql.execution.arrow.maxRecordsPerBatch`)."""


@dataclass(frozen=True)
class _Load:
    """Seconds of a slot for each row of the source, of which `cpu_s` is computing, and the operator that decides."""

    slot_s: float = 0.0
    cpu_s: float = 0.0
    binding: str = ""


class Predictor:
    """The steps of a dataflow with what was measured of its operators."""

    def __init__(self, steps: Steps, models: SparkModels, engine: EngineCosts) -> None:
        self._steps, self._engine = steps, engine
        self._rows = steps.rows()
        measured = [one for one in steps.flow.operators if one.kind in IN_WORKER]
        self.curves = {one.name: models.curve(steps.flow, one) for one in measured}
        self.frames = steps.frames

    def planned(self, threads: Mapping[str, int], slots: int) -> tuple[PlannedStage, ...]:
        """Every step on so many slots."""
        at = {name: curve.at(threads[name]) for name, curve in self.curves.items()}
        tasks = self._steps.tasks(slots)
        return tuple(self._planned(step, at, tasks, slots) for step in self._steps.steps)

    def _planned(self, step: Step, at: Mapping[str, CurvePoint], tasks_of: Mapping[str, int], slots: int) -> PlannedStage:
        steps, tasks = self._steps, self._steps.tasks_of(step, tasks_of)
        # Tasks that end in different stages are others: what each kind takes adds up.
        kinds = [(self._load(step, end, at), _part(tasks_of[end.operators[0]], slots)) for end in steps.ends(step)]
        moved = math.fsum(steps.on(edge, self._rows) for edge in step.moved)
        kept = math.fsum(steps.leaving(name, self._rows) for name in step.kept)
        of_spark_s = moved * self._engine.moved_row_s + kept * self._engine.kept_row_s
        rows_in = {name: self._rows[name] for name in step.operators}
        measured = [name for name in step.operators if name in self.curves and rows_in[name] > 0.0]
        most_in = max((rows_in[name] for name in measured), default=0.0)
        longest = [self.curves[name].longest_row_s for name in measured]
        frames = [self.frames[name] for name in step.operators if name in self.frames]
        shuffling = [_Load(self._rows[one.name] * one.row_s, binding=one.name) for one in frames if one.shuffles]
        slowest = max((*shuffling, *(load for (load, _), _ in kinds)), key=lambda load: load.slot_s)
        shuffling_s = math.fsum(one.slot_s for one in shuffling) / slots
        # Of a step that begins with a shuffle of its own the first stage and its tasks were measured with that.
        stages, turns = 1 + len(step.sent), steps.turns(step, tasks_of, slots)
        if step.own:
            stages, turns = stages - 1, turns - math.ceil(tasks / slots)
        return PlannedStage(
            step.operators,
            tasks,
            slots,
            row_s=of_spark_s * _part(tasks, slots) + shuffling_s + math.fsum(load.slot_s * part for (load, _), part in kinds),
            early_row_s=math.fsum(early_s * part for (_, early_s), part in kinds),
            early_rows=ARROW_ROWS * tasks / most_in if most_in > 0.0 else 0.0,
            least_s=max(longest, default=0.0),
            fixed_s=stages * self._engine.stage_s
            + turns * self._engine.task_s
            + math.fsum(one.fixed_s for one in frames)
            + steps.workers(step, tasks_of, slots) * self._engine.worker_s,
            binding=slowest.binding,
            rows_in=rows_in,
        )

    def _load(self, step: Step, end: Stage, at: Mapping[str, CurvePoint]) -> tuple[_Load, float]:
        """The slowest worker of the tasks that end in a stage, and never less than what all of them compute; and what they
        take more one after the other."""
        inside = {id(stage) for stage in step.stages}
        wanted = {id(end)}
        for stage in reversed(step.stages):
            if id(stage) in wanted:
                wanted |= {id(self._steps.home[edge.start]) for edge in stage.inputs if self._steps.follows(edge)} & inside
        all_s: dict[int, float] = {}
        slowest: dict[int, _Load] = {}
        workers: list[_Load] = []
        most_used = self._engine.cores_per_slot
        for stage in (it for it in self._steps.stages if id(it) in wanted):
            own, used = self._worker(stage, at)
            most_used = max(most_used, used)
            workers += [own] if own.binding else []
            before = [key for key in {id(self._steps.home[edge.start]) for edge in stage.inputs} if key in all_s]
            # What comes from several is made in tasks of each.
            before_s = math.fsum(slowest[key].slot_s for key in before)
            binding = max((slowest[key] for key in before), key=lambda one: one.slot_s, default=own).binding
            all_s[id(stage)] = own.slot_s + math.fsum(all_s[key] for key in before)
            slowest[id(stage)] = own if own.slot_s >= before_s else _Load(before_s, binding=binding)
        found = slowest[id(end)]
        cpu_s = math.fsum(one.cpu_s for one in workers)
        if len(workers) > 1 and cpu_s / most_used > found.slot_s:
            found = _Load(cpu_s / most_used, cpu_s, max(workers, key=lambda one: one.cpu_s).binding)
        return found, max(0.0, all_s[id(end)] - found.slot_s)

    def _worker(self, stage: Stage, at: Mapping[str, CurvePoint]) -> tuple[_Load, float]:
        """What the operators of a worker take together, and the part of a core that one of them was seen to use."""
        frame = self.frames.get(stage.operators[0])
        if frame is not None and not frame.shuffles:
            slot_s = self._rows[frame.name] * frame.row_s
            return _Load(slot_s, slot_s * self._engine.cores_per_slot, frame.name), 0.0
        found = [(name, self._rows[name], at[name]) for name in stage.operators if name in at]
        if not found:
            return _Load(), 0.0
        own = {name: rows / point.rows_per_s for name, rows, point in found}
        cpu = {name: rows * point.cpu_row_s for name, rows, point in found}
        used = max(min(1.0, point.cpu_row_s * point.rows_per_s) for _, _, point in found)
        slowest, busiest = max(own, key=own.__getitem__), max(cpu, key=cpu.__getitem__)
        cpu_s = math.fsum(cpu.values())
        if all(point.threads == 1 for _, _, point in found):
            return _Load(math.fsum(own.values()), cpu_s, slowest), used
        computing_s = cpu_s / max(self._engine.cores_per_slot, used)
        if len(found) > 1 and computing_s > own[slowest]:
            return _Load(computing_s, cpu_s, busiest), used
        return _Load(own[slowest], cpu_s, slowest), used


def _part(tasks: int, slots: int) -> float:
    """How long tasks take on slots, of what one slot would take for all of them."""
    return math.ceil(tasks / slots) / tasks
