"""Rows of a streaming query to a destination, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evenly.emission.base import Emission
from evenly.emission.destinations.base import Destination, NumberedRow
from evenly.emission.destinations.delivery import Pacing, destination_of
from evenly.errors import StreamingMismatch
from evenly.spark.sink.encoding import BODY, bodies
from evenly.spark.sink.order import comes_in_any_order, in_one_order
from evenly.spark.sink.sending import checked_sender, send_bodies

_QUERY_ID = "sql.streaming.queryId"


def send_stream(
    rows: DataFrame,
    *,
    to: Destination | Callable[[NumberedRow], object],
    checkpoint: str | Path,
    column: str | None = None,
    link: str = "default",
    policy: str | Emission = "lbf",
    interval_ms: float = 10.0,
    capacity: int = 10_000,
    timeout_s: float = 30.0,
    sender: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    output_mode: str = "append",
) -> StreamingQuery:
    """Start a streaming query that sends every row to a destination outside Spark.

        evenly.send_stream(rows, to=evenly.TcpLines("collector", 9000), checkpoint="/data/to-collector", link="eth0")

    Every batch is sent as `send` does it, with its guarantees and its options; the next begins when the destination has all of
    it. `sender` is the query's id unless told, which is kept in the checkpoint, and `batch` the number of the batch. So a batch
    that is run again after a failure or a restart is sent again with the same identities.
    A destination that fails ends the query, once Spark has run the task as often as it is set to; start it again.

    - `trigger`: what `DataStreamWriter.trigger` takes, such as {"availableNow": True} or {"processingTime": "1 second"}.
    - `output_mode`: that of `DataStreamWriter`, for aggregates.
    """
    spark = rows.sparkSession
    if not rows.isStreaming:
        raise StreamingMismatch("send_stream needs a streaming DataFrame: use send for a batch")
    if not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession"):
        raise StreamingMismatch("send_stream needs a classic Spark session: use send in a foreachBatch of your own")
    # All of it before the query starts, and not when its first rows come.
    destination, pacing = destination_of(to), Pacing(link, policy, interval_ms, capacity, timeout_s)
    bodies(rows, column)
    any_order = comes_in_any_order(rows)
    if sender is not None:
        checked_sender(sender)

    def send_batch(batch_rows: DataFrame, batch: int) -> None:
        encoded = bodies(batch_rows, column)
        name = sender or str(batch_rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID))
        send_bodies(in_one_order(encoded, BODY) if any_order else encoded, destination, pacing, sender=name, batch=batch)

    writer = rows.writeStream.foreachBatch(send_batch).outputMode(output_mode).option("checkpointLocation", str(checkpoint))
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()
