"""What Spark tells of the batches of a query when they have ended, and when their rows had arrived."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenly.dataflow.replay import Offered
from evenly.dataflow.reports import Completion
from evenly.spark.keyed.keys import quoted

_NAME = "__evenly_arrival"
_EXACTNESS = 10_000
"""Ranks of percentiles are right to one in so many."""


@dataclass(frozen=True)
class Ended:
    """A batch that has ended for good."""

    number: int
    rows: int
    began_s: float
    whole_s: float
    completion: Completion | None = None
    offered_rate: float | None = None


def with_arrivals(rows: DataFrame, arrival: str) -> DataFrame:
    """A stream whose batches tell when their rows had arrived: native aggregates of one column. Null has not arrived."""
    at_s = F.unix_micros(F.col(quoted(arrival))) / 1e6
    # Whole seconds are counted from one moment: sums of seconds since 1970 would lose the small digits.
    since = F.lit(_SINCE_S)
    percentiles = F.percentile_approx(at_s, [0.5, 0.01], _EXACTNESS)
    return rows.observe(
        _NAME, F.count(at_s).alias("rows"), F.avg(at_s - since).alias("mean_s"), percentiles.alias("percentiles_s")
    )


_SINCE_S = float(int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()))


def ended(progress: Any) -> Ended | None:
    """A progress event of Spark as what it says here; None of one that was no batch."""
    took_ms = progress.durationMs or {}
    if "addBatch" not in took_ms or "triggerExecution" not in took_ms:
        return None
    began_s = datetime.fromisoformat(progress.timestamp).timestamp()
    whole_s = took_ms["triggerExecution"] / 1e3
    begin, end = _offsets(progress)
    if end is None:  # Spark counts rows that are read twice twice
        completion = _completion((progress.observedMetrics or {}).get(_NAME), began_s + whole_s)
        return Ended(int(progress.batchId), int(progress.numInputRows), began_s, whole_s, completion)
    completion = end.completion(begin.row, began_s + whole_s)
    return Ended(int(progress.batchId), end.row - begin.row, began_s, whole_s, completion, None if end.at_once else end.rate)


def _offsets(progress: Any) -> tuple[Offered, Offered] | tuple[Offered, None]:
    """Where a batch of a replay began and ended; None of another source."""
    sources = progress.sources or []
    if len(sources) == 1:
        try:
            begin, end = (json.loads(told) for told in (sources[0].startOffset, sources[0].endOffset))
            last = Offered.from_dict(end)
            return (Offered(0) if begin is None else Offered.from_dict(begin)), last
        except (TypeError, ValueError, KeyError):
            pass
    return Offered(0), None


def _completion(told: Any, ended_s: float) -> Completion | None:
    if told is None or not told["rows"]:
        return None
    middle_s, late_s = told["percentiles_s"]
    # Those that arrived first have waited longest.
    return Completion(int(told["rows"]), ended_s - (told["mean_s"] + _SINCE_S), ended_s - middle_s, ended_s - late_s)
