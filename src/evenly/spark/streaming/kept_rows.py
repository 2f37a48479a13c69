"""Keeping what the last batches of a query carried beside its checkpoint: a diagnosis needs it, the query does not."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from pyspark.sql import SparkSession

from evenly.keys.batches import Batch
from evenly.keys.carried import CARRIED, carried_rows
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.streaming.movable import REFUSALS

_LOG = logging.getLogger(__name__)
_EVERY_S = 60.0


class KeptRows:
    """Writes at most once a minute, and when it is told to."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        self._kept_at_s = time.monotonic()

    def keep(self, batches: Callable[[], Iterable[Batch]], version: int, *, now: bool = False) -> None:
        """Keep the rows of the last batches under this version of the mapping."""
        at_s = time.monotonic()
        if not now and at_s < self._kept_at_s + _EVERY_S:
            return
        self._kept_at_s = at_s
        carried = carried_rows(batches(), version)
        if carried is None:
            return
        try:
            beside = Folder(self._spark, self._checkpoint).child("evenly")
            if beside.names():  # else the checkpoint has been removed, and must not come back
                beside.write(CARRIED, carried.to_json())
        except (*REFUSALS, AttributeError, OSError) as error:  # the session may have gone
            _LOG.debug("%s: what its batches carried could not be kept: %s", self._checkpoint, error)
