"""The job that sends: one task per partition, each through a paced queue, and what they have sent."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from evenly.emission.destinations.base import Destination
from evenly.emission.destinations.delivery import Pacing
from evenly.errors import DamagedData, InvalidParameter
from evenly.spark.jvm.java_errors import Py4JError
from evenly.spark.python_workers import on_workers
from evenly.spark.sending.kept import IDENTITY
from evenly.spark.worker_errors import worker_errors
from evenly.worker.delivery import sending_task

_COUNTS = "partition int, rows bigint, size_bytes bigint, unasked bigint, most_waiting bigint, attempt int"
_UNREADABLE = re.compile(r"\[FAILED_READ_FILE.*")
_SENDER = re.compile(r"[!-.0-~]{1,128}")


@dataclass(frozen=True)
class TaskSent:
    """What was sent of one partition, and at which attempt: `unasked` are those that the policy had not asked for,
    `most_waiting` how many rows waited in its queue at the most."""

    partition: int
    rows: int
    size_bytes: int
    unasked: int
    most_waiting: int
    attempt: int


@dataclass(frozen=True)
class Sent:
    """What `send` has sent: by whom, as which batch, and by which task."""

    sender: str
    batch: int
    tasks: tuple[TaskSent, ...]

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(task.rows for task in self.tasks)


def checked_sender(sender: str) -> str:
    """A name that fits in a line and in a header."""
    if not isinstance(sender, str) or not _SENDER.fullmatch(sender):
        raise InvalidParameter(f"sender must be 1 to 128 characters of ASCII without spaces and slashes, got {sender!r}")
    return sender


def send_bodies(encoded: DataFrame, to: Destination, pacing: Pacing, *, sender: str, batch: int) -> Sent:
    """Send what `encoded` has: bodies in the order that they have, or with a first column the identities that were kept.

    An error of ours in a task is raised as such.
    """
    kept = IDENTITY in encoded.columns
    task = on_workers(encoded.sparkSession, sending_task(to, pacing, sender, batch, kept=kept))
    try:
        with worker_errors():
            told = encoded.mapInArrow(task, _COUNTS).collect()
    except (PySparkException, Py4JError) as error:
        if not kept or (unreadable := _UNREADABLE.search(str(error))) is None:
            raise
        raise DamagedData(
            f"the rows of batch {batch} that were kept for {sender} cannot be read ({unreadable.group().strip()}): some may "
            "have been sent, so they are not made anew; restore them"
        ) from error
    return Sent(sender, batch, tuple(sorted((TaskSent(*row) for row in told), key=lambda task: task.partition)))
