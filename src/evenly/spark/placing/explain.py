"""How the rows of any DataFrame will be spread over instances, and why, read from the plan that Spark would run."""

from __future__ import annotations

from pyspark.sql import DataFrame

from evenly.diagnosis.spread import Explanation
from evenly.errors import StreamingMismatch
from evenly.spark.features import Feature, require
from evenly.spark.frames import check_frame
from evenly.spark.jvm.changed_keys import keys_changed
from evenly.spark.jvm.plan_shuffles import planned_shuffles
from evenly.spark.jvm.shuffled_again import executed_plan, shuffled_again
from evenly.spark.jvm.slots_apart import slots_apart
from evenly.spark.jvm.slots_united import slots_united


def explain(df: DataFrame) -> Explanation:
    """Say how the rows of `df` will be spread over instances, and why: its shuffles, which of them is Evenly's, what undoes it.

        print(evenly.explain(placed.groupBy("user").applyInPandas(score, schema)))
        # 1. by (user, slot), to 16 partitions, placed by Evenly: about as many rows on each, or ...
        # 2. by Spark's hash of (user), to 200 partitions, for FlatMapGroupsInPandas: all rows of a key are on one instance, ...
        # forgotten slot: rows that were placed by (user, slot) are shuffled again by (user), ...

    Works for any batch DataFrame, with or without Evenly, and runs nothing: the plan is made, as an action would make it.
    Adaptive execution may change it while it runs (merge small partitions, copy a side of a join that turns out to be small);
    of a DataFrame that has been run Spark plans anew. What is cached is looked into. Needs a classic session.
    """
    check_frame(df)
    require(df.sparkSession, Feature.PLANS, by="explain", remedy="Count what instances hold with placed_rows")
    if df.isStreaming:
        raise StreamingMismatch(
            "explain reads the plan of a batch: of a stream check_placement judges the stateful operators, before it starts"
        )
    plan = executed_plan(df)
    again = tuple(map(str, shuffled_again(plan)))
    wrong = dict.fromkeys((*keys_changed(df), *slots_apart(df, plan), *slots_united(df)))
    return Explanation(planned_shuffles(df, plan), again, tuple(map(str, wrong)))
