"""Run by test_remember.py: two applications with remember= in one process, of which only the first stops its session."""

import sys

import pytest

import evenly
from evenly.spark.session import local_session

for names in (("stopped",), ("stopped", "left")):
    spark = local_session(slots=1)
    rows = spark.range(100).selectExpr("id % 10 as user")
    for name in names:
        placed = evenly.by_key(rows, key="user", instances=2, remember=f"{sys.argv[1]}/{name}")
        placed.groupBy("user", "slot").count().collect()
    if names == ("stopped",):
        spark.stop()
        with pytest.raises(evenly.EvenlyError, match="of a session that was stopped"):
            evenly.by_key(rows, key="user", instances=2)
