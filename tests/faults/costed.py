"""A function on every row, in batch and in a stream: every row gives one result, whatever it is dealt by."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import evenly
from evenly.costs import CostMeter
from evenly.errors import FunctionFailed
from faults.inputs import GROUPS
from faults.moments import Moments
from faults.work import Rows, Work, listed

RESULT = "row long, twice long"


def every_row(work: Work) -> Rows:
    return listed(work.plain().select("row", F.col("v") * 2))


def function(moments: Moments, mode: str) -> tuple[Callable[[Any], Any], dict[str, int]]:
    """The function of a schedule, and the options that it needs."""

    def alone(row: Any) -> tuple[int, int]:
        moments.call("work")
        return row["row"], row["v"] * 2

    async def later(row: Any) -> tuple[int, int]:
        await asyncio.sleep(0)
        return alone(row)

    def batches(batch: pa.RecordBatch) -> pa.RecordBatch:
        moments.call("work")
        return pa.RecordBatch.from_arrays([batch["row"], pc.multiply(batch["v"], 2)], ["row", "twice"])

    if mode == "batches":
        return batches, {"batch_rows": 50}
    if mode == "async":
        return later, {"threads": 4}
    return alone, {"threads": 4 if mode == "threads" else 1}


def cost(work: Work) -> Rows:
    options = work.schedule.options
    called, more = function(work.moments, options.mode)
    rows = work.rows()
    call = evenly.CallOptions(on_error=options.on_error, retries=options.retries, **more)
    kwargs: dict[str, Any] = {"instances": work.instances, "call": call}
    if options.learnt:
        known(work).save(work.folder / "costs.json")
        kwargs["costs"] = str(work.folder / "costs.json")
    else:
        kwargs["cost_key"] = "g"
        kwargs["pieces"] = bool(work.schedule.seed // 3 % 2)
    try:
        found = evenly.apply_by_cost(rows, called, RESULT, **kwargs).collect()
    except Exception as error:
        if options.on_error == "fail" and work.happened("exception") and _told(error):
            return every_row(work)  # what was asked for: the job ends with the row's error
        raise
    return _with_letters(work, [row.asDict(recursive=True) for row in found])


def known(work: Work) -> evenly.CostModel:
    """Costs that differ so much that rows are dealt by them: those of the function itself would not pay."""
    keys = work.spark.range(GROUPS).selectExpr("xxhash64(cast(id as int)) as id").collect()
    meter = CostMeter()
    for at, row in enumerate(keys):
        meter.add(np.full(20, row.id), np.full(20, 1.0 + 50.0 * (at % 5 == 0)))
    return evenly.CostModel(["g"]).learn(meter.report(instance=0))


def _told(error: Exception) -> bool:
    return isinstance(error, FunctionFailed) or "FunctionFailed" in str(error)


def _with_letters(work: Work, found: list[dict[str, Any]]) -> Rows:
    """Results, and for a row that failed what it would have been: only where something was raised or a call cut off."""
    good, letters = [], []
    for row in found:
        if row.get("error") is None:
            good.append((row["row"], row["twice"]))
        else:
            letters.append(json.loads(row["error"]["row"]))
    cut_off = any(work.happened(kind) for kind in ("exception", "exit", "python"))
    assert not letters or cut_off, f"{len(letters)} rows failed though nothing happened to them"
    return good + [(letter["row"], letter["v"] * 2) for letter in letters]


def start_stream(work: Work, rows: DataFrame) -> Any:
    options = work.schedule.options
    called, more = function(work.moments, options.mode)

    def sink(results: DataFrame, batch: int) -> None:
        found = [row.asDict(recursive=True) for row in results.collect()]
        work.keep(f"out-{batch:05d}.json", _with_letters(work, found))

    return evenly.stream_apply_by_cost(
        rows,
        called,
        RESULT,
        cost_key="g",
        instances=work.instances,
        sink=sink,
        checkpoint=work.folder / "checkpoint",
        call=evenly.CallOptions(on_error=options.on_error, retries=options.retries, **more),
    )
