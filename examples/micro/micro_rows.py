"""What enters the three micro-dataflows: numbers, on as many partitions as Spark has slots."""

from pyspark.sql import DataFrame, SparkSession

ROWS = 500


def numbers(spark: SparkSession) -> DataFrame:
    """The numbers 0 to `ROWS` - 1."""
    return spark.range(ROWS, numPartitions=spark.sparkContext.defaultParallelism).withColumnRenamed("id", "number")
