"""What is counted beside a query, against exact counts."""

import json

import numpy as np
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as F

from evenly.keys.dkg import DKG
from evenly.keys.told import with_the_rest
from evenly.measures import imbalance_pct, instance_loads
from evenly.spark.keyed.keys import key_id
from evenly.spark.streaming.observing import Counted
from evenly.spark.streaming.observing import Observation as Beside

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


@pytest.fixture(scope="module")
def skewed(spark):
    """Rows of which every third has one of 97 keys, of falling weight; the others' keys are all different."""
    heavy = F.floor(F.pow(F.lit(97), (F.col("id") % 7_919) / 7_919))
    key = F.when(F.col("id") % 3 == 0, heavy).otherwise(F.col("id") + 1_000)
    return spark.range(ROWS, numPartitions=2).select(key.alias("key")).select(key_id(("key",)).alias("id")).persist()


@pytest.mark.parametrize(("instances", "sides"), [(2, 1), (8, 1), (8, 2), (64, 1), (64, 3), (1_000, 1), (4_000, 2)])
def test_what_is_told_beside_a_query_is_short_whatever_the_instances_and_exact_where_it_is_heavy(skewed, instances, sides):
    learner = DKG.automatic(instances, ids="xxhash64")
    beside = Beside("told", instances=instances, learner=learner, sides=sides)
    instance = F.pmod("id", F.lit(instances)).cast("int")
    columns = beside.columns(instance, F.col("id"), F.pmod("id", F.lit(3)) == 0)
    told = skewed.agg(*columns).first()
    assert len(json.dumps(told.asDict())) < (7_200 - 700 * (sides - 1)) / sides + 200

    rows, load = beside.read({"told_0": told, "another_0": told})
    ids = skewed.toArrow()["id"].to_numpy()
    exact = instance_loads(ids % instances, instances)
    assert rows.sum() == ROWS
    assert imbalance_pct(rows) == pytest.approx(imbalance_pct(exact))
    heavy = exact >= 0.0 if instances <= 128 // sides else exact > np.sort(exact)[-128 // sides]  # of equals some are told
    assert np.array_equal(rows[heavy], exact[heavy])
    newest = instance_loads((ids % instances)[ids % 3 == 0], instances)
    assert (load.rows.sum(), load.rows.max()) == (newest.sum(), newest.max())

    known = dict(zip(load.keys.ids.tolist(), load.keys.counts.tolist(), strict=True))
    keys, counts = np.unique(ids.view(np.uint64), return_counts=True)
    for identity, count in zip(keys[counts > ROWS // 200].tolist(), counts[counts > ROWS // 200].tolist(), strict=True):
        assert known[identity] == pytest.approx(count, rel=0.01)
    assert load.keys.buckets.sum() == pytest.approx(ROWS, rel=0.05)
    if instances == 8 and sides == 1:
        buckets = np.bincount(learner.buckets_of(ids.view(np.uint64)), minlength=learner.bucket_count)
        assert load.keys.buckets == pytest.approx(buckets, rel=0.005)


def test_what_is_not_told_is_spread_in_whole_rows():
    filled = with_the_rest(np.array([3]), np.array([10.0]), 15.0, 4)
    assert filled.tolist() == [2.0, 2.0, 1.0, 10.0]
