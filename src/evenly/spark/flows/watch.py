"""What a run of a dataflow measured, for those who want to know."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from evenly.dataflow.reports import Measured, WorkerReport, measured
from evenly.spark.jvm.observed import is_observed
from evenly.worker.executing import REPORT

_BATCHES = 64


@dataclass(frozen=True, eq=False)
class FlowBatch:
    """A batch of a dataflow: its number (None: it was the only one), how long it took, and what each operator did in it."""

    number: int | None
    seconds: float
    operators: dict[str, Measured]


class FlowWatch:
    """Give it to `evenly.run(..., watch=watch)`: it holds what the last batches (at most 64) measured, oldest first.

        watch = evenly.FlowWatch()
        flow = evenly.Flow("sizes")
        rows = flow.source("rows", function=lambda spark: df)
        rows.row(fetch, schema="size long").sink("kept", format="parquet", path="/data/sizes")
        evenly.run(flow, spark=spark, watch=watch)
        watch.batches[-1].operators["fetch"].call_ms

    Operators of rows and batches are measured; those of Spark itself, and those whose rows are dealt out by cost, are not.
    Tasks that are run again count once. A sink that reads a part only (`console`) may leave out operators.
    """

    def __init__(self) -> None:
        self._batches: deque[FlowBatch] = deque(maxlen=_BATCHES)

    @property
    def batches(self) -> tuple[FlowBatch, ...]:
        """The last batches."""
        return tuple(self._batches)

    def take(self, number: int | None, seconds: float, reports: list[WorkerReport]) -> None:
        """A batch has ended."""
        self._batches.append(FlowBatch(number, seconds, measured(reports)))


class Reports:
    """The reports among the rows of some stages: observed on their way, or read from rows that are persisted."""

    def __init__(self) -> None:
        self._observed: list[tuple[Any, DataFrame]] = []
        self._persisted: list[DataFrame] = []

    def observe(self, ran: DataFrame) -> DataFrame:
        """`ran`, whose reports are taken while it is computed."""
        observation = Observation()
        self._observed.append((observation, ran))
        return ran.observe(observation, F.expr(f"collect_list({REPORT}) as {REPORT}"))

    def persisted(self, ran: DataFrame) -> None:
        """`ran` is persisted, and asked for its reports later: an observation below what is persisted tells nobody."""
        self._persisted.append(ran)

    def told(self) -> list[WorkerReport]:
        """All reports, when everything has been computed and before it is let go."""
        found = [row[0] for ran in self._persisted for row in ran.where(f"{REPORT} is not null").select(REPORT).collect()]
        for observation, ran in self._observed:
            if is_observed(observation, ran):
                found += observation.get[REPORT]
        return [WorkerReport.from_bytes(bytes(one)) for one in found]
