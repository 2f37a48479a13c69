"""Tweets that mention entities, generated, and a service that knows some of these entities better than others."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

FILES, ROWS = 5, 400
"""Files, one for each micro-batch, and tweets in each."""
ENTITIES = 200
KINDS = {"media": 25.0, "politicians": 5.0, "others": 1.0}
"""How long the service takes for an entity of a kind, ms."""


def stream(spark: SparkSession) -> DataFrame:
    """Tweets of the folder `data`, which is made if it is not there, a file at a time."""
    folder = Path("data/tweets").absolute()
    if not folder.exists():
        folder.mkdir(parents=True)
        draw = np.random.default_rng(1)
        for number in range(FILES):
            entities = np.minimum(draw.zipf(1.3, ROWS), ENTITIES)
            tweets = {"tweet": np.arange(number * ROWS, (number + 1) * ROWS), "entity": entities}
            pq.write_table(pa.table(tweets), folder / f"{number}.parquet")
    return spark.readStream.schema("tweet long, entity long").option("maxFilesPerTrigger", 1).parquet(folder.as_uri())


def kind_of(entity: int) -> str:
    """One entity in ten is of the media, two of politics."""
    return "media" if entity % 10 == 3 else "politicians" if entity % 10 in (1, 7) else "others"


def enrich(row: Any) -> tuple[int, int, str]:
    """Ask the service, which takes its time."""
    kind = kind_of(row.entity)
    time.sleep(KINDS[kind] * 1e-3)
    return row.tweet, row.entity, f"history of {kind}"
