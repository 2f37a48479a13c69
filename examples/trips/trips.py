"""Trips in a town, generated: most of them begin in the middle of it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

FILES, ROWS = 4, 20_000
"""Files, one for each micro-batch, and trips in each."""
ZONES = 16
"""The town is a square of so many zones in each direction."""


def stream(spark: SparkSession) -> DataFrame:
    """Trips of the folder `data`, which is made if it is not there, a file at a time."""
    folder = Path("data/trips").absolute()
    if not folder.exists():
        folder.mkdir(parents=True)
        draw = np.random.default_rng(4)
        for number in range(FILES):
            place = np.clip(draw.normal(0.5, 0.12, (2, ROWS)), 0.0, 0.999)
            trips = {"east": place[0], "north": place[1], "fare": draw.integers(4, 40, ROWS) / 2.0}
            pq.write_table(pa.table(trips), folder / f"{number}.parquet")
    read = spark.readStream.schema("east double, north double, fare double")
    return read.option("maxFilesPerTrigger", 1).parquet(folder.as_uri())


def locate(batch: pa.RecordBatch) -> pa.Table:
    """The zone in which each trip begins."""
    east, north = (pc.cast(pc.floor(pc.multiply(batch[name], float(ZONES))), pa.int32()) for name in ("east", "north"))
    return pa.table({"zone": pc.add(pc.multiply(north, pa.scalar(ZONES, pa.int32())), east), "fare": batch["fare"]})


def totals(placed: DataFrame) -> DataFrame:
    """Grouped by the key and the slot, rows are found where they are."""
    found = placed.groupBy("zone", "slot").agg(F.count("*").alias("trips"), F.sum("fare").alias("fares"))
    return found.select("zone", "trips", "fares")
