"""A skewed group-by: one function for each key, as Spark places keys and with Evenly.

Recorded football events go through a function by player; "unknown" players share an id with 7 % of the
events. The job runs twice, and both results are compared.
"""

from __future__ import annotations

import time
from importlib.resources import files

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import evenly

SCHEMA = "player long, events long, x double"


def summary(events: pd.DataFrame) -> pd.DataFrame:
    """Stands for a call to a service: it takes a little time for every event."""
    time.sleep(50e-6 * len(events))
    return pd.DataFrame({"player": events["player"].iloc[:1], "events": [len(events)], "x": [events["x"].mean()]})


def busiest_pct(placed: DataFrame) -> float:
    """λ: how much more than the mean the fullest partition holds."""
    rows = [row["count"] for row in placed.groupBy(F.spark_partition_id()).count().collect()]
    return 100.0 * (max(rows) * len(rows) / sum(rows) - 1.0)


def main(spark: SparkSession, *, rows: int = 200_000, instances: int = 8) -> dict[str, float]:
    """Run it both ways, and tell λ of both."""
    recorded = str(files("evenly.streams") / "data" / "football.parquet")
    events = spark.read.parquet(recorded).select("player", "x").limit(rows).persist()

    hashed = events.repartition(instances, "player")
    begun = time.perf_counter()
    before = hashed.groupBy("player").applyInPandas(summary, SCHEMA).toPandas()
    before_s = time.perf_counter() - begun

    placed = events.transform(evenly.by_key, key="player", instances=instances)
    begun = time.perf_counter()
    after = placed.groupBy("player", "slot").applyInPandas(summary, SCHEMA).toPandas()
    after_s = time.perf_counter() - begun

    same = before.sort_values("player").reset_index(drop=True).equals(after.sort_values("player").reset_index(drop=True))
    found = {"hash": busiest_pct(hashed), "evenly": evenly.placed_rows(placed, instances=instances).imbalance_pct}
    events.unpersist()
    print(f"as Spark places keys: λ {found['hash']:5.1f} %, {before_s:.1f} s")
    print(
        f"with Evenly:          λ {found['evenly']:5.1f} %, {after_s:.1f} s; results are {'the same' if same else 'DIFFERENT'}"
    )
    return found | {"same": same}


if __name__ == "__main__":
    main(evenly.local_session(slots=8))
