"""The first wave of a batch: a part of the rows, run at once to learn what rows cost; and which column tells it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, NumericType, StringType, StructType

from evenly.errors import InvalidKeys, StreamingMismatch
from evenly.grouping.base import checked_whole
from evenly.grouping.cost.model import CostModel
from evenly.grouping.cost.recommend import Predictor, recommend
from evenly.grouping.cost.report import CostMeter, InstanceReport
from evenly.spark.cost.executing import CANDIDATE
from evenly.spark.cost.options import checked_key, checked_options
from evenly.spark.cost.routing import content_hash, key_column, with_id
from evenly.spark.cost.stage import Stage, reports_of
from evenly.spark.groups.layout import quoted
from evenly.spark.keys import key_names

ONE_OF = 16
"""One row of so many is in the first wave."""

_MOST_CANDIDATES, _MOST_ROWS, _TRIAL_INSTANCES = 32, 65_536, 4


@dataclass(frozen=True, eq=False)
class FirstWave:
    """What the first wave gave: its results (persisted), its reports, what was learnt, and the rows that are left."""

    ran: DataFrame
    reports: tuple[InstanceReport, ...]
    model: CostModel
    left: DataFrame


def first_wave(df: DataFrame, stage: Stage, expressions: tuple[str, ...] | None) -> FirstWave:
    """Run one row of 16, and learn. Which rows: by their content alone, so that an input computed again is cut alike.

    Without `expressions` the cost key is what predicts the cost best among the columns of `df`; none if nothing does.
    """
    chosen = F.pmod(content_hash(df), F.lit(ONE_OF)) == 0
    part, left = df.where(chosen), df.where(~chosen)
    candidates: tuple[str, ...] = () if expressions is not None else candidate_keys(df)
    rows = with_id(part, expressions) if expressions is not None else with_candidates(part, candidates)
    ran = stage.evenly(rows, candidates=len(candidates)).persist()
    reports = reports_of(ran)
    if expressions is None:
        found = recommend(*_measured(reports, candidates)) if candidates else []
        best = found[0].expression if found else None
        expressions = () if best is None else (best,)
        reports = [_by_key(report, None if best is None else candidates.index(best)) for report in reports]
    return FirstWave(ran, tuple(reports), CostModel(expressions).learn_all(reports), left)


def recommend_cost_key(
    df: DataFrame,
    function: Callable[[Any], Any],
    schema: StructType | str,
    *,
    candidates: Sequence[str] | None = None,
    rows: int = 2_000,
) -> list[Predictor]:
    """Which column or expression tells best what a row costs: candidates by how much of the cost they explain, best first.

    Runs `function` on `rows` rows (100 to 65,536) and compares by cross-validation, so a column of distinct values explains
    nothing. `candidates` are columns and SQL expressions; None: every column, sizes of texts, arrays and numbers in steps. Only
    those that explain 5 % of the variance are listed: an empty list says that none helps, or that costs hardly differ.
    """
    if df.isStreaming:
        raise StreamingMismatch(
            "recommend_cost_key works on a batch DataFrame: give it some rows of the stream, read as a batch"
        )
    rows = checked_whole(rows, "rows", 100, _MOST_ROWS)
    tried = candidate_keys(df) if candidates is None else checked_key(candidates)
    options = checked_options(
        function,
        instances=_TRIAL_INSTANCES,
        objective="batch-time",
        batch_rows=None,
        threads=1,
        on_error="fail",
        retries=0,
        time_limit_s=None,
        routers=None,
    )
    stage = Stage.of(df, function, schema, options)
    # Rows with the least hashes: any rows, but the same ones each time.
    some = df.withColumn("__evenly_hash", content_hash(df)).orderBy("__evenly_hash").limit(rows).drop("__evenly_hash")
    reports = reports_of(stage.evenly(with_candidates(some, tried), candidates=len(tried)))
    return recommend(*_measured(reports, tried)) if tried else []


def candidate_keys(df: DataFrame) -> tuple[str, ...]:
    """Expressions that may tell a row's cost: columns, and sizes in steps of the square root of 2."""
    found: list[str] = []
    for field in df.schema.fields:
        name, kind = field.name, field.dataType
        sized = None
        if isinstance(kind, (StringType, BinaryType)):
            sized = f"length({quoted(name)})"
        elif isinstance(kind, (ArrayType, MapType)):
            sized = f"size({quoted(name)})"
        elif isinstance(kind, NumericType):
            sized = f"abs({quoted(name)})"
        with suppress(InvalidKeys):
            found += key_names(df, name)
        if sized is not None:
            found.append(f"try_cast(2 * log2({sized} + 1) as int)")
    return tuple(found[:_MOST_CANDIDATES])


def with_candidates(df: DataFrame, candidates: tuple[str, ...]) -> DataFrame:
    """`df` with the id of each candidate."""
    ids = [F.xxhash64(key_column(df, each)).alias(f"{CANDIDATE}{at}") for at, each in enumerate(candidates)]
    return df.select("*", *ids)


def _measured(reports: list[InstanceReport], candidates: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """The costs of rows, and their ids by each candidate."""
    told = [report.columns for report in reports if report.columns]
    costs_s = np.concatenate([columns["cost_s"] for columns in told]) if told else np.empty(0)
    ids = {
        each: np.concatenate([columns[f"{CANDIDATE}{at}"] for columns in told]) if told else np.empty(0, np.int64)
        for at, each in enumerate(candidates)
    }
    return costs_s, ids


def _by_key(report: InstanceReport, candidate: int | None) -> InstanceReport:
    """A report on candidates as one on the candidate that was chosen; None: all rows have one key."""
    meter = CostMeter()
    if report.columns:
        costs_s = report.columns["cost_s"]
        meter.add(np.zeros(costs_s.size, np.int64) if candidate is None else report.columns[f"{CANDIDATE}{candidate}"], costs_s)
    told = meter.report(instance=report.instance)
    return replace(
        report, ids=told.ids, counts=told.counts, sums_s=told.sums_s, squares=told.squares, rest=told.rest, columns=None
    )
