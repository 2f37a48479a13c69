"""Typed inputs, and inputs whose two computations differ: in order, time, random numbers, sums of floats."""

from __future__ import annotations

import random
import uuid

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from faults.schedule import Shape

GROUPS = 40
_COPIES = 3
STABLE = ("row", "g", "v", "ts")
"""Columns of every input besides the key: number, a number for each key, a value, a time."""

_KEYS = {
    "int": "cast(g as int)",
    "long": "cast(g as bigint) * 1000003",
    "string": "concat('key ', g, repeat('ü', g % 3))",
    "decimal": "cast(g as decimal(12, 3)) / 8",
    "date": "date_add(date'2023-12-20', g)",
    "timestamp": "timestamp_micros(1711846800000000 + g * 1800000001L)",  # around an hour that Berlin does not have
    "struct": "named_struct('a', g % 7, 'b', concat('b', g))",
    "double": "case when g = 0 then double('NaN') when g = 1 then if(row % 2 = 0, -0.0D, 0.0D) else g * 0.5D end",
    "binary": "cast(concat('key ', g) as binary)",
    "boolean": "g % 2 = 0",
    "two": "cast(g % 5 as int)",
}
_SECOND = "second key"


def key_names(shape: Shape) -> tuple[str, ...]:
    return (shape.name, _SECOND) if shape.key == "two" else (shape.name,)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def columns(names: tuple[str, ...]) -> list[Column]:
    return [F.col(quoted(name)) for name in names]


def stable(spark: SparkSession, shape: Shape, seed: int) -> DataFrame:
    """The rows, computed the same every time: number, key, what identifies the key, value, time."""
    drawn = F.pmod(F.xxhash64(F.col("id"), F.lit(seed)), F.lit(1_000_003)) / 1_000_003.0
    groups = {
        "flat": F.floor(drawn * GROUPS),
        "zipf": F.floor(F.pow(drawn, F.lit(3.0)) * GROUPS),
        "hot": F.when(drawn < 0.6, F.lit(3)).otherwise(F.floor(drawn * GROUPS)),
        "one": F.lit(3),
    }
    rows = spark.range(0, shape.rows, 1, 4).select(F.col("id").alias("row"), groups[shape.skew].cast("int").alias("g"))
    if shape.key == "boolean":
        rows = rows.withColumn("g", F.col("g") % 2)
    rows = rows.withColumn("v", F.pmod(F.hash("row"), F.lit(1000)).cast("long"))
    rows = rows.withColumn("ts", F.timestamp_seconds(F.lit(1_711_843_200) + F.col("row") * 7))
    key = F.expr(_KEYS[shape.key])
    if shape.nulls:
        key = F.when(F.col("g") != 2, key)
        if shape.key == "two":
            key = F.expr(_KEYS["two"])
    rows = rows.withColumn(shape.name, key)
    if shape.key == "two":
        second = F.concat(F.lit("g"), F.col("g").cast("string"))
        rows = rows.withColumn(_SECOND, F.when(F.col("g") != 2, second) if shape.nulls else second)
    return rows


def differing(rows: DataFrame, twice: str) -> DataFrame:
    """The same rows with a column `noise`; computed a second time, something that the result does not need is different."""
    by_chance = F.udf(lambda: random.random(), "double").asNondeterministic()  # noqa: PLW0108 - a worker's own
    if twice == "random":
        by_uuid = F.udf(lambda: uuid.uuid4().hex, "string").asNondeterministic()
        return rows.withColumn("noise", by_uuid())
    if twice == "time":
        return rows.withColumn("noise", F.current_timestamp())
    if twice == "order":
        mixed = rows.withColumn("noise", F.lit(0.0)).withColumn("place", by_chance())
        return mixed.repartition(5, "row").sortWithinPartitions("place").drop("place")
    if twice in {"dedup", "floats"}:
        copies = rows.withColumn("copy", F.explode(F.sequence(F.lit(1), F.lit(_COPIES)))).withColumn("noise", by_chance())
        # By what is the same whenever it is computed: Spark's own round robin goes by the noise too, and loses rows when an
        # executor is lost, whatever is done with them afterwards.
        copies = copies.repartition(6, "row", "copy")
        if twice == "dedup":
            return copies.dropDuplicates(["row"]).drop("copy")
        kept = [F.first(quoted(name)).alias(name) for name in rows.columns if name != "row"]
        return copies.groupBy("row").agg(*kept, F.sum(F.col("copy") * 0.1 + F.col("noise") * 1e-17).alias("noise"))
    return rows.withColumn("noise", F.lit(0.0))
