"""A mapping learnt from a stream before its query first starts, by reading the beginning of the stream once more.

A query of its own, with a temporary checkpoint and no sink, reads what is there already, for a bounded time and a bounded
number of rows. That is only done for sources known to give every reader the same rows; of any other source nothing
is read beforehand, so nothing can be lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenly.keys.dkg import DKG
from evenly.keys.held_back import CountedRows, learnt_mapping
from evenly.keys.later_rows import LaterRows
from evenly.keys.mapping import Mapping
from evenly.spark.jvm.sources import streaming_sources
from evenly.spark.keyed.keys import key_id
from evenly.spark.streaming.observing import Counted

REPLAYABLE = frozenset(
    ("parquet", "orc", "json", "csv", "text", "xml", "avro", "binaryfile", "kafka", "delta", "rate", "rate-micro-batch")
)
_POLL_S = 0.05


def can_look(frames: Sequence[DataFrame]) -> bool:
    """Whether every source of the streams gives its rows again to every reader, and does not tidy up behind a reader."""
    return all(_replayable(source) for df in frames for source in streaming_sources(df))


def first_look(
    df: DataFrame, *, names: tuple[str, ...], instances: int, rows: int = 1_000_000, seconds: float = 60.0, seed: int = 0
) -> Mapping | None:
    """A mapping for what the stream has now; None if it has nothing yet or cannot be read.

    Reading stops after the batch that reaches `rows`, or after `seconds`.
    """
    learner = DKG.automatic(instances, seed=seed, ids="xxhash64")
    counted, order = Counted(learner), LaterRows(DKG.merge)
    seen, learning = threading.Event(), threading.Lock()

    # Counted by a query of each batch and not beside it: what is observed is in progress events, which are to be short.
    def learn(batch: DataFrame, _: int) -> None:
        found = counted.read(batch.agg(*counted.columns(F.col("id"))).collect())
        with learning:
            if not seen.is_set():
                learner.fit_counts(found)
                order.add(_like(learner).fit_counts(found), float(found.buckets.sum()))
            if learner.total >= rows:
                seen.set()

    try:
        ids = df.select(key_id(names).alias("id"))
        query = ids.writeStream.foreachBatch(learn).trigger(availableNow=True).start()
        deadline = time.monotonic() + seconds
        while query.isActive and not seen.is_set() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        query.stop()
    except PySparkException:
        return None
    with learning:
        seen.set()  # a batch that was cut off may still report
        return _mapping(learner, order.cut()[1], names) if learner.total > 0.0 else None


def _mapping(learner: DKG, later: DKG | None, names: tuple[str, ...]) -> Mapping:
    """What all batches make, with what to expect of new ones: later batches say it, where there were several."""
    if later is None:
        return learner.mapping(columns=names)
    seen, newest = (CountedRows(one.counts(), one.total) for one in (learner, later))
    told = learnt_mapping(seen, [newest], lambda: _like(learner))
    return replace(learner.mapping(columns=names), expectation=told.expectation)


def _like(learner: DKG) -> DKG:
    return DKG.automatic(learner.instances, seed=learner.seed, ids=learner.ids)


def _replayable(source: tuple[str, dict[str, str]]) -> bool:
    name, options = source
    tidies = options.get("cleansource", "off").lower() != "off"
    return name.lower() in REPLAYABLE and not tidies
