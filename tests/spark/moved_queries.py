"""Streaming queries whose mapping may change between runs, and the same in plain Spark."""

import os
import shutil

import numpy as np
import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from evenly.spark.keyed.keys import key_id
from evenly.spark.placing.placement import with_slot
from evenly.spark.state.lineage import current_checkpoint
from evenly.spark.state.reading import JOIN, operators, read_state

ROWS = 250
SCHEMA = "user string, moment bigint, amount bigint"


class Query:
    """A streaming query whose input arrives in files and whose mapping may change between runs."""

    def __init__(self, spark, files, folder, build, mode):
        self.spark, self.files, self.build, self.mode = spark, files, build, mode
        self.input, self.output, self.checkpoint = (folder / name for name in ("in", "out", "checkpoint"))
        self.input.mkdir(parents=True)

    def run(self, mapping, *parts, failing=None):
        for part in parts:
            copy = shutil.copy(self.files / f"{part}.parquet", self.input)
            os.utime(copy, (part, part))  # Spark reads files in the order of their times
        rows = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.input))
        df = self.build(with_slot(rows, mapping, ("user",), "slot"), ["user", "slot"])

        def write(batch, number):
            batch.write.mode("overwrite").parquet(str(self.output / f"batch={number}"))
            if number == failing:
                raise RuntimeError("the sink failed")

        query = df.writeStream.foreachBatch(write).outputMode(self.mode).option("checkpointLocation", self.current)
        query.trigger(availableNow=True).start().awaitTermination()

    @property
    def current(self):
        """The folder that Spark knows as the checkpoint."""
        return current_checkpoint(self.spark, self.checkpoint)

    def answers(self):
        """What the sink holds: all rows, or the last of each user where rows replace earlier ones."""
        df = self.spark.read.parquet(str(self.output))
        if self.mode == "update":
            df = df.withColumn("last", F.max("batch").over(_of_user())).where("batch = last").drop("last")
        return rows_of(df.drop("batch", "slot"))

    def plain(self, *parts):
        """The answers of Spark without slots and without streams."""
        rows = self.spark.read.schema(SCHEMA).parquet(*(str(self.files / f"{part}.parquet") for part in parts))
        return rows_of(self.build(rows.withColumn("slot", F.lit(0)), ["user"]).drop("slot"))

    def groups(self):
        """For every key with state the slot and the partition that it is under."""
        path = str(self.checkpoint)
        found = set()
        for operator in operators(self.spark, path):
            for store in operator.stores:
                state = read_state(self.spark, path, operator, store)
                names = state.schema["key"].dataType.names
                if "slot" not in names and operator.name != JOIN:
                    continue
                columns = [F.col(f"key.{name}") for name in names[:2]]
                found.update(state.select(key_id((f"key.{names[0]}",)), *columns, "partition_id").distinct().collect())
        return found


def _of_user():
    from pyspark.sql import Window

    return Window.partitionBy("user")


def rows_of(df):
    return sorted((tuple(row) for row in df.select(*sorted(df.columns)).collect()), key=repr)


def on_its_instance(groups, mapping):
    """Whether every key is under one slot, on the instance that the mapping names."""
    ids = np.array([group[0] for group in groups], np.int64).view(np.uint64)
    return len(np.unique(ids)) == len(groups) and np.array_equal(mapping.assign_ids(ids), [group[3] for group in groups])


def aggregated(df, keys):
    return df.groupBy(*keys).agg(
        F.count("*").alias("rows"),
        F.sum("amount").alias("sum"),
        F.avg("amount").alias("mean"),
        F.array_sort(F.collect_list("moment")).alias("moments"),
    )


def deduplicated(df, keys):
    return df.dropDuplicates(keys).select("user")


def counted(df, keys):
    if not df.isStreaming:
        return df.groupBy(*keys).agg(F.count("*").alias("rows"))

    def count(key, frames, state):
        total = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
        state.update((total,))
        yield pd.DataFrame({"user": [key[0]], "rows": [total]})

    return df.groupBy(*keys).applyInPandasWithState(count, "user string, rows bigint", "rows bigint", "update", "NoTimeout")


RESULT = "user string, rows bigint, moments string, amounts string, timers string"
LATER_MS = 10**14  # of event time and of the clock
LIFE_MS = 10**12


COLUMNS = ["user", "rows", "moments", "amounts", "timers"]


def remembering(life_ms=None):
    """A processor that keeps a value, a list, a map and timers for each user. Made here, to be sent to Python by value."""

    class Remembering(StatefulProcessor):
        def init(self, handle):
            self.handle = handle
            self.rows = handle.getValueState("rows", "rows bigint", life_ms)
            self.moments = handle.getListState("moments", "moment bigint", life_ms)
            self.amounts = handle.getMapState("amounts", "amount bigint", "rows bigint", life_ms)

        def handleInputRows(self, key, rows, timerValues):  # noqa: ARG002, N802, N803 - Spark's names
            for frame in rows:
                self.rows.update(((self.rows.get()[0] if self.rows.exists() else 0) + len(frame),))
                self.moments.appendList([(int(moment),) for moment in sorted(frame["moment"])])
                self.handle.registerTimer(LATER_MS + int(frame["moment"].iloc[0]) // ROWS)
                for amount, part in frame.groupby("amount"):
                    name = (int(amount),)
                    before = self.amounts.getValue(name)[0] if self.amounts.containsKey(name) else 0
                    self.amounts.updateValue(name, (before + len(part),))
            amounts = sorted((amount[0], count[0]) for amount, count in self.amounts.iterator())
            moments, timers = [moment[0] for moment in self.moments.get()], sorted(self.handle.listTimers())
            yield pd.DataFrame([[key[0], self.rows.get()[0], str(moments), str(amounts), str(timers)]], columns=COLUMNS)

    return Remembering()


def remembered(df, keys):
    if df.isStreaming:
        timed = df.withColumn("ts", F.timestamp_seconds(F.col("moment") + 86_400)).withWatermark("ts", "1 hour")
        return timed.groupBy(*keys).transformWithStateInPandas(remembering(), RESULT, "update", "EventTime")

    def all_at_once(key, rows):
        amounts = sorted((int(amount), len(part)) for amount, part in rows.groupby("amount"))
        moments = sorted(int(moment) for moment in rows["moment"])
        timers = sorted({LATER_MS + moment // ROWS for moment in moments})
        return pd.DataFrame([[key[0], len(rows), str(moments), str(amounts), str(timers)]], columns=COLUMNS)

    return df.groupBy(*keys).applyInPandas(all_at_once, RESULT)


def expiring(df, keys):
    """The same with a time to live, by which Spark keeps each value once more: under the time of its end and the key."""
    if df.isStreaming:
        return df.groupBy(*keys).transformWithStateInPandas(remembering(LIFE_MS), RESULT, "update", "ProcessingTime")
    return remembered(df, keys)


def joined(df, keys):
    left = df.where("amount % 5 = 0").select(*keys, "moment")
    right = df.where("amount % 5 = 1").select(*keys, F.col("moment").alias("other"))
    return left.join(right, keys)


def two_operators(df, keys):
    """An operator that is not grouped by the slot, then one that is."""
    distinct = df.withColumn("kind", F.col("amount") % 3).dropDuplicates(["kind", "user"])
    return distinct.groupBy(*keys).agg(F.count("*").alias("kinds"))


OPERATORS = {
    "aggregation": (aggregated, "update"),
    "deduplication": (deduplicated, "append"),
    "applyInPandasWithState": (counted, "update"),
    "transformWithState": (remembered, "update"),
    "transformWithState with times to live": (expiring, "update"),
    "join": (joined, "append"),
    "two operators": (two_operators, "update"),
}
