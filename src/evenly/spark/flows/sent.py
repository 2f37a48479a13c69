"""Sinks that send rows to a destination outside Spark, under identities by which a receiver drops doubles."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession

from evenly.dataflow.graph import Dataflow, Operator
from evenly.emission.destinations import HttpPost, TcpLines
from evenly.emission.destinations.delivery import Pacing
from evenly.emission.link.outgoing import UNSCHEDULED
from evenly.errors import EvenlyError
from evenly.spark.sending.encoding import bodies
from evenly.spark.sending.kept import KeptBatches
from evenly.spark.sending.send import send
from evenly.spark.sending.tasks import send_bodies

_NEEDS = {"tcp": ("host", "port"), "http": ("url",)}
_MAY = ("column", "link", "policy")


@dataclass(frozen=True)
class Outbox:
    """Where a query keeps what it sends until it is known to be sent, and the query's name, which no other has."""

    checkpoint: str
    owner: str

    def batches(self, spark: SparkSession, one: Operator) -> KeptBatches:
        """Those of a sink."""
        return KeptBatches(spark, f"{self.checkpoint}/evenly/sinks/{quote(one.name, safe='')}", in_turn=True)

    def sender(self, one: Operator) -> str:
        """The name in the identities of a sink's rows, whatever the sink is called."""
        return f"{self.owner}.{sha256(one.name.encode()).hexdigest()[:12]}"

    def check_alone(self, spark: SparkSession, one: Operator) -> None:
        """Refuse a copy of a checkpoint whose original is still there: both would send other rows as the same."""
        self.batches(spark, one).check_alone(self.sender(one))


def check_sent(flow: Dataflow, one: Operator) -> None:
    """Refuse options that say too little or that nobody knows, before anything runs."""
    for name in _NEEDS[one.format]:
        if name not in one.options:
            raise flow.error(f"the sink {one.name!r} sends by {one.format}: give it the option {name!r}", one)
    known = (*_NEEDS[one.format], *_MAY)
    for name in one.options.keys() - set(known):
        raise flow.error(f"the sink {one.name!r} has no option {name!r}: by {one.format} it may have {', '.join(known)}", one)
    if one.format == "tcp" and not one.options["port"].isdecimal():
        raise flow.error(f"the port of the sink {one.name!r} must be a number, got {one.options['port']!r}", one)
    try:
        _destination(one)
        _pacing(one)
    except EvenlyError as error:
        raise flow.error(f"the sink {one.name!r}: {error}", one) from error


def send_rows(one: Operator, rows: DataFrame, batch: int | None, outbox: Outbox | None) -> None:
    """Send what a sink gets: rows of a stream's batch from its outbox, as the same when the batch is run again."""
    pacing, column = _pacing(one), one.options.get("column")
    if outbox is None or batch is None:
        send(rows, to=_destination(one), column=column, link=pacing.link, policy=pacing.policy)
        return
    sender = outbox.sender(one)
    kept = outbox.batches(rows.sparkSession, one).rows(bodies(rows, column), sender, batch)
    send_bodies(kept, _destination(one), pacing, sender=sender, batch=batch)


def _destination(one: Operator) -> TcpLines | HttpPost:
    options = one.options
    return TcpLines(options["host"], int(options["port"])) if one.format == "tcp" else HttpPost(options["url"])


def _pacing(one: Operator) -> Pacing:
    return Pacing(one.options.get("link", "default"), one.options.get("policy", UNSCHEDULED))
