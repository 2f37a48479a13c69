"""What a run of a dataflow has measured: told by every worker, added up by operator."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from evenly.measures.load import imbalance_pct


@dataclass(frozen=True)
class Counted:
    """An operator in one worker: rows that entered and left, and how long its calls took in all, its threads added up."""

    operator: str
    rows_in: int
    rows_out: int
    busy_s: float


@dataclass(frozen=True)
class WorkerReport:
    """One task of a stage: when it ran (seconds since 1970), the cpu time of its Python process, and its operators."""

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

    @property
    def selectivity(self) -> float | None:
        """Rows that left for one that entered; None if none did."""
        return self.rows_out / self.rows_in if self.rows_in else None

    @property
    def call_ms(self) -> float | None:
        """How long a row took on average; None without rows."""
        return 1e3 * self.busy_s / self.rows_in if self.rows_in else None


def measured(reports: Iterable[WorkerReport]) -> dict[str, Measured]:
    """Operators by name, of the reports of all tasks of a batch."""
    by_operator: dict[str, list[tuple[WorkerReport, Counted]]] = {}
    for report in reports:
        for one in report.operators:
            by_operator.setdefault(one.operator, []).append((report, one))
    return {name: _added_up(name, found) for name, found in by_operator.items()}


def _added_up(name: str, found: Sequence[tuple[WorkerReport, Counted]]) -> Measured:
    busy_s = [one.busy_s for _, one in found]
    return Measured(
        name,
        rows_in=sum(one.rows_in for _, one in found),
        rows_out=sum(one.rows_out for _, one in found),
        busy_s=sum(busy_s),
        instances=len(found),
        imbalance_pct=imbalance_pct(busy_s) if sum(busy_s) > 0.0 else 0.0,
        span_s=max(report.ended_s for report, _ in found) - min(report.begun_s for report, _ in found),
    )
