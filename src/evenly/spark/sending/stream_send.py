"""Rows of a streaming query to a destination, batch by batch."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession

from evenly.emission.destinations.base import Destination, NumberedRow
from evenly.emission.destinations.delivery import Pacing, destination_of
from evenly.emission.link.outgoing import UNSCHEDULED
from evenly.emission.policies.base import Emission
from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.facts.of_sending import sent_batch
from evenly.spark.features import Feature, require
from evenly.spark.frames import check_frame
from evenly.spark.jvm.hadoop_files import Folder
from evenly.spark.jvm.row_order import comes_in_any_order, in_one_order
from evenly.spark.sending.encoding import BODY, bodies
from evenly.spark.sending.kept import KeptBatches
from evenly.spark.sending.tasks import checked_sender, send_bodies
from evenly.spark.state.lineage import query_id
from evenly.spark.streaming.query_settings import QuerySettings, Trigger
from evenly.spark.streaming.running_query import RunningQuery, teller_of

_OUTPUT_MODES = ("append", "complete", "update")


def stream_send(
    rows: DataFrame,
    *,
    to: Destination | Callable[[NumberedRow], object],
    checkpoint: str | Path,
    trigger: Trigger | None = None,
    query_name: str | None = None,
    column: str | None = None,
    link: str = "default",
    policy: str | Emission = UNSCHEDULED,
    interval_ms: float = 10.0,
    capacity: int = 10_000,
    timeout_s: float = 30.0,
    sender: str | None = None,
    output_mode: str = "append",
    repeatable: bool = True,
) -> RunningQuery:
    """Start a streaming query that sends every row to a destination outside Spark.

        evenly.stream_send(rows, to=evenly.TcpLines("collector", 9000), checkpoint="/data/to-collector")

    Every batch is sent as `send` does it, with its guarantees and its options; the next begins when the destination has all of
    it. `sender` is the query's id by default, which is kept in the checkpoint, and `batch` the number of the batch. A batch is
    written into the folder `evenly/sending` of the checkpoint before its first row leaves, and sent from there. So one that is
    run again after a failure or a restart is sent as the same rows with the same identities, on any number of cores.
    A destination that fails ends the query, once Spark has run the task as often as it is set to; start it again.

    - `trigger`: what `DataStreamWriter.trigger` takes, such as {"availableNow": True} or {"processingTime": "1 second"}.
      `query_name`: how Spark calls the query.
    - `output_mode`: that of `DataStreamWriter`, for aggregates.
    - `sender`: a name for this checkpoint alone. A new checkpoint begins with batch 0 again: give it a new name too.
    - `repeatable`: False to write nothing first. Each start of the query then has a sender of its own (the name, a dot and
      twelve random characters): a batch that is run again comes twice, and a receiver cannot tell. Nothing is lost.
    """
    check_frame(rows, "rows")
    spark = rows.sparkSession
    if not rows.isStreaming:
        raise StreamingMismatch("stream_send needs a streaming DataFrame: use send for a batch")
    require(spark, Feature.FOLDERS, by="stream_send", remedy="Use send in a foreachBatch of your own")
    settings = QuerySettings.checked(rows, checkpoint, trigger, query_name)
    if not isinstance(output_mode, str) or output_mode.lower() not in _OUTPUT_MODES:
        raise InvalidParameter(f"output_mode must be one of {', '.join(map(repr, _OUTPUT_MODES))}, got {output_mode!r}")
    # All of it before the query starts, and not when its first rows come.
    destination, pacing = destination_of(to), Pacing(link, policy, interval_ms, capacity, timeout_s)
    bodies(rows, column)
    any_order = comes_in_any_order(rows)
    run = "" if repeatable else f".{uuid.uuid4().hex[:12]}"
    if sender is not None:
        checked_sender(f"{checked_sender(sender)}{run}")
    known = sender or query_id(Folder(spark, settings.checkpoint))
    if repeatable and known is not None:
        KeptBatches(spark, settings.checkpoint, in_turn=True).check_alone(known)

    teller = teller_of("send")
    paced = "" if policy == UNSCHEDULED else policy if isinstance(policy, str) else policy.name

    def send_batch(batch_rows: DataFrame, batch: int) -> None:
        begun_s = perf_counter()
        session = batch_rows.sparkSession
        encoded = bodies(batch_rows, column)
        name = (sender or _query_id(session, settings.checkpoint)) + run
        if repeatable:
            encoded = KeptBatches(session, settings.checkpoint, in_turn=True).rows(encoded, name, batch)
        elif any_order:
            encoded = in_one_order(encoded, BODY)
        tasks = send_bodies(encoded, destination, pacing, sender=name, batch=batch).tasks
        seconds = perf_counter() - begun_s
        sent = partial(
            sent_batch,
            batch,
            [task.rows for task in tasks],
            unasked=[task.unasked for task in tasks],
            waiting=[task.most_waiting for task in tasks],
            policy=paced,
            seconds=seconds,
        )
        teller.tell("batch", batch=lambda _: sent())

    writer = rows.writeStream.foreachBatch(send_batch).outputMode(output_mode)
    query = RunningQuery(settings.applied(writer).option("checkpointLocation", settings.checkpoint).start())
    return query.begin_telling(spark, teller)


def _query_id(session: SparkSession, checkpoint: str) -> str:
    """As Spark keeps it: what threads know of their query is another one's, or nothing, where PYSPARK_PIN_THREAD is false."""
    return str(json.loads(Folder(session, checkpoint).read("metadata"))["id"])
