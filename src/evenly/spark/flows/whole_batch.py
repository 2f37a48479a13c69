"""A batch of a stream whose sinks have all got the same rows, and of which nothing was sent before they had.

What was sent cannot be taken back, and is kept to be sent again. So when files are written, and what the other sinks send is
kept, that is written down before a row leaves. A batch that is run again after a kill, in which a function may give other
rows, then only sends: files, and what was kept, are of one run.

    <checkpoint>/evenly/whole     the number of the batch, the sinks that are written, and under which name each other one has
                                  kept its rows
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from evenly.dataflow.ends import FILES
from evenly.dataflow.graph import Operator
from evenly.spark.flows.ends import NUMBER, StreamBatch, kept_of, send_kept, sender_of
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.sending.encoding import bodies
from evenly.spark.sending.kept import KeptBatches, computed

_FILE = "whole"


class WholeBatch:
    """What is known of a batch from an earlier run of it."""

    def __init__(self, spark: SparkSession, batch: StreamBatch) -> None:
        self._folder, self._batch = Folder(spark, batch.checkpoint).child("evenly"), batch
        told = json.loads(self._folder.read(_FILE)) if self._folder.has(_FILE) else {}
        self.known = told.get("batch") == batch.number
        """Whether it is whole."""
        self._runs: dict[str, str] = told["runs"] if self.known else {}
        self._written: list[str] = told["written"] if self.known else []

    def has(self, one: Operator, rows: DataFrame) -> bool:
        """Whether a sink that does not send has its rows."""
        if one.name not in self._written:
            return False
        return one.format not in FILES or Folder(rows.sparkSession, one.path).has(f"{NUMBER}={self._batch.number}")

    def kept(self, one: Operator, rows: DataFrame) -> Sending:
        """What a sink sends, written down."""
        batch = self._batch
        kept, sender = kept_of(rows.sparkSession, one, batch.checkpoint), sender_of(one, batch.query)
        encoded = bodies(rows, one.options.get("column"))
        if one.name in self._runs:
            computed(encoded)
            run = self._runs[one.name]
        else:
            run = kept.written(encoded, batch.number, sender)
        return Sending(one, kept, sender, batch.number, run)

    def keep(self, written: list[str], sending: list[Sending]) -> None:
        """It is whole: these sinks are written, and those will send."""
        told = {"batch": self._batch.number, "written": written, "runs": {it.one.name: it.run for it in sending}}
        self._folder.write(_FILE, json.dumps(told))


@dataclass(frozen=True)
class Sending:
    """What a sink sends of a batch, which is written down under the name `run` ("": it was known what it sends)."""

    one: Operator
    kept: KeptBatches
    sender: str
    batch: int
    run: str

    def send(self) -> None:
        """Send it, for good."""
        send_kept(self.one, self.kept.listed(self.run, self.sender, self.batch), self.sender, self.batch)

    def drop(self) -> None:
        """Another run is to say what is sent."""
        if self.run:
            self.kept.drop(self.run, self.batch)
