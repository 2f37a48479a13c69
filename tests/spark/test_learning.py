"""Mappings learnt on Spark."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import evenly
from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.keys.dkg import DKG
from evenly.keys.sampling import Sampling
from evenly.measures import imbalance_pct, instance_loads
from evenly.spark.jvm.sizes import rows_known
from evenly.spark.keyed import learning
from evenly.streams import zipf


@pytest.fixture(scope="module")
def skewed(spark):
    keys = zipf(1.0, 2_000).draw(200_000, seed=5)
    return spark.createDataFrame(pa.table({"key": keys})).repartition(6).persist()


def by_bucket(ids, sampling, seed=0):
    return learning._by_bucket(learning._taken(ids, sampling, seed), sampling, 512, seed)


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
    sampling = Sampling(2_000)
    sums = [learning._counted(by_bucket(ids, sampling, seed)) for seed in range(4)]
    totals = [one.weights[:, 0].sum() for one in sums]
    assert np.mean(totals) == pytest.approx(200_000, rel=0.02)
    taken = [one.weights[:, 0].sum() ** 2 / one.squares for one in sums]  # so many rows say as much
    assert 1_000 < np.mean(taken) < 6_000
    read = learning._taken(ids, sampling, 0).count()
    assert read < {1: 8_000, 3: 13_000, 40: 40_000}[partitions]


def test_where_the_number_of_rows_is_known_no_more_are_read_than_wanted(spark):
    ids = spark.range(0, 200_000, 1, 8).select(F.xxhash64(F.col("id") % 10).alias("id"))
    sampling = Sampling(20_000, *rows_known(ids))
    assert learning._taken(ids, sampling, 0).count() == pytest.approx(20_000, rel=0.05)
    weights = learning._counted(by_bucket(ids, sampling)).own_weights[:, 0]
    assert weights == pytest.approx(np.full(10, 20_000.0), rel=0.1)


def test_rows_in_memory_are_counted_before_they_are_read(spark, skewed):
    skewed.count()
    again = skewed.select("key").where("key < 5")
    assert rows_known(skewed.select(F.xxhash64("key"))) == (200_000, True)
    assert rows_known(again) == (200_000, False)
    assert rows_known(spark.createDataFrame(pa.table({"key": [1, 2, 3]}))) == (3, True)


def test_rows_that_nothing_has_counted_are_of_no_known_number(spark, skewed, tmp_path):
    skewed.limit(5).write.parquet(str(tmp_path / "rows"))
    read = spark.read.parquet(str(tmp_path / "rows"))
    exploded = skewed.select(F.explode(F.array("key")))
    for df in (read, skewed.union(skewed), skewed.groupBy("key").count(), exploded):
        assert rows_known(df) == (None, False)
    kept_but_not_yet_read = read.cache()
    assert rows_known(kept_but_not_yet_read.select("key")) == (None, False)
    kept_but_not_yet_read.unpersist()


@pytest.mark.parametrize("weight", [None, "1 + key % 2"])
def test_a_number_of_rows_that_is_much_too_large_is_no_reason_to_learn_from_few(skewed, weight, monkeypatch):
    def learnt():
        return evenly.learn_mapping(skewed, key="key", instances=8, weight=None if weight is None else F.expr(weight))

    def uncounted(_):
        return None, False

    monkeypatch.setattr(learning, "rows_known", lambda _: (10**9, True))  # as Spark counts again what it has lost and made anew
    found = learnt()
    monkeypatch.setattr(learning, "rows_known", uncounted)
    assert found == learnt()


def test_a_small_input_is_counted_whole_in_however_many_partitions(spark):
    keys = zipf(1.0, 2_000).draw(100_000, seed=6)
    df = spark.createDataFrame(pa.table({"key": keys})).repartition(3).persist()
    df.count()
    for rows in (df, df.where("key >= 0")):
        learnt = evenly.learn_mapping(rows, key="key", instances=8)
        assert learnt.fitted_loads.tolist() == rows_on_instances(evenly.by_key(df, key="key", mapping=learnt), 8).tolist()
    df.unpersist()


@pytest.mark.parametrize(("sampling", "shuffles"), [(Sampling(2_000), 1), (Sampling(2_000, 900), 1), (Sampling(None), 2)])
def test_nothing_runs_in_python_on_the_executors_and_a_sample_is_shuffled_once(spark, sampling, shuffles):
    ids = spark.range(100).select(F.xxhash64("id").alias("id"))
    plan = by_bucket(ids, sampling)._jdf.queryExecution().executedPlan().toString()
    assert "HashAggregate" in plan
    assert not any(word in plan for word in ("Python", "Arrow", "SortAggregate", "ObjectHashAggregate"))
    assert plan.count("Exchange ") == shuffles


@pytest.mark.parametrize("exactly", [True, False])
def test_a_sample_that_is_known_to_be_small_counts_the_same_without_aggregates(spark, exactly):
    ids = spark.range(0, 60_000, 1, 3).selectExpr("xxhash64(if(id % 3 = 0, 7, id % 900)) as id")
    sampling = Sampling(20_000, 60_000, exactly=True) if exactly else Sampling(70_000, 60_000)
    taken = learning._taken(ids, sampling, 0)
    here = learning._counted_here(taken, sampling, 512, 0, ordered=True)
    there = learning._counted(learning._by_bucket(taken, sampling, 512, 0))
    assert (here.squares, here.octaves, here.rows) == (there.squares, there.octaves, there.rows)
    for name in ("fine", "weights", "ids"):
        assert getattr(here, name).tolist() == getattr(there, name).tolist()
    assert here.own_weights == pytest.approx(there.own_weights, rel=1e-3)


def test_a_frame_in_memory_is_learnt_by_one_job_of_one_stage(spark, skewed):
    skewed.count()
    spark.sparkContext.setJobGroup("learning once", "")
    evenly.learn_mapping(skewed, key="key", instances=8)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    told = spark.sparkContext.statusTracker()
    (job,) = told.getJobIdsForGroup("learning once")
    info = told.getJobInfo(job)
    assert info is not None
    assert sum(stage.numCompletedTasks > 0 for stage in map(told.getStageInfo, info.stageIds) if stage is not None) == 1


def test_a_sample_that_may_be_large_is_never_read_row_by_row(spark, skewed, monkeypatch):
    """Rows of unknown number, more of them than 8 MB hold, and weights, of which any number may be none."""
    skewed.count()
    monkeypatch.setattr(learning, "_counted_here", lambda *_, **__: pytest.fail("rows were read"))
    evenly.learn_mapping(skewed.union(skewed), key="key", instances=8)
    evenly.learn_mapping(spark.range(600_000), key="id", instances=8, tolerance_pct=None)
    evenly.learn_mapping(skewed, key="key", instances=8, weight=F.expr("1 + key % 2"))


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


@pytest.mark.parametrize("tolerance", [0.0, -1.0, float("nan"), float("inf")])
def test_a_tolerance_out_of_range_is_refused(skewed, tolerance):
    with pytest.raises(InvalidParameter, match=str(tolerance)):
        evenly.learn_mapping(skewed, key="key", instances=8, tolerance_pct=tolerance)


def test_a_stream_cannot_be_learnt_from_directly(spark):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(StreamingMismatch, match="batch of earlier rows"):
        evenly.learn_mapping(stream, key="value", instances=4)


def test_it_learns_where_spark_leaves_out_what_rows_are_grouped_by(spark):
    rows = spark.range(60).selectExpr("id % 5 as key", "1.5 as load")
    told = [evenly.learn_mapping(rows, key="key", instances=2, weight=weight).to_json() for weight in (None, "load")]
    by_time = {"balance": "time", "watch": evenly.TimeWatch(), "instances": 2}
    spark.conf.set("spark.sql.retainGroupColumns", "false")
    try:
        again = [evenly.learn_mapping(rows, key="key", instances=2, weight=weight).to_json() for weight in (None, "load")]
        timed = evenly.apply_by_key(rows, lambda group: group[["key"]], "key long", key="key", **by_time).count()
        assert (again, timed) == (told, 60)
        assert evenly.diagnose_keys(rows, key="key", instances=2).distinct_keys == 5
        assert evenly.placed_rows(rows, instances=2).rows == (30, 30)
    finally:
        spark.conf.unset("spark.sql.retainGroupColumns")
