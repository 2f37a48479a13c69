"""The demonstration's job: one grouped Python function, placed by Spark's hash and by Evenly."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F

from evenly.errors import InvalidParameter
from evenly.kernels.types import F64, I64
from evenly.keys.mapping import Mapping
from evenly.measures.load import instance_loads
from evenly.spark.keyed.by_key import by_key
from evenly.spark.keyed.learning import learn_mapping

KEY = "player"
_RESULT = pa.schema(
    {
        KEY: pa.int32(),
        "rows": pa.int64(),
        "covered": pa.float64(),
        "spread": pa.float64(),
        "instance": pa.int32(),
        "started_s": pa.float64(),
        "ended_s": pa.float64(),
    }
)
_SPARK_RESULT = "player int, rows bigint, covered double, spread double, instance int, started_s double, ended_s double"


@dataclass(frozen=True)
class Run:
    """One run of the job: what each instance did, how long the grouped stage took, and how long the whole job."""

    grouping: str
    rows: I64
    busy_s: F64
    stage_s: float
    job_s: float
    groups: pd.DataFrame


def football_rows(spark: SparkSession, rows: int) -> DataFrame:
    """The recorded football events, repeated until there are `rows` of them, kept in memory."""
    if rows < 1:
        raise InvalidParameter(f"rows must be at least 1, got {rows}")
    with as_file(files("evenly.streams") / "data" / "football.parquet") as path:
        recorded = pq.read_table(path)
    events = recorded.append_column("moment", pa.array(np.arange(len(recorded), dtype=np.int64)))
    copies = -(-rows // len(recorded))
    few = spark.createDataFrame(events).coalesce(os.cpu_count() or 1)
    repeated = few.withColumn("copy", F.explode(F.sequence(F.lit(0), F.lit(copies - 1))))
    moment = F.col("copy") * F.lit(len(recorded)) + F.col("moment")
    enlarged = repeated.select(KEY, "x", "y", moment.alias("moment")).where(F.col("moment") < rows).persist()
    enlarged.count()
    return enlarged


def positions_of_a_player(wait_us: float) -> Callable[[pa.Table], pa.Table]:
    """The grouped function: how far and how widely a player moved, and a wait for each row.

    The wait stands for a call to a service or a disk. It lets instances overlap on a machine with fewer
    cores than instances, as they do on a cluster.
    """

    def positions(events: pa.Table) -> pa.Table:
        started = time.time()
        order = np.argsort(events["moment"].to_numpy())
        x, y = (events[axis].to_numpy()[order].astype(np.float64) for axis in ("x", "y"))
        covered = float(np.hypot(np.diff(x), np.diff(y)).sum())
        cells = np.bincount((np.clip(x, 0, 99) // 20 * 5 + np.clip(y, 0, 99) // 20).astype(np.int64), minlength=25)
        share = cells[cells > 0] / x.size
        time.sleep(x.size * wait_us * 1e-6)
        context = TaskContext.get()
        row = {
            KEY: events[KEY][0].as_py(),
            "rows": x.size,
            "covered": covered,
            "spread": float(-(share * np.log(share)).sum()),
            "instance": context.partitionId() if context else -1,
            "started_s": started,
            "ended_s": time.time(),
        }
        return pa.Table.from_pylist([row], _RESULT)

    return positions


def run_by_hash(df: DataFrame, instances: int, wait_us: float) -> Run:
    """The job as Spark does it: rows to `instances` partitions by the hash of the key."""
    return _run("hash", lambda: df.repartition(instances, KEY).groupBy(KEY), instances, wait_us)


def run_by_evenly(df: DataFrame, mapping: Mapping, wait_us: float) -> Run:
    """The same job with every key on the instance that the mapping names."""

    def grouped() -> GroupedData:
        return by_key(df, key=KEY, instances=mapping.instances, mapping=mapping).groupBy(KEY, "slot")

    return _run("evenly", grouped, mapping.instances, wait_us)


def learn(df: DataFrame, instances: int) -> tuple[Mapping, float]:
    """The mapping of players to instances, and how long learning took."""
    started = time.perf_counter()
    mapping = learn_mapping(df, key=KEY, instances=instances)
    return mapping, time.perf_counter() - started


def warm_up(df: DataFrame, instances: int) -> None:
    """Start a Python process for each slot, so that no run pays for that."""
    few = df.where(F.col("moment") < instances * 20)
    few.repartition(instances, "moment").groupBy("moment").applyInArrow(positions_of_a_player(0.0), _SPARK_RESULT).collect()
    learn_mapping(few, key=KEY, instances=instances)


def _run(grouping: str, grouped: Callable[[], GroupedData], instances: int, wait_us: float) -> Run:
    started = time.perf_counter()
    groups = grouped().applyInArrow(positions_of_a_player(wait_us), _SPARK_RESULT).toPandas()
    job_s = time.perf_counter() - started
    instance = groups["instance"].to_numpy()
    rows = instance_loads(instance, instances, groups["rows"]).astype(np.int64)
    busy_s = instance_loads(instance, instances, groups["ended_s"] - groups["started_s"])
    stage_s = float(groups["ended_s"].max() - groups["started_s"].min())
    answers = groups[[KEY, "rows", "covered", "spread"]].sort_values(KEY, ignore_index=True)
    return Run(grouping, rows, busy_s, stage_s, job_s, answers)
