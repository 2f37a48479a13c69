"""Which run of a query may write: of two drivers on one checkpoint, the one that began its first batch last.

    <checkpoint>/evenly/run     the name of that run, drawn when it was made

A driver that is cut off and believed dead, or one that a scheduler starts while the first still lives, runs the batch that is
not committed once more, at the same time. Spark lets only one of them commit it, but by then both have written. So a run asks
here before it writes what others see, and one that was overtaken ends with an error.
"""

from __future__ import annotations

import logging
import uuid

from pyspark.sql import SparkSession

from evenly.errors import CheckpointMismatch
from evenly.spark.jvm.hadoop_files import Folder

_LOG = logging.getLogger(__name__)
_FILE = "run"


class NewestRun:
    """One run of a query, from its start to its end."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._folder = Folder(spark, checkpoint).child("evenly")
        self._checkpoint = checkpoint
        self._begun = False
        self.name = uuid.uuid4().hex[:12]

    def begin(self) -> bool:
        """A batch begins; whether it is the first one of this run, which makes the run the newest.

        Not the start of the query: then Spark may still be stopping the run before, in the same application.
        """
        if self._begun:
            self.check()
            return False
        self._folder.write(_FILE, self.name)
        self._begun = True
        _LOG.info("%s: run %s writes from now on", self._checkpoint, self.name)
        return True

    def check(self) -> None:
        """Refuse to write, or to call written, what another run is writing."""
        if self._folder.read(_FILE).decode() != self.name:
            raise CheckpointMismatch(
                f"another run of the query of checkpoint {self._checkpoint} has begun a batch since this one did, and writes "
                "now: this one ends, and has committed nothing of this batch. Run one query on a checkpoint at a time"
            )
