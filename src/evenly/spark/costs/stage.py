"""One batch of rows through a user's function: placed evenly or by cost, run, measured."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from evenly.costs.dealing import DealingRule
from evenly.costs.model import CostModel
from evenly.costs.placing import DEALING_WAYS, DealingWay
from evenly.costs.report import InstanceReport
from evenly.costs.rounds import ROUNDS
from evenly.errors import InvalidParameter
from evenly.kernels.types import F64
from evenly.spark.arrow_schema import arrow_schema
from evenly.spark.costs.dealing import deal_in_pieces, deal_in_turn
from evenly.spark.costs.options import StageOptions, checked_schema, one_attempt
from evenly.spark.costs.routing import route
from evenly.spark.costs.skipped import LETTER_TYPE
from evenly.spark.features import Feature, has, require
from evenly.spark.python_workers import on_workers
from evenly.spark.worker_errors import worker_errors
from evenly.worker.calling import Calls
from evenly.worker.executing import ESTIMATE, ID, MOST_MEASURED, REPORT, Work, executor
from evenly.worker.letters import ERROR
from evenly.worker.results import Shape
from evenly.worker.routing import Routing

UNWATCHED_TIMES_EVERY = 64
_MOST_IN_ALL, _LEAST_MEASURED = 32_768, 64


@dataclass(frozen=True, eq=False)
class CallStage:
    """A user's function and how it is run. Its results come with a hidden column for reports."""

    work: Work
    options: StageOptions
    schema: StructType

    @classmethod
    def of(cls, df: DataFrame, function: Callable[[Any], Any], schema: StructType | str, options: StageOptions) -> CallStage:
        """For rows with the columns of `df`."""
        if not callable(function):
            raise InvalidParameter(f"function must be a function of a row, got {function!r}")
        if not _takes_one(function):
            raise InvalidParameter(f"function must take one argument, a row, and {function!r} does not")
        for name in df.columns:
            if name.lower().startswith("__evenly_"):
                raise InvalidParameter(f"there is a column {name!r}, a name that Evenly uses: rename it")
        call = options.call
        parsed = checked_schema(df, schema, skip=call.skip)
        nullable = StructType([StructField(field.name, field.dataType, nullable=True) for field in parsed.fields])
        strict = frozenset(field.name for field in parsed.fields if not field.nullable)
        calls = Calls(function, threads=call.threads, retries=call.retries, limit_s=call.time_limit_s)
        require(df.sparkSession, Feature.TO_ARROW, by="dealing rows by cost", remedy="Use mapInArrow")
        shape = Shape(arrow_schema(df.sparkSession, nullable), strict)
        once = call.skip and one_attempt(df)
        work = Work(calls, shape, tuple(df.columns), batch_rows=call.batch_rows, skip=call.skip, one_attempt=once)
        return cls(work, options, nullable.add(ERROR, LETTER_TYPE) if call.skip else nullable)

    def evenly(self, rows: DataFrame, *, report: bool = True, time_every: int = 1, candidates: int = 0) -> DataFrame:
        """The same number of rows to each instance."""
        placed = rows.repartition(instances := self.options.instances)
        if self.work.batch_rows is not None and self.options.objective != "arrival" and ID in rows.columns:
            placed = placed.sortWithinPartitions(ID)  # batches of one key tell what the key costs
        return self._run_measured(placed, instances, report=report, time_every=time_every, candidates=candidates)

    def in_pieces(self, rows: DataFrame, *, report: bool = True, candidates: int = 0) -> DataFrame:
        """Rows in five rounds of pieces, each smaller than the one before, which slots take as they come free."""
        placed = deal_in_pieces(rows, self.options.instances)
        return self._run_measured(placed, ROUNDS * self.options.instances, report=report, time_every=1, candidates=candidates)

    @property
    def takes_pieces(self) -> bool:
        """Whether the function is called for a row at a time: calls at once and batches get fewer in a small piece."""
        call = self.options.call
        return call.threads == 1 and call.batch_rows is None and self.options.objective != "arrival"

    def by_cost(
        self,
        rows: DataFrame,
        model: CostModel,
        *,
        shares: F64 | None = None,
        report: bool = True,
        way: DealingWay = "routers",
    ) -> DataFrame:
        """About the same work to each instance, by the estimates of `model`; or, by routers, in the proportion of `shares`."""
        options = self.options
        work = replace(self.work, report=report)
        if way == "in turn":
            return self._run(self._ordered(deal_in_turn(rows, model.table, options.instances)), work)
        equal = np.full(options.instances, 1.0 / options.instances)
        rule: DealingRule = "arrival" if options.objective == "arrival" else "longest-first"
        routing = Routing(model.table, equal if shares is None else shares, rule)
        routers = 1 if way == "one router" else options.routers
        return self._run(self._ordered(route(rows, routing, routers=routers)), work)

    def ways(self, df: DataFrame) -> tuple[DealingWay, ...]:
        """The ways to deal out `df` by cost that there are."""
        if self.options.routers is not None:
            return ("routers",)
        return DEALING_WAYS if has(df.sparkSession, Feature.REPARTITION_BY_ID) else DEALING_WAYS[1:]

    def _ordered(self, placed: DataFrame) -> DataFrame:
        """Rows in the order in which an instance should run them."""
        objective, call = self.options.objective, self.options.call
        if objective == "completion":
            # Batches are of one key, as far as may be. Without them one number to sort by is half the work.
            return placed.sortWithinPartitions(ESTIMATE, *([] if call.batch_rows is None else [ID]))
        # Several calls at once end together if the longest begin first; and batches are to be of rows that are alike.
        if objective == "batch-time" and (call.threads > 1 or call.batch_rows is not None):
            return placed.sortWithinPartitions(F.desc(ESTIMATE), ID)
        return placed

    def _run_measured(self, placed: DataFrame, tasks: int, *, report: bool, time_every: int, candidates: int) -> DataFrame:
        calls = replace(self.work.calls, time_every=time_every)
        # All reports come to the driver: together they have a bound, however many tasks there are.
        most = min(MOST_MEASURED, max(_LEAST_MEASURED, _MOST_IN_ALL // tasks))
        return self._run(placed, replace(self.work, calls=calls, report=report, candidates=candidates, most_measured=most))

    def _run(self, placed: DataFrame, work: Work) -> DataFrame:
        if not work.report:  # nobody asks what rows cost
            work = replace(work, calls=replace(work.calls, time_every=UNWATCHED_TIMES_EVERY))
        run = on_workers(placed.sparkSession, executor(work))
        output = StructType([*self.schema.fields]).add(REPORT, BinaryType())
        width = len(work.names)
        sent = [*(f"c{at}" for at in range(width)), *placed.columns[width:]]
        # Arrow does not tell how many rows of no columns there are.
        plain = placed.toDF(*sent) if sent else placed.select(F.lit(0).alias("c"))
        return plain.mapInArrow(run, output)


def reports_of(ran: DataFrame) -> list[InstanceReport]:
    """The reports among the results of a stage that was run (and persisted)."""
    with worker_errors():
        told = ran.where(f"{REPORT} is not null").select(REPORT).collect()
    return [InstanceReport.from_bytes(bytes(row[0])) for row in told]


def results_of(ran: DataFrame) -> DataFrame:
    """The results alone."""
    return ran.where(f"{REPORT} is null").drop(REPORT)


def _takes_one(function: Callable[..., Any]) -> bool:
    """Whether it can be called with a row. Of what has no signature that is seen when it is called."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
