"""State rows per partition, read from checkpoints of every kind of stateful operator."""

from collections import Counter

import pandas as pd
import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from evenly.errors import InvalidCheckpoint, InvalidParameter
from evenly.spark.state.reading import operators, rows_per_partition

INSTANCES = 3
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SCHEMA = "user string, amount bigint"


@pytest.fixture(scope="module", autouse=True)
def settings(spark):
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(INSTANCES))
    yield
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


@pytest.fixture(scope="module")
def rows():
    users = [f"user {number % 41}" for number in range(300)]
    return pd.DataFrame({"user": users, "amount": range(300)})


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    rows.iloc[:200].to_parquet(folder / "0.parquet", index=False)
    rows.iloc[200:].to_parquet(folder / "1.parquet", index=False)
    return str(folder)


@pytest.fixture
def stream(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)


@pytest.fixture
def rocksdb(spark):
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.unset(PROVIDER)


def run(df, checkpoint, mode="append"):
    query = df.writeStream.format("noop").outputMode(mode).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    return str(checkpoint)


@pytest.fixture(scope="module")
def partition_of(spark, rows):
    """The partition where Spark's hash puts a user."""
    users = spark.createDataFrame(rows[["user"]].drop_duplicates())
    return {row[0]: row[1] for row in users.select("user", F.pmod(F.hash("user"), F.lit(INSTANCES))).collect()}


def spread(counts, partition_of):
    """Rows of users, by the partition of each user."""
    found = [0] * INSTANCES
    for user, count in counts.items():
        found[partition_of[user]] += count
    return tuple(found)


def test_an_aggregation_has_a_row_for_each_group(spark, stream, rows, partition_of, tmp_path):
    checkpoint = run(stream.groupBy("user").count(), tmp_path / "checkpoint", "complete")
    (found,) = rows_per_partition(spark, checkpoint)
    assert found.rows == spread(dict.fromkeys(rows["user"], 1), partition_of)
    assert (found.operator, found.name, found.store) == (0, "stateStoreSave", "default")
    assert (found.partitions, found.batch) == (INSTANCES, 1)


@pytest.mark.usefixtures("rocksdb")
def test_each_of_two_operators_is_counted(spark, stream, rows, partition_of, tmp_path):
    distinct = stream.withColumn("kind", F.col("amount") % 7).dropDuplicates(["user", "kind"])
    checkpoint = run(distinct.groupBy("user").count(), tmp_path / "checkpoint", "update")
    assert {it.operator: it.name for it in operators(spark, checkpoint)} == {0: "stateStoreSave", 1: "dedupe"}
    groups, pairs = rows_per_partition(spark, checkpoint)
    assert groups.rows == spread(dict.fromkeys(rows["user"], 1), partition_of)
    assert sum(pairs.rows) == len(set(zip(rows["user"], rows["amount"] % 7, strict=True)))
    assert rows_per_partition(spark, checkpoint, operator=1) == (pairs,)
    with pytest.raises(InvalidParameter, match=r"no stateful operator 2 .* there are 0, 1"):
        rows_per_partition(spark, checkpoint, operator=2)


def test_a_join_has_the_buffered_rows_of_each_side_once(spark, stream, rows, partition_of, tmp_path):
    left = stream.where("amount % 2 = 0")
    right = stream.where("amount % 3 = 0").select("user", F.col("amount").alias("other"))
    checkpoint = run(left.join(right, "user"), tmp_path / "checkpoint")
    found = {it.store: it.rows for it in rows_per_partition(spark, checkpoint)}
    assert found == {
        "left": spread(Counter(rows["user"][rows["amount"] % 2 == 0]), partition_of),
        "right": spread(Counter(rows["user"][rows["amount"] % 3 == 0]), partition_of),
    }


def test_grouped_state_of_a_python_function_has_a_row_for_each_group(spark, stream, rows, partition_of, tmp_path):
    def count(key, frames, state):
        state.update((sum(len(frame) for frame in frames),))
        yield pd.DataFrame({"user": [key[0]]})

    df = stream.groupBy("user").applyInPandasWithState(count, "user string", "rows bigint", "update", "NoTimeout")
    (found,) = rows_per_partition(spark, run(df, tmp_path / "checkpoint", "update"))
    assert found.name == "applyInPandasWithState"
    assert found.rows == spread(dict.fromkeys(rows["user"], 1), partition_of)


@pytest.mark.usefixtures("rocksdb")
def test_each_state_variable_is_counted(spark, stream, rows, partition_of, tmp_path):
    class Keeping(StatefulProcessor):  # here, so that it is sent to Python by value
        def init(self, handle):
            self.rows = handle.getValueState("rows", "rows bigint")
            self.amounts = handle.getListState("amounts", "amount bigint")
            self.kinds = handle.getMapState("kinds", "kind bigint", "rows bigint")

        def handleInputRows(self, key, rows, timerValues):  # noqa: ARG002, N802, N803 - Spark's names
            for frame in rows:
                self.rows.update((len(frame),))
                self.amounts.appendList([(int(amount),) for amount in frame["amount"]])
                for amount in frame["amount"]:
                    self.kinds.updateValue((int(amount) % 3,), (1,))
            yield pd.DataFrame({"user": [key[0]]})

    df = stream.groupBy("user").transformWithStateInPandas(Keeping(), "user string", "update", "None")
    checkpoint = run(df, tmp_path / "checkpoint", "update")
    found = {it.store: it.rows for it in rows_per_partition(spark, checkpoint)}
    kinds = Counter(user for user, _ in set(zip(rows["user"], rows["amount"] % 3, strict=True)))
    assert found == {
        "rows": spread(dict.fromkeys(rows["user"], 1), partition_of),
        "amounts": spread(Counter(rows["user"]), partition_of),
        "kinds": spread(kinds, partition_of),
    }
    (operator,) = operators(spark, checkpoint)
    assert set(operator.stores) == {"rows", "amounts", "kinds"}


def test_what_has_no_state_says_why(spark, stream, folder, tmp_path):
    with pytest.raises(InvalidCheckpoint, match="is not the checkpoint of a streaming query"):
        operators(spark, folder)
    with pytest.raises(InvalidCheckpoint, match="is not the checkpoint of a streaming query"):
        rows_per_partition(spark, tmp_path / "missing")
    stateless = run(stream.select("user"), tmp_path / "stateless")
    with pytest.raises(InvalidCheckpoint, match="keeps no state"):
        operators(spark, stateless)
    for commit in (tmp_path / "stateless" / "commits").iterdir():
        commit.unlink()
    with pytest.raises(InvalidCheckpoint, match="has not finished a batch yet"):
        rows_per_partition(spark, stateless)
