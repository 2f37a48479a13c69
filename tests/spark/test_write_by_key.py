"""`write_by_key` writes exactly the rows of `df`, in files of about the size asked for."""

from __future__ import annotations

from collections import Counter

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

import evenly
from evenly.errors import InvalidParameter, StreamingMismatch, UnknownColumn

ROWS = 4_000


@pytest.fixture(scope="module")
def rows(spark):
    """Half of the rows of one key, many small ones, and one without a key."""
    key = F.when(F.col("id") % 2 == 0, F.lit("hot")).when(F.col("id") > 11, F.concat(F.lit("k"), F.col("id") % 13))
    return spark.range(0, ROWS, 1, 3).select(key.alias("a key"), F.col("id").alias("v"), F.lit(None).cast("int").alias("n"))


def files(path):
    """The number of rows of each file, by folder."""
    found = {}
    for file in path.rglob("*.parquet"):
        found.setdefault(file.parent.name, []).append(pq.ParquetFile(file).metadata.num_rows)
    return found


def test_large_keys_are_in_files_of_about_one_size_and_small_ones_in_one_file_each(spark, rows, tmp_path):
    target = 300
    path = tmp_path / "out"
    writer = evenly.write_by_key(rows, key="a key", instances=4, rows_per_file=target, tolerance_pct=None)
    writer.parquet(str(path))
    assert Counter(spark.read.parquet(str(path)).select(*rows.columns).collect()) == Counter(rows.collect())
    found = files(path)
    hot = found.pop("a key=hot")
    assert sum(hot) == ROWS // 2
    assert max(hot) <= target * 1.1
    assert len(hot) <= 2 * ROWS // 2 / target
    assert all(len(each) == 1 for each in found.values())
    assert len(found) == 14
    # Spark's modes are as they are.
    with pytest.raises(AnalysisException, match="PATH_ALREADY_EXISTS"):
        writer.parquet(str(path))
    evenly.write_by_key(rows.where("v < 100"), key="a key", instances=4, rows_per_file=target).mode("overwrite").parquet(
        str(path)
    )
    assert spark.read.parquet(str(path)).count() == 100


def test_no_rows_and_rows_that_nothing_tells_apart(rows, tmp_path, caplog):
    evenly.write_by_key(rows.limit(0), key="a key", instances=4, rows_per_file=5).parquet(str(tmp_path / "none"))
    assert files(tmp_path / "none") == {}
    alike = rows.select(F.col("a key").alias("a.key"), F.rand().alias("r"))
    evenly.write_by_key(alike, key=F.col("`a.key`"), instances=4, rows_per_file=300).parquet(str(tmp_path / "alike"))
    assert "one instance writes all of a key" in caplog.text
    assert sum(files(tmp_path / "alike")["a.key=hot"]) == ROWS // 2


def test_what_cannot_be_written_is_refused_before_anything_is_read(spark, rows):
    nested = rows.withColumn("s", F.struct("v"))
    for df, options, error in (
        (rows, {"key": "no"}, UnknownColumn),
        (nested, {"key": "s.v"}, UnknownColumn),
        (rows.select("v"), {"key": "v"}, InvalidParameter),
        (rows, {"rows_per_file": 0}, InvalidParameter),
        (rows, {"instances": 0}, InvalidParameter),
        (spark.readStream.format("rate").load(), {"key": "value"}, StreamingMismatch),
    ):
        with pytest.raises(error):
            evenly.write_by_key(df, **{"key": "a key", "instances": 4, "rows_per_file": 10, **options})
