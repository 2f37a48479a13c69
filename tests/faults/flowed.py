"""Dataflows, in batch and in a stream: every row is once in every sink, behind a shuffle, behind costs and behind a key."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import evenly
from faults.costed import RESULT, every_row, function
from faults.work import Rows, Work

SINKS = ("shuffled", "costed", "keyed")
WITH_KEY = f"{RESULT}, g int"


def every_sink(work: Work) -> Rows:
    """Every row, in every sink."""
    return [(sink, *row) for row in every_row(work) for sink in SINKS]


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(["row", "twice"])


def _keyed(called: Any, mode: str) -> Any:
    """The function of a schedule, its results with the number of the key."""
    if mode == "batches":
        return lambda batch: pa.RecordBatch.from_arrays([*called(batch).columns, batch["g"]], ["row", "twice", "g"])
    if mode == "async":

        async def later(row: Any) -> Any:
            return [(*await called(row), row["g"])]

        return later
    return lambda row: iter([(*called(row), row["g"])])


def described(work: Work, rows: DataFrame) -> evenly.Flow:
    """One operator that three edges leave."""
    mode, instances, at = work.schedule.options.mode, work.instances, work.folder / "sinks"
    called, more = function(work.moments, mode)
    threads = more.get("threads", 1)
    flow = evenly.Flow("faults")
    read = flow.source("rows", function=lambda _session: rows).shuffle(instances)
    if mode == "batches":
        made = read.batch(_keyed(called, mode), schema=WITH_KEY, name="work")
    else:
        made = read.row(_keyed(called, mode), schema=WITH_KEY, threads=threads, name="work")
    files = {"format": "parquet", "options": {"mode": "overwrite"}}
    made.frame(lambda frame: frame.drop("g"), name="drop").sink("shuffled", path=str(at / "shuffled"), **files)
    costed = made.by_cost("g", instances=instances).row(lambda row: (row.row, row.twice), schema=RESULT, name="cost")
    costed.sink("costed", path=str(at / "costed"), **files)
    keyed = made.by_key("g", instances=instances).batch(same, schema=RESULT, name="key")
    keyed.sink("keyed", path=str(at / "keyed"), **files)
    return flow


def written(work: Work) -> Rows:
    """What all sinks have."""
    found = []
    for sink in SINKS:
        rows = work.spark.read.schema(RESULT).parquet(str(work.folder / "sinks" / sink)).select("row", "twice").collect()
        found += [(sink, *row) for row in rows]
    return found


def batch(work: Work) -> Rows:
    evenly.run(described(work, work.rows()), spark=work.spark)
    return written(work)


def start_stream(work: Work, rows: DataFrame) -> Any:
    return evenly.run(described(work, rows), spark=work.spark, checkpoint=work.folder / "checkpoint")
