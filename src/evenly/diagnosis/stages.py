"""What a stage of a past job did, as numbers: its tasks, its schedule, and the time that an even stage would have saved."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenly.diagnosis.calls import SLOT
from evenly.diagnosis.savings import in_turn_ms, left_at_the_end_ms
from evenly.errors import InvalidParameter
from evenly.kernels.types import F64, I64
from evenly.measures.load import imbalance_pct

PYTHON = re.compile(r"Python|InPandas|InArrow|PySpark")
"""Operators and RDDs that run a Python function."""
_SPARKS_OWN = re.compile(r"(\.(java|scala)|<unknown>):\d+$")
_UNKNOWN = np.zeros(0, np.int64)
_NOBODY = np.zeros(0, np.bool_)


def column_name(name: str) -> str:
    """The name of a column, as Spark's functions take it: in back-quotes where a dot or a back-quote is part of it."""
    return "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name


@dataclass(frozen=True)
class Exchange:
    """The shuffle that a stage reads from: how it places rows, its plain key columns, and its number of partitions.

    `kind` is Spark's word: hashpartitioning, rangepartitioning, RoundRobinPartitioning, SinglePartition, … `expressions`
    are what is hashed, as the plan writes it; `keys` those columns, or nothing where one of them is no plain column. `read` is
    how adaptive execution read it (coalesced, skewed, local), `side` which side of a join or of a cogroup it feeds (left,
    right), `origin` why it is there (REPARTITION_BY_NUM, …), `number` that of the metric under which tasks tell the rows that
    they read of it.
    """

    kind: str
    expressions: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    partitions: int | None = None
    read: str = ""
    side: str = ""
    origin: str = ""
    number: int = field(default=-1, compare=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The key columns as Spark's functions take their names."""
        return tuple(column_name(key) for key in self.keys)

    @property
    def placed(self) -> bool:
        """Whether Evenly placed its keys: the last column is the slot that it added."""
        return len(self.keys) > 1 and self.keys[-1] == SLOT

    @property
    def placeable(self) -> tuple[str, ...]:
        """The key columns that Evenly would place: those of the user's, without a slot that it added."""
        return self.columns[:-1] if self.placed else self.columns

    @property
    def coalesced(self) -> bool:
        """Whether adaptive execution merged its small partitions."""
        return "coalesced" in self.read

    @property
    def split(self) -> bool:
        """Whether adaptive execution split its largest partitions."""
        return "skewed" in self.read

    @property
    def named(self) -> str:
        """What it hashes or sorts by, for people."""
        return ", ".join(self.keys or self.expressions)


@dataclass(frozen=True)
class Work:
    """What a stage computes, as far as its query's plan and its RDDs say.

    `operators` are told from the last to the first; `functions` are the names of Python functions among them, `reads` the
    shuffles it reads. `join` and `scan` are described as the plan does, `rdds` and `command` (the root of the plan) are Spark's
    names. `adaptive` says that adaptive execution was on, `for_broadcast` and `limited` what becomes of the result. `files`
    and `files_bytes` are how many files it scans and their size, where the log says so (else 0); `reads_shuffle` says that it
    reads a shuffle of a query, also where there is no plan to describe that, and `groups_rdds` one of a job without a query,
    whose own partitioner puts rows where they are. `part` says that only some of its partitions were computed: the first ones
    for a few rows (`take`, `show`), or those that had been lost; `file_rdd` that it reads files as Spark's queries do, also
    where it belongs to none. `coalesced` is to how many partitions a `coalesce` of the job has put them (0: there is none),
    `streaming` that it is of a streaming query's own plan, and not of a batch that the query's function was handed.
    """

    operators: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    reads: tuple[Exchange, ...] = ()
    join: str = ""
    scan: str = ""
    rdds: tuple[str, ...] = ()
    adaptive: bool = False
    for_broadcast: bool = False
    limited: bool = False
    command: str = ""
    files: int = 0
    files_bytes: int = 0
    reads_shuffle: bool = False
    groups_rdds: bool = False
    part: bool = False
    file_rdd: bool = False
    coalesced: int = 0
    streaming: bool = False

    @property
    def python(self) -> bool:
        """Whether a Python function runs in it: its cpu time is that of another process, and the log does not have it."""
        return any(PYTHON.search(name) for name in (*self.operators, *self.rdds))

    @property
    def cpu_tells(self) -> bool:
        """Whether cpu time is that of the work: what Python functions and GPUs do is not in it."""
        return not self.python and not self.gpu

    @property
    def gpu(self) -> bool:
        """Whether it runs on a GPU, which tasks share."""
        return any(name.startswith("Gpu") for name in self.operators)

    @property
    def exchange(self) -> Exchange | None:
        """The shuffle that it reads (that with keys, if there are several)."""
        return max(self.reads, key=lambda one: (len(one.keys), len(one.expressions)), default=None)


@dataclass(frozen=True, eq=False)
class Tasks:
    """The tasks of a stage that succeeded, one entry per task in every array, times in ms.

    `run_ms` is the time that the task itself ran; `gc_ms` and `fetch_wait_ms` are parts of it, and so is `python_start_ms`,
    what starting a Python worker took. `finish_ms` is when its result was ready: what the driver took to fetch a large one is
    after that. `cpu_ms` is the JVM's cpu time. `rows` and `bytes` are those that it read, from files
    or a shuffle, `rows_out` those that it wrote or joined, `by_read` those of each shuffle (by its number). `spilled` is what
    it wrote to disk for want of memory, in bytes.
    `first` marks tasks that were launched on an executor before any task had ended there: what they took has its start in it.
    `kept` marks tasks of a stage with rows that executors keep (`cache`) which ran where these were. `place` is how far a task
    ran from its rows (0: where they are, 3: anywhere), `age_ms` for how long its executor had had tasks when it was launched.
    """

    run_ms: I64
    rows: I64
    bytes: I64
    gc_ms: I64
    fetch_wait_ms: I64
    spilled: I64
    executor: NDArray[np.str_]
    cpu_ms: I64 = field(default_factory=lambda: _UNKNOWN)
    rows_out: I64 = field(default_factory=lambda: _UNKNOWN)
    python_start_ms: I64 = field(default_factory=lambda: _UNKNOWN)
    launch_ms: I64 = field(default_factory=lambda: _UNKNOWN)
    finish_ms: I64 = field(default_factory=lambda: _UNKNOWN)
    first: NDArray[np.bool_] = field(default_factory=lambda: _NOBODY)
    kept: NDArray[np.bool_] = field(default_factory=lambda: _NOBODY)
    place: I64 = field(default_factory=lambda: _UNKNOWN)
    age_ms: I64 = field(default_factory=lambda: _UNKNOWN)
    by_read: dict[int, I64] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("cpu_ms", "rows_out", "python_start_ms", "launch_ms", "place", "age_ms"):
            if getattr(self, name) is _UNKNOWN:
                object.__setattr__(self, name, np.zeros(self.run_ms.size, np.int64))
        if self.finish_ms is _UNKNOWN:
            object.__setattr__(self, "finish_ms", self.launch_ms + self.run_ms)
        for name in ("first", "kept"):
            if getattr(self, name) is _NOBODY:
                object.__setattr__(self, name, np.zeros(self.run_ms.size, np.bool_))
        sizes = {column.size for column in (self.rows, self.bytes, self.gc_ms, self.fetch_wait_ms, self.spilled, self.executor)}
        if sizes != {self.run_ms.size} or self.run_ms.size == 0:
            raise InvalidParameter(
                f"a stage needs at least one task, and one entry per task in every array, got {sorted(sizes)}"
            )

    @property
    def work_ms(self) -> I64:
        """The time that the task worked: its run time without the start of its Python worker."""
        worked: I64 = np.maximum(self.run_ms - self.python_start_ms, 0)
        return worked

    @property
    def pace_ms(self) -> F64:
        """Its time a row, or for the task where not all tasks counted rows."""
        work = self.work_ms.astype(np.float64)
        return work / self.rows if int(self.rows.min()) > 0 else work

    @property
    def start_ms(self) -> I64:
        """What starting the task took: from its launch to its run, and the start of its Python worker."""
        starting: I64 = np.maximum(self.finish_ms - self.launch_ms - self.work_ms, 0)
        return starting

    @property
    def in_order(self) -> I64:
        """The tasks' work in the order in which they were launched."""
        return self.work_ms[np.argsort(self.launch_ms, kind="stable")]


@dataclass(frozen=True, eq=False)
class Schedule:
    """When the attempts of a stage's tasks held a slot, failed and speculative ones too."""

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


@dataclass(frozen=True, eq=False)
class PastStage:
    """One attempt of a stage that finished.

    `name` is its call site, `work` what it computes, `query` the description of its SQL query, `description` that of its job.
    `cluster_slots` is how many tasks the application's executors could run at once, all the while that the stage ran,
    `slot_limit` those that were there at any moment of it (0: not known), `given_back` the most that there had been before
    where executors come and go by demand (0: where they do not), and `others_busy` how many slots other stages had on average.
    `slow_executors` were slow in several stages; `hosts` says where executors are; `speculates` that slow tasks are copied
    already. `own` names what it is where it is no work of the user's (a schema that is read, a broadcast, …). `failed` attempts
    took `failed_s`, and `failure` is the first one's reason.
    """

    stage: int
    attempt: int
    name: str
    tasks: Tasks
    schedule: Schedule
    cluster_slots: int
    slot_limit: int = 0
    given_back: int = 0
    speculates: bool = False
    work: Work = field(default_factory=Work)
    query: str | None = None
    description: str = ""
    own: str | None = None
    failed: int = 0
    failed_s: float = 0.0
    failure: str = ""
    speculative: int = 0
    others_busy: float = 0.0
    slow_executors: frozenset[str] = frozenset()
    hosts: dict[str, str] = field(default_factory=dict)

    @property
    def operators(self) -> tuple[str, ...]:
        """What it computes, the last operator first."""
        return self.work.operators

    @cached_property
    def exchange(self) -> Exchange | None:
        """The shuffle that it reads (that with keys, if there are several); of a union that of the task that is to blame."""
        its = [one for one in self.work.reads if self._reads(one)[self.deciding]]
        return replace(self.work, reads=tuple(its)).exchange if its else self.work.exchange

    @cached_property
    def alike(self) -> NDArray[np.bool_]:
        """The tasks that do the same as the one that is to blame: of a union those that read the same shuffle."""
        exchange = self.exchange
        every = np.ones(self.instances, np.bool_)
        if exchange is None or exchange.side:  # tasks of a join may have rows of one side only
            return every
        same = np.logical_or(self._reads(exchange), self.tasks.rows == 0)
        return same if same[self.deciding] else every

    def _reads(self, exchange: Exchange) -> NDArray[np.bool_]:
        """Which tasks read of a shuffle; all of them where they do not tell."""
        rows = self.tasks.by_read.get(exchange.number)
        return np.ones(self.instances, np.bool_) if rows is None else np.greater(rows, 0)

    @property
    def instances(self) -> int:
        """The number of its tasks."""
        return int(self.tasks.run_ms.size)

    @property
    def time_imbalance_pct(self) -> float:
        """λ of the times that the tasks worked."""
        return imbalance_pct(self.tasks.work_ms)

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

    @cached_property
    def slots(self) -> int:
        """How many of its tasks ran at once at most. A log tells an end a little after the launch that it made room for."""
        return min(self.schedule.slots, self.slot_limit) if self.slot_limit else self.schedule.slots

    @cached_property
    def ideal_s(self) -> float:
        """What its work takes at perfect balance on the slots that it had."""
        return float(self.tasks.work_ms.sum()) / self.slots / 1000.0

    @cached_property
    def worked_s(self) -> float:
        """What its tasks take on the slots that it had, launched in the order in which they were, without their start."""
        return in_turn_ms(self.tasks.in_order, self.slots) / 1000.0

    @cached_property
    def saved_s(self) -> float:
        """What perfect balance on the same slots would have saved: of the tasks' own work, and of the stage's end as it was.

        Start-up is in neither, so an executor that had just come is no imbalance.
        """
        tasks = self.tasks
        left = left_at_the_end_ms(tasks.finish_ms - tasks.work_ms, tasks.finish_ms, self.slots) / 1000.0
        return max(0.0, min(self.worked_s - self.ideal_s, left))

    @cached_property
    def deciding(self) -> int:
        """The task that is to blame for the time lost: the longest of those that ran in it, or of all where that one is short.

        In a stage of several rounds a long task that began early costs nothing.
        """
        work, finish = self.tasks.work_ms, self.tasks.finish_ms
        late = finish > finish.max() - max(1.0, 1000.0 * self.saved_s)
        longest = int(np.where(late, work, -1).argmax())
        return longest if float(work[longest]) > float(work.mean()) else int(work.argmax())

    @property
    def decider(self) -> str:
        """That task, in words."""
        work = self.tasks.work_ms
        return "the longest task" if work[self.deciding] == work.max() else "the longest of the last tasks"

    @property
    def overhead_s(self) -> float:
        """What starting its tasks took in all."""
        return float(self.tasks.start_ms.sum()) / 1000.0

    @property
    def bounds_ms(self) -> tuple[int, int]:
        """When it began and ended."""
        return int(self.schedule.launch_ms.min()), int(self.schedule.finish_ms.max())

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
