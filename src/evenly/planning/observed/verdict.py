"""Planned, predicted and observed side by side, and a verdict: held, or which operator broke and at which rate."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from evenly.dataflow.reports import Completion, FlowBatch, Measured
from evenly.numbers import plain
from evenly.planning.micro_batches.plan import PlannedStage, SparkPlan
from evenly.planning.observed.keeping_up import keeping_up, settled


@dataclass(frozen=True)
class ComparedOperator:
    """An operator: what was planned (threads), what was predicted (rows/s that enter it, seconds of its stage in a batch) and
    what was observed, of a batch of the middle size. None: nobody planned it, or nothing was observed."""

    operator: str
    planned_threads: int | None = None
    predicted_rate: float | None = None
    predicted_stage_s: float | None = None
    threads: int | None = None
    instances: int | None = None
    rate: float | None = None
    stage_s: float | None = None
    call_ms: float | None = None
    busy_pct: float | None = None
    imbalance_pct: float | None = None
    cpu_pct: float | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether a dataflow kept up with what arrived.

    `held`: None if too few batches tell. `broke`: the operator that most likely kept it from that ("": none, or nobody measured
    one). `rate`: rows/s that arrived, as observed; `capacity`: rows/s that its batches got through while they ran.
    """

    held: bool | None
    why: str
    broke: str
    rate: float | None
    capacity: float | None
    batches: int
    rows_per_batch: float | None
    batch_s: float | None
    completion: Completion | None
    planned_rate: float | None
    predicted_peak_rate: float | None
    predicted_batch_s: float | None
    predicted_completion_s_mean: float | None
    predicted_completion_s_p99: float | None
    predicted_to_break: str
    trigger_s: float | None
    operators: tuple[ComparedOperator, ...] = ()

    def __str__(self) -> str:
        at = f" at {plain(self.rate, 4)} rows/s" if self.rate is not None else ""
        if self.held is None:
            return f"not known: {self.why}"
        if self.held:
            return f"held{at}: {self.why}"
        first = f"{self.broke} broke first" if self.broke else "it broke"
        return f"did not hold: {first}{at}: {self.why}"


def verdict(
    batches: Sequence[FlowBatch], plan: SparkPlan | None = None, *, trigger_s: float | None = None, warm_up: int = 2
) -> Verdict:
    """The verdict on the batches of a run, beside what a plan says of such batches."""
    kept = keeping_up(batches, trigger_s, warm_up=warm_up)
    found = settled(batches, warm_up)
    rows = [one.rows for one in found if one.rows is not None]
    middle = statistics.median(rows) if rows else None
    took_s = [one.took_s for one in found]
    whole_s = sum(one.took_s for one in found if one.rows is not None)
    operators = _compared(found, plan, middle)
    finite = plan is not None and plan.holds
    return Verdict(
        kept.held,
        kept.why,
        _broken(operators) if kept.held is False else "",
        rate=_rate(found),
        capacity=sum(rows) / whole_s if whole_s > 0.0 else None,
        batches=len(found),
        rows_per_batch=middle,
        batch_s=statistics.median(took_s) if took_s else None,
        completion=_completion(found),
        planned_rate=None if plan is None else plan.rate,
        predicted_peak_rate=None if plan is None else plan.peak_rate,
        predicted_batch_s=None if plan is None or middle is None else plan.batch_s(middle),
        predicted_completion_s_mean=plan.completion_s_mean if plan is not None and finite else None,
        predicted_completion_s_p99=plan.completion_s_p99 if plan is not None and finite else None,
        predicted_to_break="" if plan is None else plan.first_to_break,
        trigger_s=trigger_s,
        operators=operators,
    )


def _rate(found: Sequence[FlowBatch]) -> float | None:
    """Rows/s that a replay offered; else from the beginning of the first batch to that of the last, for the rows of a batch
    arrived before it began."""
    offered = {one.offered_rate for one in found}
    if len(offered) == 1 and (rate := offered.pop()) is not None:
        return rate
    told = [(one.began_s, one.rows) for one in found if one.began_s is not None and one.rows is not None]
    if len(told) < 2:
        return None
    seconds = (told[-1][0] or 0.0) - (told[0][0] or 0.0)
    return sum(rows or 0 for _, rows in told[1:]) / seconds if seconds > 0.0 else None


def _completion(found: Sequence[FlowBatch]) -> Completion | None:
    """Over all batches: the mean of all rows, and the middle batch's percentiles."""
    told = [one.completion for one in found if one.completion is not None]
    rows = sum(one.rows for one in told)
    if not rows:
        return None
    mean_s = sum(one.rows * one.mean_s for one in told) / rows
    return Completion(
        rows, mean_s, *(statistics.median(part) for part in zip(*((it.p50_s, it.p99_s) for it in told), strict=True))
    )


def _compared(found: Sequence[FlowBatch], plan: SparkPlan | None, rows: float | None) -> tuple[ComparedOperator, ...]:
    stage_of = {} if plan is None else {name: stage for stage in plan.stages for name in stage.operators}
    seen = {name for one in found for name in one.operators}
    names = [*(name for name in stage_of if plan is not None and name in plan.threads)]
    names += sorted(seen - set(names))
    return tuple(_compared_one(name, found, plan, stage_of.get(name), rows) for name in names)


def _compared_one(
    name: str, found: Sequence[FlowBatch], plan: SparkPlan | None, stage: PlannedStage | None, rows: float | None
) -> ComparedOperator:
    told = [one.operators[name] for one in found if name in one.operators and one.operators[name].rows_in]
    planned = {} if plan is None or stage is None else _planned(name, plan, stage, rows)
    return ComparedOperator(name, **planned, **(_observed(told) if told else {}))  # type: ignore[arg-type]


def _planned(name: str, plan: SparkPlan, stage: PlannedStage, rows: float | None) -> dict[str, object]:
    return {
        "planned_threads": plan.threads.get(name),
        "predicted_rate": plan.rate * stage.rows_in[name] if name in stage.rows_in else None,
        "predicted_stage_s": None if rows is None else stage.seconds(rows),
    }


def _observed(told: Sequence[Measured]) -> dict[str, object]:
    last, entered = told[-1], sum(one.rows_in for one in told)
    busy_s, waiting_s = sum(one.busy_s for one in told), sum(one.waiting_s for one in told)
    cpu = [one.cpu_pct for one in told if one.cpu_pct is not None]
    return {
        "threads": last.threads,
        "instances": last.instances,
        "rate": statistics.median(one.rate or 0.0 for one in told),
        "stage_s": statistics.median(one.span_s for one in told),
        "call_ms": 1e3 * busy_s / entered,
        "busy_pct": 100.0 * busy_s / (busy_s + waiting_s) if busy_s + waiting_s > 0.0 else 0.0,
        "imbalance_pct": statistics.median(one.imbalance_pct for one in told),
        "cpu_pct": statistics.fmean(cpu) if cpu else None,
        "peak_bytes": max((one.peak_bytes for one in told if one.peak_bytes is not None), default=None),
    }


def _broken(operators: Sequence[ComparedOperator]) -> str:
    """The operator that keeps the longest stage longest: of those of one worker the one whose threads rest least."""
    told = [one for one in operators if one.stage_s is not None]
    if not told:
        return ""
    longest_s = max(one.stage_s or 0.0 for one in told)
    of_stage = [one for one in told if (one.stage_s or 0.0) >= 0.98 * longest_s]
    return max(of_stage, key=lambda one: (one.busy_pct or 0.0, one.operator)).operator
