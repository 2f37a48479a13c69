"""What each way to deal rows takes beyond `repartition(k)`: by the row and the byte, and however few rows there are."""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cost_jobs import FILES, Cell, K, WaitCost, bodies
from cost_parts import Rows, cpu_s, say, session
from evenly.costs.meter import CostMeter
from evenly.costs.model import CostModel
from evenly.lab.trials.rows import Trial
from evenly.spark.costs.dealing import deal_in_turn
from evenly.spark.costs.routing import route
from evenly.spark.costs.row_ids import with_id
from evenly.worker.routing import Routing

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # workers cannot import benchmarks


def routing(widths: dict[int, int]) -> Rows:
    """Cpu time by the row of each way to route, beyond `repartition(k)`, at several widths; the least of three rounds."""
    results: Rows = []
    with session(2) as spark, tempfile.TemporaryDirectory() as folder:
        table = _thousand(spark)
        for width, rows in widths.items():
            path = Path(folder) / str(width)
            path.mkdir()
            for part in range(FILES):
                count = rows // FILES
                columns = {"key": np.arange(count) % 1_000, "body": bodies(count, max(width - 8, 1))}
                pq.write_table(pa.table(columns), path / f"{part}.parquet", compression="none", use_dictionary=False)
            df = spark.read.parquet(str(path))
            keyed, told = with_id(df, ("key",), order="content"), Routing(table, np.full(K, 1 / K))
            ways = {
                "repartition(k)": df.repartition(K),
                "in turn": deal_in_turn(keyed, table, K),
                "routers": route(keyed, told, routers=None),
                "one router": route(keyed, told, routers=1),
            }
            least = dict.fromkeys(ways, math.inf)
            for _ in range(3):
                for name, way in ways.items():
                    begun = cpu_s()
                    way.mapInArrow(_counted, "n long").count()
                    least[name] = min(least[name], cpu_s() - begun)
            for name, seconds in least.items():
                added = (seconds - least["repartition(k)"]) / rows * 1e6
                results.append({"series": name, "row_bytes": width, "rows": rows, "cpu_s": seconds, "added_us": added})
            say(f"routing at {width} B: {', '.join(f'{name} {least[name]:.2f} cpu-s' for name in ways)}")
    return results


def fixed(rounds: int) -> Rows:
    """Seconds of a job whose 2,000 rows cost nothing, each way to deal them, calls included; medians."""
    results: Rows = []
    cell = Cell("tweets", 2_000, "narrow", 1.0)
    with session(K) as spark, tempfile.TemporaryDirectory() as folder, cell.written(Path(folder), 0) as path:
        df = spark.read.parquet(path).withColumn("cost_us", F.lit(0.0))
        trial, table = Trial(spark, WaitCost(), "number bigint", "key"), _thousand(spark)
        told = Routing(table, np.full(K, 1 / K))

        def keyed() -> DataFrame:
            return with_id(df, ("key",), order="content")

        ways: dict[str, Callable[[], DataFrame]] = {
            "repartition(k)": lambda: df.repartition(K),
            "in turn": lambda: deal_in_turn(keyed(), table, K),
            "routers": lambda: route(keyed(), told, routers=None),
            "one router": lambda: route(keyed(), told, routers=1),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(2 * rounds):
            for name, way in ways.items():
                batch = trial.measured(lambda way=way: trial.mapped(way().select(*df.columns)))  # type: ignore[misc]
                if turn >= rounds:  # the first ones compile
                    seconds[name].append(batch.seconds)
        plain = statistics.median(seconds["repartition(k)"])
        for name, found in seconds.items():
            median = statistics.median(found)
            results.append({"series": name, "seconds": median, "added_s": median - plain})
    return results


def _thousand(spark: SparkSession) -> Any:
    ids = [row[0] for row in spark.range(1_000).selectExpr("xxhash64(id)").collect()]
    meter = CostMeter()
    for _ in range(20):
        meter.add(np.array(ids), np.random.default_rng(0).exponential(0.01, 1_000) + 1e-3)
    return CostModel(["key"]).learn(meter.report(instance=0)).table


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_arrays([pa.array([sum(batch.num_rows for batch in batches)])], names=["n"])
