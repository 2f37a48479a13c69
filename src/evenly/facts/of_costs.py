"""What instances measured of a batch of rows with unequal costs, as part of a record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from evenly.costs.group_report import GroupReport
from evenly.costs.report import InstanceReport
from evenly.facts.labels import KeyLabels
from evenly.facts.loads import Loads
from evenly.facts.records import Batch, HeavyKey
from evenly.kernels.types import F64

_HEAVIEST = 8


def cost_batch(
    number: int, reports: Sequence[InstanceReport], *, instances: int | None = None, seconds: float | None = None
) -> Batch:
    """A batch by what its instances reported: rows, and work as it was measured.

    Its bound is its time, less what the busiest instance was busy longer than the mean.
    """
    first = min((report.instance for report in reports), default=0)  # in a union partitions are counted after others
    count = max([instances or 0, *(report.instance - first + 1 for report in reports)])
    rows, busy_ms = np.zeros(count), np.zeros(count)
    for report in reports:
        rows[report.instance - first] += report.rows
        busy_ms[report.instance - first] += 1e3 * report.busy_s
    took_ms = _span_ms(reports) if seconds is None else 1e3 * seconds
    return _batch(number, rows, busy_ms, took_ms=took_ms, longest_ms=0.0)


def group_batch(reports: Sequence[GroupReport], *, busy_s: F64, labels: KeyLabels) -> Batch:
    """A batch job by what its groups took: its bound is never less than its longest group."""
    busy_ms = 1e3 * np.asarray(busy_s, np.float64)
    first = min((report.instance for report in reports), default=0)
    rows, found = np.zeros(busy_ms.size), list[tuple[float, str, int]]()
    for report in reports:
        at = report.instance - first
        rows[at] += report.all_rows
        found += [
            (1e3 * float(report.seconds[report.ids == key].max(initial=0.0)), name, at) for key, name in report.names.items()
        ]
    found.sort(key=lambda it: (-it[0], it[1]))
    total = float(busy_ms.sum())
    heavy = tuple(
        HeavyKey(key=labels.of(name), share_pct=100.0 * took_ms / total, instance=at)
        for took_ms, name, at in found[:_HEAVIEST]
        if total > 0.0
    )
    longest_ms = found[0][0] if found else 0.0
    told = _batch(0, rows, busy_ms, took_ms=float(busy_ms.max(initial=0.0)), longest_ms=longest_ms)
    return replace(told, heavy_keys=heavy)


def _batch(number: int, rows: F64, busy_ms: F64, *, took_ms: float | None, longest_ms: float) -> Batch:
    busy = Loads.of(busy_ms)
    bound_ms = None
    if took_ms is not None and busy is not None:
        bound_ms = min(took_ms, max(0.0, took_ms - busy.most + max(busy.mean, longest_ms)))
    return Batch(
        number=number,
        rows=int(rows.sum()),
        duration_ms=took_ms,
        bound_ms=bound_ms,
        instances=rows.size,
        rows_by_instance=Loads.of(rows),
        busy_ms_by_instance=busy,
        imbalance_pct=None if busy is None else busy.imbalance_pct,
    )


def _span_ms(reports: Sequence[InstanceReport]) -> float | None:
    told = [report for report in reports if report.rows]
    return 1e3 * (max(it.last_s for it in told) - min(it.first_s for it in told)) if told else None
