"""A grouped function run over whole instances, for many small groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from evenly.costs.group_times import GroupTimes
from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.instances import AUTO, Instances, asked_instances
from evenly.keys.mapping import Mapping
from evenly.spark.frames import check_frame
from evenly.spark.keyed.by_key import placed_by_key
from evenly.spark.keyed.functions import check_function, check_no_iterator
from evenly.spark.keyed.group_learning import planned_by_time
from evenly.spark.keyed.group_timing import Balance, SavedTimes, check_watch, known_times, timed_results, with_reports
from evenly.spark.keyed.keys import Key, check_distinct, key_columns, key_names, key_types, type_names
from evenly.spark.keyed.layout import lay_out
from evenly.spark.keyed.learning import Weight
from evenly.spark.keyed.results import Results
from evenly.spark.keyed.time_watch import TimeWatch
from evenly.spark.python_workers import check_python, on_workers
from evenly.spark.remembering.store import Where
from evenly.spark.remembering.times import TimeMemory
from evenly.worker.groups.frames import frames_by_group
from evenly.worker.groups.tables import tables_by_group

_ONE_ARGUMENT, _TWO_ARGUMENTS = 1, 2


def apply_by_key(
    df: DataFrame,
    function: Callable[..., Any],
    schema: StructType | str,
    *,
    key: Key,
    instances: Instances = AUTO,
    mapping: Mapping | None = None,
    fit_on: DataFrame | None = None,
    weight: Weight | None = None,
    arrow: bool = False,
    balance: Balance = "rows",
    times: SavedTimes | None = None,
    watch: TimeWatch | None = None,
    remember: Where | None = None,
) -> DataFrame:
    """`df.groupBy(key).applyInPandas(function, schema)` with balanced instances and little cost per group.

        evenly.apply_by_key(df, score, "user string, score double", key="user")

    Use it for many small groups. Spark hands a Python worker one group at a time and converts each on its own, which costs
    about a millisecond. Here a worker gets its whole instance, sorted by key, in large batches, and cuts out the groups
    itself. The results are those of `applyInPandas`; neither promises an order, of results or of rows in a group.

    `function` gets each group as a pandas DataFrame with the columns of `df`, or, if it takes two arguments, the key as a tuple
    and then the group; it returns a pandas DataFrame with the columns of `schema`. With `arrow=True` it gets and
    returns a pyarrow Table, as in `applyInArrow`, and a key of Arrow scalars; its columns must have the types of `schema`,
    or the error says which has not. A function over an iterator, or one that yields, is refused at the call.

    Null keys form one group, NaN keys another, and 0.0 and -0.0 are one key. A worker holds one group and one batch of rows at
    a time, so a group must fit in its memory and an instance need not. A group's frame may share memory with others:
    changing it in place is safe, for no row is in two groups.

    `key`, `instances`, `mapping`, `fit_on`, `weight` and `remember` are those of `by_key`. `df` must not be streaming.

    `balance="time"` is for functions whose time is not in proportion to rows (a model for each store, a service that is slow
    for some keys). Groups are timed where they run, for `watch`, a `TimeWatch`; `times`, a `GroupTimes` or the path of a saved
    one that Spark can read, has what earlier runs measured, and then instances get about the same time:

        watch = evenly.TimeWatch()
        schema = "user string, score double"
        scores = evenly.apply_by_key(df, score, schema, key="user", instances=64, balance="time", watch=watch)
        scores.write.parquet("/data/scores")
        watch.times.save("times.json")  # tomorrow: balance="time", times="times.json"

    Or the runs keep it themselves: `balance="time", remember="/data/evenly/score"`, one folder for each function. The first run
    counts its groups and times them; from the second one on nothing is read for learning, and each takes in what it measured.

    In the first run nothing is known of times: instances get about the same number of groups, of rows, and of the squares of
    groups' rows, each in five tasks of a half of it down to a sixteenth (unless there are more instances than slots), so that
    slots that come free early take what is left. Keys that were not seen before are estimated by their rows. A group that is
    longer than an instance's share is named by a warning. `watch` alone measures, whatever is balanced. `weight` is for
    `balance="rows"`.
    """
    check_frame(df)
    if df.isStreaming:
        raise StreamingMismatch("apply_by_key works on a batch DataFrame: call it inside foreachBatch, or use by_key")
    check_python(df.sparkSession, pandas=not arrow)
    check_function(function)
    check_no_iterator(function, "the function")
    with_key = _takes_key(function)
    check_distinct(df)
    names = key_names(df, key)
    check_watch(watch)
    known = known_times(df, names, balance, times, watch, given=mapping, remember=remember)
    if known is not None and weight is not None:
        raise InvalidParameter("weight= is for balance='rows': with balance='time' it is time that is evened out")
    asked = asked_instances(instances, same_rows=fit_on is None and remember is None)
    of_pieces: int | None = None
    kept: TimeMemory | None = None
    if known is not None:
        found = planned_by_time(
            df,
            key=key,
            counted=fit_on,
            asked=asked,
            times=known,
            watch=watch,
            remember=remember,
            split=False,
            by="apply_by_key",
        )
        known, watch, kept, remember = found.times, found.watch, found.kept, None
        mapping, of_pieces = found.plan.whole, found.plan.instances
        asked = mapping.instances
    sent = lay_out(df.schema, names, key_types(df, names), flagged=not arrow, with_id=watch is not None)
    results = Results.of(df.sparkSession, schema)
    placed, by = placed_by_key(
        df,
        key=key,
        instances=asked,
        mapping=mapping,
        fit_on=fit_on,
        weight=weight,
        slot=None,
        remember=remember,
        pieces=of_pieces not in {None, asked},
        by="apply_by_key",
    )
    rows = sent.of(placed.sortWithinPartitions(*key_columns(names)))
    timed = None if watch is None else timed_results(results.schema, by.instances)
    made: StructType | str = schema if timed is None else with_reports(results.schema, timed)
    if arrow:
        tables = tables_by_group(function, results.arrow, sent.layout, with_key=with_key, by_name=results.by_name, timed=timed)
        ran = rows.mapInArrow(on_workers(df.sparkSession, tables), made)
    else:
        frames = frames_by_group(
            function, results.schema.names, sent.layout, with_key=with_key, by_name=results.by_name, timed=timed
        )
        ran = rows.mapInPandas(on_workers(df.sparkSession, frames, pandas=True), made)
    if timed is None or watch is None:
        return ran
    before = GroupTimes(names, type_names(df, names)) if known is None else known
    whole = of_pieces or by.instances
    observed = watch.observe(ran, before, instances=whole, mapping=mapping, chosen=by.chosen, by="apply_by_key", kept=kept)
    return observed.where(f"{timed.report} is null").drop(timed.report)


def _takes_key(function: Callable[..., Any]) -> bool:
    """Two arguments are the key and the group, one is the group: as Spark counts, with those that have a default."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    arguments = [name for name, each in inspect.signature(function).parameters.items() if each.kind in positional]
    if len(arguments) not in {_ONE_ARGUMENT, _TWO_ARGUMENTS}:
        raise InvalidParameter(
            f"the function takes the arguments ({', '.join(arguments)}): it must take (group) or (key, group)"
        )
    return len(arguments) == _TWO_ARGUMENTS
