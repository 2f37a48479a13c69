"""Streams of visits by users of whom few have most, and what queries write of them: for tests of `stream_by_key`."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from arriving import arrive, held
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

    def add(self, rows=3_000, *, files=1, users=None):
        """Rows of one second each after those that are there, of users of whom few have most rows."""
        for _ in range(files):
            ids = np.arange(self.rows, self.rows + rows)
            known = ids[ids % 29 != 0]
            drawn = _skewed(self.spark)[: known.size] if users is None else users(known)
            user = np.full(rows, None)
            user[known - self.rows] = [f"u{one}" for one in drawn]
            ts = pa.array((ids + BEGIN) * 1_000_000, pa.timestamp("us", "UTC"))
            arrive(self.input, pa.table({"user": pa.array(user, pa.string()), "ts": ts}))
            self.rows += rows

    def stream(self):
        return self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(self.input)

    def windows(self, delay="10 minutes"):
        return self.stream().withWatermark("ts", delay).withColumn("window", F.window("ts", "10 minutes"))

    def written(self, *keys):
        """The last count of every group."""
        last = {}
        for row in held(self.output).select([*keys, "count"]).to_pylist():
            group = tuple(_window(row[key]["start"], row[key]["end"]) if key == "window" else row[key] for key in keys)
            last[group] = max(last.get(group, 0), row["count"])
        return last

    def expected(self, *keys):
        rows = held(self.input)
        seconds = rows["ts"].cast(pa.int64()).to_numpy() // 1_000_000
        columns = {"user": rows["user"].to_pylist(), "window": [_window_of(int(second)) for second in seconds]}
        return dict(Counter(zip(*(columns[key] for key in keys), strict=True)))

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


@cache
def _skewed(spark):
    """Whose rows they are, one after the other: few users have most."""
    return [row[0] for row in spark.range(10_000, numPartitions=1).selectExpr("cast(pow(200, rand(5)) as int)").collect()]


def _window(start, end):
    """Times of Parquet, which are of UTC whether or not they say so."""
    return tuple(moment.replace(tzinfo=None).isoformat() for moment in (start, end))


def _window_of(second):
    start = second // 600 * 600
    return _window(*(datetime.fromtimestamp(moment, UTC) for moment in (start, start + 600)))


def by_hash():
    return DKG.automatic(INSTANCES, ids="xxhash64").mapping(columns=("user",))


def turned(mapping, by=1):
    """A mapping that has every key on another instance."""
    return replace(
        mapping,
        buckets=((mapping.buckets + by) % INSTANCES).astype(np.int32),
        heavy_instances=((mapping.heavy_instances + by) % INSTANCES).astype(np.int32),
    )
