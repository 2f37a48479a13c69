"""A dependency graph, generated with the shape of a distribution of packages, and searches in it."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

FILES, ROWS = 5, 300
"""Files, one for each micro-batch, and references to a package in each."""
PACKAGES, DEPTH = 3_000, 3


def made_graph() -> tuple[np.ndarray, np.ndarray]:
    """Who needs package v: `needing[first[v]:first[v + 1]]`. Each package needs 1 to 8 others, rather old ones than new."""
    draw = np.random.default_rng(2)
    counts = draw.integers(1, 9, PACKAGES - 1)
    who = np.repeat(np.arange(1, PACKAGES), counts)
    needed = (who * draw.random(who.size) ** 3).astype(np.int64)
    order = np.argsort(needed, kind="stable")
    return np.concatenate([[0], np.cumsum(np.bincount(needed, minlength=PACKAGES))]), who[order]


FIRST, NEEDING = made_graph()


def stream(spark: SparkSession) -> DataFrame:
    """Packages as their dependents name them, of the folder `data`, which is made if it is not there, a file at a time."""
    folder = Path("data/references").absolute()
    if not folder.exists():
        folder.mkdir(parents=True)
        draw = np.random.default_rng(3)
        for number in range(FILES):
            packages = (PACKAGES * draw.random(ROWS) ** 3).astype(np.int64)
            pq.write_table(pa.table({"package": packages}), folder / f"{number}.parquet")
    return spark.readStream.schema("package long").option("maxFilesPerTrigger", 1).parquet(folder.as_uri())


def reach(row: Any) -> tuple[int, int]:
    """A search, breadth first."""
    seen = {row.package}
    edge = [row.package]
    for _ in range(DEPTH):
        found = {int(who) for package in edge for who in NEEDING[FIRST[package] : FIRST[package + 1]]}
        edge = list(found - seen)
        seen |= found
    return row.package, len(seen) - 1


def largest(rows: DataFrame) -> DataFrame:
    """The packages that most others need: Spark itself."""
    return rows.distinct().orderBy("needed_by", ascending=False)
