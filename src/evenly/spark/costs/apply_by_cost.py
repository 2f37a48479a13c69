"""A Python function over rows of unequal cost, with all instances busy to the end, for `DataFrame.transform`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenly.costs.call_options import ONE_ROW_AT_A_TIME, CallOptions
from evenly.costs.model import CostModel
from evenly.costs.placing import DealingChoice, against_pieces, choose_dealing, choose_first_dealing
from evenly.costs.scheduler import EVEN_TIMES_EVERY
from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.instances import AUTO, Instances
from evenly.spark.costs.candidates import candidate_keys, candidate_types, with_candidates
from evenly.spark.costs.key_types import checked_types
from evenly.spark.costs.options import CostKey, Objective, StageOptions, checked_key, slots_for
from evenly.spark.costs.row_ids import cost_key_types, with_id
from evenly.spark.costs.saved_costs import load_costs
from evenly.spark.costs.stage import CallStage, results_of
from evenly.spark.costs.watch import CostWatch
from evenly.spark.features import Feature, has
from evenly.spark.frames import check_frame
from evenly.spark.jvm.session_slots import known_slots
from evenly.spark.jvm.sizes import size_of
from evenly.spark.remembering.costs import cost_memory
from evenly.spark.remembering.store import Where

Costs = CostModel | str | os.PathLike[str]
_LOG = logging.getLogger(__name__)


def apply_by_cost(
    df: DataFrame,
    function: Callable[[Any], Any],
    schema: StructType | str,
    *,
    cost_key: CostKey | None = None,
    instances: Instances = AUTO,
    costs: Costs | None = None,
    objective: Objective = "completion",
    call: CallOptions = ONE_ROW_AT_A_TIME,
    routers: int | None = None,
    pieces: bool | None = None,
    watch: CostWatch | None = None,
    remember: Where | None = None,
) -> DataFrame:
    """Run `function` on every row of `df`, in `instances` tasks that all have about the same work.

        df.transform(evenly.apply_by_cost, function=fetch, schema="size long", cost_key="host")

    Every row is run and gives one result; the order of results is not promised. Nothing runs before an action does, and
    nothing is persisted: one stage, one computation of `df`.

    - `function(row)` gets a Spark `Row` and returns a dict (by name), a tuple (by position), or, if `schema` has one field,
      its value. Arrow batches of rows and `async def` functions: see `call`.
    - `instances`: how many tasks, or in pieces how many at a time; "auto", the default, takes as many as the session has slots
      (`watch.chosen` says why).
    - `cost_key`: the column or SQL expression that the cost depends on (an id, a class, a length in steps), or several. None:
      the one of `costs`, or else `watch.costs` has the column that predicts the cost best.
    - `costs`: a `CostModel` or the path of a saved one that Spark can read. Without it rows go out in pieces, or as with
      `repartition(instances)`; what is measured on the way (`watch.costs`) is for the next run. Costs of a key whose type Spark
      hashes otherwise (it was an int then, and is a bigint now) are refused: no row would find its cost.
    - `objective`: "completion" (instances have the same work, and short rows are first within each, for the least mean
      completion time), "batch-time" (the same work, in any order) or "arrival" (the online rule of POSG, in the order of
      arrival: for an input that is read in the same order again, not behind a shuffle).
    - `call`: how the function is called, a `CallOptions`: several calls at once, Arrow batches, rows that fail, retries, a time
      limit. By default one row at a time, and the first that fails ends the job; `worker_errors` raises that as its class.
    - `routers`: tasks that deal out the rows through Python; None: none, but where they are expected to pay (few rows, or one
      that costs as much as half an instance's work). Else rows are dealt in turn from the costliest down, in the JVM.
    - `pieces`: whether rows may go out in pieces: five tasks for each instance, large ones first and small ones for the slots
      that are free first, which evens out what nobody knows of costs; four more tasks for each slot is what it takes. None: in
      a run without costs, and in others where they are expected to end first, where so many instances fill all slots of the
      session (else a slot more than asked for could be at it), 204 instances at the most. True: whatever the slots. False:
      never, each instance is one task.
    - `watch`: a `CostWatch` that says what was decided and measured, and gives a model for the next run.
    - `remember`: instead of `costs`, a folder on any path that Spark can write to, or a name below the one of the setting
      `spark.evenly.remember`. What is measured is written there after the first action on the result, and read by the next
      run. Nothing that is wrong with the folder stops a job. One folder is for one function.

    Spark may run a task again (a lost worker, speculation), and the function is then called again for its rows; each row is
    still in the result once. Where dealing by cost is not expected to save more than routing takes, rows go out in pieces or
    evenly.
    """
    check_frame(df)
    if df.isStreaming:
        raise StreamingMismatch("apply_by_cost works on a batch DataFrame: use stream_apply_by_cost for a stream")
    chosen = slots_for(df.sparkSession, instances)
    options = StageOptions(chosen.number, objective, routers, call, pieces)
    check_watch(watch)
    kept = cost_memory(df, remember, None if cost_key is None else checked_key(cost_key), costs=costs)
    model = kept.model() if kept is not None else None if costs is None else loaded(costs, df.sparkSession)
    if kept is not None:
        watch = CostWatch() if watch is None else watch
        watch.keep_in(kept)
    if watch is not None:
        watch.over(chosen)
    expressions = chosen_key(cost_key, model)
    types = () if expressions is None else cost_key_types(df, expressions)
    model = None if model is None else checked_types(model, types)
    stage = CallStage.of(df, function, schema, options)
    if model is not None:
        decision = decided(df, stage, model) if model.rows > 0.0 else first_decided(df, stage)
        _LOG.info("apply_by_cost, %d instances: %s", chosen.number, decision.reason)
        ran = scheduled(df, stage, model, decision, report=watch is not None)
        return results_of(ran if watch is None else watch.observe(ran, model, decision=decision))
    decision = first_decided(df, stage)
    _LOG.info("apply_by_cost, %d instances: %s", chosen.number, decision.reason)
    keyed = df if expressions is None else with_id(df, expressions)  # a key that is not there is an error, watched or not
    if watch is None:
        return results_of(run_first(stage, df, decision, report=False))
    if expressions is not None:
        nothing = CostModel(expressions, types=types)
        return results_of(watch.observe(run_first(stage, keyed, decision), nothing, decision=decision))
    candidates = candidate_keys(df)
    ran = run_first(stage, with_candidates(df, candidates), decision, candidates=len(candidates))
    return results_of(watch.observe(ran, CostModel(), decision=decision, candidates=candidate_types(df, candidates)))


def check_watch(watch: CostWatch | None) -> None:
    """Refuse what is no watch."""
    if not isinstance(watch, CostWatch | None):
        raise InvalidParameter(f"watch must be a CostWatch, got {watch!r}: make one with evenly.CostWatch()")


def first_decided(df: DataFrame, stage: CallStage) -> DealingChoice:
    """How `df` is dealt while nothing is known of costs."""
    return choose_first_dealing(_against_pieces(df, stage))


def _against_pieces(df: DataFrame, stage: CallStage) -> str:
    """Why the rows of `df` do not go out in pieces; "" if nothing is against it."""
    asked, instances = stage.options.pieces, stage.options.instances
    if asked is not False:
        if not stage.takes_pieces:
            return "small pieces are not for batches, several calls at once or arrival"
        if not has(df.sparkSession, Feature.REPARTITION_BY_ID):
            return "pieces need repartitionById, which this Spark does not have"
        if len({name.lower() for name in df.columns}) < len(df.columns):
            return "pieces need columns of different names"
    slots = known_slots(df.sparkSession) if asked is None and instances > 1 else None
    return against_pieces(instances, slots=slots, pieces=asked)


def run_first(
    stage: CallStage, rows: DataFrame, decision: DealingChoice, *, report: bool = True, candidates: int = 0
) -> DataFrame:
    """The stage over `rows`, of which no costs are known."""
    run = stage.in_pieces if decision.way == "in pieces" else stage.evenly
    return run(rows, report=report, candidates=candidates)


def decided(df: DataFrame, stage: CallStage, model: CostModel) -> DealingChoice:
    """Whether `df` is dealt by cost."""
    options = stage.options
    if not model.expressions:
        return choose_first_dealing(_against_pieces(df, stage), unknown="no column is known to tell the cost")
    if options.objective == "arrival" and model.rows > 0.0:
        return DealingChoice("routers", reason="in the order of arrival, as asked for")
    size = size_of(df, last_rows=model.batch_rows)
    return choose_dealing(
        model,
        options.instances,
        rows=size.rows,
        row_bytes=size.row_bytes,
        partitions=options.routers,
        slots=size.slots,
        objective=options.objective,
        ways=stage.ways(df),
        pieces=not _against_pieces(df, stage),
    )


def scheduled(df: DataFrame, stage: CallStage, model: CostModel, decision: DealingChoice, *, report: bool) -> DataFrame:
    """The stage over `df` as it was decided."""
    if decision.by_cost:
        keyed = with_id(df, model.expressions, order=stage.options.order)
        return stage.by_cost(keyed, model, report=report, way=decision.way)
    if decision.way == "in pieces":
        return run_first(stage, with_id(df, model.expressions) if model.expressions else df, decision, report=report)
    every = EVEN_TIMES_EVERY if model.rows > 0.0 else 1
    keyed = with_id(df, model.expressions) if model.expressions else df
    return stage.evenly(keyed if report else df, report=report, time_every=every)


def loaded(costs: Costs, spark: Any) -> CostModel:
    """A model, given or saved on any path that Spark can read."""
    if isinstance(costs, CostModel):
        return costs
    if isinstance(costs, (str, os.PathLike)) and os.fspath(costs):
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
