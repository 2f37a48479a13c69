"""What a stage of a past job did, as numbers: its tasks, its schedule, and the time that an even stage would have saved."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evenly.errors import InvalidParameter
from evenly.kernels.types import F64, I64
from evenly.measures.load import imbalance_pct

_SPARKS_OWN = re.compile(r"\.(java|scala):\d+$")


@dataclass(frozen=True)
class Exchange:
    """The shuffle that a stage reads from: how it places rows, its plain key columns, and its number of partitions.

    `kind` is Spark's word: hashpartitioning, rangepartitioning, RoundRobinPartitioning, SinglePartition, … `expressions`
    are what is hashed, as the plan writes it; `keys` those columns, or nothing where one of them is no plain column.
    """

    kind: str
    expressions: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    partitions: int | None = None


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of a stage that succeeded, one entry per task in every array, times in ms.

    `run_ms` is the time that the task itself ran; `gc_ms` and `fetch_wait_ms` are parts of it. `rows` and `bytes` are
    those that it read, from files or a shuffle. `spilled` is what it wrote to disk for want of memory, in bytes.
    """

    run_ms: I64
    rows: I64
    bytes: I64
    gc_ms: I64
    fetch_wait_ms: I64
    spilled: I64
    executor: NDArray[np.str_]

    def __post_init__(self) -> None:
        sizes = {column.size for column in (self.rows, self.bytes, self.gc_ms, self.fetch_wait_ms, self.spilled, self.executor)}
        if sizes != {self.run_ms.size} or self.run_ms.size == 0:
            raise InvalidParameter(
                f"a stage needs at least one task, and one entry per task in every array, got {sorted(sizes)}"
            )


@dataclass(frozen=True, eq=False)
class Schedule:
    """When the attempts of a stage's tasks ran, failed and speculative ones too: they hold a slot as well."""

    launch_ms: I64
    finish_ms: I64

    @property
    def seconds(self) -> float:
        """From the first launch to the last end."""
        return float(self.finish_ms.max() - self.launch_ms.min()) / 1000.0

    @property
    def slots(self) -> int:
        """How many tasks ran at once at most: the slots that the stage really had. An end at a launch makes room for it."""
        moments = np.concatenate([self.launch_ms, self.finish_ms])
        change = np.concatenate([np.ones(self.launch_ms.size, np.int64), -np.ones(self.finish_ms.size, np.int64)])
        return max(1, int(np.cumsum(change[np.lexsort((change, moments))]).max()))

    @property
    def saved_s(self) -> float:
        """What perfect balance on the same slots would have saved.

        Until the last task is launched no slot is idle for want of balance: a task waits for every slot that comes free,
        or other stages have the slots. After that launch the stage ends no earlier than its longest task; the
        work that is left at that moment, spread over the stage's slots, would take its sum over their number.
        """
        last_launch = self.launch_ms.max()
        left = np.maximum(self.finish_ms - np.maximum(self.launch_ms, last_launch), 0).sum()
        return max(0.0, float(self.finish_ms.max() - last_launch) - float(left) / self.slots) / 1000.0

    def seconds_on(self, slots: int) -> float:
        """How long the same work would take at perfect balance on `slots` slots."""
        return float((self.finish_ms - self.launch_ms).sum()) / slots / 1000.0


@dataclass(frozen=True, eq=False)
class PastStage:
    """One attempt of a stage that finished.

    `name` is its call site, `operators` what it computes (the last first), `query` the description of its SQL
    query. `cluster_slots` is how many tasks the application's executors could run at once.
    """

    stage: int
    attempt: int
    name: str
    tasks: Tasks
    schedule: Schedule
    cluster_slots: int
    operators: tuple[str, ...] = ()
    query: str | None = None
    exchange: Exchange | None = None
    failed: int = 0
    speculative: int = 0
    overhead_ms: int = field(default=0)

    @property
    def instances(self) -> int:
        """The number of its tasks."""
        return int(self.tasks.run_ms.size)

    @property
    def time_imbalance_pct(self) -> float:
        """λ of the tasks' run times."""
        return imbalance_pct(self.tasks.run_ms)

    @property
    def rows_imbalance_pct(self) -> float:
        """λ of the rows that the tasks read."""
        return imbalance_pct(self.tasks.rows)

    @property
    def bytes_imbalance_pct(self) -> float:
        """λ of the bytes that the tasks read."""
        return imbalance_pct(self.tasks.bytes)

    @property
    def gc_share(self) -> float:
        """The part of the run time that garbage collection took."""
        return _share(self.tasks.gc_ms, self.tasks.run_ms)

    @property
    def fetch_share(self) -> float:
        """The part of the run time that tasks waited for the shuffle's data."""
        return _share(self.tasks.fetch_wait_ms, self.tasks.run_ms)

    @property
    def spilled_bytes(self) -> int:
        """What all tasks wrote to disk for want of memory."""
        return int(self.tasks.spilled.sum())

    @property
    def seconds(self) -> float:
        """How long the stage took."""
        return self.schedule.seconds

    @property
    def saved_s(self) -> float:
        """What perfect balance on the same slots would have saved."""
        return self.schedule.saved_s

    @property
    def what(self) -> str:
        """Its number, and its last operator, where there is a plan."""
        attempt = f".{self.attempt}" if self.attempt else ""
        return f"{self.stage}{attempt} {self.operators[0] if self.operators else ''}".rstrip()

    @property
    def line(self) -> str:
        """The line of code that asked for it, without the folders; of Spark's own lines only the action is told."""
        named = [self.name, *(self.query or "").splitlines()[:1]]
        told = next((name for name in named if name and not _SPARKS_OWN.search(name)), None)
        if told is None:
            return named[-1].rpartition(" at ")[0] or named[-1]
        action, at, place = told.rpartition(" at ")
        return f"{action}{at}{place.rpartition('/')[2]}"

    @property
    def where(self) -> str:
        """The stage as people recognise it."""
        return f"stage {self.what}" + (f" ({self.line})" if self.line else "")


def _share(part: I64, whole: I64) -> float:
    total = float(whole.sum())
    return float(part.sum()) / total if total > 0.0 else 0.0


def tallest(values: F64 | I64, most: int) -> F64:
    """At most `most` values, the largest first: more than a picture can show as bars is thinned out evenly."""
    ordered = np.sort(np.asarray(values, np.float64))[::-1]
    if ordered.size <= most:
        return ordered
    return ordered[np.linspace(0, ordered.size - 1, most).round().astype(np.int64)]
