"""Run by test_placement_listener.py: forgets the slot in two applications of one process, and stops only the first."""

import sys

import evenly
from evenly.spark.session import local_session


def forget(key: str) -> int:
    spark = local_session("told", slots=1, memory="1g")
    placed = spark.range(100).selectExpr(f"id % 7 as {key}").transform(evenly.by_key, key=key, instances=2)
    rows = placed.groupBy(key).agg({"slot": "collect_list"}).collect()
    if key == "first":
        spark.stop()
    return len(rows)


if __name__ == "__main__":
    sys.stdout.write(f"{forget('first')} {forget('second')}\n")
