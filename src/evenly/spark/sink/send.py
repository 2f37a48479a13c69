"""Rows of a batch to a destination, each task through a paced queue."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pyspark.sql import DataFrame

from evenly.emission.base import Emission
from evenly.emission.destinations.base import Destination, NumberedRow
from evenly.emission.destinations.delivery import Pacing, destination_of
from evenly.errors import StreamingMismatch
from evenly.grouping.base import checked_whole
from evenly.spark.sink.encoding import BODY, bodies
from evenly.spark.sink.order import comes_in_any_order, in_one_order
from evenly.spark.sink.sending import Sent, checked_sender, send_bodies


def send(
    df: DataFrame,
    *,
    to: Destination | Callable[[NumberedRow], object],
    column: str | None = None,
    link: str = "default",
    policy: str | Emission = "lbf",
    interval_ms: float = 10.0,
    capacity: int = 10_000,
    timeout_s: float = 30.0,
    sender: str | None = None,
    batch: int = 0,
) -> Sent:
    """Send every row of `df` to a destination outside Spark now, and return when it has them all.

        evenly.send(df, to=evenly.TcpLines("collector", 9000), link="eth0", policy="fcfs")
        evenly.send(df, to=evenly.HttpPost("https://example.org/rows"), column="payload")
        evenly.send(df, to=lambda row: store.put(row.identity, row.body))

    Each task has a connection and a queue. Tasks that run on one machine and name the same `link` share it: the policy says
    whose queue may send next (see `evenly.emission.outgoing.Outgoing`).

    Guarantees (tests/spark/test_sink.py, tests/spark/test_sink_kill.py): every row arrives at least once, whatever is
    killed and run again, and the first time in the order that it has in its partition. A task succeeds only after the
    destination has acknowledged all of its rows (a function: has returned). Every row carries sender, batch, partition and its
    number in the partition, the same when it is sent again, so that a receiver can drop what it has. At most `capacity` rows
    of a task wait in its queue, and it reads no further while they do. A destination that refuses, fails or hangs for
    `timeout_s` is DestinationFailed: the task fails, and Spark runs it again as often as it is set to
    (spark.task.maxFailures; in local mode not at all, but for a master such as local[4,4]).

    Rows that come out of a shuffle have no order of their own, and would have another one when they are read again. They
    are sorted in their partition by what is sent, so that numbers stay; sort them yourself (`sortWithinPartitions`, by columns
    without ties) to choose the order. (In a `foreachBatch` of your own Spark does not show its shuffles: sort there.)

    - `to`: a `TcpLines`, an `HttpPost`, a `Destination` of your own, or a function that gets each `NumberedRow`.
    - `column`: a text or binary column that is sent as it is, null as nothing. None: the only column if it is of such a type,
      otherwise the row as JSON.
    - `policy`, `interval_ms`, `capacity`: those of `Outgoing`; "none" sends as fast as the destination takes.
    - `timeout_s`: above 0; for connecting, for each row and for the acknowledgement.
    - `sender`, `batch`: name a run to be able to repeat it as the same. A random name unless told, and batch 0.
    """
    if df.isStreaming:
        raise StreamingMismatch("a streaming DataFrame is not sent at once: use send_stream")
    destination = destination_of(to)
    pacing = Pacing(link, policy, interval_ms, capacity, timeout_s)
    sender = checked_sender(uuid.uuid4().hex if sender is None else sender)
    batch = checked_whole(batch, "batch", 0, 2**63 - 1)
    encoded = bodies(df, column)
    if comes_in_any_order(df):
        encoded = in_one_order(encoded, BODY)
    return send_bodies(encoded, destination, pacing, sender=sender, batch=batch)
