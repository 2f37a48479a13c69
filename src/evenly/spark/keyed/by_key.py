"""Every key on its instance, for `DataFrame.transform`."""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenly.errors import StreamingMismatch
from evenly.instances import AUTO, Instances, asked_instances
from evenly.keys.mapping import Mapping
from evenly.spark.features import Feature, has
from evenly.spark.frames import check_frame, check_new_column
from evenly.spark.jvm.placement_listener import tell_of_shuffles
from evenly.spark.keyed.keys import Key, key_names, quoted, type_names
from evenly.spark.keyed.learning import Weight, check_not_learnt, learn_mapping
from evenly.spark.placing.canary import check_slots_lead, slots_lead
from evenly.spark.placing.mapping_check import check_mapping
from evenly.spark.placing.own_columns import own_name
from evenly.spark.placing.placement import AT, PIECES, Span, with_instance, with_slot, with_slot_of_window
from evenly.spark.placing.slot_mark import marked
from evenly.spark.remembering.memory import Memory, memory
from evenly.spark.remembering.store import Where

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def by_key(
    df: DataFrame,
    *,
    key: Key,
    instances: Instances = AUTO,
    slot: str | None = "slot",
    mapping: Mapping | None = None,
    fit_on: DataFrame | None = None,
    weight: Weight | None = None,
    tolerance_pct: float | None = 2.0,
    seed: int = 0,
    remember: Where | None = None,
) -> DataFrame:
    """Spread the keys of `df` over `instances` partitions so that all have about the same number of rows.

        placed = df.transform(evenly.by_key, key="user")
        placed.groupBy("user", "slot").applyInPandas(score, schema)

    All rows of a key are in one partition. `instances` is the number of partitions; "auto", the default, takes that of
    `mapping`, and without one as many as the session has slots; fewer if `df` has fewer keys, a multiple if an instance would
    hold more than ten million rows. What was chosen and why is logged (`evenly`, INFO); `evenly.explain(placed)` tells it too.

    - `slot="slot"` (the default) adds an INT column of that name. Group, window or join by the key and the
      slot, in that order, `groupBy("user", "slot")`: the groups are those of the key alone, Spark finds
      the rows where they are and does not shuffle again. Grouped by the key alone, rows are shuffled once more and are
      uneven again. That is logged as a warning when it has happened (once for each such shuffle, in classic sessions);
      `evenly.check_placement(result)` tells before.
    - `slot=None` adds no column and places rows with `repartitionById`, for work that needs no grouping,
      such as `mapInArrow` or a write.

    The mapping of keys to instances is learnt from `df`, which reads `df` once more (a sample of it, see
    `learn_mapping`). Give `fit_on=` a smaller or an earlier DataFrame with the same key columns to learn from that
    instead, or `mapping=` to skip learning. Cache `df` if it is costly to compute. `weight=` is what a row counts for where
    instances are to have the same of something else than rows: a column of numbers by its name (of `fit_on`, if that is given),
    or an expression such as `F.length("text")`. One that is null, negative, NaN or infinite is refused where it is learnt.

    `remember` is a folder on any path that Spark can write to, or a name below the folder of the setting
    `spark.evenly.remember`: the first run learns and writes the mapping there, later ones read it and place at once. What each
    instance then gets is counted on the way (with `weight` weighed, which needs Spark 4.2), and where λ has drifted from what
    was promised the next run learns anew (see docs/keys.md). It never changes a result, and nothing that is wrong with the
    folder stops a job.
    An application has one mapping for all slots of a folder, so both sides of a join may name it; what drifts is learnt anew by
    the next application. (With `slot=None`, and in all other calls, by the next call.)

    Two sides of a join go under one mapping. Their key columns must be of types that Spark hashes alike, in the same order;
    their names may differ. A name that is exactly a column of `df` is that column (also `"a.b"`), else it is a path to a
    struct's field, with back-quotes where Spark wants them.

    A streaming `df` needs `mapping=` (`fit_on=` will do with `slot=None`). It only gets the slot column: the stateful operator
    that follows does the shuffle, to `spark.sql.shuffle.partitions` partitions, which must be `instances`. State is kept by
    key and slot, so every start from one checkpoint needs the same mapping, which you have to save: under another one keys do
    not find their state, and nobody notices. `stream_by_key` does all of that, and changes the mapping when keys change.

    Null is a key like any other, and so is NaN. A single key heavier than the mean load of an instance cannot be
    balanced by any placement of whole keys; `mapping.least_imbalance_pct` says what is possible.

    At the first placement of an application Spark is asked whether it hashes as slots need it (no job runs for that). On a
    Spark that does not, a warning is logged and rows are placed by Spark's hash of the key, with a slot that is 0 everywhere;
    a stream is refused (`UnsupportedSpark`).
    """
    return placed_by_key(
        df,
        key=key,
        instances=instances,
        slot=slot,
        mapping=mapping,
        fit_on=fit_on,
        weight=weight,
        tolerance_pct=tolerance_pct,
        seed=seed,
        remember=remember,
    )[0]


def placed_by_key(
    df: DataFrame,
    *,
    key: Key,
    instances: Instances,
    slot: str | None,
    mapping: Mapping | None,
    fit_on: DataFrame | None,
    weight: Weight | None,
    tolerance_pct: float | None = 2.0,
    seed: int = 0,
    remember: Where | None,
    pieces: bool = False,
    by: str = "by_key",
) -> tuple[DataFrame, Mapping]:
    """As `by_key`, and the mapping that rows were placed by, which may be over `pieces` of what instances do; `by` is the call
    that errors are to name."""
    check_frame(df)
    check_not_learnt(mapping, weight)
    asked = asked_instances(instances, same_rows=fit_on is None and remember is None)
    names = key_names(df, key)
    if slot is not None:
        check_new_column(df, slot, "slot")
    kept = memory(df, remember, names, asked, mapping=mapping, weight=weight, by=by)
    if mapping is None:
        _check_learnable(df, fit_on, slot)
        learnt_on = df if fit_on is None else fit_on
        learn = partial(
            learn_mapping, learnt_on, key=key, instances=asked, weight=weight, tolerance_pct=tolerance_pct, seed=seed
        )
        mapping = kept.mapping(learn) if slot is None else kept.slot_mapping(learn, names, type_names(df, names))
    check_mapping(mapping, df, names, asked)
    return _placed(df, mapping, names, slot, kept, pieces=pieces), mapping


def _placed(
    df: DataFrame, mapping: Mapping, names: tuple[str, ...], slot: str | None, kept: Memory, *, pieces: bool
) -> DataFrame:
    instances = mapping.instances
    if slot is None and has(df.sparkSession, Feature.REPARTITION_BY_ID):
        routed = with_instance(kept.of(df), mapping, names, AT)
        return kept.placed(routed.withMetadata(AT, PIECES) if pieces else routed, mapping.fitted_loads)
    if df.isStreaming:
        check_slots_lead(df.sparkSession, by="by_key of a stream")
        return _placed_by_own_slot(df, mapping, names) if slot is None else _streaming(df, mapping, names, slot)
    if not slots_lead(df.sparkSession, by="by_key"):
        same = df if slot is None else df.withColumn(slot, F.lit(0))
        return same.repartition(instances, *names)
    if slot is None:
        return _placed_by_own_slot(df, mapping, names)
    tell_of_shuffles(df, slot)

    def observed(rows: DataFrame, instance: Column, _id: Column, _newest: Column | None) -> DataFrame:
        return kept.observed(rows, mapping.fitted_loads, instance)

    slotted = with_slot_of_window(kept.of(df), [Span(mapping)], names, slot, window=None, observe=observed)
    placed = marked(slotted, slot, names, mapping=mapping)
    return placed.repartition(instances, *names, quoted(slot))


def _check_learnable(df: DataFrame, fit_on: DataFrame | None, slot: str | None) -> None:
    if df.isStreaming and slot is not None:
        raise StreamingMismatch(
            "the keys of a stream must have the same slots whenever its query starts, or they do not find their state: use "
            "stream_by_key, which keeps the mapping beside the checkpoint, or learn one once, learn_mapping(earlier_rows, "
            "...).save(path), and give mapping=Mapping.load(path) at every start"
        )
    if df.isStreaming and fit_on is None:
        raise StreamingMismatch(
            "a mapping cannot be learnt from a streaming DataFrame: give mapping=, or fit_on= with a batch of earlier rows"
        )
    if fit_on is not None:
        check_frame(fit_on, "fit_on")


def _streaming(df: DataFrame, mapping: Mapping, names: tuple[str, ...], slot: str) -> DataFrame:
    partitions = int(df.sparkSession.conf.get(_SHUFFLE_PARTITIONS) or 0)
    if partitions != mapping.instances:
        raise StreamingMismatch(
            f"{_SHUFFLE_PARTITIONS} is {partitions} and instances is {mapping.instances}: a stateful operator shuffles to the "
            f"former. Set it before the query first starts: spark.conf.set('{_SHUFFLE_PARTITIONS}', {mapping.instances})"
        )
    return marked(with_slot(df, mapping, names, slot), slot, names, mapping=mapping)


def _placed_by_own_slot(df: DataFrame, mapping: Mapping, names: tuple[str, ...]) -> DataFrame:
    slot = own_name("slot")
    return with_slot(df, mapping, names, slot).repartition(mapping.instances, *names, slot).drop(slot)
