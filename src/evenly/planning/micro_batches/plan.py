"""What a dataflow needs on Spark for a rate, how long its batches take, and at which rate they take too long."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from evenly.dataflow.graph import Dataflow
from evenly.notebook import shown
from evenly.numbers import plain
from evenly.planning.micro_batches.engine import EngineCosts

_ENOUGH_STEPS = 200


@dataclass(frozen=True)
class PlannedStage:
    """Operators that run in the same tasks. `seconds` of it pass before the next stage begins.

    - `tasks` of it share `slots`. `row_s`: seconds that each row that enters the dataflow adds to the stage.
    - `early_row_s`: what each of the first `early_rows` adds beside, while one worker waits for another's first rows.
    - `least_s`: its longest row, below which no stage with rows is. `fixed_s`: what Spark needs for it.
    - `binding`: the operator that decides how long it takes ("": none was measured). `rows_in`: rows that enter each operator
      for one that enters the dataflow.
    """

    operators: tuple[str, ...]
    tasks: int
    slots: int
    row_s: float
    least_s: float = 0.0
    fixed_s: float = 0.0
    binding: str = ""
    rows_in: Mapping[str, float] = field(default_factory=dict)
    early_row_s: float = 0.0
    early_rows: float = 0.0

    def seconds(self, rows: float) -> float:
        """How long the stage takes in a batch of so many rows at the source."""
        if not rows > 0.0:
            return self.fixed_s
        early_s = self.early_row_s * min(rows, self.early_rows) if self.early_row_s else 0.0
        return self.fixed_s + max(rows * self.row_s + early_s, self.least_s)


@dataclass(frozen=True)
class SparkPlan:
    """A dataflow on `slots` task slots of Spark at `rate` rows/s, with a batch every `trigger_s` (None: one after the other).

    `threads` of each operator of rows and batches, in each task. `allocation`: `mba` (threads where a slot carries most) or
    `lsa` (one thread in a task). `unmeasured`: operators that count nothing here, because nobody measured them.
    Guarantees (property-tested): `batch_s` never falls with more rows nor rises with more slots, and a batch is never shorter
    than its longest row; at `peak_rate` a batch takes the trigger.
    """

    flow: Dataflow
    rate: float
    slots: int
    trigger_s: float | None
    threads: Mapping[str, int]
    stages: tuple[PlannedStage, ...]
    engine: EngineCosts
    fixed_s: float = 0.0
    """What Spark needs for a batch and its sinks, beside its stages."""
    allocation: str = "mba"
    memory_mib: float = 0.0
    """The most that the Python worker of one slot is expected to hold."""
    unmeasured: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    """Operators of Spark itself that were measured."""
    between: tuple[str, ...] = ()
    """Operators whose number of threads was not measured: what they carry is read between or beyond the points."""
    doubts: tuple[str, ...] = ()
    """What was measured of something that may have changed since, or was not measured and is guessed, each with a remedy."""

    def batch_s(self, rows: float) -> float:
        """How long a batch of so many rows takes."""
        return self.fixed_s + math.fsum(stage.seconds(rows) for stage in self.stages)

    @cached_property
    def rows_per_batch(self) -> float:
        """Rows of a batch at the planned rate; infinite where batches one after the other would only grow."""
        if self.trigger_s is not None:
            return self.rate * self.trigger_s
        if self.rate >= self.peak_rate:
            return math.inf
        rows = 0.0
        for _ in range(_ENOUGH_STEPS):  # a batch has what arrived while the one before it ran
            rows = self.rate * self.batch_s(rows)
        return rows

    @cached_property
    def interval_s(self) -> float:
        """Seconds from the start of one batch to that of the next."""
        if self.trigger_s is not None:
            return self.trigger_s
        return self.batch_s(self.rows_per_batch) if math.isfinite(self.rows_per_batch) else math.inf

    @cached_property
    def peak_rate(self) -> float:
        """The highest rate: a batch of what arrives in a trigger interval takes just that long. Without one, what batches that
        grow without end come near to."""
        if self.trigger_s is None:
            row_s = math.fsum(stage.row_s for stage in self.stages)
            return 1.0 / row_s if row_s > 0.0 else math.inf
        if self.batch_s(0.0) >= self.trigger_s:
            return 0.0
        low, high = 0.0, 1.0
        while self.batch_s(high) <= self.trigger_s:
            low, high = high, 2.0 * high
            if high > 1e15:
                return math.inf
        for _ in range(_ENOUGH_STEPS):
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.batch_s(middle) <= self.trigger_s else (low, middle)
        return low / self.trigger_s

    @property
    def told_peak(self) -> str:
        """The highest rate in words."""
        if math.isinf(self.peak_rate):
            return "not known, for nothing was measured that takes longer with more rows"
        return f"{plain(self.peak_rate, 4)} rows/s"

    @property
    def holds(self) -> bool:
        """Whether the planned rate is not above the highest."""
        return self.rate <= self.peak_rate

    @property
    def completion_s_mean(self) -> float:
        """From a row's arrival to the end of its batch, on average: half an interval and a batch. Infinite above the peak."""
        return 0.5 * self.interval_s + self.batch_s(self.rows_per_batch) if self.holds else math.inf

    @property
    def completion_s_p99(self) -> float:
        """What 99 of 100 rows do not exceed: they come soon after a batch has begun."""
        return 0.99 * self.interval_s + self.batch_s(self.rows_per_batch) if self.holds else math.inf

    @property
    def first_to_break(self) -> str:
        """The operator that decides the longest stage at the peak ("": none was measured)."""
        measured = [stage for stage in self.stages if stage.binding]
        return max(measured, key=lambda stage: stage.row_s).binding if measured else ""

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows = self.rows_per_batch
        facts: dict[str, object] = {
            "planned rate": f"{plain(self.rate, 6)} rows/s",
            "highest rate": f"{self.told_peak}{'' if self.holds else ': below the planned one'}",
            "first to break": self.first_to_break or "nothing that was measured",
            "task slots": self.slots,
            "batches": f"{rows:,.0f} rows every {plain(self.interval_s)} s, each takes {plain(self.batch_s(rows))} s",
            "threads in a task": ", ".join(f"{name} {count}" for name, count in self.threads.items()),
            **({"in doubt": "; ".join(self.doubts)} if self.doubts else {}),
        }
        return shown(f"Plan of {self.flow.name} on Spark", facts, {"stages, s": [stage.seconds(rows) for stage in self.stages]})

    def applied(self) -> Dataflow:
        """The dataflow with the threads of the plan."""
        operators = tuple(
            replace(one, threads=self.threads[one.name]) if one.name in self.threads else one for one in self.flow.operators
        )
        return replace(self.flow, operators=operators)
