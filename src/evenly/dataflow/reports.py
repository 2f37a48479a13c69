"""What a run of a dataflow has measured: told by every worker, added up by operator."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from evenly.costs.report import InstanceReport
from evenly.kernels.types import F64, I64
from evenly.measures.load import imbalance_pct


@dataclass(frozen=True)
class Counted:
    """An operator in one worker: rows that entered and left, how long its calls took in all, its threads added up, and how many
    those are."""

    operator: str
    rows_in: int
    rows_out: int
    busy_s: float
    threads: int = 1


@dataclass(frozen=True)
class WorkerReport:
    """One task of a stage: when it ran (seconds since 1970), the cpu time of its Python process (not a number: not told) and
    the most memory that it has held so far (0: not told), and its operators."""

    instance: int
    begun_s: float
    ended_s: float
    cpu_s: float
    peak_bytes: int
    operators: tuple[Counted, ...]

    def to_bytes(self) -> bytes:
        """For the way through Spark."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, told: bytes) -> WorkerReport:
        """What `to_bytes` gave."""
        found = json.loads(told)
        return cls(**{**found, "operators": tuple(Counted(**one) for one in found["operators"])})

    @classmethod
    def of_costs(cls, report: InstanceReport, operator: str, threads: int) -> WorkerReport:
        """The same of an operator whose rows were dealt by cost."""
        left = report.rows if report.results is None else report.results
        counted = Counted(operator, report.rows, left, report.busy_s, threads)
        cpu_s = math.nan if report.cpu_s is None else report.cpu_s
        return cls(report.instance, report.first_s, report.last_s, cpu_s, report.peak_bytes or 0, (counted,))


@dataclass(frozen=True)
class Measured:
    """An operator over all instances of a batch."""

    operator: str
    rows_in: int
    rows_out: int
    busy_s: float
    instances: int
    imbalance_pct: float
    """λ of the time that its calls took."""
    span_s: float
    """From the first of its stage's tasks that began to the last that ended."""
    threads: int = 1
    """In each of its tasks."""
    waiting_s: float = 0.0
    """How long its threads had nothing to call, all of them added up, while their tasks ran."""
    cpu_pct: float | None = None
    """The cpu time of its Python workers, of the time that their tasks ran: 100 is one core for a slot."""
    peak_bytes: int | None = None
    """The most memory that one of them has held."""

    @property
    def selectivity(self) -> float | None:
        """Rows that left for one that entered; None if none did."""
        return self.rows_out / self.rows_in if self.rows_in else None

    @property
    def call_ms(self) -> float | None:
        """How long a row took on average; None without rows."""
        return 1e3 * self.busy_s / self.rows_in if self.rows_in else None

    @property
    def rate(self) -> float | None:
        """Rows per second that entered it while its stage ran; None without rows."""
        return self.rows_in / self.span_s if self.rows_in and self.span_s > 0.0 else None

    @property
    def busy_pct(self) -> float:
        """The part of the time of its threads in which they called it."""
        whole_s = self.busy_s + self.waiting_s
        return 100.0 * self.busy_s / whole_s if whole_s > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class Instances:
    """An operator in each instance of one batch, by ascending instance: one number of each array."""

    instance: I64
    rows_in: I64
    rows_out: I64
    busy_s: F64
    waiting_s: F64
    seconds: F64
    """How long the task ran."""
    cpu_s: F64
    """Of its Python process (not a number: not told)."""
    peak_bytes: I64
    """The most memory that the process has held (0: not told)."""

    @property
    def rate(self) -> F64:
        """Rows per second of each; 0 where a task took no time."""
        return np.divide(self.rows_in, self.seconds, out=np.zeros(self.seconds.size), where=self.seconds > 0.0)


@dataclass(frozen=True)
class Completion:
    """Seconds from the arrival of a row to the end of the batch that held it, over `rows` rows that have a stamp."""

    rows: int
    mean_s: float
    p50_s: float
    p99_s: float


@dataclass(frozen=True, eq=False)
class FlowBatch:
    """A batch of a dataflow: its number (None: it was the only one), how long it took, and what each operator did in it.

    Of a stream Spark tells more when the batch has ended for good, a moment later: `rows` that it read, when it began (seconds
    since 1970), how long all of it took (`whole_s`, with what Spark does before and after), and, where the source has an
    arrival, `completion`; of a replay the rate at which its rows were offered. Until then these are None.
    """

    number: int | None
    seconds: float
    operators: dict[str, Measured]
    rows: int | None = None
    began_s: float | None = None
    whole_s: float | None = None
    completion: Completion | None = None
    offered_rate: float | None = None

    @property
    def took_s(self) -> float:
        """How long it took, as well as is known."""
        return self.seconds if self.whole_s is None else self.whole_s


def measured(reports: Iterable[WorkerReport]) -> dict[str, Measured]:
    """Operators by name, of the reports of all tasks of a batch."""
    return {name: _added_up(name, found) for name, found in _by_operator(reports).items()}


def by_instance(reports: Iterable[WorkerReport]) -> dict[str, Instances]:
    """The same, one by one."""
    return {name: _one_by_one(found) for name, found in _by_operator(reports).items()}


_Told = tuple[WorkerReport, Counted]


def _by_operator(reports: Iterable[WorkerReport]) -> dict[str, list[_Told]]:
    found: dict[str, list[_Told]] = {}
    for report in reports:
        for one in report.operators:
            found.setdefault(one.operator, []).append((report, one))
    return found


def _waited_s(report: WorkerReport, one: Counted) -> float:
    return max(0.0, one.threads * (report.ended_s - report.begun_s) - one.busy_s)


def _added_up(name: str, found: Sequence[_Told]) -> Measured:
    busy_s = [one.busy_s for _, one in found]
    told = [(report.cpu_s, report.ended_s - report.begun_s) for report, _ in found if not math.isnan(report.cpu_s)]
    ran_s = sum(seconds for _, seconds in told)
    worked = [report for report, one in found if one.rows_in] or [report for report, _ in found]
    return Measured(
        name,
        rows_in=sum(one.rows_in for _, one in found),
        rows_out=sum(one.rows_out for _, one in found),
        busy_s=sum(busy_s),
        instances=len(found),
        imbalance_pct=imbalance_pct(busy_s) if sum(busy_s) > 0.0 else 0.0,
        span_s=max(report.ended_s for report in worked) - min(report.begun_s for report in worked),
        threads=max(one.threads for _, one in found),
        waiting_s=sum(_waited_s(report, one) for report, one in found),
        cpu_pct=100.0 * sum(cpu_s for cpu_s, _ in told) / ran_s if ran_s > 0.0 else None,
        peak_bytes=max(report.peak_bytes for report, _ in found) or None,
    )


def _one_by_one(found: Sequence[_Told]) -> Instances:
    found = sorted(found, key=lambda one: one[0].instance)
    return Instances(
        np.array([report.instance for report, _ in found], np.int64),
        np.array([one.rows_in for _, one in found], np.int64),
        np.array([one.rows_out for _, one in found], np.int64),
        np.array([one.busy_s for _, one in found], np.float64),
        np.array([_waited_s(*one) for one in found], np.float64),
        np.array([report.ended_s - report.begun_s for report, _ in found], np.float64),
        np.array([report.cpu_s for report, _ in found], np.float64),
        np.array([report.peak_bytes for report, _ in found], np.int64),
    )
