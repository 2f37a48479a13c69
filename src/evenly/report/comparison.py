"""The comparison of two placements of one job, as data."""

from __future__ import annotations

from dataclasses import dataclass

from evenly.kernels.types import F64, I64
from evenly.measures.load import imbalance_pct


@dataclass(frozen=True)
class PlacedRun:
    """How the instances of one run were loaded."""

    grouping: str
    rows: I64
    busy_s: F64
    stage_s: float
    job_s: float

    @property
    def imbalance_pct(self) -> float:
        """λ of the rows."""
        return imbalance_pct(self.rows)


@dataclass(frozen=True)
class Comparison:
    """The same job placed by Spark's hash and by Evenly."""

    hash: PlacedRun
    evenly: PlacedRun
    learning_s: float
    least_imbalance_pct: float
    same_results: bool

    @property
    def ratio(self) -> float:
        """How many times as long the grouped stage takes by hash."""
        return self.hash.stage_s / self.evenly.stage_s

    @property
    def ratio_with_learning(self) -> float:
        """How many times as long the whole job takes by hash, when Evenly has to learn the mapping first."""
        return self.hash.job_s / (self.evenly.job_s + self.learning_s)

    def results(self) -> list[dict[str, object]]:
        """Flat objects for programs: one for each run, then one for each instance of each run."""
        runs: list[dict[str, object]] = [
            {
                "grouping": run.grouping,
                "instances": int(run.rows.size),
                "imbalance_pct_mean": run.imbalance_pct,
                "series": series,
                "seconds": seconds,
                "ratio": seconds / baseline,
                "baseline": "hash",
            }
            for run in (self.hash, self.evenly)
            for series, seconds, baseline in (
                ("stage", run.stage_s, self.hash.stage_s),
                ("job", run.job_s, self.hash.job_s),
            )
        ]
        runs.append({"grouping": "evenly", "series": "learning", "seconds": self.learning_s})
        return runs + [
            {"grouping": run.grouping, "series": "instance", "x": i, "rows": int(run.rows[i]), "seconds": float(run.busy_s[i])}
            for run in (self.hash, self.evenly)
            for i in range(run.rows.size)
        ]
