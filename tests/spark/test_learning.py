"""Mappings learnt on Spark."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.keys.dkg import DKG
from evenly.measures import imbalance_pct, instance_loads
from evenly.spark.keyed import learning
from evenly.spark.keyed.learning import sample_reserve
from evenly.streams import zipf


@pytest.fixture(scope="module")
def skewed(spark):
    keys = zipf(1.0, 2_000).draw(200_000, seed=5)
    return spark.createDataFrame(pa.table({"key": keys})).repartition(6).persist()


def rows_on_instances(df, instances):
    found = df.groupBy(F.spark_partition_id().alias("at")).count().collect()
    loads = np.zeros(instances)
    for row in found:
        loads[row.at] = row["count"]
    return loads


def test_learning_on_spark_equals_learning_in_python_when_every_row_is_read(skewed):
    ids = skewed.select(F.xxhash64("key")).toArrow().column(0).to_numpy().view(np.uint64)
    expected = DKG.automatic(8, ids="xxhash64").fit_ids(ids).mapping(8)
    learnt = evenly.learn_mapping(skewed, key="key", instances=8, tolerance_pct=None)
    assert learnt.fitted_loads.sum() == ids.size
    assert learnt.fitted_imbalance_pct == pytest.approx(expected.fitted_imbalance_pct, abs=0.5)


def test_a_learnt_mapping_balances_what_the_hash_does_not(skewed):
    by_hash = imbalance_pct(rows_on_instances(skewed.repartition(8, "key"), 8))
    placed = skewed.transform(evenly.by_key, key="key", instances=8)
    assert by_hash > 20.0
    assert imbalance_pct(rows_on_instances(placed, 8)) < 2.0


def test_a_sample_of_a_large_partition_estimates_every_load_without_bias(spark):
    rows = 3_000_000
    df = spark.range(0, rows, numPartitions=1).select((F.col("id") % 10).alias("key"))
    learnt = evenly.learn_mapping(df, key="key", instances=2, tolerance_pct=5.0)
    assert learnt.heavy_weights.sum() == pytest.approx(rows, rel=0.03)
    assert np.allclose(learnt.heavy_weights, rows / 10, rtol=0.1)


def test_new_rows_are_in_the_range_that_held_back_rows_tell(spark, skewed):
    learnt = evenly.learn_mapping(skewed, key="key", instances=8)
    new = zipf(1.0, 2_000).draw(200_000, seed=5)[::-1][:50_000].copy()
    low, high = learnt.expected_range_pct
    ids = spark.createDataFrame(pa.table({"key": new})).select(F.xxhash64("key")).toArrow().column(0).to_numpy()
    assert low <= imbalance_pct(instance_loads(learnt.assign_ids(ids.view(np.uint64)), 8)) <= high < 10.0


def test_keys_that_change_along_the_rows_are_not_promised_to_stay_even(spark):
    """One partition, so that the order is that of its rows; and two that are each of one kind."""
    for partitions in (1, 2):
        keys = F.when(F.col("id") < 20_000, F.pmod(F.xxhash64("id"), F.lit(200))).otherwise(
            F.pmod(F.xxhash64("id"), F.lit(230)) + 500
        )
        learnt = evenly.learn_mapping(spark.range(0, 40_000, 1, partitions).select(keys.alias("key")), key="key", instances=8)
        assert learnt.fitted_imbalance_pct < 5.0
        assert learnt.expected_range_pct[1] > 15.0


@pytest.mark.parametrize("partitions", [1, 3, 40])
def test_partitions_share_one_sample_that_estimates_without_bias(spark, monkeypatch, partitions):
    monkeypatch.setattr(learning, "_ALL_TAKEN", 0)
    keys = F.pmod(F.xxhash64("id"), F.lit(10)).alias("key")
    ids = spark.range(0, 200_000, 1, partitions).select(F.xxhash64(keys).alias("id"))
    sums = [learning._counted(learning._by_bucket(learning._weighted(ids, 1_000, seed), 512)) for seed in range(4)]
    totals = [one.weights[:, 0].sum() for one in sums]
    assert np.mean(totals) == pytest.approx(200_000, rel=0.02)
    taken = [one.weights[:, 0].sum() ** 2 / one.squares for one in sums]  # so many rows say as much
    assert 1_000 < np.mean(taken) < 6_000
    read = learning._weighted(ids, 1_000, 0).count()
    assert read < {1: 8_000, 3: 13_000, 40: 40_000}[partitions]


def test_nothing_runs_in_python_on_the_executors(skewed):
    buckets = learning._by_bucket(learning._weighted(skewed.select(F.xxhash64("key").alias("id")), 1_000, 0), 512)
    plan = buckets._jdf.queryExecution().executedPlan().toString()
    assert "HashAggregate" in plan
    assert not any(word in plan for word in ("Python", "Arrow", "SortAggregate", "ObjectHashAggregate"))


def test_null_is_a_key_and_its_weight_is_known(spark):
    df = spark.range(0, 1_000, 1, 2).selectExpr("if(id % 2 = 0, null, id % 7) as key")
    learnt = evenly.learn_mapping(df, key="key", instances=4)
    assert learnt.heavy_weights.max() == 500.0
    assert learnt.fitted_loads.sum() == 1_000.0


def test_an_input_that_differs_when_it_is_computed_again_is_computed_once(spark):
    seen = spark.sparkContext.accumulator(0)

    def noted(batches):
        seen.add(1)
        yield from batches

    df = spark.range(0, 1_000, 1, 3).mapInArrow(noted, "id bigint").select((F.rand() * 50).cast("int").alias("key"))
    assert evenly.learn_mapping(df, key="key", instances=4).fitted_loads.sum() == 1_000.0
    assert seen.value == 3


def test_learning_twice_gives_the_same_mapping(skewed):
    first = evenly.learn_mapping(skewed, key="key", instances=8, seed=3)
    assert evenly.learn_mapping(skewed, key="key", instances=8, seed=3) == first


def test_a_finer_tolerance_or_more_instances_need_a_larger_sample():
    assert sample_reserve(16, 1.0) > sample_reserve(16, 2.0)
    assert sample_reserve(64, 2.0) > sample_reserve(16, 2.0)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, float("nan"), float("inf")])
def test_a_tolerance_out_of_range_is_refused(skewed, tolerance):
    with pytest.raises(InvalidParameter, match=str(tolerance)):
        evenly.learn_mapping(skewed, key="key", instances=8, tolerance_pct=tolerance)


def test_a_stream_cannot_be_learnt_from_directly(spark):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(StreamingMismatch, match="batch of earlier rows"):
        evenly.learn_mapping(stream, key="value", instances=4)
