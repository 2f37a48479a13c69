"""Whether the mapping of a query can change at all, said before it starts."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evenly.errors import EvenlyError, ImmovableState
from evenly.spark.state.stores import PROVIDER, ROCKSDB
from evenly.spark.streaming.changing import check_change
from evenly.spark.streaming.mapping_store import MappingStore

REFUSALS = (EvenlyError, PySparkException, Py4JError)
"""What a change may be refused with; the query goes on."""


def why_immovable(spark: SparkSession, checkpoint: str, store: MappingStore) -> str | None:
    """Why no change can ever be brought in force for this checkpoint; None as far as can be seen before it starts."""
    if store.placement.window is not None:
        return None
    try:
        check_change(spark, checkpoint, store)
    except ImmovableState as error:
        return str(error)
    except REFUSALS:  # it has no batch yet: the session says what its state will be kept by
        provider = str(spark.conf.get(PROVIDER))
        if provider != ROCKSDB:
            return (
                f"state that {provider} keeps cannot be moved to another mapping: before the query first starts, "
                f"spark.conf.set('{PROVIDER}', '{ROCKSDB}'), or group by windows and give window=; or controller=False"
            )
    return None


def why_not_again(query: StreamingQuery) -> str | None:
    """Why a running query could not be started again from its checkpoint, as every change needs; None as far as can be seen."""
    try:
        running = query._jsq.streamingQuery()  # noqa: SLF001 - a query's sink has no public door
        sink, mode = str(running.sink().getClass().getSimpleName()), str(running.outputMode())
    except (Py4JError, AttributeError):
        return None
    if sink != "MemorySink" or mode == "Complete":
        return None
    return (
        f"a query that writes to memory in the output mode {mode.lower()} cannot start again from its checkpoint, so its "
        "mapping stays as it is: use outputMode('complete'), another sink, or controller=False"
    )
