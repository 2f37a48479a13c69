"""Whether a result over placed rows finds them where they are, read from the plan that Spark would run."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from pyspark.sql import DataFrame

from evenly.keys.placed import Use, use_of
from evenly.spark.features import Feature, require
from evenly.spark.frames import check_frame
from evenly.spark.jvm.changed_keys import KeyChanged, keys_changed
from evenly.spark.jvm.plan_roles import keyed_plan
from evenly.spark.jvm.shuffled_again import ShuffledAgain, executed_plan, shuffled_again
from evenly.spark.jvm.slots_apart import SlotsApart, slots_apart
from evenly.spark.jvm.slots_united import SlotsUnited, slots_united

_LOG = logging.getLogger(__name__)


def check_placement(df: DataFrame) -> tuple[ShuffledAgain | KeyChanged | SlotsApart | SlotsUnited, ...]:
    """The places where a result shuffles rows by their key that `by_key` has placed; none if all is well.

        result = placed.groupBy("user").applyInPandas(score, schema)      # the slot was forgotten
        evenly.check_placement(result)     # (ShuffledAgain(by=('user',), placed_by=('user', 'slot')),)

    A shuffle by key and slot to another number of partitions than the slots are for is named too: rows are as uneven there as
    by Spark's hash. So is a join, a cogroup or a comparison (intersect, except, IN, EXISTS) by slots of two mappings, which
    misses rows (`SlotsApart`), and a union of rows that two mappings have placed where it is grouped or joined by the slot: a
    key of both parts is in two groups there (`SlotsUnited`); rows that have no slot in such a union, or one of nulls, count as
    another mapping's. So is a key that was computed anew behind `by_key` (`lower`, `fillna`, a narrower type), before a
    grouping or join by the slot or within it (`groupBy(F.lower("user"), "slot")`): keys that have become equal have different
    slots (`KeyChanged`). Each is also logged, as a warning, or as an error where results are wrong. Nothing is run: the plan
    is made, as an action would make it. (What has been run is looked at without being asked, see `by_key`.) A shuffle by
    columns that are not all of the key, or by more than key and slot, is not named (another question is asked there), nor is
    one of the results of groups that were found where they are, nor one by a range or to one partition. What was written to a
    table or a checkpoint has the mark of one mapping, whatever was in it: place rows again that are read back. Rows placed
    with `slot=None` have no slot that could be forgotten. Needs a classic session. Of a streaming result its operators with
    state are judged, which must group by exactly the key and the slot (`stream_by_key` does that itself, and refuses).
    """
    check_frame(df)
    require(df.sparkSession, Feature.PLANS, by="check_placement", remedy="Count what instances hold with placed_rows")
    if df.isStreaming:
        found: tuple[ShuffledAgain | KeyChanged | SlotsApart | SlotsUnited, ...] = (
            *dict.fromkeys(_found_streaming(df)),
            *keys_changed(df),
        )
    else:
        plan = executed_plan(df)
        found = tuple(dict.fromkeys((*keys_changed(df), *shuffled_again(plan), *slots_apart(df, plan), *slots_united(df))))
    for it in found:
        _LOG.log(logging.WARNING if isinstance(it, ShuffledAgain) else logging.ERROR, "%s", it)
    return found


def _found_streaming(df: DataFrame) -> Iterator[ShuffledAgain]:
    operators, placed_by = keyed_plan(df)
    for operator in operators:
        use = use_of(operator, keys=len(placed_by) - 1, windowed=False)
        if operator.stateful and use not in (Use.WHOLE, Use.ANOTHER):
            yield ShuffledAgain(operator.names, placed_by)
