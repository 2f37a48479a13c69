"""Aggregates by key where one key may be hotter than an instance: parts of it on several instances, then merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, StructField, StructType

from evenly.costs.group_times import GroupTimes
from evenly.errors import ColumnConflict, InvalidParameter, KeyTooHot
from evenly.instances import AUTO, Instances, asked_instances
from evenly.keys.mapping import Mapping
from evenly.keys.split_mapping import SplitMapping, SplitWay
from evenly.spark.arrow_schema import arrow_schema
from evenly.spark.frames import check_frame
from evenly.spark.keyed.group_learning import planned_by_time
from evenly.spark.keyed.group_timing import Balance, SavedTimes, check_watch, known_times, timed_results, with_reports
from evenly.spark.keyed.keys import Key, case_sensitive, check_distinct, key_columns, key_id, key_names, type_names
from evenly.spark.keyed.layout import lay_out
from evenly.spark.keyed.learning import Weight
from evenly.spark.keyed.merging import Merging
from evenly.spark.keyed.results import Results
from evenly.spark.keyed.split import placed_by_part, planned_split
from evenly.spark.keyed.time_watch import REPORT, TimeWatch
from evenly.spark.nested_types import parts_of
from evenly.spark.placing.own_columns import own_name
from evenly.spark.python_workers import check_python, on_workers
from evenly.spark.remembering.memory import Memory
from evenly.spark.remembering.store import Where
from evenly.spark.remembering.times import TimeMemory
from evenly.worker.groups.merging import HOME, PARTIAL, merger, stage_names, starter
from evenly.worker.groups.pandas_rows import Conversion

_NAMED = 5
_OBJECTS = {"variant", "geography", "geometry"}


def aggregate_by_key(
    df: DataFrame,
    *aggregates: Column | Merging,
    key: Key,
    instances: Instances = AUTO,
    mapping: Mapping | SplitMapping | None = None,
    fit_on: DataFrame | None = None,
    weight: Weight | None = None,
    spread_on: str | Sequence[str] | None = None,
    way: SplitWay = "dkg+pkg",
    tolerance_pct: float | None = 2.0,
    seed: int = 0,
    remember: Where | None = None,
    balance: Balance = "rows",
    times: SavedTimes | None = None,
    watch: TimeWatch | None = None,
) -> DataFrame:
    """One result per key, as `groupBy(key)` gives it, also where one key has more rows than an instance should have.

        evenly.aggregate_by_key(df, evenly.Merging(partial, merge, "score double"), key="user")

    With one `Merging`: keys are placed as `by_key` places them, but a key too hot for one instance is split over several.
    `partial` runs for each key on each of its instances, `merge` once for each key. A key that is not split is merged
    where it is, in the same call; only if some key is split, results (not rows) are shuffled once more to bring its
    partials together. The result has the key columns and then those of the schema.

    With Spark's own aggregates (`F.count("*")`, `F.sum("x").alias("s")`, ...) this is `df.groupBy(key).agg(...)` and nothing
    else, nothing is learnt: Spark combines the rows of a key before it shuffles them, so a hot key does not hurt.

    `balance="time"`, `times` and `watch` are those of `apply_by_key`: instances get about the same time instead of rows, and a
    key is split that takes longer than an instance's share, over as many as it needs. Whole keys are timed with their `merge`,
    split ones part by part; a part is expected to take what a group of its rows takes. So that a key of few rows cannot be
    cut further than its rows go: a warning names it. Before times are known keys with too many rows are split.

        watch = evenly.TimeWatch()
        merging = evenly.Merging(partial, merge, "score double")
        evenly.aggregate_by_key(df, merging, key="user", balance="time", watch=watch).write.parquet("/data/scores")
        watch.times.save("times.json")  # tomorrow: balance="time", times="times.json"

    All other parameters are those of `split_by_key`; with `balance="time"` there is no `weight` or `way`, and `remember` keeps
    times as in `apply_by_key`. Raises
    `KeyTooHot` for a function that does not merge (`merge=None`) if a key has more than an instance's fair share, as the
    mapping says (with `remember` one that this run has learnt).
    """
    check_frame(df)
    check_watch(watch)
    native = [aggregate for aggregate in aggregates if isinstance(aggregate, Column)]
    if aggregates and len(native) == len(aggregates):
        if balance != "rows" or times is not None or watch is not None:
            raise InvalidParameter("balance=, times= and watch= are for a Merging: Spark's own aggregates are left to Spark")
        return df.groupBy(*key_columns(key_names(df, key))).agg(*native)
    if len(aggregates) != 1 or not isinstance(aggregates[0], Merging):
        raise InvalidParameter(
            f"give Spark's aggregate columns, or one Merging: got {len(aggregates)} aggregates, {len(native)} of them columns"
        )
    merging = aggregates[0]
    check_python(df.sparkSession, pandas=True)
    check_distinct(df)
    _check_given(df)
    times_kept: TimeMemory | None = None
    known = known_times(df, key_names(df, key), balance, times, watch, given=mapping, remember=remember)
    if known is not None:
        _check_by_time(merging, weight, way)
        if not df.isStreaming:  # of which the plan says what is to be said
            made = planned_by_time(
                df,
                key=key,
                counted=fit_on,
                asked=asked_instances(instances, may_split=True),
                times=known,
                watch=watch,
                remember=remember,
                split=True,
                by="aggregate_by_key",
            )
            mapping, known, watch, times_kept, remember = made.plan.mapping, made.times, made.watch, made.kept, None
    plan = partial(
        planned_split,
        df,
        key=key,
        instances=instances,
        mapping=mapping,
        fit_on=fit_on,
        weight=weight,
        way=way,
        tolerance_pct=tolerance_pct,
        seed=seed,
        remember=remember,
        by="aggregate_by_key",
    )
    names, planned, kept = plan()
    if merging.merge is None and planned.needs_merge and kept.doubted("a key was too hot for a function that does not merge"):
        names, planned, kept = plan()  # what earlier runs had is no reason to fail this one
    if merging.merge is None and planned.needs_merge:
        raise KeyTooHot(_too_hot(df, names, planned))
    watching = None if watch is None else _Watching(watch, known, times_kept, of_time=balance == "time")
    return _Run(df, merging, names, planned).result(spread_on, kept, watching)


def _check_by_time(merging: Merging, weight: Weight | None, way: SplitWay) -> None:
    """Refuse what is not for time."""
    if weight is not None or way != "dkg+pkg":
        raise InvalidParameter("weight= and way= are for balance='rows': with balance='time' it is time that is evened out")
    if merging.merge is None:
        raise InvalidParameter(
            "a function that does not merge runs on whole keys: use apply_by_key(..., balance='time'), or give Merging a "
            "merge function"
        )


@dataclass(frozen=True)
class _Watching:
    """A watch, what was known of times before, where they are kept, and whether keys are placed by them."""

    watch: TimeWatch
    known: GroupTimes | None
    kept: TimeMemory | None
    of_time: bool


class _Run:
    """One aggregation: the schemas, and the two stages that follow the placement."""

    def __init__(self, df: DataFrame, merging: Merging, names: tuple[str, ...], planned: SplitMapping) -> None:
        self.df, self.merging, self.names, self.planned = df, merging, names, planned
        self.keys = df.select(*key_columns(names)).schema
        self.results = Results.of(df.sparkSession, merging.schema)
        self.values = self.results.schema
        fold = str if case_sensitive(df) else str.lower
        taken = set(map(fold, self.keys.names))
        twice = [name for name in self.values.names if fold(name) in taken]
        if twice:
            raise ColumnConflict(
                f"the schema of the aggregate names {', '.join(map(repr, twice))}, a key column, which is added anyway: "
                "leave it out of the schema"
            )

    def result(self, spread_on: str | Sequence[str] | None, kept: Memory, watching: _Watching | None) -> DataFrame:
        """Keys on their instances, sorted, so that a worker cuts its instance into groups itself."""
        placed = placed_by_part(self.df, self.planned, self.names, spread_on, kept)
        kinds = tuple(field.dataType for field in self.keys)
        sent = lay_out(placed.schema, self.names, kinds, flagged=True, with_id=watching is not None)
        rows = sent.of(placed.sortWithinPartitions(*key_columns(self.names)))
        fields = [*self.keys.fields, *self.values.fields]
        merged = self.planned.needs_merge
        between = stage_names(len(self.keys), len(self.values), merged=False)
        whole = StructType([_called(field, name) for field, name in zip(fields, between, strict=True)])
        zone = str(self.df.sparkSession.conf.get("spark.sql.session.timeZone"))
        conversion = Conversion(self.results.arrow, zone, self.results.by_name, self.results.safe)
        first = whole
        if merged:
            first = StructType([_nullable(field) for field in whole]).add(PARTIAL, "binary").add(HOME, "integer")
        homes = self.planned.parts[self.planned.starts[:-1]].tolist()
        spark, functions = self.df.sparkSession, (self.merging.partial, self.merging.merge)
        timed = None if watching is None else timed_results(first, self.planned.instances)
        seen = () if timed is None else arrow_schema(spark, StructType(whole.fields[: len(kinds)])).types
        start = starter(
            functions, between[: len(kinds)], conversion, homes, sent.layout, timed, seen, by_value=cloudpickle.dumps
        )
        made = first if timed is None else with_reports(first, timed)
        found = rows.mapInArrow(on_workers(spark, start, pandas=True), made)
        if watching is not None:
            found = self._watched(found, watching)
        if merged:
            gathered = found.repartitionById(self.planned.instances, HOME).drop(HOME)
            found = gathered.mapInArrow(
                on_workers(spark, merger(self.merging.merge, len(kinds), conversion), pandas=True), whole
            )
        zeros = [normalised(F.col(name), kind).alias(name) for name, kind in zip(between, kinds, strict=False)]
        return found.select(*zeros, *between[len(kinds) :]).toDF(*(field.name for field in fields))

    def _watched(self, found: DataFrame, watching: _Watching) -> DataFrame:
        """Results without the reports among them, which the watch gets on the way."""
        known = watching.known
        observed = watching.watch.observe(
            found,
            GroupTimes(self.names, type_names(self.df, self.names)) if known is None else known,
            instances=self.planned.instances,
            mapping=self.planned if watching.of_time else None,
            chosen=self.planned.light.chosen,
            by="aggregate_by_key",
            kept=watching.kept,
        )
        return observed.where(f"{REPORT} is null").drop(REPORT)


def normalised(column: Column, kind: DataType) -> Column:
    """A key as grouping by it gives it: -0.0 is 0.0, also inside arrays and structs. Alone it is so already."""
    if not _holds_floats(kind):
        return column
    if isinstance(kind, ArrayType):
        inner = kind.elementType
        return F.transform(column, lambda element: normalised(element, inner))
    if isinstance(kind, StructType):
        fields = [normalised(column.getField(field.name), field.dataType).alias(field.name) for field in kind]
        return F.when(column.isNotNull(), F.struct(*fields))
    return column + F.lit(0.0).cast(kind)


def _holds_floats(kind: DataType) -> bool:
    return any(isinstance(part, (FloatType, DoubleType)) for part in parts_of(kind))


def _check_given(df: DataFrame) -> None:
    """Refuse columns that a function would get as their parts here, and as objects of Spark's from `applyInPandas`."""
    odd = [f"{field.name} ({field.dataType.simpleString()})" for field in df.schema.fields if _holds_objects(field.dataType)]
    if odd:
        raise InvalidParameter(
            f"aggregate_by_key does not hand over {', '.join(odd)}: drop them, or give what matters of them as text, "
            "numbers or binary, as in F.to_json(column), F.variant_get(column, '$.a', 'bigint') or F.st_asbinary(column)"
        )


def _holds_objects(kind: DataType) -> bool:
    return any(part.typeName() in _OBJECTS for part in parts_of(kind))


def _called(field: StructField, name: str) -> StructField:
    return StructField(name, field.dataType, field.nullable)


def _nullable(field: StructField) -> StructField:
    return StructField(field.name, field.dataType, nullable=True)


def _too_hot(df: DataFrame, names: tuple[str, ...], planned: SplitMapping) -> str:
    """Which keys are too hot, how hot, what is possible, and what to do."""
    loads, total = planned.part_loads, planned.fitted_loads.sum()
    shares = np.add.reduceat(loads, planned.starts[:-1]) / total
    order = np.argsort(-shares, kind="stable")[:_NAMED]
    ids = planned.split[order].view(np.int64).tolist()
    identity = own_name("id")
    rows = df.select(key_id(names).alias(identity), *key_columns(names))
    rows = rows.where(F.col(identity).isin(ids)).dropDuplicates([identity])
    known = {row[0]: ", ".join(map(repr, row[1:])) for row in rows.collect()}
    told = "; ".join(
        f"{known.get(hashed, hashed)} with {100.0 * shares[at]:.1f} % of the load, "
        f"{shares[at] * planned.instances:.1f} times an instance's share"
        for hashed, at in zip(ids, order.tolist(), strict=True)
    )
    hottest = float(shares.max())
    fewer = f"or at most {int(1.0 / hottest)} instances, " if hottest <= 0.5 else ""
    return (
        f"too hot for one of {planned.instances} instances: {told}. A function that does not merge runs on whole keys, "
        f"so λ cannot be below {(hottest * planned.instances - 1.0) * 100.0:.0f} %. Give Merging a merge function, "
        f"{fewer}or accept that λ and use apply_by_key"
    )
