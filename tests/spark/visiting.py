"""Streams of visits by users of whom few have most, and what queries write of them: for tests of `stream_by_key`."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from pyspark.sql import functions as F

import evenly
from evenly.keys.dkg import DKG
from evenly.spark.keyed.keys import key_id
from evenly.spark.state.lineage import current_checkpoint

INSTANCES = 4


SCHEMA = "user string, ts timestamp"


BEGIN = 36_000


ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Visits:
    """A folder of rows to stream from, one file at a time, and a folder of what a query has written, one for each batch."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.input, self.output, self.checkpoint = (str(folder / name) for name in ("in", "out", "checkpoint"))
        self.rows = 0
        Path(self.input).mkdir()

    def add(self, rows=3_000, *, files=1, users="cast(pow(200, rand(5)) as int)"):
        """Rows of one second each after those that are there, of users of whom few have most rows."""
        for _ in range(files):
            new = self.spark.range(self.rows, self.rows + rows, numPartitions=1)
            user, ts = f"if(id % 29 = 0, null, concat('u', {users})) as user", f"timestamp_seconds(id + {BEGIN}) as ts"
            new.selectExpr(user, ts).write.mode("append").parquet(self.input)
            self.rows += rows

    def stream(self):
        return self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(self.input)

    def windows(self, delay="10 minutes"):
        return self.stream().withWatermark("ts", delay).withColumn("window", F.window("ts", "10 minutes"))

    def written(self, *keys):
        """The last count of every group."""
        last = self.spark.read.parquet(self.output).groupBy(*keys).agg(F.max("count"))
        return sorted((tuple(row) for row in last.collect()), key=repr)

    def expected(self, *keys):
        rows = self.spark.read.schema(SCHEMA).parquet(self.input).withColumn("window", F.window("ts", "10 minutes"))
        return sorted((tuple(row) for row in rows.groupBy(*keys).count().collect()), key=repr)

    def counts(self, *keys):
        """A pipeline that counts, as `stream_by_key` takes it."""

        def write(batch, number):
            batch.write.mode("overwrite").parquet(f"{self.output}/batch={number}")

        return lambda placed: placed.groupBy(*keys, "slot").count().writeStream.foreachBatch(write).outputMode("update")

    def misplaced(self, mapping, condition="true"):
        """The groups with state that meet a condition, and how many of them are not on their key's instance."""
        state = self.spark.read.format("statestore").load(current_checkpoint(self.spark, self.checkpoint)).where(condition)
        found = state.select(key_id(("key.user",)).alias("id"), "partition_id").collect()
        ids = np.array([row.id for row in found], np.int64).view(np.uint64)
        return len(found), int(np.count_nonzero(mapping.assign_ids(ids) != [row.partition_id for row in found]))

    def run(self, build, **options):
        """All rows that are there, through a query that is then stopped."""
        rows = options.pop("rows", None)
        options = {"key": "user", "instances": INSTANCES, "checkpoint": self.checkpoint, **options}
        query = evenly.stream_by_key(self.stream() if rows is None else rows, build, **options)
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return query


def by_hash():
    return DKG.automatic(INSTANCES, ids="xxhash64").mapping(columns=("user",))


def turned(mapping, by=1):
    """A mapping that has every key on another instance."""
    return replace(
        mapping,
        buckets=((mapping.buckets + by) % INSTANCES).astype(np.int32),
        heavy_instances=((mapping.heavy_instances + by) % INSTANCES).astype(np.int32),
    )
