"""What `test_connect.py` runs in a process of its own: a process serves either classic sessions or Connect, never both."""

import json
import sys
import time

import connected_costs
import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import evenly
from evenly.spark.java import provide_java
from evenly.spark.jvm.session_slots import _default_parallelism
from evenly.spark.placing.canary import slots_lead

INSTANCES = 4


def rows_of(df):
    return sorted((tuple(row) for row in df.collect()), key=repr)


def total(key: tuple, group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"user": key[:1], "total": [group["amount"].sum()]})


def total_of_table(key: tuple, group: pa.Table) -> pa.Table:
    return pa.table(
        {"user": pa.array([key[0].as_py()], pa.string()), "total": pa.array([sum(group["amount"].to_pylist())], pa.int64())}
    )


def main() -> None:
    provide_java()
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    try:
        results = {"by key": told(spark), "by cost": connected_costs.told(spark), "facts": told_facts(spark)}
        sys.stdout.write(json.dumps(results) + "\n")
    finally:
        spark.stop()


def told(spark):
    user = F.concat(F.lit("user "), F.floor(F.sqrt(F.col("id") % 2_500)))
    df = spark.range(5_000).select(F.when(F.col("id") % 50 != 7, user).alias("user"), F.col("id").alias("amount"))
    mapping = evenly.learn_mapping(df, key="user", instances=INSTANCES)
    results = {"session": type(spark).__module__, "expected imbalance": mapping.fitted_imbalance_pct}
    for name, slot in (("by slot", "slot"), ("by id", None)):
        placed = df.transform(evenly.by_key, key="user", instances=INSTANCES, mapping=mapping, slot=slot)
        places = placed.select("user", F.spark_partition_id().alias("at")).collect()
        wanted = mapping.assign([row.user for row in places]).tolist()
        results[f"misplaced {name}"] = sum(row.at != instance for row, instance in zip(places, wanted, strict=True))
        results[f"rows {name}"] = len(places)
    plain = rows_of(df.groupBy("user").agg(F.sum("amount")))
    placed = df.transform(evenly.by_key, key="user", instances=INSTANCES)
    results["grouped"] = rows_of(placed.groupBy("user", "slot").agg(F.sum("amount").alias("n")).drop("slot")) == plain
    schema, options = "user string, total bigint", {"key": "user", "instances": INSTANCES, "mapping": mapping}
    results["frames"] = rows_of(evenly.apply_by_key(df, total, schema, **options)) == plain
    results["tables"] = rows_of(evenly.apply_by_key(df, total_of_table, schema, **options, arrow=True)) == plain
    watch = evenly.TimeWatch()
    timed = evenly.apply_by_key(df, total, schema, key="user", instances=INSTANCES, balance="time", watch=watch)
    results["by time"] = rows_of(timed) == plain and watch.times.groups == len(plain)
    try:
        df.transform(evenly.by_key, key="usr", instances=2)
    except evenly.EvenlyError as error:
        results["error"] = str(error)
    chosen = evenly.learn_mapping(df, key="user")
    results["chosen"] = [chosen.instances, chosen.chosen, _default_parallelism(spark)]
    results["slots lead"] = slots_lead(spark, by="the test")
    try:
        evenly.check_placement(placed)
    except evenly.EvenlyError as error:
        results["classic only"] = f"{type(error).__name__}: {error}"
    try:
        evenly.by_key(df, key="user", instances=2, remember="/data/users")
    except evenly.EvenlyError as error:
        results["remember"] = f"{type(error).__name__}: {error}"
    try:
        evenly.apply_by_key(df, total, schema, key="user", instances=2, remember="/data/users")
    except evenly.EvenlyError as error:
        results["remember groups"] = str(error)
    try:
        evenly.apply_by_key(df, total, schema, key="user", instances=2, balance="time", remember="/data/users")
    except evenly.EvenlyError as error:
        results["remember times"] = str(error)
    return results


def told_facts(spark):
    """What records tell of a query of one's own, and of a job by cost once its watch is asked."""
    spark.range(30).write.parquet("rows")
    facts, listener = [], evenly.QueryFacts()
    with evenly.emit_to(facts.append) as emitting:
        spark.streams.addListener(listener)
        writer = spark.readStream.schema("id long").parquet("rows").writeStream.format("noop").queryName("own")
        query = writer.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start()
        query.awaitTermination(120)
        for _ in range(6_000):  # Spark tells of it a moment later
            if any(fact.event == "end" for fact in facts):
                break
            time.sleep(0.02)
        spark.streams.removeListener(listener)
        watch = evenly.CostWatch()
        evenly.apply_by_cost(spark.range(24), connected_costs.same, "id long", instances=2, watch=watch).collect()
        before = len(facts)
        reported = sum(report.rows for report in watch.reports)
        emitting.flush()
    own = [[fact.kind, fact.event, fact.name, fact.run == query.id, fact.batch and fact.batch.rows] for fact in facts[:before]]
    job = [[fact.kind, fact.event, fact.batch and fact.batch.rows] for fact in facts[before:]]
    return {"own": own, "job": job, "reported": reported}


if __name__ == "__main__":
    sys.exit(main())
