"""What is counted beside a query, against exact counts."""

import numpy as np
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F

from evenly.grouping.keys import DKG
from evenly.spark.keys import key_id
from evenly.spark.streaming.observing import Counted

ROWS = 60_000


@pytest.mark.parametrize("instances", [3, 8])
def test_buckets_are_counted_exactly_and_heavy_keys_nearly(spark, instances):
    """As many keys as rows in one half, so that counters must be given up all the time; heavy keys in the other."""
    learner = DKG.automatic(instances, ids="xxhash64")
    counted, observation = Counted(learner), Observation()
    key = F.when(F.col("id") % 2 == 0, F.col("id") % 97 % 50).otherwise(F.col("id") + 1_000)
    rows = spark.range(ROWS, numPartitions=3).select(key.alias("key")).withColumn("id", key_id(("key",)))
    found = rows.observe(observation, *counted.columns(F.col("id"))).select("id").toPandas()["id"]
    counts = counted.read([observation.get])

    ids = found.to_numpy().view(np.uint64)
    assert np.array_equal(counts.buckets, np.bincount(learner.buckets_of(ids), minlength=learner.bucket_count))
    assert len(set(counts.ids.tolist())) == counts.ids.size <= learner.counters
    known = dict(zip(counts.ids.tolist(), counts.counts.tolist(), strict=True))
    keys, exact = np.unique(ids, return_counts=True)
    heavy = exact > learner.theta * ROWS
    assert heavy.sum() > 40
    for identity, count in zip(keys[heavy].tolist(), exact[heavy].tolist(), strict=True):
        assert count <= known[identity] <= count + learner.epsilon * ROWS
    assert DKG.automatic(instances, ids="xxhash64").fit_counts(counts).total == ROWS


def test_a_batch_without_rows_counts_nothing(spark):
    learner = DKG.automatic(4, ids="xxhash64")
    counted, observation = Counted(learner), Observation()
    rows = spark.range(0).select(key_id(("id",)).alias("id"))
    rows.observe(observation, *counted.columns(F.col("id"))).collect()
    counts = counted.read([observation.get])
    assert counts.buckets.sum() == counts.ids.size == counts.counts.size == 0
