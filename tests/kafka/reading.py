"""The functions of a dataflow from Kafka, and a sink that waits to be killed: in processes of their own."""

from __future__ import annotations

import os
import time
from pathlib import Path


def parsed(row):
    """A message as a row; nothing of those that are no number."""
    text = row.value.decode()
    return {"id": int(text), "twice": 2 * int(text), "partition": row.partition} if text.isdigit() else None


def held(_rows, number):
    """The last sink of a batch: the second one is held up before it is committed, once."""
    mark = Path(os.environ["EVENLY_TEST_MARK"])
    if number == 1 and not mark.exists():
        mark.touch()
        while True:
            time.sleep(60)


def as_messages(rows):
    return rows.selectExpr("string(twice) as value")
