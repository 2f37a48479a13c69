"""The slot column under every stateful operator of Structured Streaming: Spark's results, and state where the mapping says."""

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from evenly.keys.dkg import DKG
from evenly.keys.mapping import Mapping
from evenly.spark.keyed.keys import key_id
from evenly.spark.placing.placement import Span, with_slot, with_slot_of_window

INSTANCES = 4
BEGIN = 36_000  # a whole hour; not 1970 itself, which Spark takes for late
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(scope="module")
def visits(spark, tmp_path_factory):
    """Rows of skewed users over 50 minutes of event time, in two files of increasing time."""
    folder = str(tmp_path_factory.mktemp("visits") / "rows")
    user = F.expr("if(id % 17 = 0, null, concat('user ', cast(pow(100, rand(7)) as int)))").alias("user")
    ts = F.timestamp_seconds(F.col("id") + BEGIN).alias("ts")
    for part in range(2):
        rows = spark.range(part * 1_500, part * 1_500 + 1_500, numPartitions=1)
        rows.select(user, ts, (F.col("id") % 50).alias("amount")).write.mode("append").parquet(folder)
    return folder


@pytest.fixture(scope="module")
def mapping(spark, visits):
    ids = np.array([row[0] for row in spark.read.parquet(visits).select(key_id(("user",))).collect()], np.int64)
    return DKG.automatic(INSTANCES, ids="xxhash64").fit_ids(ids.view(np.uint64)).mapping(columns=("user",))


@pytest.fixture
def stream(spark, visits):
    return spark.readStream.schema("user string, ts timestamp, amount bigint").option("maxFilesPerTrigger", 1).parquet(visits)


@pytest.fixture
def rocksdb(spark):
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    yield
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


def run(df, folder, *, mode="append"):
    """Everything that a streaming DataFrame gives, and where its state is kept."""
    output, checkpoint = str(folder / "out"), str(folder / "checkpoint")

    def write(batch, number):
        batch.write.mode("overwrite").parquet(f"{output}/batch={number}")

    query = df.writeStream.foreachBatch(write).outputMode(mode).option("checkpointLocation", checkpoint)
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    return query, df.sparkSession.read.parquet(output).drop("batch"), checkpoint


def sorted_rows(df, *columns):
    return sorted((tuple(row) for row in df.select(*columns).collect()), key=repr)


def native(query):
    """Whether no row went through Python on its way to the sink."""
    plan = query._jsq.explainInternal(False)  # noqa: FBT003
    return "Python" not in plan and "Pandas" not in plan and "Arrow" not in plan


def state_of(spark, checkpoint, **options):
    return spark.read.format("statestore").options(**options).load(checkpoint)


def misplaced(state, mapping, user="key.user"):
    """The number of groups with state, and of those that are not on their key's instance."""
    found = state.select(key_id((user,)).alias("id"), "partition_id").collect()
    ids = np.array([row.id for row in found], np.int64).view(np.uint64)
    places = np.array([row.partition_id for row in found])
    return len(found), int(np.count_nonzero(mapping.assign_ids(ids) != places))


def last_of(output, *keys):
    """The last value of a count that only grows."""
    return sorted((tuple(row) for row in output.groupBy(*keys).agg(F.max("count")).collect()), key=repr)


def test_an_aggregation_over_windows_keeps_every_window_of_a_key_on_its_instance(spark, stream, visits, mapping, tmp_path):
    windowed = stream.withWatermark("ts", "5 minutes").withColumn("window", F.window("ts", "10 minutes"))
    placed = with_slot(windowed, mapping, ("user",), "slot", within=("window",))
    query, output, checkpoint = run(placed.groupBy("window", "user", "slot").count(), tmp_path, mode="update")
    expected = spark.read.parquet(visits).groupBy(F.window("ts", "10 minutes").alias("window"), "user").count()
    assert last_of(output, "window", "user") == sorted_rows(expected, "window", "user", "count")
    groups, wrong = misplaced(state_of(spark, checkpoint), mapping)
    assert groups > 50
    assert wrong == 0
    assert native(query)


def test_sliding_windows_are_on_their_instance_too(spark, stream, visits, mapping, tmp_path):
    windowed = stream.withColumn("window", F.window("ts", "10 minutes", "5 minutes"))
    placed = with_slot(windowed, mapping, ("user",), "slot", within=("window",))
    _, output, checkpoint = run(placed.groupBy("window", "user", "slot").count(), tmp_path, mode="update")
    expected = spark.read.parquet(visits).groupBy(F.window("ts", "10 minutes", "5 minutes").alias("window"), "user").count()
    assert last_of(output, "window", "user") == sorted_rows(expected, "window", "user", "count")
    groups, wrong = misplaced(state_of(spark, checkpoint), mapping)
    assert groups > 100
    assert wrong == 0


def test_late_rows_are_dropped_as_spark_drops_them(stream, mapping, tmp_path):
    windowed = stream.withWatermark("ts", "0 minutes").withColumn("window", F.window("ts", "10 minutes"))
    placed = with_slot(windowed, mapping, ("user",), "slot", within=("window",))
    _, ours, _ = run(placed.groupBy("window", "user", "slot").count(), tmp_path / "ours")
    _, theirs, _ = run(windowed.groupBy("window", "user").count(), tmp_path / "theirs")
    columns = ("window", "user", "count")
    assert sorted_rows(ours, *columns) == sorted_rows(theirs, *columns) != []


@pytest.mark.parametrize("zone", ["timestamp", "timestamp_ntz"])
def test_a_window_is_under_the_mapping_of_its_start(spark, stream, visits, mapping, tmp_path, zone):
    other = Mapping(instances=INSTANCES, buckets=(mapping.buckets + 3) % INSTANCES, a=0, b=0, ids="xxhash64", columns=("user",))
    spans = (Span(mapping), Span(other, from_us=(BEGIN + 1_800) * 1_000_000))
    windowed = stream.withColumn("ts", F.col("ts").cast(zone)).withColumn("window", F.window("ts", "10 minutes"))
    placed = with_slot_of_window(windowed, spans, ("user",), "slot", window="window")
    query, output, checkpoint = run(placed.groupBy("window", "user", "slot").count(), tmp_path, mode="update")
    expected = spark.read.parquet(visits).groupBy(F.window("ts", "10 minutes")["start"].alias("start"), "user").count()
    started = output.withColumn("start", F.col("window.start").cast("timestamp"))
    assert last_of(started, "start", "user") == sorted_rows(expected, "start", "user", "count")
    early, late = F.col("key.window.start") < "1970-01-01 10:30:00", F.col("key.window.start") >= "1970-01-01 10:30:00"
    for part, used in ((early, mapping), (late, other)):
        groups, wrong = misplaced(state_of(spark, checkpoint).where(part), used)
        assert groups > 50
        assert wrong == 0
    assert native(query)


@pytest.mark.parametrize("within_watermark", [False, True])
def test_duplicates_are_dropped_on_the_keys_instance(spark, stream, visits, mapping, tmp_path, within_watermark):
    placed = with_slot(stream.withWatermark("ts", "2 hours"), mapping, ("user",), "slot")
    drop = placed.dropDuplicatesWithinWatermark if within_watermark else placed.dropDuplicates
    query, output, checkpoint = run(drop(["user", "slot"]), tmp_path)
    assert sorted_rows(output, "user") == sorted_rows(spark.read.parquet(visits).select("user").distinct(), "user")
    groups, wrong = misplaced(state_of(spark, checkpoint), mapping)
    assert groups == output.count()
    assert wrong == 0
    assert native(query)


def test_duplicates_over_many_columns_keep_their_order_with_the_key_before_the_slot(spark, stream, visits, mapping, tmp_path):
    columns = ["a", "b", "c", "amount"]
    wide = stream.withColumns({"a": F.col("amount") % 2, "b": F.col("amount") % 3, "c": F.lit("c")})
    placed = with_slot(wide, mapping, ("user",), "slot", within=tuple(columns))
    query, output, checkpoint = run(placed.dropDuplicates([*columns, "user", "slot"]), tmp_path)
    expected = spark.read.parquet(visits).select("user", "amount").distinct()
    assert sorted_rows(output, "user", "amount") == sorted_rows(expected, "user", "amount")
    groups, wrong = misplaced(state_of(spark, checkpoint), mapping)
    assert groups == expected.count()
    assert wrong == 0
    assert native(query)


def test_a_join_with_a_static_table_meets_on_the_keys_instance(spark, stream, visits, mapping, tmp_path):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        homes = spark.read.parquet(visits).select("user").distinct().withColumn("home", F.length("user"))
        placed, static = (with_slot(df, mapping, ("user",), "slot") for df in (stream, homes))
        # A stateless query may coalesce its partitions, but not those of a repartition.
        joined = (
            placed.repartition(INSTANCES, "user", "slot")
            .join(static, ["user", "slot"])
            .withColumn("at", F.spark_partition_id())
        )
        query, output, _ = run(joined, tmp_path)
        expected = spark.read.parquet(visits).join(homes, "user")
        assert sorted_rows(output, "user", "ts", "home") == sorted_rows(expected, "user", "ts", "home")
        assert all(mapping.assign([row.user])[0] == row.at for row in output.select("user", "at").distinct().collect())
        assert native(query)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.mark.parametrize("how", ["inner", "leftOuter"])
def test_a_join_of_two_streams_keeps_both_sides_on_the_keys_instance(spark, stream, visits, mapping, tmp_path, how):
    left = with_slot(stream.withWatermark("ts", "1 hour"), mapping, ("user",), "slot")
    right = stream.where("amount < 3").withWatermark("ts", "1 hour").withColumnRenamed("ts", "then").drop("amount")
    right = with_slot(right, mapping, ("user",), "slot")
    soon = (left.user == right.user) & (left.slot == right.slot) & F.expr("then between ts and ts + interval 1 minute")
    joined = left.join(right, soon, how).select(left.user, "ts", "then")
    query, output, checkpoint = run(joined, tmp_path)
    rows = spark.read.parquet(visits)
    then = rows.where("amount < 3").select(F.col("user").alias("who"), F.col("ts").alias("then"))
    expected = rows.join(then, F.expr("user = who and then between ts and ts + interval 1 minute"), "inner")
    found = output.where("then is not null")
    assert sorted_rows(found, "user", "ts", "then") == sorted_rows(expected, "user", "ts", "then") != []
    for side in ("left", "right"):
        groups, wrong = misplaced(state_of(spark, checkpoint, joinSide=side), mapping, "key.field0")
        assert groups > 50
        assert wrong == 0
    assert native(query)


def test_state_of_pandas_functions_is_on_the_keys_instance(spark, stream, visits, mapping, tmp_path):
    def count_in_pandas(key, batches, state):
        total = (state.get[0] if state.exists else 0) + sum(len(batch) for batch in batches)
        state.update((total,))
        yield pd.DataFrame({"user": [key[0]], "count": [total]})

    placed = with_slot(stream, mapping, ("user",), "slot").groupBy("user", "slot")
    counted = placed.applyInPandasWithState(count_in_pandas, "user string, count bigint", "total bigint", "append", "NoTimeout")
    _, output, checkpoint = run(counted, tmp_path)
    assert last_of(output, "user") == sorted_rows(spark.read.parquet(visits).groupBy("user").count(), "user", "count")
    groups, wrong = misplaced(state_of(spark, checkpoint), mapping)
    assert groups > 50
    assert wrong == 0


@pytest.mark.usefixtures("rocksdb")
def test_state_of_stateful_processors_is_on_the_keys_instance(spark, stream, visits, mapping, tmp_path):
    class Counter(StatefulProcessor):
        def init(self, handle):
            self.total = handle.getValueState("total", "total bigint")

        def handleInputRows(self, key, rows, timerValues):  # noqa: ARG002, N802, N803 - Spark's names
            total = (self.total.get()[0] if self.total.exists() else 0) + sum(len(batch) for batch in rows)
            self.total.update((total,))
            yield pd.DataFrame({"user": [key[0]], "count": [total]})

        def close(self):
            pass

    placed = with_slot(stream, mapping, ("user",), "slot").groupBy("user", "slot")
    counted = placed.transformWithStateInPandas(Counter(), "user string, count bigint", "append", "none")
    _, output, checkpoint = run(counted, tmp_path)
    assert last_of(output, "user") == sorted_rows(spark.read.parquet(visits).groupBy("user").count(), "user", "count")
    groups, wrong = misplaced(state_of(spark, checkpoint, stateVarName="total"), mapping)
    assert groups > 50
    assert wrong == 0
