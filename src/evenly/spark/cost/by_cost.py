"""A Python function over rows of unequal cost, with all instances busy to the end, for `DataFrame.transform`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.grouping.cost.model import CostModel
from evenly.spark.cost.options import CostKey, checked_key, checked_options
from evenly.spark.cost.routing import with_id
from evenly.spark.cost.saved_costs import load_costs
from evenly.spark.cost.stage import Stage, results_of
from evenly.spark.cost.watch import CostWatch
from evenly.spark.cost.waves import first_wave

Costs = CostModel | str | os.PathLike[str]
EVEN_TIMES_EVERY = 16


def by_cost(
    df: DataFrame,
    function: Callable[[Any], Any],
    schema: StructType | str,
    *,
    cost_key: CostKey | None = None,
    instances: int,
    costs: Costs | None = None,
    objective: str = "batch-time",
    batch_rows: int | None = None,
    threads: int = 1,
    on_error: str = "fail",
    retries: int = 0,
    time_limit_s: float | None = None,
    routers: int | None = None,
    watch: CostWatch | None = None,
) -> DataFrame:
    """Run `function` on every row of `df`, in `instances` tasks that all have about the same work.

        df.transform(evenly.by_cost, function=fetch, schema="size long", cost_key="host", instances=16)

    Every row is run and gives one result; the order of results is not promised.

    - `function(row)` gets a Spark `Row` and returns a dict (by name), a tuple (by position), or, if `schema` has one field,
      its value. With `batch_rows=n` it gets a pyarrow RecordBatch of at most n rows and returns a RecordBatch or Table with any
      number of rows. An `async def` function runs `threads` calls at a time on one event loop.
    - `cost_key`: the column or SQL expression that the cost depends on (an id, a class, a length in steps), or several. None:
      the one of `costs`, or else the column that predicts the cost best.
    - `costs`: a `CostModel` or the path of a saved one that Spark can read. Then nothing runs until an action does. Without
      it one row of 16 is run at the call, to learn; its results are persisted, and its rows are not run again.
    - `objective`: "batch-time" (all instances end together), "completion" (short rows first within an instance, for the least
      mean completion time) or "arrival" (the online rule of POSG, in the order of arrival: for an
      input that is read in the same order again, not behind a shuffle).
    - `threads` (1 to 1,000): calls at once in each instance, for functions that wait. A row costs its share of the time.
    - `on_error`: "fail" ends the job with the row and the error; "skip" adds a column `error` (`good_rows`, `failed_rows`), and
      survives rows that end their process. `worker_errors` raises what ended a job as its class.
      `retries` (0 to 100) calls again before that. `time_limit_s` makes a longer call an error.
    - `routers`: tasks that deal out the rows; None: one for costly rows unless the objective is "completion", else one for
      each partition of `df`.
    - `watch`: a `CostWatch` that says what was measured, and gives a model for the next run.

    Spark may run a task again (a lost worker, speculation), and the function is then called again for its rows; each row is
    still in the result once. Where the key explains nothing, rows go out evenly as with `repartition(instances)`.
    """
    if df.isStreaming:
        raise StreamingMismatch("by_cost works on a batch DataFrame: use stream_by_cost for a stream")
    options = checked_options(
        function,
        instances=instances,
        objective=objective,
        batch_rows=batch_rows,
        threads=threads,
        on_error=on_error,
        retries=retries,
        time_limit_s=time_limit_s,
        routers=routers,
    )
    model = None if costs is None else loaded(costs, df.sparkSession)
    expressions = chosen_key(cost_key, model)
    stage = Stage.of(df, function, schema, options)
    if model is not None:
        ran = scheduled(df, stage, model, report=watch is not None)
        return results_of(ran if watch is None else watch.observe(ran, model))
    wave = first_wave(df, stage, expressions)
    ran = scheduled(wave.left, stage, wave.model, report=watch is not None)
    if watch is not None:
        ran = watch.observe(ran, CostModel(wave.model.expressions), wave.reports)
    return results_of(wave.ran).union(results_of(ran))


def scheduled(df: DataFrame, stage: Stage, model: CostModel, *, report: bool) -> DataFrame:
    """The stage over `df`, by cost where the model says that it helps, else evenly."""
    if model.constant or model.rows <= 0.0 or not model.expressions:
        every = EVEN_TIMES_EVERY if model.constant else 1
        return stage.evenly(with_id(df, model.expressions) if model.expressions else df, report=report, time_every=every)
    return stage.by_cost(with_id(df, model.expressions, order=stage.options.order), model, report=report)


def loaded(costs: Costs, spark: Any) -> CostModel:
    """A model, given or saved on any path that Spark can read."""
    if isinstance(costs, CostModel):
        return costs
    if isinstance(costs, (str, os.PathLike)):
        return load_costs(spark, costs)
    raise InvalidParameter(f"costs must be a CostModel or the path of a saved one, got {costs!r}")


def chosen_key(cost_key: CostKey | None, model: CostModel | None) -> tuple[str, ...] | None:
    """The expressions of the cost key, which must be the model's; None if nobody named one."""
    given = None if cost_key is None else checked_key(cost_key)
    if model is None:
        return given
    if given is not None and given != model.expressions:
        raise InvalidParameter(
            f"the costs are of the key {', '.join(model.expressions) or 'nothing'}, not of {', '.join(given)}: "
            "learn them for this key, or leave cost_key out"
        )
    return model.expressions
