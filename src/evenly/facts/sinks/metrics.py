"""What of a record is a metric: the same for Prometheus and OpenTelemetry."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from evenly.facts.records import Batch, Decision, Fact


@dataclass(frozen=True)
class Metric:
    """Its name in OpenTelemetry and in Prometheus, where a counter gets `_total`; what it counts, its unit and its labels."""

    name: str
    prometheus: str
    kind: Literal["counter", "gauge"]
    told: str
    unit: str = "1"
    labels: tuple[str, ...] = ()


COMMON_LABELS = ("name", "kind")
"""Every metric has them: the name of what runs (its run, where it has none), and what it is."""
_RUN_LETTERS, _MOST_ALIKE = 8, 100

RUNNING = Metric("evenly.running", "evenly_running", "gauge", "1 while it runs, 0 after its end")
FAILED = Metric("evenly.failed", "evenly_failed", "gauge", "1 if it ended by an error, 0 after a good end and while it runs")
INSTANCES = Metric("evenly.instances", "evenly_instances", "gauge", "instances of the last batch, or as started")
BATCHES = Metric("evenly.batches", "evenly_batches", "counter", "batches")
ROWS = Metric("evenly.rows", "evenly_rows", "counter", "rows of all batches")
LAST_BATCH = Metric(
    "evenly.last_batch.time", "evenly_last_batch_timestamp_seconds", "gauge", "when the last batch ended, since 1970", "s"
)
DURATION = Metric("evenly.batch.duration", "evenly_batch_duration_seconds", "gauge", "how long the last batch took", "s")
BOUND = Metric("evenly.batch.bound", "evenly_batch_bound_seconds", "gauge", "how long the last batch takes at least", "s")
PLANNED = Metric("evenly.batch.planned", "evenly_batch_planned_seconds", "gauge", "how long it takes by the plan", "s")
BUSY = Metric("evenly.batch.busy", "evenly_busy_seconds", "counter", "measured work of all instances", "s")
IMBALANCE = Metric("evenly.imbalance", "evenly_imbalance_ratio", "gauge", "λ of the last batch: largest over mean, less 1")
EXPECTED = Metric("evenly.imbalance.expected", "evenly_imbalance_expected_ratio", "gauge", "λ as the mapping expects it")
MAPPING = Metric("evenly.mapping.version", "evenly_mapping_version", "gauge", "version of the mapping in force")
CHANGES = Metric("evenly.changes", "evenly_changes", "counter", "changes of mappings, plans, dealing", labels=("what",))
REFUSALS = Metric("evenly.refusals", "evenly_refusals", "counter", "changes that were refused", labels=("what",))
STOOD = Metric("evenly.stood", "evenly_stood_seconds", "counter", "how long it stood still for changes", "s")
BACKLOG = Metric("evenly.backlog", "evenly_backlog_rows", "gauge", "rows that waited in all queues, the most of each")
BACKLOG_MOST = Metric("evenly.backlog.most", "evenly_backlog_most_rows", "gauge", "rows that waited in the fullest queue")
OPERATOR_ROWS = Metric("evenly.operator.rows", "evenly_operator_rows", "counter", "rows that entered", labels=("operator",))
OPERATOR_BUSY = Metric(
    "evenly.operator.busy", "evenly_operator_busy_ratio", "gauge", "part of its threads' time in calls", labels=("operator",)
)
OPERATOR_DURATION = Metric(
    "evenly.operator.duration", "evenly_operator_duration_seconds", "gauge", "how long its stage took", "s", ("operator",)
)
OPERATOR_PLANNED = Metric(
    "evenly.operator.planned", "evenly_operator_planned_seconds", "gauge", "how long by the plan", "s", ("operator",)
)

METRICS = (
    *(RUNNING, FAILED, INSTANCES, BATCHES, ROWS, LAST_BATCH, DURATION, BOUND, PLANNED, BUSY, IMBALANCE, EXPECTED, MAPPING),
    *(CHANGES, REFUSALS, STOOD, BACKLOG, BACKLOG_MOST, OPERATOR_ROWS, OPERATOR_BUSY, OPERATOR_DURATION, OPERATOR_PLANNED),
)

Measurement = tuple[Metric, dict[str, str], float]
"""A counter is to be raised by the number, a gauge set to it."""


class CalledRuns:
    """How runs are called in metrics: by their name; of two with one name at once, the second by its name and its run.

    >>> called = CalledRuns()
    >>> [called.of(Fact(time=0, run=run, name="visits", kind="keyed", event="start")) for run in ("one", "two", "one")]
    ['visits', 'visits two', 'visits']
    """

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], dict[str, str]] = {}

    def of(self, fact: Fact) -> str:
        """The name of what the record is of. After its end another may have it."""
        if not fact.name:
            return fact.run
        runs = self._runs.setdefault((fact.name, fact.kind), {})
        called = runs.get(fact.run)
        if called is None:
            called = fact.name if fact.name not in runs.values() else f"{fact.name} {fact.run[:_RUN_LETTERS]}"
            runs[fact.run] = called
        if fact.event == "end":
            del runs[fact.run]
            if not runs:
                del self._runs[fact.name, fact.kind]
        while len(runs) > _MOST_ALIKE:
            del runs[next(iter(runs))]
        return called


def measurements(fact: Fact, called: str) -> Iterator[Measurement]:
    """What a record says, as metrics, of what is `called` so."""
    common = {"name": called, "kind": fact.kind}
    for metric, labels, value in _measurements(fact):
        if value is not None and math.isfinite(value) and (metric.kind == "gauge" or value >= 0.0):
            yield metric, common | labels, float(value)


_Found = Iterator[tuple[Metric, dict[str, str], float | None]]
_DECIDES = {"keyed": "mapping", "cost": "dealing", "flow": "plan"}
"""What each kind changes, if it changes anything."""


def _measurements(fact: Fact) -> _Found:
    yield MAPPING, {}, fact.mapping_version
    if fact.event == "start":
        yield INSTANCES, {}, fact.instances
        yield from _beginning(fact.kind)
    yield RUNNING, {}, fact.event != "end"
    yield FAILED, {}, bool(fact.error)
    if fact.batch is not None:
        yield LAST_BATCH, {}, fact.time
        yield from _of_batch(fact.batch)
    if fact.decision is not None:
        yield from _of_decision(fact.event, fact.decision)


def _beginning(kind: str) -> _Found:
    """Counters at 0: of one that is first seen at 1, Prometheus' `increase` sees nothing."""
    yield BATCHES, {}, 0.0
    yield ROWS, {}, 0.0
    if kind in _DECIDES:
        for metric in (CHANGES, REFUSALS):
            yield metric, {"what": _DECIDES[kind]}, 0.0
    if kind == "keyed":
        yield STOOD, {}, 0.0


def _of_batch(batch: Batch) -> _Found:
    yield BATCHES, {}, 1.0
    yield ROWS, {}, batch.rows
    yield INSTANCES, {}, batch.instances
    yield DURATION, {}, _part(batch.duration_ms, 1e3)
    yield BOUND, {}, _part(batch.bound_ms, 1e3)
    yield PLANNED, {}, _part(batch.planned_ms, 1e3)
    yield IMBALANCE, {}, _part(batch.imbalance_pct, 1e2)
    yield EXPECTED, {}, _part(batch.expected_pct, 1e2)
    if batch.busy_ms_by_instance is not None and not batch.operators:
        yield BUSY, {}, batch.busy_ms_by_instance.total / 1e3
    if batch.queues is not None and batch.queues.backlogs is not None:
        yield BACKLOG, {}, batch.queues.backlogs.total
        yield BACKLOG_MOST, {}, batch.queues.backlogs.most
    if batch.operators:
        yield BUSY, {}, sum(one.busy_ms or 0.0 for one in batch.operators) / 1e3
    for one in batch.operators:
        labels = {"operator": one.name}
        yield OPERATOR_ROWS, labels, one.rows
        yield OPERATOR_BUSY, labels, _part(one.busy_pct, 1e2)
        yield OPERATOR_DURATION, labels, _part(one.duration_ms, 1e3)
        yield OPERATOR_PLANNED, labels, _part(one.planned_ms, 1e3)


def _of_decision(event: str, decision: Decision) -> _Found:
    if event == "change":
        yield CHANGES, {"what": decision.what}, 1.0
    elif event == "refusal":
        yield REFUSALS, {"what": decision.what}, 1.0
    elif event == "move":
        yield STOOD, {}, _part(decision.stood_ms, 1e3)


def _part(value: float | None, whole: float) -> float | None:
    return None if value is None else value / whole
