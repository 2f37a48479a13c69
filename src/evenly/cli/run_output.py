"""What `evenly run` prints of a run: for people, and as flat objects."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from evenly.cli.output import print_table, say
from evenly.dataflow.reports import FlowBatch, Instances, Measured
from evenly.numbers import plain
from evenly.planning.micro_batches import SparkPlan
from evenly.planning.observed.peak import Peak, Trial
from evenly.planning.observed.replanning import Change, Event
from evenly.planning.observed.verdict import ComparedOperator, Verdict

_HEADINGS = ("operator", "rows in", "out", "ms a row", "busy s", "waits s", "threads", "cpu %", "MiB", "λ %")
_COMPARED = ("operator", "threads planned", "now", "rows/s planned", "in its stage", "stage s predicted", "now")
_MIB = 2**20
_NULLS = ("batch", "call_ms")
"""Fields that are null where they do not apply; others are left out then."""


def run_results(
    batches: Sequence[FlowBatch],
    verdict: Verdict | None,
    changes: Sequence[Event],
    peak: Peak | None,
    instances: Mapping[str, Instances],
) -> list[dict[str, object]]:
    """All of it as flat objects, told apart by `series`."""
    found: list[dict[str, object]] = []
    for batch in batches:
        found += [_operator(batch.number, it) for it in batch.operators.values()]
        if batch.number is not None:
            found.append(_batch(batch))
    for name, it in instances.items():
        found += _instances(name, it)
    found += [_change(it) for it in changes]
    if peak is not None:
        found += [_trial(it) for it in peak.trials]
        found.append(
            {
                "series": "peak",
                "operator": peak.broke,
                "peak_rate": peak.rate,
                "breaks_at_rate": peak.breaks_at,
                "interrupted": peak.interrupted,
            }
        )
    if verdict is not None:
        found += [_compared(it) for it in verdict.operators]
        found.append(_verdict(verdict))
    return [{name: value for name, value in it.items() if value is not None or name in _NULLS} for it in found]


def _operator(number: int | None, it: Measured) -> dict[str, object]:
    return {
        "series": "operator",
        "batch": number,
        "operator": it.operator,
        "rows_in": it.rows_in,
        "rows_out": it.rows_out,
        "rate": it.rate,
        "busy_s": it.busy_s,
        "waiting_s": it.waiting_s,
        "stage_s": it.span_s,
        "call_ms": it.call_ms,
        "threads": it.threads,
        "instances": it.instances,
        "imbalance_pct_time": it.imbalance_pct,
        "cpu_pct": it.cpu_pct,
        "peak_mib": None if it.peak_bytes is None else it.peak_bytes / _MIB,
    }


def _batch(batch: FlowBatch) -> dict[str, object]:
    told = batch.completion
    return {
        "series": "batch",
        "batch": batch.number,
        "rows_in": batch.rows,
        "batch_s": batch.took_s,
        "completion_ms_mean": None if told is None else 1e3 * told.mean_s,
        "completion_ms_p50": None if told is None else 1e3 * told.p50_s,
        "completion_ms_p99": None if told is None else 1e3 * told.p99_s,
    }


def _instances(name: str, it: Instances) -> list[dict[str, object]]:
    rates = it.rate
    return [
        {
            "series": "instance",
            "operator": name,
            "x": int(it.instance[at]),
            "rows_in": int(it.rows_in[at]),
            "rows_out": int(it.rows_out[at]),
            "rate": float(rates[at]),
            "busy_s": float(it.busy_s[at]),
            "waiting_s": float(it.waiting_s[at]),
            "cpu_pct": float(100.0 * it.cpu_s[at] / it.seconds[at]) if it.seconds[at] > 0.0 and it.cpu_s[at] >= 0.0 else None,
            "peak_mib": float(it.peak_bytes[at]) / _MIB if it.peak_bytes[at] > 0 else None,
        }
        for at in range(it.instance.size)
    ]


def _change(event: Event) -> dict[str, object]:
    change = event if isinstance(event, Change) else event.change
    return {
        "series": "change" if isinstance(event, Change) else "outcome",
        "change": change.kind,
        "operator": change.of,
        "before": change.before,
        "after": change.after,
        "recommended": change.recommended,
        "why": change.reason if isinstance(event, Change) else event.came,
        "expected": change.expected,
    }


def _trial(trial: Trial) -> dict[str, object]:
    told = trial.verdict
    return {
        "series": "trial",
        "planned_rate": trial.rate,
        "held": told.held,
        "why": told.why,
        "batch_s": told.batch_s,
        "operator": told.broke,
    }


def _compared(it: ComparedOperator) -> dict[str, object]:
    return {
        "series": "compared",
        "operator": it.operator,
        "planned_threads": it.planned_threads,
        "threads": it.threads,
        "entering_rate": it.predicted_rate,
        "rate": it.rate,
        "predicted_stage_s": it.predicted_stage_s,
        "stage_s": it.stage_s,
        "call_ms": it.call_ms,
        "busy_pct": it.busy_pct,
        "cpu_pct": it.cpu_pct,
        "imbalance_pct_time": it.imbalance_pct,
    }


def _verdict(it: Verdict) -> dict[str, object]:
    told = it.completion
    return {
        "series": "verdict",
        "held": it.held,
        "why": it.why,
        "operator": it.broke,
        "arriving_rate": it.rate,
        "capacity": it.capacity,
        "batches": it.batches,
        "batch_s": it.batch_s,
        "predicted_batch_s": it.predicted_batch_s,
        "predicted_peak_rate": _finite(it.predicted_peak_rate),
        "predicted_to_break": it.predicted_to_break,
        "completion_ms_mean": None if told is None else 1e3 * told.mean_s,
        "completion_ms_p50": None if told is None else 1e3 * told.p50_s,
        "completion_ms_p99": None if told is None else 1e3 * told.p99_s,
        "predicted_completion_ms_mean": _ms(it.predicted_completion_s_mean),
        "predicted_completion_ms_p99": _ms(it.predicted_completion_s_p99),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def batch_line(batch: FlowBatch, plan: SparkPlan | None) -> str:
    """A batch in a line, beside what a plan says of one of its size."""
    rows = batch.rows or 0
    predicted = f" (predicted {plain(plan.batch_s(rows))} s)" if plan is not None else ""
    told = "" if batch.completion is None else f", complete after {plain(batch.completion.mean_s)} s on average"
    parts = ", ".join(f"{name} {plain(it.span_s)} s" for name, it in batch.operators.items())
    return f"batch {batch.number}: {rows:,} rows in {plain(batch.took_s)} s{predicted}{told}{': ' + parts if parts else ''}"


def trial_line(trial: Trial) -> str:
    """A rate that was tried, in a line."""
    return f"{plain(trial.rate, 4)} rows/s: {trial.verdict}"


def print_run(batches: Sequence[FlowBatch], verdict: Verdict | None, changes: Sequence[Event], peak: Peak | None) -> None:
    """A table of operators over all batches that were kept, what was planned beside it, and the verdict."""
    lines = [_line(name, batches) for name in dict.fromkeys(name for it in batches for name in it.operators)]
    if lines:
        print_table(_HEADINGS, lines)
    for change in changes:
        say(str(change))
    if verdict is not None:
        planned = [it for it in verdict.operators if it.planned_threads is not None]
        if planned:
            print_table(_COMPARED, [_compared_line(it) for it in planned])
            say(_predicted(verdict))
        if (told := verdict.completion) is not None:
            say(f"Complete after {plain(told.mean_s)} s on average, {plain(told.p50_s)} s p50, {plain(told.p99_s)} s p99")
        if peak is None and verdict.batches:
            say("Verdict: ", (str(verdict), "bold"))
    if peak is not None:
        broke = f"; the lowest that did not: {_shown(peak.breaks_at)}" if peak.breaks_at is not None else ""
        if peak.interrupted:
            say(f"Interrupted after {len(peak.trials)} rate{'s' * (len(peak.trials) != 1)}: the peak may be elsewhere")
        held = "none" if peak.rate is None else f"{_shown(peak.rate)} rows/s"
        say("Highest rate that held: ", (held, "bold"), broke)


def _line(name: str, batches: Sequence[FlowBatch]) -> tuple[str, ...]:
    found = [it.operators[name] for it in batches if name in it.operators]
    entered, left = sum(it.rows_in for it in found), sum(it.rows_out for it in found)
    busy_s, waiting_s = sum(it.busy_s for it in found), sum(it.waiting_s for it in found)
    each = plain(1e3 * busy_s / entered) if entered else ""
    last = found[-1]
    cpu = "" if last.cpu_pct is None else f"{last.cpu_pct:.0f}"
    memory = "" if last.peak_bytes is None else f"{last.peak_bytes / _MIB:.0f}"
    times = (f"{busy_s:.1f}", f"{waiting_s:.1f}")
    return (name, f"{entered:,}", f"{left:,}", each, *times, str(last.threads), cpu, memory, f"{last.imbalance_pct:.1f}")


def _compared_line(it: ComparedOperator) -> tuple[str, ...]:
    stage = (_shown(it.predicted_stage_s), _shown(it.stage_s))
    return (it.operator, _shown(it.planned_threads), _shown(it.threads), _shown(it.predicted_rate), _shown(it.rate), *stage)


def _predicted(it: Verdict) -> str:
    breaks = f"{_shown(it.predicted_peak_rate)} rows/s, {it.predicted_to_break or 'no operator'} first"
    return (
        f"Planned for {_shown(it.planned_rate)} rows/s, observed {_shown(it.rate)}; a batch predicted to take "
        f"{_shown(it.predicted_batch_s)} s takes {_shown(it.batch_s)} s. Predicted to break: "
        f"{breaks if _finite(it.predicted_peak_rate) is not None else 'at no rate that is known'}"
    )


def _shown(value: float | None) -> str:
    return "" if value is None else plain(value)
