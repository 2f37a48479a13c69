"""A mapping learnt from a stream before its query first starts, by reading the beginning of the stream once more.

A query of its own, with a temporary checkpoint and no sink, reads what is there already, for a bounded time and a bounded
number of rows. That is only done for sources known to give every reader the same rows; of any other source nothing
is read beforehand, so nothing can be lost.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from evenly.grouping.keys.dkg import DKG
from evenly.grouping.mapping import Mapping
from evenly.spark.keys import key_id
from evenly.spark.streaming.observing import Counted, ProgressListener

REPLAYABLE = frozenset(
    ("parquet", "orc", "json", "csv", "text", "xml", "avro", "binaryfile", "kafka", "delta", "rate", "rate-micro-batch")
)
_POLL_S = 0.05
_REPORT_S = 10.0  # progress is reported a moment after the batch


def can_look(frames: Sequence[DataFrame]) -> bool:
    """Whether every source of the streams gives its rows again to every reader, and does not tidy up behind a reader."""
    return all(_replayable(source) for df in frames for source in _sources(df))


def first_look(
    df: DataFrame, *, names: tuple[str, ...], instances: int, rows: int = 1_000_000, seconds: float = 60.0, seed: int = 0
) -> Mapping | None:
    """A mapping for what the stream has now; None if it has nothing yet or cannot be read.

    Reading stops after the batch that reaches `rows`, or after `seconds`.
    """
    name = f"evenly_first_look_{uuid.uuid4().hex}"
    learner = DKG.automatic(instances, seed=seed, ids="xxhash64")
    counted = Counted(learner)
    seen = threading.Event()
    learnt = [-1]

    def learn(batch: int, metrics: dict[str, Row]) -> None:
        if name not in metrics:
            return
        learner.fit_counts(counted.read([metrics[name]]))
        learnt.append(batch)
        if learner.total >= rows:
            seen.set()

    ids = df.select(key_id(names).alias("id")).observe(name, *counted.columns(F.col("id")))
    listener = ProgressListener(learn)
    streams = df.sparkSession.streams
    streams.addListener(listener)
    try:
        query = ids.writeStream.format("noop").trigger(availableNow=True).start()
        deadline = time.monotonic() + seconds
        while query.isActive and not seen.is_set() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        query.stop()
        last = query.lastProgress
        reported = time.monotonic() + _REPORT_S
        while last is not None and name in last.observedMetrics and learnt[-1] < last.batchId and time.monotonic() < reported:
            time.sleep(_POLL_S)
    except PySparkException:
        return None
    finally:
        streams.removeListener(listener)
    return learner.mapping(columns=names) if learner.total > 0.0 else None


def _replayable(source: tuple[str, dict[str, str]]) -> bool:
    name, options = source
    tidies = options.get("cleansource", "off").lower() != "off"
    return name.lower() in REPLAYABLE and not tidies


def _sources(df: DataFrame) -> list[tuple[str, dict[str, str]]]:
    """The format and the options of every streaming source in a plan; an unknown kind of leaf has no name."""
    jvm: Any = df.sparkSession._jvm  # noqa: SLF001 - plans are not to be had otherwise
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001
    found = []
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        kind = leaf.getClass().getSimpleName()
        if not leaf.isStreaming():
            continue
        if kind == "StreamingRelation":
            options = dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(leaf.dataSource().options()))
            name = leaf.dataSource().className()
        elif kind == "StreamingRelationV2":
            options, name = dict(leaf.extraOptions().asCaseSensitiveMap()), leaf.sourceName()
        else:
            options, name = {}, ""
        found.append((str(name), {key.lower(): str(value) for key, value in options.items()}))
    return found
