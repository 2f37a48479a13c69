"""Two queries in a process of their own: one whose session is stopped, and one that still runs when the process ends."""

import sys
from pathlib import Path

import evenly

folder = Path(sys.argv[1])
evenly.emit_to(folder / "facts.jsonl")


def counts(placed):
    return placed.groupBy("user", "slot").count().writeStream.format("noop").outputMode("update")


def start(name):
    spark = evenly.local_session("left running", slots=2)
    rows = spark.readStream.schema("user string").parquet(str(folder / "in"))
    options = {"key": "user", "instances": 2, "checkpoint": folder / name, "query_name": name, "look": False}
    query = evenly.stream_by_key(rows, counts, **options)
    query.processAllAvailable()
    return spark


start("stopped").stop()
start("left")
