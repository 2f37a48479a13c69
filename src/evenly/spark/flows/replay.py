"""A source that offers the rows of Parquet files at a rate: `format: replay`.

What reads them is `worker/replay_source`.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampType

from evenly.dataflow.graph import Operator
from evenly.dataflow.replay import replay_options
from evenly.errors import InvalidDataflow
from evenly.spark.features import Feature, require
from evenly.spark.python_workers import check_python
from evenly.worker.replay_source import FORMAT, Replay
from evenly.worker.replaying import ReplayedFiles

ARRIVED = "arrived"
"""The column of the arrival, unless the source names another by `arrival`."""


def replay(spark: SparkSession, one: Operator, *, streaming: bool, pace: Path | None = None) -> DataFrame:
    """The rows of Parquet files as a stream that offers them at a rate; as a batch all of them, which have arrived now."""
    options = {**replay_options(one), "path": one.path, "arrival": one.arrival or ARRIVED}
    found = spark.read.parquet(one.path)
    if options["arrival"].lower() in (name.lower() for name in found.columns):
        raise InvalidDataflow(
            f"there is a column {options['arrival']!r} in {one.path} already: name another for the arrival by `arrival`"
        )
    if not streaming:
        return found.withColumn(options["arrival"], F.current_timestamp())
    require(spark, Feature.PACED_SOURCE, by="a replay", remedy="Read the files with `format: parquet`")
    check_python(spark)
    options.setdefault("numPartitions", str(spark.sparkContext.defaultParallelism))
    if pace is not None:
        options["pace"] = str(pace)
    nullable = [StructField(it.name, it.dataType) for it in found.schema.fields]
    _check_types(ReplayedFiles.at(one.path, found.columns), StructType(nullable))
    schema = StructType([*nullable, StructField(options["arrival"], TimestampType())])
    spark.dataSource.register(Replay)
    return spark.readStream.format(FORMAT).options(**options).schema(schema).load()


def _check_types(files: ReplayedFiles, schema: StructType) -> None:
    try:
        files.check_types(to_arrow_schema(schema, timezone="UTC"))
    except PySparkException as error:
        raise InvalidDataflow(f"{error} Write the files with that column cast, such as to text, or leave it out") from error
