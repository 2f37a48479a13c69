"""Rows of a batch to a destination, each task through a paced queue."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from evenly.checks import checked_path, checked_whole
from evenly.emission.destinations.base import Destination, NumberedRow
from evenly.emission.destinations.delivery import Pacing, destination_of
from evenly.emission.link.outgoing import UNSCHEDULED
from evenly.emission.policies.base import Emission
from evenly.errors import InvalidParameter, StreamingMismatch
from evenly.spark.features import Feature, require
from evenly.spark.frames import check_frame
from evenly.spark.jvm.row_order import comes_in_any_order, in_one_order
from evenly.spark.sending.encoding import BODY, bodies
from evenly.spark.sending.kept import KeptBatches
from evenly.spark.sending.tasks import Sent, checked_sender, send_bodies


def send(
    df: DataFrame,
    *,
    to: Destination | Callable[[NumberedRow], object],
    column: str | None = None,
    link: str = "default",
    policy: str | Emission = UNSCHEDULED,
    interval_ms: float = 10.0,
    capacity: int = 10_000,
    timeout_s: float = 30.0,
    sender: str | None = None,
    batch: int | None = None,
    checkpoint: str | Path | None = None,
) -> Sent:
    """Send every row of `df` to a destination outside Spark now, and return when it has them all.

        evenly.send(df, to=evenly.TcpLines("collector", 9000), link="eth0", policy="fcfs")
        evenly.send(df, to=evenly.HttpPost("https://example.org/rows"), column="payload")
        evenly.send(df, to=lambda row: store.put(row.identity, row.body))

    Each partition has a connection and a queue. With a `policy`, tasks that run on one machine and name the same `link` share
    it: the policy says whose queue may send next (see `evenly.emission.link.outgoing.Outgoing`).

    Guarantees (tests/spark/test_sink.py, test_sink_again.py, test_sink_kill.py): every row arrives at least once, whatever is
    killed and run again, and the first time in the order that it has in its partition. A task succeeds only after the
    destination has acknowledged all of its rows (a function: has returned). Every row carries sender, batch, partition and its
    number in the partition, the same when it is sent again, so that a receiver can drop what it has. At most `capacity` rows
    of a task wait in its queue, and it reads no further while they do. A destination that refuses, fails or hangs for
    `timeout_s` is DestinationFailed: the task fails, and Spark runs it again as often as it is set to
    (spark.task.maxFailures; in local mode not at all, but for a master such as local[4,4]).

    With `checkpoint` rows are written there first, with their identities, and sent from there: identities stay whatever changes
    between two runs of the same name (the number of cores, settings, an input that gives other rows). Without, they stay for a
    task that runs again, as long as its partition gives the same rows again, and the run has a name of its own. Rows that
    come out of a shuffle are then sorted in their partition by what is sent, because they have no order of their own; sort them
    yourself (`sortWithinPartitions`, by columns without ties) to choose it.

    - `to`: a `TcpLines`, an `HttpPost`, a `Destination` of your own, or a function that gets each `NumberedRow`.
    - `column`: a text or binary column that is sent as it is, null as nothing. None: the only column if it is of such a type,
      otherwise the row as JSON: all fields, null ones as null, timestamps with microseconds.
    - `policy`, `link`, `interval_ms`, `capacity`: those of `Outgoing`; "none" sends as fast as the destination takes.
    - `timeout_s`: above 0; for connecting, for each row and for the acknowledgement.
    - `sender`, `batch`, `checkpoint`: name and number a run to be able to repeat it as the same, and the folder that keeps what
      it sends, in `evenly/sending/<batch>`; remove that when the run will not be repeated. Other rows need another number:
      under a number that was kept the rows of then are sent, which a warning in the log says. A random name and 0 by default.
    """
    check_frame(df)
    if df.isStreaming:
        raise StreamingMismatch("a streaming DataFrame is not sent at once: use stream_send")
    destination = destination_of(to)
    pacing = Pacing(link, policy, interval_ms, capacity, timeout_s)
    if sender is not None and checkpoint is None:
        raise InvalidParameter(
            f"sender={sender!r} names a run that can be repeated as the same, and for that what it sends is kept: give "
            "checkpoint=, a folder; or leave sender= out"
        )
    sender, named = checked_sender(uuid.uuid4().hex if sender is None else sender), sender is not None
    if named and batch is None:
        raise InvalidParameter(
            f"sender={sender!r} needs batch=, a number that is another one for other rows: what was sent under a name and a "
            "number before is sent again, whatever the DataFrame has now"
        )
    batch = checked_whole(0 if batch is None else batch, "batch", 0, 2**63 - 1)
    encoded = bodies(df, column)
    if checkpoint is not None:
        folder, spark = checked_path(checkpoint, "checkpoint", "a folder that keeps what is sent"), df.sparkSession
        require(spark, Feature.FOLDERS, by="checkpoint=", remedy="Leave it and sender= out")
        encoded = KeptBatches(spark, folder, in_turn=False).rows(encoded, sender, batch)
    elif comes_in_any_order(df):
        encoded = in_one_order(encoded, BODY)
    return send_bodies(encoded, destination, pacing, sender=sender, batch=batch)
