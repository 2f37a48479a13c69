"""All rows of one partition to a destination, through an outgoing queue: what a task of a paced sink does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

from evenly.checks import checked_whole, only_begins
from evenly.emission.destinations.base import Connection, Destination, NumberedRow, check_done
from evenly.emission.destinations.hiding import shown_url
from evenly.emission.destinations.own_function import OwnFunction
from evenly.emission.link.outgoing import UNSCHEDULED, Outgoing, checked_number
from evenly.emission.link.segment import segment_path
from evenly.emission.policies.base import Emission
from evenly.emission.policies.catalogue import new_policy
from evenly.errors import DestinationFailed, EvenlyError, InvalidParameter, SendFailed


@dataclass(frozen=True)
class Pacing:
    """How a task takes part in the scheduling of its machine's link: options of `Outgoing`, checked, and the time limit."""

    link: str = "default"
    policy: str | Emission = UNSCHEDULED
    interval_ms: float = 10.0
    capacity: int = 10_000
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        segment_path(self.link)
        if isinstance(self.policy, str) and self.policy != UNSCHEDULED:
            new_policy(self.policy)
        elif not isinstance(self.policy, str | Emission):
            raise InvalidParameter(f"policy must be a name or have name, work_conserving and choose, got {self.policy!r}")
        checked_number(self.interval_ms, "interval_ms", 1.0, 60_000.0)
        checked_number(self.timeout_s, "timeout_s", 0.001, 1e6)
        checked_number(self.capacity, "capacity", 1, 2**40)


class Partition(NamedTuple):
    """Which partition of which batch of which sender."""

    sender: str
    batch: int
    number: int


class Delivered(NamedTuple):
    """What a task has sent: rows, their bytes, how many of its queue's sends the policy had not asked for, and how many rows
    waited in its queue at the most."""

    rows: int
    size_bytes: int
    unasked: int
    most_waiting: int


def destination_of(to: Destination | Callable[[NumberedRow], object]) -> Destination:
    """A destination as it is, a function as a destination."""
    if isinstance(to, Destination) and not isinstance(to, type):
        checked_whole(to.rows_at_once, f"rows_at_once of {to}", 1, 2**31)  # of groups of none, nothing would be sent
        if to.limits is not None:
            checked_number(to.limits, f"limits of {to}", 1e-6, 1e6)
        return to
    if callable(to) and not isinstance(to, type):
        if only_begins(to):
            raise InvalidParameter(
                "to is an async function or a generator, which nobody would run: give a plain function that returns when it "
                f"has sent the row, got {to!r}"
            )
        return OwnFunction(to)
    got = f"the text {shown_url(to)!r}" if isinstance(to, str) else repr(to)
    raise InvalidParameter(f"to must be a TcpLines, an HttpPost, a destination of your own or a function, got {got}")


def deliver(bodies: Iterable[bytes], to: Destination, partition: Partition, pacing: Pacing) -> Delivered:
    """Send rows in order, and return when the destination has them all.

    At most `pacing.capacity` rows wait in memory (times `to.rows_at_once`), and 64 MiB of them. DestinationFailed if the
    destination refuses, fails, hangs for longer than the time limit or does not acknowledge; some rows may have arrived then,
    the first ones.
    """
    to = destination_of(to)
    rows = size_bytes = most_waiting = 0
    numbered = (NumberedRow(*partition, number, body) for number, body in enumerate(bodies))
    groups = _groups(numbered, to.rows_at_once)
    first = next(groups, None)
    if first is None:
        return Delivered(0, 0, 0, 0)
    with _named(f"{to} cannot be connected to"):
        connection = to.connect(pacing.timeout_s)
    if not isinstance(connection, Connection):
        raise DestinationFailed(f"{to} gave {connection!r} as its connection, and that must have send, flush and close")
    try:
        with Outgoing(
            _Transmission(connection, to),
            link=pacing.link,
            policy=pacing.policy,
            interval_ms=pacing.interval_ms,
            capacity=pacing.capacity,
            limit_s=None if to.limits is None else pacing.timeout_s * to.limits,
        ) as queue:
            for group in chain((first,), groups):
                group_bytes = sum(len(row.body) for row in group)
                queue.send(group, size_bytes=group_bytes)
                rows, size_bytes = rows + len(group), size_bytes + group_bytes
                most_waiting = max(most_waiting, rows - queue.sent * to.rows_at_once)  # only the last group may be smaller
        with _named(f"{to} did not confirm that it has {rows} rows"):
            flush: Callable[[], object] = connection.flush
            check_done(flush(), f"the flush of {to}")
    except SendFailed as failed:
        raise _told(failed, to, pacing) from failed.__cause__
    finally:
        connection.close()
    return Delivered(rows, size_bytes, queue.sent_unasked, most_waiting)


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Whatever goes wrong inside is the destination's failure, by name."""
    try:
        yield
    except EvenlyError:
        raise
    except Exception as error:
        raise DestinationFailed(f"{what}: {error!r}") from error


class _Transmission:
    """What the queue calls; whatever goes wrong in it is the destination's failure, by name."""

    def __init__(self, connection: Connection, to: Destination) -> None:
        self._send: Callable[[Sequence[NumberedRow]], object] = connection.send
        self._to = to

    def __call__(self, rows: Sequence[NumberedRow]) -> None:
        try:
            check_done(self._send(rows), str(self._to))
        except EvenlyError:
            raise
        except Exception as error:
            raise DestinationFailed(f"{self._to} failed at {rows[0]}: {error!r}") from error


def _told(failed: SendFailed, to: Destination, pacing: Pacing) -> EvenlyError:
    """What a queue that could not send has to say."""
    cause = failed.__cause__
    if isinstance(cause, EvenlyError):
        return cause
    if isinstance(cause, TimeoutError):
        return DestinationFailed(
            f"{to} hangs: a row has been on its way for more than {pacing.timeout_s * (to.limits or 1):g} s"
        )
    return failed


def _groups(rows: Iterator[NumberedRow], size: int) -> Iterator[list[NumberedRow]]:
    while group := list(islice(rows, size)):
        yield group
