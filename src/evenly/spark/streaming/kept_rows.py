"""Keeping what a query has learnt of itself beside its checkpoint: what its last batches carried, for a diagnosis, and what
became of the promises of its controller. Its results need neither."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from pyspark.sql import SparkSession

from evenly.keys.batches import Batch
from evenly.keys.carried import CARRIED, carried_rows
from evenly.keys.promises import PROMISES, Promises
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.streaming.movable import REFUSALS

_LOG = logging.getLogger(__name__)
_EVERY_S = 60.0


class KeptRows:
    """Writes at most once a minute, and when it is told to."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        self._kept_at_s = time.monotonic()
        self._promises = Promises().to_json()

    def keep(self, batches: Callable[[], Iterable[Batch]], version: int, promises: str | None, *, now: bool = False) -> None:
        """Keep the rows of the last batches under this version of the mapping, and the record of promises as text."""
        at_s = time.monotonic()
        if not now and at_s < self._kept_at_s + _EVERY_S:
            return
        self._kept_at_s = at_s
        carried = carried_rows(batches(), version)
        try:
            beside = Folder(self._spark, self._checkpoint).child("evenly")
            if not beside.names():  # the checkpoint has been removed, and must not come back
                return
            if carried is not None:
                beside.write(CARRIED, carried.to_json())
            if promises is not None and promises != self._promises:
                beside.write(PROMISES, promises)
                self._promises = promises
        except (*REFUSALS, AttributeError, OSError) as error:  # the session may have gone
            _LOG.debug("%s: what its batches carried could not be kept: %s", self._checkpoint, error)


def kept_promises(spark: SparkSession, checkpoint: str) -> Promises:
    """The record of promises beside a checkpoint. One that is damaged is begun anew: it only says how soon to change."""
    try:
        beside = Folder(spark, checkpoint).child("evenly")
        if not beside.has(PROMISES):
            return Promises()
        return Promises.from_json(beside.read(PROMISES, checked_by_caller=True), source=f"{beside.path}/{PROMISES}")
    except (*REFUSALS, OSError) as error:
        _LOG.warning("%s: its controller begins a new record of promises: %s", checkpoint, error)
        return Promises()
