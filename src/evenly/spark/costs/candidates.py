"""Which column tells what a row costs: the candidates of a frame, and what was measured of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, MapType, NumericType, StringType, StructType

from evenly.checks import checked_whole
from evenly.costs.meter import CostMeter
from evenly.costs.model import CostModel
from evenly.costs.recommend import Predictor, recommend
from evenly.costs.report import InstanceReport
from evenly.errors import ColumnConflict, InvalidKeys, StreamingMismatch
from evenly.spark.costs.options import StageOptions, checked_key
from evenly.spark.costs.row_ids import content_hash, key_hash, told_errors
from evenly.spark.costs.stage import CallStage, reports_of
from evenly.spark.frames import check_frame
from evenly.spark.keyed.keys import declared_type, key_names, quoted, spelled
from evenly.worker.executing import CANDIDATE

_STEPS = "int"
_MOST_CANDIDATES, _MOST_ROWS, _TRIAL_INSTANCES = 32, 65_536, 4


def recommend_cost_key(
    df: DataFrame,
    function: Callable[[Any], Any],
    schema: StructType | str,
    *,
    candidates: Sequence[str] | None = None,
    rows: int = 2_000,
) -> list[Predictor]:
    """Which column or expression tells best what a row costs: candidates by how much of the cost they explain, best first.

        evenly.recommend_cost_key(df, fetch, "size long")

    Runs `function` on `rows` rows (100 to 65,536) and compares by cross-validation, so a column of distinct values explains
    nothing. `candidates` are columns and SQL expressions; None: every column, sizes of texts, arrays and numbers in steps. Only
    those that explain 5 % of the variance are listed: an empty list says that none helps, or that costs hardly differ.
    """
    check_frame(df)
    if df.isStreaming:
        raise StreamingMismatch(
            "recommend_cost_key works on a batch DataFrame: give it some rows of the stream, read as a batch"
        )
    rows = checked_whole(rows, "rows", 100, _MOST_ROWS)
    tried = candidate_keys(df) if candidates is None else checked_key(candidates)
    stage = CallStage.of(df, function, schema, StageOptions(_TRIAL_INSTANCES, "batch-time"))
    # Rows with the least hashes: any rows, but the same ones each time.
    some = df.withColumn("__evenly_hash", content_hash(df)).orderBy("__evenly_hash").limit(rows).drop("__evenly_hash")
    reports = reports_of(stage.evenly(with_candidates(some, tried), candidates=len(tried)))
    return recommend(*measured(reports, tried)) if tried else []


def candidate_keys(df: DataFrame) -> tuple[str, ...]:
    """Expressions that may tell a row's cost: columns, and sizes in steps of the square root of 2."""
    found: list[str] = []
    # Under this setting a name in back-quotes is a pattern in SQL, which matches other columns too.
    patterns = str(df.sparkSession.conf.get("spark.sql.parser.quotedRegexColumnNames", "false")).lower() == "true"
    for field in df.schema.fields:
        name, kind = field.name, field.dataType
        sized = None
        if isinstance(kind, (StringType, BinaryType)):
            sized = f"length({quoted(name)})"
        elif isinstance(kind, (ArrayType, MapType)):
            sized = f"size({quoted(name)})"
        elif isinstance(kind, NumericType):
            sized = f"abs(cast({quoted(name)} as double))"  # the largest whole number has none above it
        try:
            found += key_names(df, name)
        except ColumnConflict:  # two columns of one name: neither can be named as the key
            continue
        except InvalidKeys:
            pass
        if sized is not None and (spelled(name) == name or not patterns):
            found.append(f"try_cast(2 * log2({sized} + 1) as {_STEPS})")
    return tuple(found[:_MOST_CANDIDATES])


def candidate_types(df: DataFrame, candidates: tuple[str, ...]) -> dict[str, str]:
    """What `candidate_keys` found, each with the type in which Spark hashes it: a column's own, or that of steps of sizes."""
    by_name = {field.name: declared_type(field) for field in df.schema.fields}
    return {each: by_name.get(each, _STEPS) for each in candidates}


def with_candidates(df: DataFrame, candidates: tuple[str, ...]) -> DataFrame:
    """`df` with the id of each candidate."""
    with told_errors(df, f"candidates {', '.join(map(repr, candidates))}"):
        ids = {f"{CANDIDATE}{at}": key_hash(df, [each]) for at, each in enumerate(candidates)}
        return df.withColumns(ids) if ids else df


def measured(reports: Sequence[InstanceReport], candidates: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """The costs of rows, and their ids by each candidate."""
    told = [report.columns for report in reports if report.columns]
    costs_s = np.concatenate([columns["cost_s"] for columns in told]) if told else np.empty(0)
    ids = {
        each: np.concatenate([columns[f"{CANDIDATE}{at}"] for columns in told]) if told else np.empty(0, np.int64)
        for at, each in enumerate(candidates)
    }
    return costs_s, ids


def by_best_key(reports: Sequence[InstanceReport], candidates: dict[str, str]) -> CostModel:
    """What was learnt, by the candidate (with its type) that tells the cost best; of no key, if none does."""
    found = recommend(*measured(reports, tuple(candidates)))
    if not found:
        return CostModel().learn_all(_by_key(report, None) for report in reports)
    best = found[0].expression
    at = tuple(candidates).index(best)
    return CostModel((best,), types=(candidates[best],)).learn_all(_by_key(report, at) for report in reports)


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
