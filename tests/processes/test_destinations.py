"""Destinations of any kind and the delivery of a partition, with real sockets on loopback."""

from __future__ import annotations

import functools
import inspect
import threading
import time

import pytest

import evenly
from deliveries import BODIES, PARTITION, QUICK_S, free_port
from evenly.emission.destinations import HttpPost, NumberedRow, OwnFunction, TcpLines
from evenly.emission.destinations.delivery import Delivered, Pacing, deliver, destination_of
from evenly.emission.link.outgoing import Outgoing
from evenly.errors import DestinationFailed, InvalidParameter, SendFailed
from line_receiver import LineReceiver


def test_a_function_gets_every_row_before_delivery_ends(pacing):
    came = []
    assert deliver(BODIES, destination_of(came.append), PARTITION, pacing()).rows == 250
    assert came == [NumberedRow("me", 7, 3, number, body) for number, body in enumerate(BODIES)]
    assert came[9].identity == ("me", 7, 3, 9)


async def later(_):
    """Never begins."""


def one_by_one(row):
    yield row


class Later:
    async def __call__(self, _):
        """Never begins either."""


@pytest.mark.parametrize("to", [later, one_by_one, Later(), functools.partial(later)])
def test_a_function_that_only_begins_when_it_is_called_is_refused(to):
    with pytest.raises(InvalidParameter, match="async function or a generator, which nobody would run"):
        destination_of(to)


@pytest.mark.parametrize("to", [later, one_by_one])
@pytest.mark.parametrize("of", ["function", "send", "flush"])
def test_rows_do_not_count_as_sent_by_what_has_only_begun(pacing, to, of):
    if of == "function":
        shelf = lambda row: to(row)  # noqa: E731, PLW0108 - from outside it cannot be seen
    else:
        shelf = Shelf()
        setattr(shelf, of, lambda *_: to(None))
    with pytest.raises(DestinationFailed, match="has done nothing yet, it gave <"):
        deliver(BODIES, destination_of(shelf), PARTITION, pacing())


class Shelf:
    """A destination as a user writes it: keeps groups of rows, and is done with them at the end."""

    rows_at_once, limits = 100, 1

    def __init__(self):
        self.groups, self.steps = [], []

    def connect(self, timeout_s):
        self.steps.append(("connect", timeout_s))
        return self

    def send(self, rows):
        self.groups.append([row.number for row in rows])

    def flush(self):
        self.steps.append(("flush", sum(map(len, self.groups))))

    def close(self):
        self.steps.append("close")


def test_a_destination_of_ones_own_is_connected_flushed_and_closed(pacing):
    to = Shelf()
    assert deliver(BODIES, destination_of(to), PARTITION, pacing()).rows == 250
    assert [number for group in to.groups for number in group] == list(range(250))
    assert max(map(len, to.groups)) == 100
    assert to.steps == [("connect", 20.0), ("flush", 250), "close"]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("rows_at_once", 0, "rows_at_once of .*Shelf.* must be a whole number from 1"),
        ("rows_at_once", 2.5, "rows_at_once of .*Shelf.* must be a whole number from 1"),
        ("limits", 0, "limits of .*Shelf.* must be from"),
    ],
)
def test_a_destination_that_would_send_nothing_is_refused(name, value, told):
    to = Shelf()
    setattr(to, name, value)
    with pytest.raises(InvalidParameter, match=told):
        destination_of(to)


def test_a_connection_that_is_none_is_told(pacing):
    to = Shelf()
    to.connect = lambda _: None
    with pytest.raises(DestinationFailed, match="gave None as its connection, and that must have send, flush and close"):
        deliver(BODIES, destination_of(to), PARTITION, pacing())


def test_a_destination_of_ones_own_is_closed_and_not_flushed_when_it_fails(pacing):
    to = Shelf()
    to.send = lambda _: 1 / 0
    with pytest.raises(DestinationFailed, match="ZeroDivisionError"):
        deliver(BODIES, to, PARTITION, pacing())
    assert to.steps == [("connect", 20.0), "close"]


@pytest.mark.parametrize(
    ("step", "told"), [("connect", "cannot be connected to"), ("flush", "did not confirm that it has 250 rows")]
)
def test_a_destination_of_ones_own_that_fails_at_any_step_is_named(pacing, step, told):
    to = Shelf()
    setattr(to, step, lambda *_: 1 / 0)
    with pytest.raises(DestinationFailed, match=rf"Shelf object .* {told}: ZeroDivisionError"):
        deliver(BODIES, to, PARTITION, pacing())


def test_how_many_rows_waited_at_the_most_is_told(pacing):
    all_there = threading.Event()

    def bodies():
        yield from BODIES
        all_there.set()

    done = deliver(bodies(), destination_of(lambda _: all_there.wait(20.0)), PARTITION, pacing())
    assert done.rows == 250
    assert done.most_waiting in (249, 250)  # the last one may come when the first has just left


def test_a_partition_without_rows_does_not_connect(pacing):
    assert deliver([], TcpLines("127.0.0.1", free_port()), PARTITION, pacing()) == Delivered(0, 0, 0, 0)


def test_a_destination_that_starts_a_moment_later_is_waited_for(pacing):
    port, started = free_port(), []
    starting = threading.Timer(0.3, lambda: started.append(LineReceiver(port)))
    starting.start()
    assert deliver(BODIES, TcpLines("127.0.0.1", port), PARTITION, pacing()).rows == 250
    with started[0] as receiver:
        assert len(receiver.lines) == 250


@pytest.mark.parametrize("kind", ["tcp", "http"])
def test_a_destination_that_refuses_is_named_after_its_time_limit(pacing, kind):
    port = free_port()
    to = TcpLines("127.0.0.1", port) if kind == "tcp" else HttpPost(f"http://127.0.0.1:{port}/")
    with pytest.raises(DestinationFailed, match=rf"{kind}://127\.0\.0\.1:{port}/? refused connections for 0\.3 s"):
        deliver(BODIES, to, PARTITION, pacing(QUICK_S))


@pytest.mark.parametrize("to", [TcpLines("a..b", 9), HttpPost("http://a..b/")], ids=str)
def test_a_host_that_is_no_name_is_named(pacing, to):
    with pytest.raises(DestinationFailed, match=r"a\.\.b.* cannot be reached"):
        deliver(BODIES, to, PARTITION, pacing())


def test_a_host_that_is_not_known_is_named_at_once(pacing):
    with pytest.raises(DestinationFailed, match=r"tcp://no-such-host\.invalid:9 cannot be reached"):
        deliver(BODIES, TcpLines("no-such-host.invalid", 9), PARTITION, pacing())


def test_a_function_that_hangs_fails_the_delivery(pacing):
    gate, came = threading.Event(), []
    to = OwnFunction(lambda row: came.append(row.number) if row.number < 2 else gate.wait(20.0))
    with pytest.raises(DestinationFailed, match=r"the function <lambda> hangs: .* more than 0\.3 s"):
        deliver(BODIES, to, PARTITION, pacing(QUICK_S))
    gate.set()
    assert came == [0, 1]


def test_a_function_that_raises_fails_the_delivery_with_its_error(pacing):
    def store(row):
        if row.number == 2:
            raise KeyError("quota")

    with pytest.raises(DestinationFailed, match=r"the function store failed at row 2 of .*KeyError\('quota'\)") as failed:
        deliver(BODIES, destination_of(store), PARTITION, pacing())
    assert isinstance(failed.value.__cause__, DestinationFailed)


def test_at_most_capacity_rows_are_read_ahead_of_the_destination(pacing):
    read, sent, most = [0], [0], [0]

    def bodies():
        for body in BODIES:
            read[0] += 1
            yield body

    def take(_):
        most[0] = max(most[0], read[0] - sent[0])
        sent[0] += 1

    deliver(bodies(), OwnFunction(take), PARTITION, pacing(capacity=5))
    assert sent[0] == 250
    assert most[0] <= 5 + 2  # one is on its way, and one was read for the place that comes free


def test_large_rows_are_read_ahead_by_their_bytes():
    """10,000 rows of a megabyte would be 10 GB in each task."""
    read, sent, most = [0], [0], [0]

    def take(_):
        most[0] = max(most[0], read[0] - sent[0])
        sent[0] += 1

    with Outgoing(take, policy="none", capacity_bytes=1_000) as queue:
        for number in range(300):
            queue.send(bytes(400 if number % 2 else 2_000))  # the second kind is larger than all that may wait
            read[0] += 1
    assert sent[0] == 300
    assert most[0] <= 3 + 1


def test_nobody_is_held_back_who_names_no_policy():
    """With a policy eight tasks whose destination answers each row after 20 ms send a fifth of the rows (docs/emission.md)."""
    for call in (evenly.send, evenly.stream_send):
        assert inspect.signature(call).parameters["policy"].default == Pacing().policy == "none"


def test_a_link_led_with_another_policy_serves(pacing):
    options = pacing(policy="lbf")
    with Outgoing(print, link=options.link, policy="fcfs"):
        assert deliver(BODIES, OwnFunction(len), PARTITION, options).rows == 250


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: TcpLines("h", 0), "port must be a whole number from 1 to 65,535, got 0"),
        (lambda: TcpLines("h", "90"), "port must be .* got '90'"),
        (lambda: TcpLines("", 90), "host must be a name or an address, got ''"),
        (lambda: TcpLines("h", 90, rows_at_once=0), "rows_at_once must be"),
        (lambda: HttpPost("ftp://h/x"), "url must be like .* got 'ftp://h/x'"),
        (lambda: HttpPost("http://h:70000/"), "url must be like"),
        (lambda: HttpPost("http:///x"), "url must be like"),
        (lambda: HttpPost("http://me:secret@h/x"), "with credentials in headers="),
        (lambda: HttpPost("http://h/", rows_at_once=0), "rows_at_once must be"),
        (lambda: HttpPost("http://h/", {"A": "x\r\nB: y"}), "header 'A' must be one line of text"),
        (lambda: HttpPost("http://h/a b"), "in ASCII"),
        (lambda: HttpPost("http://h/", retry_for_s=-1), "retry_for_s must be from 0 to 86,400, got -1"),
        (lambda: Pacing(policy="fastest"), "no emission policy 'fastest': choose from lbf"),
        (lambda: Pacing(policy=3), "policy must be a name or have name"),
        (lambda: Pacing(capacity=0), "capacity must be from 1 to .* got 0"),
        (lambda: Pacing(interval_ms=0), "interval_ms must be from 1 to"),
        (lambda: Pacing(timeout_s=0), "timeout_s must be from 0.001 to .* got 0"),
        (lambda: Pacing(timeout_s=-1.0), "timeout_s must be .* got -1.0"),
        (lambda: Pacing(link="a/b"), "link must be"),
        (lambda: destination_of("host:90"), "to must be a TcpLines, .* got the text 'host:90'"),
        (lambda: destination_of("http://h/?k=hunter2"), r"got the text 'http://h/\?…'$"),
        (lambda: destination_of(TcpLines), "to must be a TcpLines"),
    ],
)
def test_bad_input_is_refused_with_its_value(make, told):
    with pytest.raises(InvalidParameter, match=told):
        make()


def test_a_queue_with_a_limit_tells_of_a_call_that_takes_longer(tmp_path):
    gate = threading.Event()
    queue = Outgoing(lambda _: gate.wait(20.0), link="limit", folder=tmp_path, limit_s=0.1, capacity=1)
    queue.send(1)
    with pytest.raises(SendFailed, match=r"more than 0\.1 s"):
        queue.send(2)
    with pytest.raises(SendFailed, match=r"more than 0\.1 s"):
        queue.close()
    gate.set()
    assert queue.sent == 0
    assert not list(tmp_path.iterdir())


def test_a_queue_within_its_limit_is_not_disturbed(tmp_path):
    sent = []
    with Outgoing(
        lambda x: (time.sleep(0.01), sent.append(x)), link="limit", folder=tmp_path, limit_s=5.0, capacity=2
    ) as queue:
        for number in range(20):
            queue.send(number, timeout_s=20.0)
    assert sent == list(range(20))
