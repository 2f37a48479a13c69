"""A drifting stream: the keys change while a stateful query runs, and the mapping follows.

Files of visits are read as a stream, one a batch. After a third of them other users become frequent.
Evenly watches what instances get, tries other mappings beside the one in force, and changes when a change has proved
itself; the state of the users that move goes with them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import evenly

STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
USERS = 2_000


def write_visits(folder: Path, *, batches: int, rows: int) -> None:
    """A file for each batch; who is frequent changes after a third of them."""
    draw = np.random.default_rng(1)
    shares = 1.0 / np.arange(1, USERS + 1) ** 0.8
    for batch in range(batches):
        ranks = draw.choice(USERS, rows, p=shares / shares.sum())
        users = ranks if batch < batches // 3 else (ranks * 7 + 13) % USERS
        pq.write_table(pa.table({"user": users, "visit": np.arange(rows) + batch * rows}), folder / f"{batch:04}.parquet")


def visits_so_far(placed: DataFrame) -> DataStreamWriter:
    """The pipeline: group by the key and then the slot."""
    return placed.groupBy("user", "slot").count().writeStream.format("noop").outputMode("update")


def main(spark: SparkSession, *, batches: int = 24, rows: int = 30_000, instances: int = 8) -> evenly.KeyedQuery:
    """Run until all files are read; the query, stopped."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STORE)  # state that can be moved
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "visits")
        folder.mkdir()
        write_visits(folder, batches=batches, rows=rows)
        stream = spark.readStream.schema("user long, visit long").option("maxFilesPerTrigger", "1").parquet(str(folder))
        query = evenly.stream_by_key(
            stream, visits_so_far, key="user", instances=instances, checkpoint=f"{scratch}/checkpoint", look=False
        )
        query.processAllAvailable()
        for batch in query.batches:
            print(f"batch {batch.number:3}: λ {batch.mapped_imbalance_pct:5.1f} % under mapping {batch.version}")
        for change in query.changes:
            print(f"mapping {change.number}: {change.reason}")
        query.stop()
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    return query


if __name__ == "__main__":
    main(evenly.local_session(slots=8))
