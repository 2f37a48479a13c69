"""A driver that counts visits with `stream_by_key` and is killed at a named step: the program of test_streaming_kill.py.

python killed_driver.py FOLDER (window|moved|states) STEP

It takes the files of FOLDER/staged one by one, changes the mapping after the first, and goes on. At STEP it and all that it has
started are killed; at the step "none" it ends by itself and prints what its state looks like.
"""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from pyspark.sql import functions as F

import evenly
from evenly.keys.dkg import DKG
from evenly.spark.keyed.keys import key_id
from evenly.spark.session import local_session
from evenly.spark.state import migration as state_migration
from evenly.spark.state.lineage import current_checkpoint
from evenly.spark.streaming import mapping_store

INSTANCES = 4
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def main(folder: Path, kind: str, fatal: str) -> None:
    def reached(step):
        if step == fatal:
            sys.stdout.write(f"killed at {step}\n")
            sys.stdout.flush()
            os.killpg(0, signal.SIGKILL)

    def write(batch, number):
        target = folder / "out" / f"{number}.parquet"
        rows = batch.toPandas()
        rows.to_parquet(target.with_suffix(".partial"))
        target.with_suffix(".partial").rename(target)
        if number and len(rows):
            reached("written")

    def counts(placed):
        keys = ("window", "user") if kind == "window" else ("user",)
        counted = placed.groupBy(*keys, "slot").count().select(*(F.col(key).cast("string").alias(key) for key in keys), "count")
        return counted.writeStream.foreachBatch(write).outputMode("update")

    mapping_store.reached = state_migration.reached = reached
    settings = {"spark.sql.session.timeZone": "UTC"}
    if kind != "window":
        settings["spark.sql.streaming.stateStore.providerClass"] = ROCKSDB
    spark = local_session("killed", slots=2, memory="512m", settings=settings)
    rows = spark.readStream.schema("user string, ts timestamp").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    if kind == "window":
        rows = rows.withWatermark("ts", "30 minutes").withColumn("window", F.window("ts", "10 minutes"))
    query = started(rows, kind, folder, counts, write)
    query.processAllAvailable()
    changed = fatal in ("none", "written")
    for staged in sorted((folder / "staged").iterdir()):
        staged.rename(folder / "in" / staged.name)
        query.processAllAvailable()
        if not changed:
            turned = ((query.mapping.buckets + 1) % INSTANCES).astype(np.int32)
            query.change_mapping(replace(query.mapping, buckets=turned))
            changed = True
    query.stop()
    versions = {"versions": [version.number for version in query.versions]}
    sys.stdout.write(json.dumps(versions if kind == "states" else {**told(spark, folder, query), **versions}) + "\n")
    spark.stop()


def started(rows, kind, folder, counts, write):
    options = {"key": "user", "instances": INSTANCES, "checkpoint": folder / "checkpoint", "controller": False}
    if kind == "states":
        sink = {"write": lambda results: results.writeStream.foreachBatch(write), "look": False}
        return evenly.stream_apply_by_key(rows, seen, "user string, count long", state="count long", **sink, **options)
    first = DKG.automatic(INSTANCES, ids="xxhash64").mapping(columns=("user",))
    return evenly.stream_by_key(rows, counts, window="window" if kind == "window" else None, mapping=first, **options)


def seen(key, rows, state):
    count = (state["count"] if state else 0) + len(rows)
    return [(*key, count)], (count,)


def told(spark, folder, query):
    """The state rows, and those that no mapping in force has on their instance."""
    state = spark.read.format("statestore").load(current_checkpoint(spark, folder / "checkpoint"))
    found = state.select(key_id(("key.user",)).alias("id"), "partition_id", "value.count").collect()
    ids = np.array([row.id for row in found], np.int64).view(np.uint64)
    places = np.array([row.partition_id for row in found])
    fits = np.zeros(places.size, bool)
    for number, _ in query.versions[-1].spans:
        fits |= query._store.mapping(number).assign_ids(ids) == places
    return {
        "groups": len(found),
        "rows": int(sum(row["count"] for row in found)),
        "misplaced": int(np.count_nonzero(~fits)),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
