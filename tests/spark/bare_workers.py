"""What `test_bare_workers.py` runs: every operation that needs Python on the executors, where these have no Evenly.

    python bare_workers.py MASTER HOME ...

`MASTER` is that of a cluster, "connect" for a Connect server of this process, or "local". `kill` after it kills an executor;
`first` makes Evenly's the first Python function of the session.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import evenly
from evenly.spark.java import provide_java

INSTANCES = 3


def rows_of(df):
    return sorted((tuple(row) for row in df.collect()), key=repr)


def total(key, group):
    return pd.DataFrame({"user": key[:1], "total": [group["amount"].sum()]})


def sum_of(rows):
    return int(rows["amount"].sum())


def summed(sums):
    return pd.DataFrame({"total": [sum(sums)]})


def doubled(row):
    return row.user, row.amount * 2


def session(master):
    provide_java()
    builder = SparkSession.builder
    if master == "connect":
        return builder.remote("local[2]").getOrCreate()
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": str(INSTANCES),
        "spark.speculation": "true",
        "spark.files.overwrite": "true",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.master(master).getOrCreate()


def told(spark, folder, *, kill, first):
    user = F.concat(F.lit("user "), F.floor(F.sqrt(F.col("id") % 900)))
    df = spark.range(0, 1_800, 1, 4).select(F.when(F.col("id") % 50 != 7, user).alias("user"), F.col("id").alias("amount"))
    # Workers that run before Evenly comes.
    before = None if first else spark.range(2).mapInArrow(lambda batches: batches, "id long").count()
    plain = rows_of(df.groupBy("user").agg(F.sum("amount")))
    mapping = evenly.learn_mapping(df, key="user", instances=INSTANCES)
    options = {"key": "user", "instances": INSTANCES, "mapping": mapping}
    schema = "user string, total bigint"
    results = {"session": type(spark).__module__, "before": before}
    results["apply_by_key"] = rows_of(evenly.apply_by_key(df, total, schema, **options)) == plain
    merging = evenly.Merging(sum_of, summed, "total bigint")
    results["aggregate_by_key"] = rows_of(evenly.aggregate_by_key(df, merging, key="user", instances=INSTANCES)) == plain
    mark = folder / "killed"
    costly = doubled_once_killed(str(mark)) if kill else doubled
    ran = evenly.apply_by_cost(df, costly, "user string, amount long", instances=INSTANCES, cost_key="user")
    results["apply_by_cost"] = rows_of(ran) == rows_of(df.select("user", F.col("amount") * 2))
    if kill:
        results["killed"] = mark.exists()
        results |= killed_groups(df, plain, folder)
    sent = evenly.send(df.select(F.to_json(F.struct("*"))), to=to_nowhere)
    results["send"] = sent.rows
    if spark.__class__.__module__.startswith("pyspark.sql.connect"):
        return results
    again = spark.newSession()
    copied = again.range(0, 100).select((F.col("id") % 7).cast("string").alias("user"), F.col("id").alias("amount"))
    found = evenly.apply_by_key(copied, total, schema, key="user", instances=2)
    results["newSession"] = rows_of(found) == rows_of(copied.groupBy("user").agg(F.sum("amount")))
    results["path of the driver"] = [path for path in sys.path if "evenly-" in Path(path).name]
    return results


def killed_groups(df, plain, folder):
    """Groups whose executor is killed once: timed and remembered, each result beside whether that happened."""
    told = {}
    options = {"key": "user", "instances": INSTANCES}
    for name, more in (
        ("timed", {"balance": "time", "watch": evenly.TimeWatch()}),
        ("remembered", {"remember": str(folder / "memory")}),
    ):
        mark = folder / f"killed {name}"
        found = evenly.apply_by_key(df, total_once_killed(str(mark)), "user string, total bigint", **options, **more)
        told[name] = rows_of(found) == plain and mark.exists()
    return told


def total_once_killed(mark):
    killing = killed_once(mark)

    def called(key, group):
        killing()
        return pd.DataFrame({"user": key[:1], "total": [group["amount"].sum()]})

    return called


def to_nowhere(row):
    assert row.body


def doubled_once_killed(mark):
    killing = killed_once(mark)

    def called(row):
        killing()
        return row.user, row.amount * 2

    return called


def killed_once(mark):
    """The executor of whoever calls first is killed, once."""

    def called():
        if not Path(mark).exists():
            Path(mark).touch()
            import psutil  # where a worker needs it, only

            executor = next(each for each in psutil.Process().parents() if each.name() == "java")
            os.kill(executor.pid, signal.SIGKILL)
            time.sleep(60)

    return called


def main():
    master, folder = sys.argv[1], Path(sys.argv[2])
    spark = session(master)
    try:
        results = told(spark, folder, kill="kill" in sys.argv[3:], first="first" in sys.argv[3:])
    except evenly.EvenlyError as error:
        results = {"error": f"{type(error).__name__}: {error}"}
    finally:
        spark.stop()
    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    sys.exit(main())
