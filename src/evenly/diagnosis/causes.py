"""Why a stage was uneven, and what would fix it: one decision on its numbers.

The longest task decides how long a stage takes, so the question is what made it longer than the mean. Each candidate
(what it read, garbage collection, waiting for the shuffle, its machine) is asked how much of that excess it explains; the
first that explains half is the cause. What nothing explains is the cost of the rows themselves. Beside that stand causes that
are not about rows: the number of tasks, their start, their failures. Of all, what would save most is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evenly.diagnosis.causes_of_rows import by_reading, uneven_reading
from evenly.diagnosis.causes_of_size import cold_start, failed_tasks, in_rounds, last_round, locality_wait, too_few, too_many
from evenly.diagnosis.causes_of_time import by_time
from evenly.diagnosis.findings import NOTHING, Cause, Finding, Thresholds
from evenly.diagnosis.past import Application
from evenly.diagnosis.savings import on_critical_path_s
from evenly.diagnosis.stages import PastStage


@dataclass(frozen=True)
class LogDiagnosis:
    """What is said of an application's stages, those that lost most first, and what it would save on its critical path."""

    findings: Sequence[Finding]
    saved_s: float


def diagnose_application(application: Application, thresholds: Thresholds | None = None) -> LogDiagnosis:
    """A finding for each stage, and what following all of them would save; stages that ran at the same time count once."""
    findings = [diagnose_stage(stage, thresholds) for stage in application.stages]
    wrong = [(one.stage.bounds_ms, one.saved_s) for one in findings if one.cause is not Cause.EVEN]
    return LogDiagnosis(findings, on_critical_path_s(application.bounds_ms, wrong))


def diagnose_stage(stage: PastStage, thresholds: Thresholds | None = None) -> Finding:
    """The one thing that cost the stage most, or that it was even."""
    limits = thresholds or Thresholds()
    equal = in_rounds(stage, limits)
    candidates = [
        last_round(stage) if equal else _uneven(stage, limits),
        too_few(stage, limits),
        too_many(stage, limits),
        cold_start(stage),
        locality_wait(stage),
        failed_tasks(stage),
    ]
    found = [finding for finding in candidates if finding is not None and _counts(finding, limits)]
    if not found and equal and stage.others_busy >= 0.5:
        return Finding(stage, Cause.EVEN, 0.0, "its tasks are equal, and waited for slots that other stages had", NOTHING)
    if not found:
        why = f"perfect balance would save {stage.saved_s:.1f} s of {stage.seconds:.1f} s"
        even = Finding(stage, Cause.EVEN, stage.saved_s, why, NOTHING)
        return replace(even, why=f"{why}; the log does not tell why its tasks differ") if _counts(even, limits) else even
    return max(found, key=lambda finding: finding.saved_s)


def _counts(finding: Finding, limits: Thresholds) -> bool:
    return finding.saved_s >= limits.least_saved_s and finding.saved_pct >= limits.least_saved_pct


def _uneven(stage: PastStage, limits: Thresholds) -> Finding | None:
    """What made the longest task longer than the mean."""
    if stage.instances < 2 or stage.time_imbalance_pct <= 0.0 or stage.saved_s <= 0.0:
        return None
    read = uneven_reading(stage, limits)
    return by_reading(stage, read, limits) if read is not None else by_time(stage, limits)
